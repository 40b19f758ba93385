//! One database per test on either engine, and the macro that makes a test run on both.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection};

use super::postgres::{self, Server};
use super::wait::wait_until;

/// What stores the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    pub(crate) const BOTH: [Self; 2] = [Self::Sqlite, Self::Postgres];
}

/// A database of its own for one test; gone when dropped.
pub(crate) struct Db {
    pub(crate) engine: Engine,
    pub(crate) url: String,
    /// The folder of the SQLite file.
    folder: Option<tempfile::TempDir>,
    /// Whether this value made the database and nothing else removes it.
    keeper: Keeper,
}

/// Who removes a database at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeper {
    ThisValue,
    SomebodyElse,
}

impl Db {
    /// A database that does not exist yet (SQLite) or is empty (PostgreSQL).
    pub(crate) fn fresh(engine: Engine) -> Self {
        match engine {
            Engine::Sqlite => {
                let folder = tempfile::Builder::new().prefix("enlist-db-").tempdir().expect("a temporary folder");
                let url = format!("sqlite:{}", folder.path().join("enlist.db").display());
                Self { engine, url, folder: Some(folder), keeper: Keeper::SomebodyElse }
            }
            Engine::Postgres => {
                Self { engine, url: postgres::fresh_database(), folder: None, keeper: Keeper::ThisValue }
            }
        }
    }

    /// An empty database on a private server.
    pub(crate) fn on(server: &Server) -> Self {
        Self { engine: Engine::Postgres, url: server.fresh_database(), folder: None, keeper: Keeper::SomebodyElse }
    }

    /// The same database by another way, for example through a proxy.
    pub(crate) fn via(&self, url: String) -> Self {
        Self { engine: self.engine, url, folder: None, keeper: Keeper::SomebodyElse }
    }

    /// The database of another value, to look at from elsewhere.
    pub(crate) fn seen(engine: Engine, url: &str) -> Self {
        Self { engine, url: url.to_owned(), folder: None, keeper: Keeper::SomebodyElse }
    }

    /// The SQLite file.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.path().join("enlist.db"))
    }

    /// Runs statements (several, separated by `;`, are allowed).
    pub(crate) fn execute(&self, sql: &str) {
        execute(&self.url, sql);
    }

    /// The first column of the first row as a number; `None` when there is no row or it is NULL.
    ///
    /// The SQL must cast to BIGINT on PostgreSQL.
    pub(crate) fn number(&self, sql: &str) -> Option<i64> {
        ask(&self.url, sql).into_iter().next().flatten()
    }

    /// The first column of every row as text. The SQL must cast to TEXT on PostgreSQL.
    pub(crate) fn texts(&self, sql: &str) -> Vec<Option<String>> {
        ask(&self.url, sql)
    }

    /// Rows that every import of this database committed so far: the sum over the run keys of their parts.
    ///
    /// 0 before the tables exist.
    pub(crate) fn committed_rows(&self) -> i64 {
        let (exists, sum) = match self.engine {
            Engine::Postgres => (
                "SELECT CAST(count(*) AS BIGINT) FROM pg_tables WHERE tablename = 'job_runs'",
                "SELECT CAST(sum(CAST(result ->> 'rows' AS BIGINT)) AS BIGINT) FROM job_runs WHERE key LIKE '%/%of%/%'",
            ),
            Engine::Sqlite => (
                "SELECT count(*) FROM sqlite_master WHERE name = 'job_runs'",
                "SELECT sum(json_extract(result, '$.rows')) FROM job_runs WHERE key LIKE '%/%of%/%'",
            ),
        };
        let absent = self.file().is_some_and(|file| !file.exists());
        if absent || self.number(exists) == Some(0) {
            return 0;
        }
        self.number(sum).unwrap_or(0)
    }

    /// Waits until no other connection is left: a server goes on with the statement in hand of a client
    /// that was killed, so what is committed is known only then.
    pub(crate) fn settle(&self) {
        if self.engine == Engine::Postgres {
            let others = "SELECT CAST(count(*) AS BIGINT) FROM pg_stat_activity \
                          WHERE datname = current_database() AND pid <> pg_backend_pid()";
            wait_until("the killed client's sessions end", Duration::from_secs(30), || self.number(others) == Some(0));
        }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        if self.keeper == Keeper::ThisValue {
            postgres::drop_database(&self.url);
        }
    }
}

/// Runs statements on a database.
pub(crate) fn execute(url: &str, sql: &str) {
    apart(async || {
        let sql = AssertSqlSafe(sql.to_owned());
        if url.starts_with("sqlite:") {
            let options = sqlx::sqlite::SqliteConnectOptions::from_str(url)?.create_if_missing(true);
            let mut connection = sqlx::SqliteConnection::connect_with(&options).await?;
            sqlx::raw_sql(sql).execute(&mut connection).await?;
            connection.close().await
        } else {
            let mut connection = postgres_connection(url).await?;
            sqlx::raw_sql(sql).execute(&mut connection).await?;
            connection.close().await
        }
    })
    .unwrap_or_else(|e| panic!("{sql}: {e}"));
}

/// The first column of every row.
fn ask<T>(url: &str, sql: &str) -> Vec<Option<T>>
where
    T: Send + Unpin + 'static,
    T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    apart(async || {
        let text = AssertSqlSafe(sql.to_owned());
        if url.starts_with("sqlite:") {
            let mut connection = sqlx::SqliteConnection::connect(url).await?;
            sqlx::query_scalar::<sqlx::Sqlite, Option<T>>(text).fetch_all(&mut connection).await
        } else {
            let mut connection = postgres_connection(url).await?;
            let rows = sqlx::query_scalar::<sqlx::Postgres, Option<T>>(text).fetch_all(&mut connection).await?;
            connection.close().await?;
            Ok(rows)
        }
    })
    .unwrap_or_else(|e| panic!("{sql}: {e}"))
}

async fn postgres_connection(url: &str) -> sqlx::Result<sqlx::PgConnection> {
    let mut connection = sqlx::PgConnection::connect(url).await?;
    // A schema that does not exist yet may stand in the search path.
    sqlx::raw_sql("SET search_path TO enlist, public").execute(&mut connection).await?;
    Ok(connection)
}

/// Runs `work` to its end on a thread of its own, so that synchronous and asynchronous tests can call it.
fn apart<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Makes of `fn name(db: Db) { … }` (or `async fn`) the tests `name::sqlite` and `name::postgres`, each with
/// a fresh database.
macro_rules! both {
    () => {};
    ($(#[$meta:meta])* fn $name:ident($db:ident: Db) $body:block $($rest:tt)*) => {
        $(#[$meta])*
        fn $name($db: $crate::common::engine::Db) $body

        mod $name {
            use $crate::common::engine::{Db, Engine};

            #[test]
            fn sqlite() {
                super::$name(Db::fresh(Engine::Sqlite));
            }

            #[test]
            fn postgres() {
                super::$name(Db::fresh(Engine::Postgres));
            }
        }

        both! { $($rest)* }
    };
    ($(#[$meta:meta])* async fn $name:ident($db:ident: Db) $body:block $($rest:tt)*) => {
        $(#[$meta])*
        async fn $name($db: $crate::common::engine::Db) $body

        mod $name {
            use $crate::common::engine::{Db, Engine};

            #[tokio::test]
            async fn sqlite() {
                super::$name(Db::fresh(Engine::Sqlite)).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$name(Db::fresh(Engine::Postgres)).await;
            }
        }

        both! { $($rest)* }
    };
}
