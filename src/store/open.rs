//! Opening a database: finding it, making it, refusing it.
//!
//! Owns the rules of who may create what. It does not know the tables. Invariant: a database that holds
//! anything but enlist's own tables is never written.

use std::time::Duration;

use crate::store::migrate::{Ledger, SCHEMA_VERSION, apply, read_ledger};
use crate::store::target::Kind;
use crate::store::{Pool, Store, StoreError, Target, postgres, sqlite};

/// What a command may do about a database that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Create and initialise it.
    Create,
    /// Refuse.
    Existing,
}

/// How to connect.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most connections of this process, where the engine has any choice. At least 1.
    pub max_connections: Option<u32>,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_connections: None, connect_timeout: Duration::from_secs(10) }
    }
}

/// How long a statement of a command (not of a running import) waits for a lock.
const COMMAND_PATIENCE: Duration = Duration::from_secs(8);

impl Store {
    /// Opens a database, initialises an empty one if `access` allows, and upgrades SQLite.
    ///
    /// Errors: `NotFound` where there is nothing and `access` is `Existing`; `Outdated` where an older
    /// PostgreSQL schema needs `migrate`; `Foreign` where the tables are another application's.
    ///
    /// A SQLite file that this process cannot write is opened for reading, where `access` is `Existing`.
    pub async fn open(target: &Target, access: Access, options: &Options) -> Result<Self, StoreError> {
        Self::open_and_upgrade(target, access, options).await.map(|(store, _)| store)
    }

    /// The same, with the names of the migrations that were applied.
    pub(crate) async fn open_and_upgrade(
        target: &Target,
        access: Access,
        options: &Options,
    ) -> Result<(Self, Vec<String>), StoreError> {
        let mut tries = 0;
        loop {
            match Self::try_open(target, access, options).await {
                // Another process may be closing the file, which takes it alone for a moment.
                Err(StoreError::Busy(_)) if tries < 5 => tries += 1,
                outcome => return outcome,
            }
        }
    }

    async fn try_open(target: &Target, access: Access, options: &Options) -> Result<(Self, Vec<String>), StoreError> {
        match &target.0 {
            Kind::Sqlite { path, options: sqlite_options } => {
                let length = match std::fs::metadata(path) {
                    Ok(metadata) if metadata.is_dir() => {
                        return Err(StoreError::NotFound(format!("'{}' is a folder", path.display())));
                    }
                    Ok(metadata) => metadata.len(),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
                    Err(error) => return Err(StoreError::Io(format!("open '{}'", path.display()), error)),
                };
                // Another process may just be filling the empty file: that is decided under the lock.
                if length == 0 && access == Access::Existing && !path.exists() {
                    return Err(StoreError::NotFound(format!("there is no file '{}'", path.display())));
                }
                let lock = sqlite::OpenLock::take(path).await?;
                if access == Access::Create {
                    sqlite::create_file(path)?;
                }
                let still = access == Access::Existing && sqlite::is_still(path, lock.as_ref());
                let sqlite_options = match still {
                    true => sqlite_options.as_ref().clone().read_only(true).immutable(true),
                    false => sqlite_options.as_ref().clone(),
                };
                let pool = Pool::Sqlite(sqlite::connect(&sqlite_options).await?);
                let store =
                    Self { target: target.clone(), options: options.clone(), pool, scratch: false, origin: None };
                let ready = match still {
                    true => store.find_ready().await.map(|()| Vec::new()),
                    false => store.make_ready(access).await,
                };
                if ready.is_err() {
                    // Left open, its log would stay beside a file that may not be ours.
                    store.close().await;
                }
                drop(lock);
                ready.map(|applied| (store, applied))
            }
            Kind::Postgres(_) => {
                let store = Self::connect_postgres(target, options).await?;
                let applied = store.make_ready(access).await?;
                Ok((store, applied))
            }
        }
    }

    /// Initialises an empty database if `access` allows, upgrades SQLite, and refuses what is not ours. Returns
    /// the names of the migrations that were applied.
    async fn make_ready(&self, access: Access) -> Result<Vec<String>, StoreError> {
        match (read_ledger(&self.pool).await?, &self.pool) {
            (Ledger::Version(version), _) if version >= SCHEMA_VERSION => Ok(Vec::new()),
            (Ledger::Version(version), Pool::Sqlite(_)) => {
                apply(&self.pool, version).await.map(|migrated| migrated.applied)
            }
            (Ledger::Version(found), Pool::Postgres(_)) => Err(StoreError::Outdated { found, wanted: SCHEMA_VERSION }),
            (Ledger::Empty, _) if access == Access::Existing => Err(no_tables(&self.target)),
            (Ledger::Empty, pool) => {
                if let Pool::Sqlite(db) = pool {
                    sqlx::raw_sql(sqlite::WRITE_AHEAD).execute(db).await?;
                }
                apply(pool, 0).await.map(|migrated| migrated.applied)
            }
            (Ledger::Foreign, _) => Err(foreign(&self.target)),
        }
    }

    /// Refuses a database that has to be changed before it can be used.
    async fn find_ready(&self) -> Result<(), StoreError> {
        match read_ledger(&self.pool).await? {
            Ledger::Version(version) if version >= SCHEMA_VERSION => Ok(()),
            Ledger::Version(found) => Err(StoreError::Outdated { found, wanted: SCHEMA_VERSION }),
            Ledger::Empty => Err(no_tables(&self.target)),
            Ledger::Foreign => Err(foreign(&self.target)),
        }
    }

    /// Whether a database holds enlist's tables. Creates nothing; a database that is not there holds none.
    pub async fn holds_tables(target: &Target, options: &Options) -> Result<bool, StoreError> {
        match Self::open(target, Access::Existing, options).await {
            Ok(store) => {
                store.close().await;
                Ok(true)
            }
            Err(StoreError::Outdated { .. }) => Ok(true),
            Err(StoreError::NotFound(_) | StoreError::Foreign(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Connects without looking at the tables.
    pub(crate) async fn connect_postgres(target: &Target, options: &Options) -> Result<Self, StoreError> {
        let Kind::Postgres(connect) = &target.0 else {
            return Err(StoreError::Corrupt("a file was to be connected as a server".to_owned()));
        };
        postgres::knock(connect, options.connect_timeout).await?;
        let most = options.max_connections.unwrap_or(4);
        let pool = postgres::connect(connect, "enlist", most, COMMAND_PATIENCE, options.connect_timeout).await?;
        Ok(Self {
            target: target.clone(),
            options: options.clone(),
            pool: Pool::Postgres(pool),
            scratch: false,
            origin: None,
        })
    }
}

fn no_tables(target: &Target) -> StoreError {
    StoreError::NotFound(format!("{target} holds no tables of enlist"))
}

fn foreign(target: &Target) -> StoreError {
    StoreError::Foreign(format!("{target} holds tables, but not enlist's"))
}
