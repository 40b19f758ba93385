//! Input that can be read only once, or not as it is, kept in a file.
//!
//! Owns which inputs can be read only once, and how a spool file comes to be. It does not know the content.
//! Invariant: a file named `….spool` is whole and on disk; it is written aside and renamed.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::fault::{Code, Fault};

use super::fault_of;

/// How much is copied at a time, in bytes.
const CHUNK: usize = 1024 * 1024;

/// Whether what stands at `path` cannot be read twice: pipes, sockets, devices, and everything under
/// `/dev` and `/proc`, whose names mean something else in the next process. A missing file and a folder
/// need no spool; the survey says what they are.
pub fn must_spool(path: &Path) -> bool {
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return true;
    }
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Copies all of `reader` into `dir` and returns the path of the copy.
///
/// The folder is made with mode 0700, the file has mode 0600, and its name is the BLAKE3 of its content:
/// the same input again gives the same path. After a crash there is no file of that name, or a whole
/// one; a half-written one is named `.spool-…`. Errors: `disk_full`, `unwritable_file`, and what
/// `fault_of` makes of the reader's.
pub fn spool(reader: &mut dyn Read, dir: &Path) -> Result<PathBuf, Fault> {
    let fail = |error: io::Error| unwritable(dir, &error);
    let aside = Aside::begin(dir)?;
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => chunk.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(fault_of(error, Path::new("standard input"))),
        };
        hasher.update(read);
        aside.as_file().write_all(read).map_err(fail)?;
    }
    let path = dir.join(format!("{}.spool", hasher.finalize().to_hex()));
    aside.keep_as(&path)?;
    Ok(path)
}

/// A spool file that is being written; it vanishes unless it is kept.
pub(super) struct Aside(tempfile::NamedTempFile);

impl Aside {
    /// An empty file with mode 0600 in `dir`, which is made with mode 0700.
    pub(super) fn begin(dir: &Path) -> Result<Self, Fault> {
        let begun = make_private(dir).and_then(|()| tempfile::Builder::new().prefix(".spool-").tempfile_in(dir));
        begun.map(Self).map_err(|error| unwritable(dir, &error))
    }

    /// The file, to write into.
    pub(super) fn as_file(&self) -> &fs::File {
        self.0.as_file()
    }

    /// Gives the file its name in the same folder once all of it is on disk.
    pub(super) fn keep_as(self, path: &Path) -> Result<(), Fault> {
        let dir = path.parent().unwrap_or(Path::new("."));
        let fail = |error: io::Error| unwritable(dir, &error);
        self.0.as_file().sync_all().map_err(fail)?;
        self.0.persist(path).map_err(|error| fail(error.error))?;
        // The new name must survive a power cut as well, or a resumed job would miss its input.
        fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(fail)
    }
}

/// Makes a folder that only its owner can enter.
fn make_private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    builder.create(dir)
}

/// What an error while writing into `dir` means.
pub(super) fn unwritable(dir: &Path, error: &io::Error) -> Fault {
    let shown = dir.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Fault::new(Code::DiskFull, format!("no room in '{shown}' for a copy of the input"))
                .hint("free some space, or import from a CSV file instead of a pipe or a workbook")
        }
        _ => Fault::new(Code::UnwritableFile, format!("the input cannot be copied into '{shown}': {}", error.kind())),
    }
}
