//! The input as one stream of decoded text.
//!
//! Owns opening, fingerprinting, decompressing, converting the character set, seeking or skipping, and
//! spooling what cannot be read twice. It does not know lines or cells. Invariant: after the survey no
//! byte reaches a reader before the digest of its block has been compared with the survey's, so content
//! that was not surveyed can never get through, whatever happens to the file meanwhile.

mod charset;
mod gzip;
mod magic;
mod spool;
mod survey;
mod transcode;
mod verified;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fault::{Code, Fault, Warning};
use crate::job::Fingerprint;

use gzip::Gunzip;
use transcode::Transcoder;
use verified::{BLOCK, Blocks, Verified};

pub use charset::check_encoding;
pub use spool::{Spool, SpoolFolder, must_spool};
pub use survey::survey;

/// How the bytes of the file are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// They are the text.
    Plain,
    /// The text is compressed with gzip, in one member or several.
    Gzip,
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
    /// How the bytes are packed.
    pub packing: Packing,
    /// What a person should know.
    pub warnings: Vec<Warning>,
    path: PathBuf,
    charset: &'static encoding_rs::Encoding,
    /// The length of the byte order mark.
    mark: usize,
    blocks: Arc<Blocks>,
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
    /// The path that was surveyed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The decoded text from offset `byte` on; 0 is the first byte after a byte order mark.
    ///
    /// The file is opened by its path again; a file that was replaced, cut or extended since ends the
    /// reading with `file_changed` before any of its own content is handed out. Plain UTF-8 is sought,
    /// anything else is decoded from its start and discarded up to `byte`.
    pub fn open_at(&self, byte: u64) -> Result<TextReader, Fault> {
        let mut file = open(&self.path)?;
        let size = file.metadata().map_err(|error| unreadable(&self.path, &error))?.len();
        if size != self.raw_bytes {
            return Err(changed(&self.path));
        }
        let mark = self.mark as u64;
        let is_utf8 = self.charset == encoding_rs::UTF_8;
        if self.packing == Packing::Plain && is_utf8 {
            let raw = byte.saturating_add(mark).min(self.raw_bytes);
            let number = raw / BLOCK as u64;
            file.seek(SeekFrom::Start(number * BLOCK as u64)).map_err(|error| unreadable(&self.path, &error))?;
            let mut reader = Verified::new(file, Arc::clone(&self.blocks), number, self.path.clone());
            discard(&mut reader, raw % BLOCK as u64).map_err(|error| fault_of(error, &self.path))?;
            return Ok(TextReader(Box::new(reader)));
        }
        let raw = Verified::new(file, Arc::clone(&self.blocks), 0, self.path.clone());
        match self.packing {
            Packing::Plain => self.decode(raw, byte),
            Packing::Gzip => self.decode(io::BufReader::with_capacity(64 * 1024, Gunzip::new(raw)), byte),
        }
    }

    /// Strips the byte order mark, converts and skips.
    fn decode(&self, mut raw: impl BufRead + Send + 'static, byte: u64) -> Result<TextReader, Fault> {
        let fail = |error| fault_of(error, &self.path);
        discard(&mut raw, self.mark as u64).map_err(fail)?;
        if self.charset == encoding_rs::UTF_8 {
            discard(&mut raw, byte).map_err(fail)?;
            return Ok(TextReader(Box::new(raw)));
        }
        let mut text = Transcoder::new(raw, self.charset);
        discard(&mut text, byte).map_err(fail)?;
        Ok(TextReader(Box::new(text)))
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

/// Opens a file for reading, or says why not.
fn open(path: &Path) -> Result<File, Fault> {
    File::open(path).map_err(|error| unreadable(path, &error))
}

/// The fault behind an error of a reader of this module; another error means that `path` is unreadable.
pub fn fault_of(error: io::Error, path: &Path) -> Fault {
    match error.downcast::<Fault>() {
        Ok(fault) => fault,
        Err(error) => unreadable(path, &error),
    }
}

/// What an error of the operating system on `path` means.
fn unreadable(path: &Path, error: &io::Error) -> Fault {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Fault::new(Code::NotFound, format!("there is no file '{shown}'"))
        }
        io::ErrorKind::IsADirectory => Fault::new(Code::IsDirectory, format!("'{shown}' is a folder")),
        io::ErrorKind::PermissionDenied => {
            Fault::new(Code::UnreadableFile, format!("'{shown}' may not be read by this user"))
        }
        _ => Fault::new(Code::UnreadableFile, format!("'{shown}' cannot be read: {error}")),
    }
}

/// The file is not the one that was surveyed.
fn changed(path: &Path) -> Fault {
    Fault::new(Code::FileChanged, format!("'{}' was changed, replaced or cut while it was imported", path.display()))
}
