//! Where the bytes of an input lie, so that they can be read as often as needed.
//!
//! Owns opening them and what they look like from outside. It does not know what they mean. Invariant: two
//! readers of one origin read the same bytes, or one of them fails.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::clock::Timestamp;
use crate::fault::{Code, Fault};

use super::remote::{Object, ObjectReader};
use super::unreadable;

/// A place from which an input can be read again.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A file, which is opened by its path each time.
    File(PathBuf),
    /// A file behind a server, read in ranges.
    Object(Object),
}

/// What an input looks like from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written, where that is told.
    pub modified: Option<Timestamp>,
    /// The server's name for this version of it.
    pub tag: Option<String>,
}

impl Origin {
    /// The path, of a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Object(_) => None,
        }
    }

    /// A reader at the first byte, and how many bytes there are. Errors: `not_found`, `is_directory`,
    /// `unreadable_file`; what becomes of a server is told by the reads.
    pub fn open(&self) -> Result<(Raw, u64), Fault> {
        let path = match self {
            Self::File(path) => path,
            Self::Object(object) => return Ok((Raw::Object(object.reader()), object.bytes())),
        };
        let file = File::open(path).map_err(|error| unreadable(self, &error))?;
        let found = file.metadata().map_err(|error| unreadable(self, &error))?;
        if found.is_dir() {
            return Err(Fault::new(Code::IsDirectory, format!("'{self}' is a folder")));
        }
        if !found.is_file() {
            return Err(Fault::new(Code::UnreadableFile, format!("'{self}' is a pipe or a device"))
                .hint("pass - and redirect it to standard input"));
        }
        Ok((Raw::File(file), found.len()))
    }

    /// What the file at `path` looks like now.
    pub fn glance(path: &Path) -> Result<Glance, Fault> {
        let found = fs::metadata(path).map_err(|error| unreadable(path.display(), &error))?;
        let since = found.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.map(|since| Timestamp::from_millis(0).plus(since));
        Ok(Glance { bytes: found.len(), modified, tag: None })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Object(object) => write!(f, "{object}"),
        }
    }
}

/// The bytes as they lie there.
#[derive(Debug)]
pub enum Raw {
    /// Of a file.
    File(File),
    /// Of a file behind a server.
    Object(ObjectReader),
}

impl Read for Raw {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(into),
            Self::Object(object) => object.read(into),
        }
    }
}

impl Seek for Raw {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            Self::Object(object) => object.seek(to),
        }
    }
}
