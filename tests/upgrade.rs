//! Databases that an older program made: what is in them stays, and the new tables come.

use crate::common::cli::Home;
use crate::common::data;
use crate::common::engine::{Db, Engine};

/// The tables as the first program made them, with a list in them.
fn made_by_the_first_program(engine: Engine) -> Db {
    let db = Db::fresh(engine);
    let (before, first, ledger, now) = match engine {
        Engine::Sqlite => (
            "PRAGMA journal_mode = wal",
            include_str!("../migrations/sqlite/0001_import.sql"),
            "CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT",
            "0",
        ),
        Engine::Postgres => (
            "CREATE SCHEMA enlist; SET search_path = enlist",
            include_str!("../migrations/postgres/0001_import.sql"),
            "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)",
            "now()",
        ),
    };
    db.execute(&format!(
        "{before}; {ledger}; {first};
         INSERT INTO schema_migrations (version, name, applied_at) VALUES (1, '0001_import', {now});
         INSERT INTO lists (name, created_at) VALUES ('old', {now});
         INSERT INTO recipients (list_id, created_at, updated_at, phone) VALUES (1, {now}, {now}, '{}')",
        data::phone(0)
    ));
    db
}

/// Everything that came later works, and what was there is there.
fn works(home: &Home, db: &Db) {
    home.write("a.csv", data::clean(5, 1));
    home.enlist(db).args(["profiles", "save", "p", "--region", "TR"]).run().expect(0);
    let line = ["import", "a.csv", "--list", "old", "--profile", "p", "--json"];
    let imported = home.enlist(db).args(line).run().expect(0);
    assert_eq!((imported.count("inserted"), imported.count("updated")), (4, 1), "{}", imported.told());
    home.enlist(db).args(["jobs", "show", "last"]).run().expect(0);
}

#[test]
fn a_sqlite_file_of_the_first_program_is_upgraded_on_first_use() {
    let (home, db) = (Home::new(), made_by_the_first_program(Engine::Sqlite));
    let lists = home.enlist(&db).args(["lists", "--json"]).run().expect(0).json();
    assert_eq!(lists["lists"][0]["recipients"], 1, "{lists}");
    works(&home, &db);
}

#[test]
fn a_postgres_schema_of_the_first_program_is_upgraded_by_migrate_alone() {
    let (home, db) = (Home::new(), made_by_the_first_program(Engine::Postgres));
    let early = home.enlist(&db).args(["profiles", "list", "--json"]).run().expect(75);
    assert_eq!(early.error().as_deref(), Some("schema_outdated"), "{}", early.told());
    let migrated = home.enlist(&db).args(["migrate", "--json"]).run().expect(0).json();
    assert_eq!(migrated["applied"][0], "0002_profiles", "{migrated}");
    works(&home, &db);
    let again = home.enlist(&db).args(["migrate", "--json"]).run().expect(0).json();
    assert_eq!(again["applied"].as_array().map(Vec::len), Some(0), "{again}");
}
