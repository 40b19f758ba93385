//! What can go wrong between the program and its database.
//!
//! Owns the classes of database errors. It does not know what was being done. Invariant: an error is
//! classed by SQLSTATE, SQLite result code or IO kind, never by its text.

use crate::fault::{Code, Fault};
use crate::job::{JobId, State};

/// An error of the store.
#[derive(Debug)]
pub enum StoreError {
    /// The job is not held under this fence and owner any more: write nothing more.
    LeaseLost,
    /// A lane does not stand where this process thought: read the positions again.
    PositionMoved,
    /// A job is in a state in which that cannot be done.
    State {
        /// The job.
        job: JobId,
        /// Where it stands.
        state: State,
        /// What was to be done, as a verb.
        verb: &'static str,
    },
    /// There is no job with that number.
    UnknownJob(JobId),
    /// There is no database, or no enlist in it.
    NotFound(String),
    /// The tables are older than the program.
    Outdated {
        /// The newest migration that was applied.
        found: i64,
        /// The newest that the program knows.
        wanted: i64,
    },
    /// The database holds another application's tables.
    Foreign(String),
    /// A deadlock, a serialisation failure or a lock timeout: the same transaction may be tried again.
    Retry(sqlx::Error),
    /// Another process holds the SQLite file.
    Busy(sqlx::Error),
    /// The connection or the server is gone.
    Gone(sqlx::Error),
    /// The server did not answer in time: the line may be dead without having been closed.
    Silent,
    /// The server refuses user, password or database.
    Refused(sqlx::Error),
    /// The database cannot be written.
    ReadOnly(sqlx::Error),
    /// The disk is full.
    DiskFull(sqlx::Error),
    /// A file beside the database cannot be used.
    Io(String, std::io::Error),
    /// Numbers that should add up do not, or a value cannot be read back.
    Corrupt(String),
    /// Anything else.
    Other(sqlx::Error),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or_default().into_owned();
                if database.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
                    classify_postgres(&code, error)
                } else {
                    classify_sqlite(&code, error)
                }
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Gone(error),
            _ => Self::Other(error),
        }
    }
}

/// What is said when nothing came back.
const SILENT: &str = "the database did not answer in time";

/// Classes of SQLSTATE (PostgreSQL, appendix A).
fn classify_postgres(code: &str, error: sqlx::Error) -> StoreError {
    match code {
        "40001" | "40P01" | "55P03" => StoreError::Retry(error),
        "53100" => StoreError::DiskFull(error),
        "25006" => StoreError::ReadOnly(error),
        "3D000" => StoreError::NotFound(plain(&error)),
        // A role that may not enter a schema does not see the tables in it.
        "42501" | "42P01" | "42704" | "3F000" => StoreError::Refused(error),
        // Administrator shutdown, crash recovery, starting up, idle-in-transaction timeout, too many clients.
        "57P01" | "57P02" | "57P03" | "25P03" | "53300" => StoreError::Gone(error),
        _ if code.starts_with("08") => StoreError::Gone(error),
        _ if code.starts_with("28") => StoreError::Refused(error),
        _ => StoreError::Other(error),
    }
}

/// `SQLITE_IOERR_SHMSIZE`: the index of the write-ahead log cannot grow, as on a full disk.
const IOERR_SHMSIZE: i32 = 4874;

/// Result codes of SQLite: a few extended ones, else the primary one (the low byte).
fn classify_sqlite(code: &str, error: sqlx::Error) -> StoreError {
    let extended = code.parse::<i32>();
    if extended == Ok(IOERR_SHMSIZE) {
        return StoreError::DiskFull(error);
    }
    match extended.map(|extended| extended & 0xff) {
        Ok(5 | 6) => StoreError::Busy(error),
        // Not permitted, read-only, cannot be opened (a write-ahead log in a folder that cannot be written).
        Ok(3 | 8 | 14) => StoreError::ReadOnly(error),
        Ok(13) => StoreError::DiskFull(error),
        Ok(26) => StoreError::Foreign("the file is no SQLite database".to_owned()),
        _ => StoreError::Other(error),
    }
}

impl StoreError {
    /// Whether the work may go on after connecting again and reading the positions again.
    pub fn is_reconnectable(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Silent | Self::PositionMoved | Self::Retry(_) | Self::Busy(_))
    }

    /// The same error as it reads when the work has already begun: a server that goes away in mid-work
    /// leaves something to resume.
    pub fn into_fault_midway(self) -> Fault {
        match self {
            Self::Gone(error) => Fault::new(Code::DatabaseStopped, plain(&error)),
            Self::Silent => Fault::new(Code::DatabaseStopped, SILENT),
            other => other.into(),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LeaseLost => Self::new(Code::LeaseLost, "another process took this import over"),
            StoreError::PositionMoved => {
                Self::new(Code::SkippedInput, "the database's positions moved while this process wrote")
            }
            StoreError::State { job, state, verb } => {
                Self::new(Code::JobState, format!("job {job} is {state}, so it cannot be {verb}"))
            }
            StoreError::UnknownJob(job) => Self::new(Code::UnknownJob, format!("there is no job '{job}'")),
            StoreError::NotFound(what) => Self::new(Code::DatabaseNotFound, what),
            StoreError::Outdated { found, wanted } => Self::new(
                Code::SchemaOutdated,
                format!("the database's tables are at version {found}, this program needs {wanted}"),
            ),
            StoreError::Foreign(what) => Self::new(Code::ForeignDatabase, what),
            StoreError::Retry(error) | StoreError::Busy(error) => Self::new(Code::DatabaseBusy, plain(&error)),
            StoreError::Gone(error) => Self::new(Code::DatabaseUnreachable, plain(&error)),
            StoreError::Silent => Self::new(Code::DatabaseUnreachable, SILENT),
            StoreError::Refused(error) => Self::new(Code::DatabaseRefused, plain(&error)),
            StoreError::ReadOnly(error) => Self::new(Code::DatabaseReadOnly, plain(&error)),
            StoreError::DiskFull(error) => Self::new(Code::DiskFull, plain(&error)),
            StoreError::Io(what, error) if error.kind() == std::io::ErrorKind::StorageFull => {
                Self::new(Code::DiskFull, format!("{what}: {error}"))
            }
            StoreError::Io(what, error) => Self::new(Code::DatabaseReadOnly, format!("{what}: {error}")),
            StoreError::Corrupt(what) => Self::new(Code::Internal, what),
            StoreError::Other(error) => Self::new(Code::DatabaseFailed, plain(&error)),
        }
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LeaseLost => f.write_str("another process holds the job now"),
            Self::Silent => f.write_str(SILENT),
            Self::PositionMoved => f.write_str("the lane's position moved"),
            Self::State { job, state, verb } => write!(f, "job {job} is {state}, so it cannot be {verb}"),
            Self::UnknownJob(job) => write!(f, "there is no job '{job}'"),
            Self::Outdated { found, wanted } => write!(f, "schema {found} is older than {wanted}"),
            Self::NotFound(what) | Self::Foreign(what) | Self::Corrupt(what) => f.write_str(what),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Retry(error)
            | Self::Busy(error)
            | Self::Gone(error)
            | Self::Refused(error)
            | Self::ReadOnly(error)
            | Self::DiskFull(error)
            | Self::Other(error) => f.write_str(&plain(error)),
        }
    }
}

impl std::error::Error for StoreError {}

/// An error in one line that names its code and shows no data: a database's DETAIL may quote rows.
fn plain(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Database(database) => {
            let message = database.message().lines().next().unwrap_or_default();
            match database.code() {
                Some(code) => format!("the database says '{message}' ({code})"),
                None => format!("the database says '{message}'"),
            }
        }
        sqlx::Error::Io(error) => format!("the connection to the database failed: {error}"),
        sqlx::Error::PoolTimedOut => SILENT.to_owned(),
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => "the connection to the database is closed".to_owned(),
        sqlx::Error::Protocol(_) => "the connection to the database broke in the middle of an answer".to_owned(),
        sqlx::Error::Tls(error) => format!("TLS with the database server failed: {error}"),
        other => format!("the database driver failed: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(error: StoreError) -> Code {
        Fault::from(error).code
    }

    #[test]
    fn codes_decide_the_class_and_texts_do_not() {
        let any = || sqlx::Error::PoolClosed;
        for (code, expected) in [
            ("40001", Code::DatabaseBusy),
            ("40P01", Code::DatabaseBusy),
            ("55P03", Code::DatabaseBusy),
            ("53100", Code::DiskFull),
            ("25006", Code::DatabaseReadOnly),
            ("3D000", Code::DatabaseNotFound),
            ("28P01", Code::DatabaseRefused),
            ("42501", Code::DatabaseRefused),
            ("57P01", Code::DatabaseUnreachable),
            ("08006", Code::DatabaseUnreachable),
            ("23505", Code::DatabaseFailed),
        ] {
            assert_eq!(class(classify_postgres(code, any())), expected, "{code}");
        }
        for (code, expected) in [
            ("5", Code::DatabaseBusy),
            ("517", Code::DatabaseBusy),
            ("8", Code::DatabaseReadOnly),
            ("1032", Code::DatabaseReadOnly),
            ("13", Code::DiskFull),
            ("26", Code::ForeignDatabase),
            ("2067", Code::DatabaseFailed),
        ] {
            assert_eq!(class(classify_sqlite(code, any())), expected, "{code}");
        }
    }

    #[test]
    fn a_server_that_goes_away_midway_leaves_something_to_resume() {
        let gone = StoreError::from(sqlx::Error::PoolTimedOut);
        assert!(gone.is_reconnectable());
        assert_eq!(gone.into_fault_midway().code, Code::DatabaseStopped);
        assert!(StoreError::Silent.is_reconnectable());
        assert_eq!(StoreError::Silent.into_fault_midway().code, Code::DatabaseStopped);
    }
}
