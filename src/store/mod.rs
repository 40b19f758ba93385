//! The only SQL of the program, for both engines behind one `Store`.
//!
//! Owns connections, tables and transactions. Nothing above it knows that there are two engines, and it
//! does not know where rows come from. Invariant: rows and their checkpoint are written by one function in
//! one transaction (`commit`), and every change of a job's state is a compare-and-set.

mod admit;
mod approach;
mod attempt;
mod audit;
mod claim;
mod claims;
mod commit;
mod enqueue;
mod error;
mod events;
mod findings;
mod finish;
mod hints;
mod job_row;
mod key_rows;
mod key_sweep;
mod lists;
mod members;
mod mended;
mod migrate;
mod notice;
mod notifications;
mod once;
mod once_inside;
mod once_key;
mod open;
mod outbox;
mod outlook;
mod overlay;
mod postgres;
mod postgres_copy;
mod postgres_part;
mod profiles;
mod reconcile;
mod rejects;
mod retention;
mod session;
mod sqlite;
mod sqlite_part;
mod sqlite_rows;
mod steer;
mod sweep;
mod target;
mod timestamp;
mod windows;
mod workers;

use std::time::Duration;

use sqlx::{PgPool, SqlitePool};

pub use admit::{Admission, Ask};
pub use audit::{Audit, AuditScope};
pub use claim::Claimed;
pub use claims::DatabaseClaims;
pub use commit::{PartWrite, Written};
pub use enqueue::QueueTerms;
pub use error::StoreError;
pub use findings::Finding;
pub use hints::Hints;
pub use job_row::{AttemptRow, JobError, JobRow, Payload};
pub use key_rows::{HeldKey, KeyClaim};
pub use key_sweep::ResetKeys;
pub use lists::{Created, ListRow};
pub use members::{Member, Status, StatusChange};
pub use mended::{Mended, RejectsLeft};
pub use migrate::{Migrated, migrate, migration_sql};
pub use notifications::{ClaimedNotification, Kept, NotificationRow};
pub use once_inside::Inside;
pub use once_key::OnceError;
pub use open::{Access, Options};
pub use outbox::{OutboxRow, Ringing, Scope};
pub use outlook::Outlook;
pub use profiles::{Overwrite, ProfileRow, Saved};
pub use reconcile::{Drift, Reconciled};
pub use retention::{Pruned, Retention};
pub use session::{Beat, Lease, Session};
pub use sweep::Swept;
pub use target::{Engine, Target};
pub use windows::{ClaimedWindows, PassRun, Schedule, ScheduleRow};
pub use workers::WorkerRow;

/// The driver, for handlers that write inside [`Store::once_in`]: use this one and not another version.
pub use sqlx;

/// The connections of one process to one database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    target: Target,
    options: Options,
    pool: Pool,
    scratch: bool,
    /// What a scratch store stands over.
    origin: Option<overlay::Origin>,
}

/// How long closing a server's connections may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// The pool of one engine.
#[derive(Debug, Clone)]
pub(crate) enum Pool {
    /// One connection: SQLite has one writer, and heartbeats queue with it.
    Sqlite(SqlitePool),
    /// As many connections as the work needs.
    Postgres(PgPool),
}

/// Expands one body for both engines: `on!(pool, |db, begin| …)`, where `db` is the pool and `begin` the
/// statement that opens a transaction which writes.
macro_rules! on {
    ($pool:expr, |$db:ident| $body:expr) => {
        match $pool {
            $crate::store::Pool::Sqlite($db) => $body,
            $crate::store::Pool::Postgres($db) => $body,
        }
    };
    ($pool:expr, |$db:ident, $begin:ident| $body:expr) => {
        match $pool {
            $crate::store::Pool::Sqlite($db) => {
                let $begin = $crate::store::sqlite::BEGIN;
                $body
            }
            $crate::store::Pool::Postgres($db) => {
                let $begin = $crate::store::postgres::BEGIN;
                $body
            }
        }
    };
}
pub(crate) use on;

/// Reads the database's clock (rule 17): `now!(pool, connection)`.
macro_rules! now {
    ($pool:expr, $connection:expr) => {{
        let sql = match $pool {
            $crate::store::Pool::Sqlite(_) => $crate::store::sqlite::NOW,
            $crate::store::Pool::Postgres(_) => $crate::store::postgres::NOW,
        };
        sqlx::query_scalar::<_, $crate::clock::Timestamp>(sql).fetch_one($connection).await?
    }};
}
pub(crate) use now;

impl Store {
    /// Which engine it is.
    pub fn engine(&self) -> Engine {
        self.target.engine()
    }

    /// The database by a name that is the same from every folder, without a password.
    pub fn place(&self) -> String {
        self.target.place()
    }

    /// The database, without a password.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Closes every connection; on SQLite this also folds the write-ahead log into the file.
    pub async fn close(&self) {
        match &self.pool {
            Pool::Sqlite(db) => db.close().await,
            // A line that died silently would not let go; the process's end closes it.
            Pool::Postgres(db) => drop(tokio::time::timeout(CLOSE_PATIENCE, db.close()).await),
        }
    }
}
