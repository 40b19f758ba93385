//! The tables and their versions.
//!
//! Owns the migrations and the ledger `schema_migrations`. It does not know when it is called. Invariant:
//! migrations are applied once, whatever number of processes try, and nobody sees half of them; they only add,
//! so an older program goes on working beside a newer schema.

use sqlx::{AssertSqlSafe, PgPool, SqlitePool};

use crate::fault::Warning;
use crate::store::target::Kind;
use crate::store::{Access, Engine, Options, Pool, Store, StoreError, Target, now, on, postgres, sqlite};

/// One step, in both dialects.
struct Migration {
    version: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

/// The step of that number and name, from its file in each dialect.
macro_rules! step {
    ($version:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../../migrations/postgres/", $name, ".sql")),
        }
    };
}

const MIGRATIONS: &[Migration] = &[
    step!(1, "0001_import"),
    step!(2, "0002_profiles"),
    step!(3, "0003_queue"),
    step!(4, "0004_notifications"),
    step!(5, "0005_alerts"),
];

/// The version that this program needs.
pub(crate) const SCHEMA_VERSION: i64 = 5;

/// What a database holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ledger {
    /// Nothing that matters to us.
    Empty,
    /// Our tables, up to this migration.
    Version(i64),
    /// Tables, but not ours.
    Foreign,
}

/// What `migrate` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The names of the migrations that were applied now.
    pub applied: Vec<String>,
    /// The version that the tables have now.
    pub schema: i64,
    /// What could not be done and does not matter everywhere.
    pub warnings: Vec<Warning>,
}

const SQLITE_LEDGER: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT";

const POSTGRES_LEDGER: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)";

/// How many tables there are, how many of them are `job_lanes`, which no other application has, and how many
/// columns of our ledger the table of its name has.
const SQLITE_TABLES: &str = "SELECT count(*), COALESCE(SUM(name = 'job_lanes'), 0),
      (SELECT count(*) FROM pragma_table_info('schema_migrations') WHERE name IN ('version', 'name', 'applied_at'))
    FROM sqlite_schema
    WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";

const POSTGRES_TABLES: &str = "SELECT count(*), count(*) FILTER (WHERE c.relname = 'job_lanes'),
      COALESCE(sum((SELECT count(*) FROM pg_attribute a
                    WHERE a.attrelid = c.oid AND c.relname = 'schema_migrations' AND NOT a.attisdropped
                      AND a.attname IN ('version', 'name', 'applied_at'))), 0)::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'enlist' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";

const NEWEST: &str = "SELECT COALESCE(MAX(version), 0) FROM schema_migrations";

/// Reads which tables there are.
///
/// Many applications keep their migrations in a table of that name: only its columns and a table that
/// nobody else has make it ours.
pub(crate) async fn read_ledger(pool: &Pool) -> Result<Ledger, StoreError> {
    let (tables, marks, columns): (i64, i64, i64) = match pool {
        Pool::Sqlite(db) => sqlx::query_as(SQLITE_TABLES).fetch_one(db).await?,
        Pool::Postgres(db) => sqlx::query_as(POSTGRES_TABLES).fetch_one(db).await?,
    };
    if tables == 0 {
        return Ok(Ledger::Empty);
    }
    // A ledger alone and empty was made by an administrator who went no further.
    if columns != 3 || (marks == 0 && tables > 1) {
        return Ok(Ledger::Foreign);
    }
    let version: i64 = on!(pool, |db| sqlx::query_scalar(NEWEST).fetch_one(db).await?);
    Ok(match (marks, version) {
        (0, 0) => Ledger::Empty,
        (0, _) => Ledger::Foreign,
        (_, version) => Ledger::Version(version),
    })
}

/// Applies every migration after `version`, all or none. Safe to be called by many at once.
pub(crate) async fn apply(pool: &Pool, version: i64) -> Result<Migrated, StoreError> {
    let wanted = || MIGRATIONS.iter().filter(move |migration| migration.version > version);
    let applied = match pool {
        Pool::Sqlite(db) => apply_sqlite(pool, db, wanted()).await?,
        Pool::Postgres(db) => apply_postgres(pool, db, wanted()).await?,
    };
    let schema = on!(pool, |db| sqlx::query_scalar(NEWEST).fetch_one(db).await?);
    Ok(Migrated { applied, schema, warnings: Vec::new() })
}

const APPLIED: &str = "SELECT count(*) FROM schema_migrations WHERE version = $1";
const RECORD: &str = "INSERT INTO schema_migrations (version, name, applied_at) VALUES ($1, $2, $3)";

async fn apply_sqlite(
    pool: &Pool,
    db: &SqlitePool,
    wanted: impl Iterator<Item = &'static Migration>,
) -> Result<Vec<String>, StoreError> {
    let mut applied = Vec::new();
    let mut tx = db.begin_with(sqlite::BEGIN).await?;
    sqlx::raw_sql(SQLITE_LEDGER).execute(&mut *tx).await?;
    for migration in wanted {
        let there: i64 = sqlx::query_scalar(APPLIED).bind(migration.version).fetch_one(&mut *tx).await?;
        if there == 0 {
            sqlx::raw_sql(migration.sqlite).execute(&mut *tx).await?;
            let now = now!(pool, &mut *tx);
            sqlx::query(RECORD).bind(migration.version).bind(migration.name).bind(now).execute(&mut *tx).await?;
            applied.push(migration.name.to_owned());
        }
    }
    tx.commit().await?;
    Ok(applied)
}

/// Excludes every other process that migrates this database. The number is arbitrary and fixed.
const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(7305001462811361)";
const POSTGRES_SCHEMA: &str = "CREATE SCHEMA IF NOT EXISTS enlist";

async fn apply_postgres(
    pool: &Pool,
    db: &PgPool,
    wanted: impl Iterator<Item = &'static Migration>,
) -> Result<Vec<String>, StoreError> {
    let mut applied = Vec::new();
    let mut tx = db.begin_with(postgres::BEGIN).await?;
    sqlx::raw_sql("SET LOCAL lock_timeout = '60s'").execute(&mut *tx).await?;
    sqlx::raw_sql(POSTGRES_LOCK).execute(&mut *tx).await?;
    sqlx::raw_sql(POSTGRES_SCHEMA).execute(&mut *tx).await?;
    sqlx::raw_sql(POSTGRES_LEDGER).execute(&mut *tx).await?;
    for migration in wanted {
        let there: i64 = sqlx::query_scalar(APPLIED).bind(migration.version).fetch_one(&mut *tx).await?;
        if there == 0 {
            sqlx::raw_sql(migration.postgres).execute(&mut *tx).await?;
            let now = now!(pool, &mut *tx);
            sqlx::query(RECORD).bind(migration.version).bind(migration.name).bind(now).execute(&mut *tx).await?;
            applied.push(migration.name.to_owned());
        }
    }
    tx.commit().await?;
    Ok(applied)
}

/// Creates or upgrades the tables of `target`, makes `enlist` the role's search path in that database so
/// that it holds behind poolers, and grants `app_role` what the other commands need.
pub async fn migrate(target: &Target, options: &Options, app_role: Option<&str>) -> Result<Migrated, StoreError> {
    match &target.0 {
        Kind::Sqlite { .. } => {
            // Opening upgrades SQLite; what is left is to say where it stands.
            let (store, applied) = Store::open_and_upgrade(target, Access::Create, options).await?;
            let migrated = apply(&store.pool, SCHEMA_VERSION).await;
            store.close().await;
            migrated.map(|migrated| Migrated { applied, ..migrated })
        }
        Kind::Postgres(_) => {
            let store = Store::connect_postgres(target, options).await?;
            let version = match read_ledger(&store.pool).await? {
                Ledger::Empty => 0,
                Ledger::Version(version) => version,
                Ledger::Foreign => {
                    return Err(StoreError::Foreign("the schema 'enlist' holds other tables".to_owned()));
                }
            };
            let mut migrated = apply(&store.pool, version).await?;
            if let Pool::Postgres(db) = &store.pool {
                set_search_path(db, "CURRENT_USER").await?;
                if let Some(role) = app_role {
                    migrated.warnings.extend(grant(db, role).await?);
                }
            }
            store.close().await;
            Ok(migrated)
        }
    }
}

const QUOTED: &str = "SELECT quote_ident($1), quote_ident(current_database())";

async fn set_search_path(db: &PgPool, role: &str) -> Result<(), StoreError> {
    let (_, database): (String, String) = sqlx::query_as(QUOTED).bind("").fetch_one(db).await?;
    // `role` is CURRENT_USER or was quoted by the server itself.
    let sql = format!("ALTER ROLE {role} IN DATABASE {database} SET search_path = enlist");
    // Two that set it at once would get in each other's way: the setting is a row of a catalogue.
    let mut tx = db.begin_with(postgres::BEGIN).await?;
    sqlx::raw_sql(POSTGRES_LOCK).execute(&mut *tx).await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}

/// Lets a role use the tables. A warning when the last step needs rights over roles, which the owner of a
/// hosted database may lack.
async fn grant(db: &PgPool, name: &str) -> Result<Option<Warning>, StoreError> {
    let (role, _): (String, String) = sqlx::query_as(QUOTED).bind(name).fetch_one(db).await?;
    // `role` was quoted by the server itself.
    let sql = format!(
        "GRANT USAGE ON SCHEMA enlist TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA enlist TO {role};
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA enlist TO {role};
         ALTER DEFAULT PRIVILEGES IN SCHEMA enlist GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role};
         ALTER DEFAULT PRIVILEGES IN SCHEMA enlist GRANT USAGE ON SEQUENCES TO {role};"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(db).await?;
    match set_search_path(db, &role).await {
        Ok(()) => Ok(None),
        Err(StoreError::Refused(_)) => Ok(Some(Warning::new(
            "search_path_not_set",
            format!(
                "the search path of role '{name}' may not be set by this role; it works without, except behind a \
                 pooler that drops startup options: there let {role} itself run \
                 'ALTER ROLE CURRENT_USER SET search_path = enlist'"
            ),
        ))),
        Err(error) => Err(error),
    }
}

/// Every statement that `migrate` would run on an empty database of `engine`, for `--print-sql`.
pub fn migration_sql(engine: Engine) -> String {
    // In one transaction: a shell that goes on after an error must not leave half of the tables.
    let mut sql = match engine {
        Engine::Sqlite => format!("{};\n{};\n\n", sqlite::WRITE_AHEAD, sqlite::BEGIN),
        Engine::Postgres => format!("BEGIN;\n{POSTGRES_SCHEMA};\nSET LOCAL search_path = enlist;\n\n"),
    };
    sql.push_str(match engine {
        Engine::Sqlite => SQLITE_LEDGER,
        Engine::Postgres => POSTGRES_LEDGER,
    });
    sql.push_str(";\n\n");
    for migration in MIGRATIONS {
        let (text, now) = match engine {
            Engine::Sqlite => (migration.sqlite, "CAST(unixepoch('subsec') * 1000 AS INTEGER)"),
            Engine::Postgres => (migration.postgres, "now()"),
        };
        sql.push_str(text);
        sql.push_str(&format!(
            "\nINSERT INTO schema_migrations (version, name, applied_at) VALUES ({}, '{}', {now});\n",
            migration.version, migration.name
        ));
    }
    sql.push_str("\nCOMMIT;\n");
    sql
}
