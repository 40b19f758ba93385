//! Where data and messages go: standard output, standard error, files written aside.
//!
//! Owns the treatment of readers that went away and of half-written files. It does not know what is
//! written. Invariant: standard output carries data only, a file under its final name is always whole, and
//! no write ever panics.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::fault::{Code, Fault};

/// Where the data of a command goes.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Standard output.
    Stdout(BufWriter<std::io::Stdout>),
    /// A file that takes its name when it is whole.
    Aside {
        /// The file under its temporary name, in the folder of the final one.
        file: BufWriter<tempfile::NamedTempFile>,
        /// Its final name.
        path: PathBuf,
    },
    /// A pipe or device, which cannot be replaced.
    Device {
        /// The open device.
        file: BufWriter<std::fs::File>,
        /// Its name.
        path: PathBuf,
    },
}

/// Whether somebody still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Go on.
    There,
    /// The other end of the pipe was closed: stop quietly, it is no error.
    Gone,
}

impl Sink {
    /// Standard output, for no path or `-`; else the file.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Fault> {
        match path {
            None => Ok(Self::stdout()),
            Some(path) if path == Path::new("-") => Ok(Self::stdout()),
            Some(path) => Self::file(path),
        }
    }

    /// Standard output.
    pub(crate) fn stdout() -> Self {
        Self::Stdout(BufWriter::new(std::io::stdout()))
    }

    /// A file (0600) written aside in the same folder; a link is followed, a pipe or device written directly.
    pub(crate) fn file(path: &Path) -> Result<Self, Fault> {
        let target = Destination::of(path)?;
        refuse_database(path)?;
        match target {
            Destination::Device(path) => {
                let file = std::fs::OpenOptions::new().write(true).open(&path);
                let file = BufWriter::new(file.map_err(|error| unwritable(&path, &error))?);
                Ok(Self::Device { file, path })
            }
            Destination::Replaced(path) => {
                let folder = folder_of(&path);
                // The file is readable by its owner alone: it holds phones and names.
                let file = tempfile::Builder::new().prefix(".enlist-").tempfile_in(folder);
                let file = BufWriter::new(file.map_err(|error| unwritable(&path, &error))?);
                Ok(Self::Aside { file, path })
            }
        }
    }

    /// Writes all of `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<Reader, Fault> {
        let result = match self {
            Self::Stdout(out) => out.write_all(bytes),
            Self::Aside { file, .. } => file.write_all(bytes),
            Self::Device { file, .. } => file.write_all(bytes),
        };
        self.judge(result)
    }

    /// Brings everything to its place; a file takes its final name here.
    pub(crate) fn finish(mut self) -> Result<Reader, Fault> {
        let flushed = match &mut self {
            Self::Stdout(out) => out.flush(),
            Self::Aside { file, .. } => file.flush().and_then(|()| file.get_ref().as_file().sync_all()),
            Self::Device { file, .. } => file.flush(),
        };
        let reader = self.judge(flushed)?;
        if let Self::Aside { file, path } = self {
            let file = file.into_inner().map_err(|error| unwritable(&path, error.error()))?;
            file.persist(&path).map_err(|error| unwritable(&path, &error.error))?;
        }
        Ok(reader)
    }

    fn judge(&self, result: std::io::Result<()>) -> Result<Reader, Fault> {
        match (result, self) {
            (Ok(()), _) => Ok(Reader::There),
            (Err(error), Self::Stdout(_) | Self::Device { .. }) if error.kind() == ErrorKind::BrokenPipe => {
                Ok(Reader::Gone)
            }
            (Err(error), Self::Stdout(_)) => {
                let fault = Fault::new(code_of(&error), format!("standard output cannot be written: {error}"));
                Err(fault.hint("check where it is redirected to"))
            }
            (Err(error), Self::Aside { path, .. } | Self::Device { path, .. }) => Err(unwritable(path, &error)),
        }
    }
}

/// What stands under the name of an output file.
#[derive(Debug)]
enum Destination {
    /// Nothing or a regular file: it is replaced as a whole.
    Replaced(PathBuf),
    /// A pipe, a terminal, `/dev/null`: it is written into.
    Device(PathBuf),
}

impl Destination {
    fn of(path: &Path) -> Result<Self, Fault> {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => {
                let message = format!("'{}' is a folder", path.display());
                Err(Fault::new(Code::UnwritableFile, message).hint("name a file in it"))
            }
            // `/dev/stdout` can lead to a regular file, which the shell holds open.
            Ok(meta) if !meta.is_file() || path.starts_with("/dev") || path.starts_with("/proc") => {
                Ok(Self::Device(path.to_owned()))
            }
            Ok(_) => Ok(Self::Replaced(path.canonicalize().map_err(|error| unwritable(path, &error))?)),
            Err(_) => Ok(Self::Replaced(path.to_owned())),
        }
    }
}

/// Proves that an output file can be written later, without leaving anything behind.
pub(crate) fn probe(path: &Path) -> Result<(), Fault> {
    Sink::file(path).map(drop)
}

/// Refuses to replace a SQLite database or what SQLite keeps beside one, ours or anybody's.
fn refuse_database(path: &Path) -> Result<(), Fault> {
    let name = path.as_os_str().to_string_lossy();
    let beside = ["-wal", "-shm", "-journal", "-open.lock"].iter().find_map(|end| name.strip_suffix(end));
    if is_database(path) || beside.is_some_and(|database| is_database(Path::new(database))) {
        let message = format!("'{}' belongs to a database and is not overwritten", path.display());
        return Err(Fault::new(Code::UnwritableFile, message).hint("choose another path"));
    }
    Ok(())
}

/// Whether a file begins as every SQLite database does (sqlite.org/fileformat, 1.3).
fn is_database(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 16];
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && head == *b"SQLite format 3\0"
}

/// Whether two paths lead to the same file: by name, by link, or as hard links.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    if let (Ok(one), Ok(other)) = (std::fs::metadata(one), std::fs::metadata(other)) {
        // Devices are never replaced, so they cannot be overwritten.
        return one.is_file() && one.dev() == other.dev() && one.ino() == other.ino();
    }
    matches!((resolved(one), resolved(other)), (Some(one), Some(other)) if one == other)
}

/// Whether a path leads to what standard output is: `/dev/stdout`, a terminal, or the file it is redirected to.
pub(crate) fn is_stdout(path: &Path) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let own = std::io::stdout().as_fd().try_clone_to_owned().and_then(|fd| std::fs::File::from(fd).metadata());
    match (own, std::fs::metadata(path)) {
        // What is thrown away mixes with nothing.
        _ if path == Path::new("/dev/null") => false,
        (Ok(own), Ok(named)) => (own.dev(), own.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// The canonical path, also of a file that does not exist yet in a folder that does.
fn resolved(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| Some(folder_of(path).canonicalize().ok()?.join(path.file_name()?)))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn code_of(error: &std::io::Error) -> Code {
    if error.kind() == ErrorKind::StorageFull { Code::DiskFull } else { Code::UnwritableFile }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Fault {
    let code = code_of(error);
    if error.kind() == ErrorKind::NotFound {
        return Fault::new(code, format!("'{}' cannot be written: its folder does not exist", path.display()));
    }
    // An error that is not the system's own quotes the temporary name, which says nothing to anybody.
    let why = if error.raw_os_error().is_some() { error.to_string() } else { error.kind().to_string() };
    Fault::new(code, format!("'{}' cannot be written: {why}", path.display()))
}

/// Says something to a person on standard error; nobody being there is no error.
pub(crate) fn say(text: &str) {
    let mut line = text.to_owned();
    line.push('\n');
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_appears_whole_and_private_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        std::fs::write(&path, "old").unwrap();
        let mut sink = Sink::file(&path).unwrap();
        sink.write(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        sink.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        probe(&folder.path().join("other.csv")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(probe(&folder.path().join("none/out.csv")).unwrap_err().code, Code::UnwritableFile);
        assert_eq!(probe(folder.path()).unwrap_err().code, Code::UnwritableFile);
    }

    #[test]
    fn links_are_followed_and_devices_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("out.csv"), folder.path().join("link.csv"));
        std::fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut sink = Sink::file(&link).unwrap();
        sink.write(b"new").unwrap();
        sink.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(link.is_symlink());
        let mut null = Sink::file(Path::new("/dev/null")).unwrap();
        null.write(b"x").unwrap();
        null.finish().unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        let mut full = Sink::file(Path::new("/dev/full")).unwrap();
        full.write(b"x").unwrap();
        assert_eq!(full.finish().unwrap_err().code, Code::DiskFull);
    }

    #[test]
    fn the_same_file_is_known_under_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("in.csv"), "x").unwrap();
        std::fs::write(at("other.csv"), "x").unwrap();
        std::os::unix::fs::symlink(at("in.csv"), at("soft.csv")).unwrap();
        std::fs::hard_link(at("in.csv"), at("hard.csv")).unwrap();
        std::fs::create_dir(at("sub")).unwrap();
        for name in ["in.csv", "soft.csv", "hard.csv", "sub/../in.csv"] {
            assert!(is_same_file(&at(name), &at("in.csv")), "{name}");
        }
        assert!(!is_same_file(&at("other.csv"), &at("in.csv")));
        assert!(!is_same_file(&at("new.csv"), &at("in.csv")));
        assert!(is_same_file(&at("new.csv"), &at("sub/../new.csv")));
    }
}
