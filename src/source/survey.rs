//! The first pass over an input.
//!
//! Owns the one reading of everything that fingerprints the file, recognises what it is and decides the
//! character set. It does not keep the content. Invariant: nothing is imported that this pass did not
//! read to its end, so a cut archive or a foreign file is refused before a row is stored.

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::atomic::Ordering;

use crate::fault::{Code, Fault};
use crate::job::Fingerprint;

use super::archive::{self, Content};
use super::charset::{Charset, Detector, check_encoding, name};
use super::unpack::unpack;
use super::verified::{Recorder, Recording};
use super::workbook::{Format, spool_sheet};
use super::{Origin, Packing, Reading, Survey, fault_of, magic};

/// How much text is looked at in one go, in bytes.
const CHUNK: usize = 256 * 1024;

/// Reads all of `origin` and says what it is.
///
/// The bytes are read once; an archive's list and a workbook's sheet are then read in what was recorded.
/// `on_bytes` is told how many of how many raw bytes were read. Errors: `not_found`, `is_directory`,
/// `empty_file`, `is_zip`, `is_xlsx`, `is_xls`, `truncated_gzip`, `truncated_archive`, `unknown_sheet`,
/// `bad_encoding` (UTF-32), `usage` (unknown encoding), `file_changed`, `unreadable_file`, and for workbooks
/// those of a spool file.
pub fn survey(
    origin: &Origin,
    reading: &Reading<'_>,
    on_bytes: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Survey, Fault> {
    let shown = origin.to_string();
    let (raw, bytes) = origin.open()?;
    let fail = |error: io::Error| fault_of(error, origin);
    let total = Some(bytes);
    let mut recorder = Recorder::new(raw);
    let counter = recorder.counter();
    let mut on_chunk = || on_bytes(counter.load(Ordering::Relaxed), total);
    let head = recorder.fill_buf().map_err(fail)?;
    if head.is_empty() {
        return Err(Fault::new(Code::EmptyFile, format!("'{shown}' is empty")));
    }
    if magic::is_zip(head) || magic::is_ole(head) {
        let head = head.to_vec();
        read_through(&mut recorder, &mut on_chunk).map_err(fail)?;
        let (whole, recording) = recorder.finish(origin.clone());
        let fingerprint = Fingerprint(whole.to_hex().to_string());
        let content = if magic::is_ole(&head) {
            Content::Workbook(Format::Xls)
        } else {
            archive::look(&recording, &head, &shown)?
        };
        return match content {
            Content::List(entry) => {
                no_sheets(reading, &shown)?;
                let mut raw = recording.open()?;
                raw.seek(SeekFrom::Start(entry.start)).map_err(fail)?;
                let mut text = Text::new(&shown);
                text.watch(&mut *unpack(Packing::Zip, Some(entry), raw)?, || {}).map_err(fail)?;
                Ok(Survey { entry: Some(entry), ..text.finish(reading, fingerprint, recording, Packing::Zip)? })
            }
            Content::Workbook(format) => survey_sheet(recording, format, fingerprint, reading, &shown),
        };
    }
    let packing = magic::compression(head).unwrap_or(Packing::Plain);
    no_sheets(reading, &shown)?;
    let mut text = Text::new(&shown);
    text.watch(&mut *unpack(packing, None, &mut recorder)?, on_chunk).map_err(fail)?;
    let (whole, recording) = recorder.finish(origin.clone());
    text.finish(reading, Fingerprint(whole.to_hex().to_string()), recording, packing)
}

/// Surveys the text of one sheet of a workbook.
fn survey_sheet(
    workbook: Recording,
    format: Format,
    fingerprint: Fingerprint,
    reading: &Reading<'_>,
    shown: &str,
) -> Result<Survey, Fault> {
    reading.encoding.map_or(Ok(()), check_encoding)?;
    let spooled = spool_sheet(&workbook, format, &fingerprint.0, reading, shown)?;
    let spool = Origin::File(spooled.path.clone());
    let fail = |error: io::Error| fault_of(error, &spool);
    let mut recorder = Recorder::new(spool.open()?.0);
    read_through(&mut recorder, &mut || {}).map_err(fail)?;
    let (_, recording) = recorder.finish(spool);
    if recording.bytes == 0 {
        // A file without text has no use for resuming.
        let _ = std::fs::remove_file(&spooled.path);
        return Err(Fault::new(Code::EmptyFile, format!("the sheet '{}' of '{shown}' is empty", spooled.sheet))
            .hint("name another sheet with --sheet NAME"));
    }
    Ok(Survey {
        fingerprint,
        raw_bytes: workbook.bytes,
        text_bytes: Some(recording.bytes),
        encoding: name(encoding_rs::UTF_8),
        packing: Packing::Plain,
        sheet: Some(spooled.sheet),
        warnings: spooled.warnings,
        origin: workbook.origin,
        recording,
        entry: None,
        charset: encoding_rs::UTF_8,
        mark: 0,
    })
}

/// Refuses a sheet's name where there are no sheets.
fn no_sheets(reading: &Reading<'_>, shown: &str) -> Result<(), Fault> {
    match reading.sheet {
        None => Ok(()),
        Some(sheet) => {
            Err(Fault::new(Code::UnknownSheet, format!("'{shown}' is no workbook, so it has no sheet '{sheet}'"))
                .hint("leave --sheet out"))
        }
    }
}

/// Reads up to the end for the sake of the digests.
fn read_through(recorder: &mut Recorder, on_chunk: &mut dyn FnMut()) -> io::Result<()> {
    loop {
        let len = recorder.fill_buf()?.len();
        on_chunk();
        if len == 0 {
            return Ok(());
        }
        recorder.consume(len);
    }
}

/// The text of the file, before its character set is known.
struct Text<'a> {
    shown: &'a str,
    detector: Detector,
    bytes: u64,
}

impl<'a> Text<'a> {
    fn new(shown: &'a str) -> Self {
        Self { shown, detector: Detector::default(), bytes: 0 }
    }

    /// Reads all of it; a text that turns out to be another kind of file is an error that carries its fault.
    fn watch(&mut self, reader: &mut dyn Read, mut on_chunk: impl FnMut()) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let mut len = 0;
            while let Some(free @ [_, ..]) = chunk.get_mut(len..) {
                match reader.read(free) {
                    Ok(0) => break,
                    Ok(read) => len += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            on_chunk();
            let text = chunk.get(..len).unwrap_or_default();
            if text.is_empty() {
                return Ok(());
            }
            if self.bytes == 0
                && let Some(fault) = magic::refuse(text, self.shown)
            {
                return Err(io::Error::other(fault));
            }
            self.bytes += len as u64;
            self.detector.push(text);
        }
    }

    /// Decides the character set.
    fn finish(
        self,
        reading: &Reading<'_>,
        fingerprint: Fingerprint,
        recording: Recording,
        packing: Packing,
    ) -> Result<Survey, Fault> {
        let Charset { encoding, mark, warnings } = self.detector.finish(reading.encoding, reading.region)?;
        if self.bytes <= mark as u64 {
            return Err(Fault::new(Code::EmptyFile, format!("'{}' holds no text", self.shown)));
        }
        let is_utf8 = encoding == encoding_rs::UTF_8;
        Ok(Survey {
            fingerprint,
            raw_bytes: recording.bytes,
            text_bytes: is_utf8.then_some(self.bytes - mark as u64),
            encoding: name(encoding),
            packing,
            sheet: None,
            warnings,
            origin: recording.origin.clone(),
            recording,
            entry: None,
            charset: encoding,
            mark,
        })
    }
}
