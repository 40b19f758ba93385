//! Input that can be read only once, or not as it is, kept in a file.
//!
//! Owns which inputs need that, and the spool file. It does not know the content. Invariant: a file
//! named `<fingerprint>-<scope>.spool` is whole and on disk, written aside and renamed, and no process
//! removes one that another uses.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::fault::{Code, Fault};
use crate::job::Fingerprint;

use super::fault_of;

/// How much is copied at a time, in bytes.
const CHUNK: usize = 1024 * 1024;

/// How the names of half-written files begin.
const PART: &str = ".spool-";

/// Whether what stands at `path` cannot be read twice: pipes, sockets, devices, and everything under
/// `/dev` and `/proc`, whose names mean something else in the next process. A missing file and a folder
/// need no spool; the survey says what they are.
pub fn must_spool(path: &Path) -> bool {
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return true;
    }
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Where the copies are that were made for one list of one database.
///
/// The same input for two lists is two copies: each goes when its own import is done.
#[derive(Debug, Clone)]
pub struct SpoolFolder {
    dir: PathBuf,
    scope: String,
}

impl SpoolFolder {
    /// The folder `dir`, as seen by imports into `list` of `database`, whose name must be the same in every
    /// process. Creates nothing.
    pub fn new(dir: PathBuf, database: &str, list: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("enlist spool scope 1");
        for part in [database, "\0", list] {
            hasher.update(part.as_bytes());
        }
        let scope = hasher.finalize().to_hex().get(..16).unwrap_or_default().to_owned();
        Self { dir, scope }
    }

    /// The folder itself.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the copy is kept that `stem` names.
    pub(super) fn path_of(&self, stem: &str) -> PathBuf {
        self.dir.join(format!("{stem}-{}.spool", self.scope))
    }

    /// Excludes every other process that adds or removes files here, until it is dropped.
    fn lock(&self) -> io::Result<File> {
        let dir = File::open(&self.dir)?;
        dir.lock()?;
        Ok(dir)
    }

    /// Removes what processes left half-written that were killed. The folder must be locked.
    fn tidy(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.dir)?.flatten() {
            let is_part = entry.file_name().to_string_lossy().starts_with(PART);
            // Whoever still writes one holds it locked.
            if is_part && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}

/// What becomes of the file when this process is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Goes,
}

/// A copy of an input, in use by this process. A new one goes when this is dropped, unless it is kept; one
/// that was there stays, unless it is discarded; none goes while another process uses it.
#[derive(Debug)]
pub struct Spool {
    folder: SpoolFolder,
    path: PathBuf,
    /// Locked and shared while the file is in use.
    file: File,
    fate: Fate,
}

impl Spool {
    /// Copies all of `reader` into the folder.
    ///
    /// The folder is made with mode 0700, the file has mode 0600, and its name is the BLAKE3 of its content:
    /// the same input again gives the same path. After a crash there is no file of that name, or a whole
    /// one; a half-written one is named `.spool-…` and goes with the next call. Errors: `disk_full`,
    /// `unwritable_file`, and what `fault_of` makes of the reader's on `what`, for example `standard input`.
    pub fn fill(reader: &mut dyn Read, what: &str, folder: &SpoolFolder) -> Result<Self, Fault> {
        let dir = &folder.dir;
        let fail = |error: io::Error| unwritable(dir, &error);
        make_private(dir).map_err(fail)?;
        let mut part = {
            let _lock = folder.lock().map_err(fail)?;
            folder.tidy().map_err(fail)?;
            let part = tempfile::Builder::new().prefix(PART).tempfile_in(dir).map_err(fail)?;
            part.as_file().lock_shared().map_err(fail)?;
            part
        };
        let mut hasher = blake3::Hasher::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match reader.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => chunk.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(fault_of(error, what)),
            };
            hasher.update(read);
            part.write_all(read).map_err(fail)?;
        }
        part.as_file().sync_all().map_err(fail)?;
        let path = folder.path_of(&hasher.finalize().to_hex());
        let lock = folder.lock().map_err(fail)?;
        let fate = if path.exists() { Fate::Stays } else { Fate::Goes };
        let file = part.persist(&path).map_err(|error| fail(error.error))?;
        // The new name must survive a power cut as well, or a resumed job would miss its input.
        lock.sync_all().map_err(fail)?;
        Ok(Self { folder: folder.clone(), path, file, fate })
    }

    /// The copy of an input that was kept, if it is there.
    pub fn find(folder: &SpoolFolder, fingerprint: &Fingerprint) -> Option<Self> {
        let path = folder.path_of(&fingerprint.0);
        let _lock = folder.lock().ok()?;
        let file = File::open(&path).ok()?;
        file.lock_shared().ok()?;
        Some(Self { folder: folder.clone(), path, file, fate: Fate::Stays })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A job needs it until its end.
    pub fn keep(&mut self) {
        self.fate = Fate::Stays;
    }

    /// Nobody needs it any more.
    pub fn discard(mut self) {
        self.fate = Fate::Goes;
    }

    fn remove(&self) -> io::Result<()> {
        let _lock = self.folder.lock()?;
        self.file.unlock()?;
        match File::open(&self.path) {
            Ok(file) if file.try_lock().is_ok() => fs::remove_file(&self.path),
            // Another process uses it, and removes it in its turn.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if self.fate == Fate::Goes
            && let Err(error) = self.remove()
        {
            tracing::warn!(path = %self.path.display(), %error, "the spool file stays behind");
        }
    }
}

/// A spool file that is being written; it vanishes unless it is kept.
pub(super) struct Aside(tempfile::NamedTempFile);

impl Aside {
    /// An empty file with mode 0600 in the folder, which is made with mode 0700.
    pub(super) fn begin(folder: &SpoolFolder) -> Result<Self, Fault> {
        let begin = || {
            make_private(&folder.dir)?;
            let _lock = folder.lock()?;
            folder.tidy()?;
            let part = tempfile::Builder::new().prefix(PART).tempfile_in(&folder.dir)?;
            // Whoever tidies leaves a locked part alone.
            part.as_file().lock_shared()?;
            Ok(Self(part))
        };
        begin().map_err(|error| unwritable(&folder.dir, &error))
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
                .hint("free some space, or import from a CSV file instead of a pipe, an archive or a workbook")
        }
        _ => Fault::new(Code::UnwritableFile, format!("the input cannot be copied into '{shown}': {}", error.kind())),
    }
}
