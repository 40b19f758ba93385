//! What a user would write by hand: psql and sqlite3.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::common::cli::Home;
use crate::common::engine::Db;
use crate::common::postgres::Server;
use crate::figures::Figures;

const TABLE: &str = "CREATE TABLE people (
    list_id bigint NOT NULL, phone text NOT NULL, name text, attributes jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (list_id, phone))";

const STAGING: &str = "DROP TABLE IF EXISTS staging;
    CREATE UNLOGGED TABLE staging (phone text, name text, email text, city text, birth_date text, segment text)";

const UPSERT: &str = "INSERT INTO people (list_id, phone, name, attributes)
    SELECT 1, phone, name,
           jsonb_build_object('email', email, 'city', city, 'birth_date', birth_date, 'segment', segment)
    FROM staging
    ON CONFLICT (list_id, phone) DO UPDATE
    SET name = excluded.name, attributes = excluded.attributes, updated_at = now()";

/// (a): a staging table and one upsert, twice.
pub(crate) fn upsert(server: &Server, clean: &Path, figures: &mut Figures) {
    let db = Db::on(server);
    psql(&db, &[TABLE]);
    let copy = format!("\\copy staging FROM '{}' WITH (FORMAT csv, HEADER)", clean.display());
    let wal = wal_written(&db);
    figures.add("a first", psql(&db, &[STAGING, &copy, UPSERT]));
    figures.add("a wal", (wal_written(&db) - wal) as f64 / 1e6);
    db.execute("DROP TABLE staging");
    figures.add("a size", db.number("SELECT pg_total_relation_size('people')").unwrap_or_default() as f64 / 1e6);
    figures.add("a again", psql(&db, &[STAGING, &copy, UPSERT]));
    drop_database(server, &db);
}

/// (b): clean rows straight into the indexed table.
pub(crate) fn copy(server: &Server, ready: &Path, figures: &mut Figures) {
    let db = Db::on(server);
    psql(&db, &[TABLE]);
    let copy = format!("\\copy people (list_id, phone, name, attributes) FROM '{}' WITH (FORMAT csv)", ready.display());
    figures.add("b", psql(&db, &[&copy]));
    drop_database(server, &db);
}

/// (c): `.import` into a temporary table and an upsert with the shell of SQLite.
pub(crate) fn sqlite(home: &Home, clean: &Path, figures: &mut Figures) {
    let script = format!(
        "CREATE TABLE people (list_id INTEGER NOT NULL, phone TEXT NOT NULL, name TEXT, attributes TEXT NOT NULL,
           created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
           PRIMARY KEY (list_id, phone));
CREATE TEMP TABLE staging (phone TEXT, name TEXT, email TEXT, city TEXT, birth_date TEXT, segment TEXT);
.mode csv
.import --skip 1 '{}' staging
INSERT INTO people (list_id, phone, name, attributes)
SELECT 1, phone, name,
       json_object('email', email, 'city', city, 'birth_date', birth_date, 'segment', segment)
FROM staging WHERE true
ON CONFLICT (list_id, phone) DO UPDATE
SET name = excluded.name, attributes = excluded.attributes, updated_at = CURRENT_TIMESTAMP;
",
        clean.display()
    );
    let script = home.write("c.sql", script);
    let mut sqlite = Command::new("sqlite3");
    sqlite.args(["-bail", "c.db"]).current_dir(home.path()).stdin(std::fs::File::open(script).expect("it was written"));
    figures.add("c", seconds(sqlite));
    crate::remove(home, "c.db");
}

fn psql(db: &Db, commands: &[&str]) -> f64 {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &db.url]).stdin(Stdio::null());
    for command in commands {
        psql.args(["-c", command]);
    }
    seconds(psql)
}

fn seconds(mut command: Command) -> f64 {
    let begun = Instant::now();
    let status = command.status().expect("psql and sqlite3 are installed");
    assert!(status.success(), "{command:?} ended with {status}");
    begun.elapsed().as_secs_f64()
}

/// How many bytes of WAL the server has written since it was made.
pub(crate) fn wal_written(db: &Db) -> i64 {
    db.number("SELECT CAST(pg_current_wal_lsn() - '0/0'::pg_lsn AS BIGINT)").unwrap_or_default()
}

/// Removes a database, and lets the next one begin from a written disk.
pub(crate) fn drop_database(server: &Server, db: &Db) {
    let name = db.url.rsplit('/').next().expect("a URL has a last part");
    crate::common::engine::execute(&server.url("postgres"), &format!("DROP DATABASE \"{name}\" WITH (FORCE)"));
    crate::common::engine::execute(&server.url("postgres"), "CHECKPOINT");
}
