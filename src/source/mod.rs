//! The input as one stream of decoded text.
//!
//! Owns opening, fingerprinting, decompressing, turning a sheet into text, converting the character set,
//! seeking or skipping, and spooling what cannot be read twice. It does not know rows or columns. Invariant: after the survey no
//! byte reaches a reader before the digest of its block has been compared with the survey's, so content
//! that was not surveyed can never get through, whatever happens to the file meanwhile.

mod archive;
mod cell;
mod charset;
mod gzip;
mod magic;
mod origin;
#[cfg(feature = "remote")]
mod remote;
#[cfg(not(feature = "remote"))]
#[path = "no_remote.rs"]
mod remote;
mod sheet;
mod spool;
mod survey;
mod transcode;
mod unpack;
mod verified;
mod workbook;

#[cfg(test)]
mod packed_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workbook_tests;

use std::fmt::Display;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::Path;

use crate::fault::{Code, Fault, Warning};
use crate::job::Fingerprint;

use archive::Entry;
use transcode::Transcoder;
use unpack::unpack;
use verified::Recording;

pub use charset::check_encoding;
pub use origin::{Glance, Origin, Raw};
pub use remote::{Reached, Server, check_address};
pub use spool::{Spool, SpoolFolder, must_spool};
pub use survey::survey;

/// The code of the warning that a workbook has other sheets than the one that was read unasked.
pub const FIRST_SHEET: &str = "first_sheet";

/// How the bytes of the file are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// They are the text.
    Plain,
    /// The text is compressed with gzip, in one member or several.
    Gzip,
    /// With zstd, in one frame or several.
    Zstd,
    /// With bzip2, in one stream or several.
    Bzip2,
    /// With xz, in one stream or several.
    Xz,
    /// The text is the one list in a zip archive.
    Zip,
}

/// How an input is to be read.
pub struct Reading<'a> {
    /// The user's `--encoding`.
    pub encoding: Option<&'a str>,
    /// The region, which decides the legacy character set.
    pub region: Option<&'a str>,
    /// The user's `--sheet`; without it the first sheet of a workbook is read.
    pub sheet: Option<&'a str>,
    /// Where spool files are kept; the folder is made when a workbook needs it.
    pub spools: &'a SpoolFolder,
    /// Asked now and then while a sheet is spooled: why to give up.
    pub stopped: &'a dyn Fn() -> Option<Fault>,
}

/// What one pass over an input found; enough to read it again and to notice any change.
#[derive(Debug, Clone)]
pub struct Survey {
    /// BLAKE3 of the file's bytes.
    pub fingerprint: Fingerprint,
    /// How many bytes the file has.
    pub raw_bytes: u64,
    /// How many bytes its decoded text has, where that is known without converting it.
    pub text_bytes: Option<u64>,
    /// The character set by its WHATWG name in lower case.
    pub encoding: String,
    /// How the bytes are packed; of a workbook, those of its spooled sheet.
    pub packing: Packing,
    /// The sheet that is read, where the file is a workbook.
    pub sheet: Option<String>,
    /// What a person should know.
    pub warnings: Vec<Warning>,
    origin: Origin,
    /// What the text is read from: `origin`, or the spool file of its sheet.
    recording: Recording,
    entry: Option<Entry>,
    charset: &'static encoding_rs::Encoding,
    /// The length of the byte order mark.
    mark: usize,
}

/// The decoded text of an input. Every read may fail with `file_changed` (see `fault_of`).
pub struct TextReader(Box<dyn Read + Send>);

impl Read for TextReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl std::fmt::Debug for TextReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TextReader")
    }
}

impl Survey {
    /// What was surveyed.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The file that the text of a workbook's sheet is kept in. Whoever ends the job removes it; it is made
    /// again from the workbook when it is missing.
    pub fn sheet_spool(&self) -> Option<&Path> {
        self.recording.origin.path().filter(|_| self.sheet.is_some())
    }

    /// The decoded text from offset `byte` on; 0 is the first byte after a byte order mark.
    ///
    /// The file is opened by its path or address again; a file that was replaced, cut or extended since ends the
    /// reading with `file_changed` before any of its own content is handed out. Plain UTF-8 is sought,
    /// anything else is decoded from its start and discarded up to `byte`. A workbook's text comes from its
    /// spool file, so what becomes of the workbook meanwhile does not matter.
    pub fn open_at(&self, byte: u64) -> Result<TextReader, Fault> {
        let fail = |error| fault_of(error, &self.origin);
        let mut raw = self.recording.open().map_err(|fault| self.missing_spool(fault))?;
        let mark = self.mark as u64;
        let is_utf8 = self.charset == encoding_rs::UTF_8;
        if self.packing == Packing::Plain && is_utf8 {
            raw.seek(SeekFrom::Start(byte.saturating_add(mark).min(self.recording.bytes))).map_err(fail)?;
            return Ok(TextReader(Box::new(raw)));
        }
        if let Some(entry) = self.entry {
            raw.seek(SeekFrom::Start(entry.start)).map_err(fail)?;
        }
        let mut raw = io::BufReader::with_capacity(64 * 1024, unpack(self.packing, self.entry, raw)?);
        discard(&mut raw, mark).map_err(fail)?;
        if is_utf8 {
            discard(&mut raw, byte).map_err(fail)?;
            return Ok(TextReader(Box::new(raw)));
        }
        let mut text = Transcoder::new(raw, self.charset);
        discard(&mut text, byte).map_err(fail)?;
        Ok(TextReader(Box::new(text)))
    }

    /// What it means that the file cannot be opened again.
    fn missing_spool(&self, fault: Fault) -> Fault {
        if self.sheet.is_none() || fault.code != Code::NotFound {
            return fault;
        }
        Fault::new(
            Code::FileChanged,
            format!("the text of '{}' was removed from the state folder while it was read", self.origin),
        )
        .hint("run the same command again; it makes it anew and resumes")
    }
}

/// Skips `bytes`, or up to the end.
fn discard(reader: &mut impl BufRead, mut bytes: u64) -> io::Result<()> {
    while bytes > 0 {
        let here = reader.fill_buf()?.len();
        if here == 0 {
            break;
        }
        let skipped = usize::try_from(bytes).unwrap_or(usize::MAX).min(here);
        reader.consume(skipped);
        bytes -= skipped as u64;
    }
    Ok(())
}

/// The fault behind an error of a reader of this module; another error means that `what` is unreadable.
pub fn fault_of(error: io::Error, what: impl Display) -> Fault {
    match error.downcast::<Fault>() {
        Ok(fault) => fault,
        Err(error) => unreadable(what, &error),
    }
}

/// What an error of the operating system on `what` means.
fn unreadable(what: impl Display, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Fault::new(Code::NotFound, format!("there is no file '{what}'"))
        }
        io::ErrorKind::IsADirectory => Fault::new(Code::IsDirectory, format!("'{what}' is a folder")),
        io::ErrorKind::PermissionDenied => {
            Fault::new(Code::UnreadableFile, format!("'{what}' may not be read by this user"))
        }
        _ => Fault::new(Code::UnreadableFile, format!("'{what}' cannot be read: {error}")),
    }
}

/// The file is not the one that was surveyed.
fn changed(what: impl Display) -> Fault {
    Fault::new(Code::FileChanged, format!("'{what}' was changed, replaced or cut while it was imported"))
}
