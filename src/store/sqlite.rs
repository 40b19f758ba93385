//! What differs on SQLite: how it is opened, and its clock.
//!
//! Owns the connection options. Invariant: one connection writes, every writing transaction begins
//! IMMEDIATE, and a file that is created belongs to its user alone.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, SqlitePool};

use crate::clock::Stopwatch;
use crate::store::StoreError;

/// A deferred transaction that upgrades to writing gets BUSY at once, whatever the timeout.
pub(crate) const BEGIN: &str = "BEGIN IMMEDIATE";

/// The machine's clock: SQLite has no other.
pub(crate) const NOW: &str = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// How long a statement waits for another process's transaction before it answers BUSY.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for another process that opens the same file.
const OPEN_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Made persistent in a new file before its first table; a file that is another's keeps its mode.
pub(crate) const WRITE_AHEAD: &str = "PRAGMA journal_mode = WAL";

/// Opens the one connection of this process.
pub(crate) async fn connect(options: &SqliteConnectOptions) -> Result<SqlitePool, StoreError> {
    let options = options
        .clone()
        .create_if_missing(false)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        // 32 MiB of pages: much of a list's index stays in memory between parts, and all in all less than 120 MB.
        .pragma("cache_size", "-32768")
        .pragma("temp_store", "MEMORY")
        // 64 MiB of log: a part changes most pages of the index, and each is carried over once for several parts.
        .pragma("wal_autocheckpoint", "16384");
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        // A queue of parts waits for the one connection; the lease watches over the time.
        .acquire_timeout(Duration::from_secs(600))
        // A full disk rolls a transaction back by itself; the driver goes on counting it and could begin no other.
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .connect_with(options)
        .await?;
    Ok(pool)
}

/// Creates the file, empty and readable by its user alone, if there is none.
pub(crate) fn create_file(path: &Path) -> Result<(), StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::Io(format!("create '{}'", path.display()), error)),
    }
}

/// Whether a file can only be read as it lies: this process can write it or its folder not at all (then there is
/// no `lock`), and no write-ahead log holds more than it does.
///
/// SQLite takes nothing but a file that never changes for that. One on a read-only disk is such a file; of one
/// that only this user may not write, its owner can move pages while it is read, and then the reading fails.
pub(crate) fn is_still(path: &Path, lock: Option<&OpenLock>) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let no_log = std::fs::metadata(log).map_or(true, |found| found.len() == 0);
    no_log && (lock.is_none() || OpenOptions::new().write(true).open(path).is_err())
}

/// A lock of our own beside the file, held while a database is opened and its tables are made.
///
/// Switching a new file to write-ahead logging needs it alone and does not wait by itself.
pub(crate) struct OpenLock {
    path: PathBuf,
    _file: File,
}

impl OpenLock {
    /// Takes the lock. In a folder that cannot be written there is nothing to create, and no lock.
    pub(crate) async fn take(database: &Path) -> Result<Option<Self>, StoreError> {
        let mut name = database.as_os_str().to_owned();
        name.push("-open.lock");
        let path = PathBuf::from(name);
        let waited = Stopwatch::start();
        loop {
            let file = match OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path) {
                Ok(file) => file,
                Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
                    return Ok(None);
                }
                Err(error) => return Err(StoreError::Io(format!("lock '{}'", path.display()), error)),
            };
            match file.try_lock() {
                // The file may have been removed by the one who held it: then the lock is on nothing.
                Ok(()) if is_same(&file, &path) => return Ok(Some(Self { path, _file: file })),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if waited.worked() < OPEN_LOCK_TIMEOUT => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Busy(sqlx::Error::PoolTimedOut));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(StoreError::Io(format!("lock '{}'", path.display()), error));
                }
            }
        }
    }
}

impl Drop for OpenLock {
    fn drop(&mut self) {
        // Left behind it would only be untidy: whoever comes next takes it all the same.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}
