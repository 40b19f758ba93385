//! The first pass over an input.
//!
//! Owns the one reading of everything that fingerprints the file, recognises what it is and decides the
//! character set. It does not keep the content. Invariant: nothing is imported that this pass did not
//! read to its end, so a cut archive or a foreign file is refused before a row is stored.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use crate::fault::{Code, Fault};
use crate::job::Fingerprint;

use super::charset::{Detector, name};
use super::gzip::Gunzip;
use super::magic;
use super::verified::Recorder;
use super::{Packing, Survey, fault_of, open, unreadable};

/// How much text is looked at in one go, in bytes.
const CHUNK: usize = 256 * 1024;

/// How much of a zip archive's end is searched for its directory, in bytes.
const ZIP_TAIL: u64 = 1024 * 1024;

/// Reads the file at `path` once and says what it is.
///
/// `encoding` is the user's `--encoding`, `region` decides the legacy character set, and `on_bytes` is
/// told how many of how many raw bytes were read. Errors: `not_found`, `is_directory`, `empty_file`,
/// `is_zip`, `is_xlsx`, `is_xls`, `truncated_gzip`, `bad_encoding` (UTF-32), `usage` (unknown encoding)
/// and `unreadable_file`.
pub fn survey(
    path: &Path,
    encoding: Option<&str>,
    region: Option<&str>,
    on_bytes: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Survey, Fault> {
    let shown = path.display().to_string();
    let file = open(path)?;
    let found = file.metadata().map_err(|error| unreadable(path, &error))?;
    if found.is_dir() {
        return Err(Fault::new(Code::IsDirectory, format!("'{shown}' is a folder")));
    }
    if !found.is_file() {
        return Err(Fault::new(Code::UnreadableFile, format!("'{shown}' is a pipe or a device"))
            .hint("pass - and redirect it to standard input"));
    }
    let fail = |error: io::Error| fault_of(error, path);
    let total = Some(found.len());
    let mut recorder = Recorder::new(file);
    let head = recorder.fill_buf().map_err(fail)?;
    if head.is_empty() {
        return Err(Fault::new(Code::EmptyFile, format!("'{shown}' is empty")));
    }
    if magic::is_zip(head) {
        return Err(zip_fault(path, head, &shown));
    }
    let mut text = Text::new(&shown);
    let (recorder, packing) = if magic::is_gzip(head) {
        let mut gunzip = Gunzip::new(recorder);
        text.watch(&mut gunzip, |gunzip| on_bytes(gunzip.raw().map_or(0, Recorder::count), total)).map_err(fail)?;
        let recorder = gunzip.into_raw().ok_or_else(|| Fault::new(Code::Internal, "the gzip reader lost its file"))?;
        (recorder, Packing::Gzip)
    } else {
        text.watch(&mut recorder, |recorder| on_bytes(recorder.count(), total)).map_err(fail)?;
        (recorder, Packing::Plain)
    };
    let charset = text.detector.finish(encoding, region)?;
    if text.bytes <= charset.mark as u64 {
        return Err(Fault::new(Code::EmptyFile, format!("'{shown}' holds no text")));
    }
    let raw_bytes = recorder.count();
    let (whole, blocks) = recorder.finish();
    let is_utf8 = charset.encoding == encoding_rs::UTF_8;
    Ok(Survey {
        fingerprint: Fingerprint(whole.to_hex().to_string()),
        raw_bytes,
        text_bytes: is_utf8.then_some(text.bytes - charset.mark as u64),
        encoding: name(charset.encoding),
        packing,
        warnings: charset.warnings,
        path: path.to_owned(),
        charset: charset.encoding,
        mark: charset.mark,
        blocks: Arc::new(blocks),
    })
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
    fn watch<R: Read>(&mut self, reader: &mut R, mut on_chunk: impl FnMut(&R)) -> io::Result<()> {
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
            on_chunk(reader);
            let text = chunk.get(..len).unwrap_or_default();
            if text.is_empty() {
                return Ok(());
            }
            if self.bytes == 0 {
                self.refuse(text)?;
            }
            self.bytes += len as u64;
            self.detector.push(text);
        }
    }

    /// Refuses what is no text, inside gzip as well.
    fn refuse(&self, head: &[u8]) -> io::Result<()> {
        let fault = if magic::is_zip(head) {
            Some(magic::zip_fault(head, &[], self.shown))
        } else if magic::is_gzip(head) {
            Some(
                Fault::new(Code::UnreadableFile, format!("'{}' is compressed twice", self.shown))
                    .hint("unpack it once: 'gunzip -c FILE | enlist import - …'"),
            )
        } else {
            magic::refuse(head, self.shown)
        };
        fault.map_or(Ok(()), |fault| Err(io::Error::other(fault)))
    }
}

/// What the zip archive at `path` is.
fn zip_fault(path: &Path, head: &[u8], shown: &str) -> Fault {
    // What the end says is a help only, so that a failure to read it changes nothing.
    let tail = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(ZIP_TAIL)))?;
        let mut tail = Vec::new();
        file.take(ZIP_TAIL).read_to_end(&mut tail)?;
        Ok(tail)
    };
    magic::zip_fault(head, &tail().unwrap_or_default(), shown)
}
