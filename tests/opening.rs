//! Opening a database: many at once on a new one, older and newer schemas, databases of other applications.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::cli::{Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::postgres;

const DEADLINE: Duration = Duration::from_secs(120);

/// Five processes at once on a database that does not exist yet.
fn five_at_once(engine: Engine, round: usize) {
    let home = Home::new();
    let csv = data::clean(20, 5);
    home.write("a.csv", &csv);
    // Differs, so that it is another import.
    home.write("b.csv", format!("{csv}{},x,x,x,1\n", data::phone(20)));
    let db = Db::fresh(engine);
    let import = |file: &str| {
        let line = ["import", file, "--list", "new", "--create-list", "--json"];
        home.enlist(&db).args(line).spawn()
    };
    let migrate = || home.enlist(&db).args(["migrate", "--json"]).spawn();
    let all = [import("a.csv"), import("a.csv"), import("b.csv"), migrate(), migrate()];
    for (place, running) in all.into_iter().enumerate() {
        let output = running.wait(DEADLINE);
        let is_held = place < 2 && output.code == 75 && output.error().as_deref() == Some("held");
        assert!(output.code == 0 || is_held, "round {round}, process {place}: {}", output.told());
    }
    let export = home.enlist(&db).args(["export", "--list", "new", "--format", "jsonl"]).run().expect(0).text();
    assert_eq!(export.lines().count(), 21, "round {round}");
    // The second process may find that the other file came in between: then it imports its own again.
    let jobs = db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs");
    assert!(matches!(jobs, Some(2 | 3)), "round {round}: {jobs:?} jobs");
    for (rows, sql) in [
        (1, "SELECT CAST(count(*) AS BIGINT) FROM lists"),
        (0, "SELECT CAST(count(*) AS BIGINT) FROM jobs WHERE state <> 'done'"),
    ] {
        assert_eq!(db.number(sql), Some(rows), "round {round}: {sql}");
    }
    if let Some(file) = db.file() {
        let beside = file.with_file_name("enlist.db-open.lock");
        assert!(!beside.exists(), "round {round}: {} stays behind", beside.display());
        assert_eq!(mode(&file), 0o600);
    }
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn five_processes_at_once_make_one_sqlite_database_a_hundred_times() {
    (0..100).for_each(|round| five_at_once(Engine::Sqlite, round));
}

#[test]
fn five_processes_at_once_fill_one_empty_postgres_database_twenty_times() {
    (0..20).for_each(|round| five_at_once(Engine::Postgres, round));
}

/// A home with a list to import, and a database that holds it already.
fn filled(db: &Db) -> Home {
    let home = Home::new();
    home.write("a.csv", data::clean(20, 5));
    import(&home, db).expect(0);
    home
}

fn import(home: &Home, db: &Db) -> Output {
    home.enlist(db).args(["import", "a.csv", "--list", "spring", "--create-list", "--json"]).run()
}

/// Runs a command and gives what it says is wrong.
#[track_caller]
fn refusal(home: &Home, db: &Db, line: &[&str], code: i32) -> String {
    let output = home.enlist(db).args(line).arg("--json").run().expect(code);
    output.error().unwrap_or_else(|| panic!("no error: {}", output.told()))
}

const COMMANDS: &[&[&str]] = &[
    &["import", "a.csv", "--list", "spring", "--create-list"],
    &["lists"],
    &["jobs"],
    &["export", "--list", "spring"],
];

#[test]
fn an_older_postgres_schema_waits_for_migrate() {
    let db = Db::fresh(Engine::Postgres);
    let home = filled(&db);
    db.execute("DELETE FROM schema_migrations");
    for line in COMMANDS.iter().filter(|line| line[0] != "export") {
        assert_eq!(refusal(&home, &db, line, 75), "schema_outdated", "{line:?}");
    }
    let migrated = home.enlist(&db).args(["migrate", "--json"]).run().expect(0);
    assert_ne!(migrated.json()["applied"].as_array().map_or(0, Vec::len), 0, "{}", migrated.told());
    assert_eq!(import(&home, &db).expect(0).json()["replayed"], true);
}

#[test]
fn an_older_sqlite_schema_is_upgraded_on_first_use() {
    let db = Db::fresh(Engine::Sqlite);
    let home = filled(&db);
    // What cannot be added twice is taken away: the rest is as an older program left it.
    db.execute("DELETE FROM schema_migrations; DROP INDEX jobs_with_rejects; DROP INDEX jobs_pruning");
    for column in ["beat_at", "rejects_pruned_at", "pruning", "ends"] {
        db.execute(&format!("ALTER TABLE jobs DROP COLUMN {column}"));
    }
    home.enlist(&db).arg("lists").run().expect(0);
    assert!(db.number("SELECT count(*) FROM schema_migrations").is_some_and(|rows| rows > 0));
    assert_eq!(import(&home, &db).expect(0).json()["replayed"], true);
}

both! {
    fn a_newer_schema_goes_on_working(db: Db) {
        let home = filled(&db);
        let now = if db.engine == Engine::Sqlite { "0" } else { "now()" };
        db.execute(&format!("INSERT INTO schema_migrations (version, name, applied_at) VALUES (999, '0999_later', {now})"));
        db.execute("ALTER TABLE jobs ADD COLUMN later TEXT; ALTER TABLE recipients ADD COLUMN later TEXT");
        assert_eq!(import(&home, &db).expect(0).json()["replayed"], true);
        home.write("a.csv", data::clean(30, 5));
        assert_eq!(import(&home, &db).expect(0).count("inserted"), 10);
        let migrated = home.enlist(&db).args(["migrate", "--json"]).run().expect(0);
        assert_eq!(migrated.count("schema_version"), 999, "{}", migrated.told());
    }
}

/// Tables of applications: one that has nothing in common with ours, and those whose migrations are kept in
/// a table that has the name of ours.
const FOREIGN_TABLES: &[&str] = &[
    "CREATE TABLE customers (id BIGINT PRIMARY KEY, phone TEXT); INSERT INTO customers VALUES (1, '+905320000011')",
    "CREATE TABLE schema_migrations (version TEXT PRIMARY KEY); CREATE TABLE users (id BIGINT);
     INSERT INTO schema_migrations VALUES ('20260101000000')",
    "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, dirty BOOLEAN NOT NULL); CREATE TABLE lists (id BIGINT);
     INSERT INTO schema_migrations VALUES (3, false)",
    "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, dirty BOOLEAN NOT NULL); CREATE TABLE lists (id BIGINT)",
    "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, name TEXT, applied_at BIGINT); CREATE TABLE jobs (id BIGINT);
     INSERT INTO schema_migrations VALUES (1, 'first', 0)",
    "CREATE TABLE schema_migrations (version TEXT PRIMARY KEY)",
];

const OPENING: &[&[&str]] = &[
    &["import", "a.csv", "--list", "spring", "--create-list"],
    &["migrate"],
    &["lists"],
    &["lists", "create", "spring"],
    &["opt-out", "--list", "spring", "+905320000011"],
];

#[test]
fn a_sqlite_file_of_another_application_is_refused_and_not_touched() {
    for tables in FOREIGN_TABLES {
        for journal in ["delete", "wal"] {
            let home = Home::new();
            home.write("a.csv", data::clean(20, 5));
            let db = Db::fresh(Engine::Sqlite);
            db.execute(&format!("PRAGMA journal_mode = {journal}; PRAGMA user_version = 7; {tables}"));
            let file = db.file().expect("it is a file");
            let before = std::fs::read(&file).expect("it was made");
            for line in OPENING {
                assert_eq!(refusal(&home, &db, line, 2), "foreign_database", "{line:?} on {tables}");
            }
            assert!(std::fs::read(&file).expect("it is there") == before, "{journal}: the file was changed: {tables}");
            let beside: Vec<_> = std::fs::read_dir(file.parent().expect("it lies in a folder"))
                .expect("the folder is there")
                .map(|entry| entry.expect("it is there").file_name())
                .collect();
            assert_eq!(beside, ["enlist.db"], "{journal}: {tables}");
            assert_eq!(db.texts("PRAGMA journal_mode"), [Some(journal.to_owned())]);
        }
    }
}

#[test]
fn a_postgres_schema_of_another_application_is_refused_and_not_touched() {
    for tables in FOREIGN_TABLES {
        let home = Home::new();
        home.write("a.csv", data::clean(20, 5));
        let db = Db::fresh(Engine::Postgres);
        db.execute(&format!("CREATE SCHEMA enlist; SET search_path TO enlist; {tables}"));
        let relations =
            "SELECT CAST(relname AS TEXT) FROM pg_class WHERE relnamespace = 'enlist'::regnamespace ORDER BY 1";
        let before = db.texts(relations);
        for line in OPENING {
            assert_eq!(refusal(&home, &db, line, 2), "foreign_database", "{line:?} on {tables}");
        }
        assert_eq!(db.texts(relations), before, "{tables}");
    }
}

#[test]
fn tables_of_another_application_in_another_postgres_schema_do_not_matter() {
    let db = Db::fresh(Engine::Postgres);
    db.execute("CREATE TABLE public.jobs (id BIGINT); CREATE TABLE public.schema_migrations (version TEXT)");
    let home = filled(&db);
    assert_eq!(import(&home, &db).expect(0).json()["replayed"], true);
    assert_eq!(db.number("SELECT count(*) FROM public.jobs"), Some(0));
}

both! {
    fn the_printed_statements_make_the_database_that_migrate_makes(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(20, 5));
        let printed = home.enlist(&db).args(["migrate", "--print-sql"]).run().expect(0).text();
        // Nothing was made by printing.
        assert!(db.file().is_none_or(|file| !file.exists()));
        db.execute(&printed);
        let migrated = home.enlist(&db).args(["migrate", "--json"]).run().expect(0);
        assert_eq!(migrated.json()["applied"].as_array().map(Vec::len), Some(0), "{}", migrated.told());
        assert_eq!(import(&home, &db).expect(0).count("inserted"), 20);

        let other = Db::fresh(db.engine);
        home.enlist(&other).arg("migrate").run().expect(0);
        let schema = match db.engine {
            Engine::Sqlite => "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name",
            Engine::Postgres => "SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default)
                FROM information_schema.columns WHERE table_schema = 'enlist' ORDER BY 1",
        };
        assert_eq!(db.texts(schema), other.texts(schema));
        assert!(!db.texts(schema).is_empty());
        if db.engine == Engine::Sqlite {
            assert_eq!(db.texts("PRAGMA journal_mode"), other.texts("PRAGMA journal_mode"));
        }
    }
}

/// `psql` as an administrator runs it: line by line, without stopping at an error.
fn psql(url: &str, sql: &str) -> String {
    use std::io::Write;
    let mut child = Command::new("psql")
        .args(["-X", "-q", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql is installed with the server");
    child.stdin.take().expect("it is piped").write_all(sql.as_bytes()).expect("psql reads");
    let output = child.wait_with_output().expect("psql ends");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_printed_statements_are_run_by_psql_whole_or_not_at_all() {
    let home = Home::new();
    home.write("a.csv", data::clean(20, 5));
    let db = Db::fresh(Engine::Postgres);
    let printed = home.enlist(&db).args(["migrate", "--print-sql"]).run().expect(0).text();
    let broken =
        printed.replace("CREATE TABLE IF NOT EXISTS rejects (", "CREATE TABLE IF NOT EXISTS rejects (broken nothing,");
    assert_ne!(broken, printed);
    assert!(psql(&db.url, &broken).contains("ERROR"));
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'enlist'";
    assert_eq!(db.number(tables), Some(0), "a part of the statements was kept");
    assert_eq!(psql(&db.url, &printed), "");
    assert_eq!(import(&home, &db).expect(0).count("inserted"), 20);
}

#[test]
fn a_role_that_owns_nothing_works_after_migrate_named_it() {
    let home = Home::new();
    home.write("a.csv", data::clean(200, 5));
    let db = Db::fresh(Engine::Postgres);
    let (owner, app) = ("owner of enlist", "app \"role\"");
    let quoted = |role: &str| format!("\"{}\"", role.replace('"', "\"\""));
    let database = db.url.rsplit('/').next().expect("it has a name").to_owned();
    for role in [owner, app] {
        db.execute(&format!(
            "DO $$ BEGIN CREATE ROLE {} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            quoted(role)
        ));
    }
    db.execute(&format!("ALTER DATABASE \"{database}\" OWNER TO {}", quoted(owner)));
    let as_role = |role: &str| db.via(postgres::with_role(&db.url, role));
    let (owner_db, app_db) = (as_role(owner), as_role(app));
    assert_eq!(refusal(&home, &app_db, &["lists"], 2), "database_not_found");
    // An owner without special rights, as a hosted database has.
    let migrated = home.enlist(&owner_db).args(["migrate", "--app-role", app, "--json"]).run().expect(0);
    assert_eq!(migrated.count("schema_version"), 5, "{}", migrated.told());
    assert_eq!(migrated.json()["warnings"][0]["code"], "search_path_not_set", "{}", migrated.told());
    let by_a_superuser = home.enlist(&db).args(["migrate", "--app-role", app, "--json"]).run().expect(0);
    assert_eq!(by_a_superuser.json()["warnings"].as_array().map(Vec::len), Some(0));
    let killed = home
        .enlist(&app_db)
        .args(["import", "a.csv", "--list", "spring", "--create-list", "--json", "--batch-size", "10"])
        .failpoint("import::after_commit=5*off->return")
        .run();
    assert_eq!(killed.signal, Some(6), "{}", killed.told());
    db.settle();
    assert_eq!(import(&home, &app_db).expect(0).count("rows"), 200);
    let phone = data::phone(3);
    home.enlist(&app_db).args(["opt-out", "--list", "spring", &phone]).run().expect(0);
    let export = home.enlist(&app_db).args(["export", "--list", "spring", "--format", "jsonl"]).run().expect(0).text();
    assert_eq!((export.lines().count(), export.matches("opted_out").count()), (200, 1));
    // It may use the tables and no more.
    db.execute("DELETE FROM schema_migrations");
    assert_eq!(refusal(&home, &app_db, &["lists"], 75), "schema_outdated");
    assert_eq!(refusal(&home, &app_db, &["migrate"], 2), "database_refused");
    let unknown = home.enlist(&owner_db).args(["migrate", "--app-role", "nobody knows", "--json"]).run();
    assert_ne!(unknown.code, 0, "{}", unknown.told());
    assert!(unknown.stderr.contains("nobody knows"), "{}", unknown.told());
}
