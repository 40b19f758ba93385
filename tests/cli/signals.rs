//! SIGINT and SIGTERM: what is in hand is committed, the shell sees the signal, and the rest is done later.

use std::time::Duration;

use sqlx::{Connection, Executor};

use crate::common::cli::{Enlist, Home, Running};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::oracle::Snapshot;
use crate::common::wait::wait_until;

const PATIENCE: Duration = Duration::from_secs(60);

fn import(home: &Home, db: &Db) -> Enlist {
    home.enlist(db)
        .args(["import", "in.csv", "--list", "x", "--region", "TR", "--batch-size", "200", "--json"])
        .args(["--rejects", "r.csv"])
}

fn home_with(csv: &str) -> Home {
    let home = Home::new();
    home.write("in.csv", csv);
    home
}

/// Waits until `running` has committed something.
fn until_it_commits(running: &mut Running, db: &Db) {
    wait_until("rows are committed", PATIENCE, || running.ended() || db.committed_rows() > 0);
    assert!(!running.ended(), "the import was faster than the signal");
}

both! {
    fn a_signal_stops_after_the_batch_in_hand_and_the_same_command_goes_on(db: Db) {
        let csv = data::messy(120_000, 5);
        let (home, whole) = (home_with(&csv), Db::fresh(db.engine));
        let expected = Snapshot::take(&home, &whole, "x", &import(&home, &whole).run().expect(3));
        let mut committed = 0;
        for (signal, number, code) in [("int", 2, "interrupted"), ("term", 15, "terminated")] {
            let mut running = import(&home, &db).spawn();
            wait_until("more rows are committed", PATIENCE, || running.ended() || db.committed_rows() > committed);
            if signal == "int" { running.int() } else { running.term() }
            let output = running.wait(PATIENCE);
            assert_eq!(output.signal, Some(number), "{}", output.told());
            output.stopped(128 + number, code);
            assert_eq!(output.json()["state"], "interrupted", "{}", output.told());
            assert_eq!(output.json()["retryable"], true);
            assert!(output.count("rows") > committed, "{}", output.told());
            committed = db.committed_rows();
            assert_eq!(output.count("rows"), committed, "{}", output.told());
            // The reject file of a stopped import holds what was refused so far.
            let rejects = home.enlist(&db).args(["rejects", "last"]).run().expect(0).stdout;
            assert_eq!(home.read("r.csv"), rejects, "{}", output.told());
            home.enlist(&db).args(["doctor", "--json"]).run().expect(3);
        }
        let output = import(&home, &db).run().expect(3);
        assert_eq!(output.count("resumed_rows"), committed, "{}", output.told());
        assert_eq!(output.count("attempt"), 3, "{}", output.told());
        Snapshot::take(&home, &db, "x", &output).assert_same(&expected, "after SIGINT and SIGTERM");
        assert_eq!(String::from_utf8(home.read("r.csv")).unwrap(), expected.rejects);
        home.enlist(&db).args(["doctor", "--json"]).run().expect(0);
    }
}

#[test]
fn an_interrupted_import_ends_the_loop_of_its_shell() {
    let db = Db::fresh(Engine::Sqlite);
    let home = home_with(&data::clean(120_000, 5));
    let line = "for i in 1 2 3; do enlist import in.csv --list x --batch-size 200; echo \"ended $?\"; done";
    let mut running = home.bash(&db, line).grouped().spawn();
    until_it_commits(&mut running, &db);
    running.int_group();
    let output = running.wait(PATIENCE);
    assert_eq!(output.signal, Some(2), "{}", output.told());
    assert!(!output.text().contains("ended"), "the loop went on: {}", output.told());
    let jobs = home.enlist(&db).args(["jobs", "--json"]).run().expect(0).json();
    assert_eq!(jobs["jobs"][0]["state"], "interrupted", "{jobs}");
}

#[test]
fn a_signal_before_anything_was_read_ends_at_once_and_leaves_nothing() {
    for (engine, signal) in [(Engine::Sqlite, 2), (Engine::Postgres, 15)] {
        let (home, db) = (Home::new(), Db::fresh(engine));
        let mut running = home.enlist(&db).args(["import", "-", "--list", "x", "--json"]).stdin_open().spawn();
        running.write(b"phone\n");
        let spool = home.path().join("state/enlist/spool");
        let waits = || std::fs::read_dir(&spool).is_ok_and(|files| files.count() == 1);
        wait_until("standard input is being copied", PATIENCE, || running.ended() || waits());
        if signal == 2 {
            running.int()
        } else {
            running.term()
        }
        let output = running.wait(Duration::from_secs(10));
        assert_eq!(output.signal, Some(signal), "{}", output.told());
        assert!(output.json()["job"].is_null(), "{}", output.told());
        assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0, "half a copy stays behind");
        let lists = home.enlist(&db).args(["lists", "--json"]).run().expect(0).json();
        assert_eq!(lists["lists"], serde_json::json!([]), "a list was made");
    }
}

#[test]
fn a_signal_while_a_named_pipe_is_opened_ends_at_once() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    let made = std::process::Command::new("mkfifo").arg(home.path().join("pipe")).status().unwrap();
    assert!(made.success());
    let mut running = home.enlist(&db).args(["import", "pipe", "--list", "x", "--json"]).spawn();
    wait_until("the database is open", PATIENCE, || running.ended() || db.file().is_some_and(|file| file.exists()));
    // Its handlers are in place when it has read the lists; before that the signal ends it as well.
    running.term();
    let output = running.wait(Duration::from_secs(10));
    assert_eq!(output.signal, Some(15), "{}", output.told());
}

/// Another application's transaction, in the way of every batch until it is dropped.
#[expect(dead_code, reason = "held, not used")]
enum Obstacle {
    Sqlite(sqlx::SqliteConnection),
    Postgres(sqlx::PgConnection),
}

impl Obstacle {
    async fn before(db: &Db) -> sqlx::Result<Self> {
        Ok(match db.engine {
            Engine::Sqlite => {
                let mut connection = sqlx::SqliteConnection::connect(&db.url).await?;
                connection.execute("BEGIN IMMEDIATE").await?;
                Self::Sqlite(connection)
            }
            Engine::Postgres => {
                let mut connection = sqlx::PgConnection::connect(&db.url).await?;
                connection.execute("BEGIN; LOCK TABLE enlist.recipients IN ACCESS EXCLUSIVE MODE").await?;
                Self::Postgres(connection)
            }
        })
    }
}

both! {
    async fn a_second_signal_ends_at_once_and_loses_nothing(db: Db) {
        let csv = data::messy(60_000, 6);
        let (home, whole) = (home_with(&csv), Db::fresh(db.engine));
        let expected = Snapshot::take(&home, &whole, "x", &import(&home, &whole).run().expect(3));
        let mut running = import(&home, &db).args(["--lease", "10m"]).spawn();
        until_it_commits(&mut running, &db);
        let obstacle = Obstacle::before(&db).await.expect("the database is there");
        running.int();
        wait_until("it says that it stops", PATIENCE, || running.stderr_so_far().contains("stopping after the batch"));
        assert!(!running.ended(), "the batch in hand was not waited for");
        running.int();
        // Much sooner than any wait for a lock ends.
        let output = running.wait(Duration::from_secs(3));
        assert_eq!(output.signal, Some(2), "{}", output.told());
        drop(obstacle);
        db.settle();
        let committed = db.committed_rows();
        let output = import(&home, &db).run().expect(3);
        assert_eq!(output.count("resumed_rows"), committed, "{}", output.told());
        assert!(committed < output.count("rows"), "{}", output.told());
        Snapshot::take(&home, &db, "x", &output).assert_same(&expected, "after two signals");
    }
}
