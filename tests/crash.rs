//! An import that was killed anywhere and run again leaves what an uninterrupted one leaves.
//!
//! The oracle is always a run that nobody disturbed, with the settings of the first attempt: the same table,
//! the same rejects, the same figures, byte for byte.

use std::time::{Duration, Instant};

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::oracle::Snapshot;
use crate::common::wait::let_pass;

const LIST: &str = "crash";

/// How fast an import goes; nothing of it may change the outcome.
#[derive(Debug, Clone, Copy)]
struct Pace {
    batch: u32,
    writers: u16,
}

/// `import` of `input.csv` in `home`, to be run or disturbed.
fn import(home: &Home, db: &Db, pace: Pace) -> Enlist {
    let (batch, writers) = (pace.batch.to_string(), pace.writers.to_string());
    home.enlist(db).args(["import", "input.csv", "--list", LIST, "--create-list", "--region", "TR", "--json"]).args([
        "--batch-size",
        &batch,
        "--writers",
        &writers,
        "--rejects",
        "rejects.csv",
    ])
}

/// A home with the input in it.
fn home_with(csv: &str) -> Home {
    let home = Home::new();
    home.write("input.csv", csv);
    home
}

/// What an import leaves that nobody disturbs, and how long it took.
fn undisturbed(engine: Engine, csv: &str, pace: Pace) -> (Snapshot, Duration) {
    let (home, db) = (home_with(csv), Db::fresh(engine));
    let start = Instant::now();
    let output = import(&home, &db, pace).run();
    let took = start.elapsed();
    assert!(matches!(output.code, 0 | 3), "{}", output.told());
    (Snapshot::take(&home, &db, LIST, &output), took)
}

/// Runs it with a crash point; it must die of it, by SIGABRT.
#[cfg(feature = "failpoints")]
fn crash(home: &Home, db: &Db, pace: Pace, point: &str) {
    let output = import(home, db, pace).failpoint(point).run();
    assert_eq!(output.signal, Some(6), "the crash point '{point}' did not stop the run: {}", output.told());
    db.settle();
}

/// Runs it to its end and compares; it must have gone on from what was committed before.
fn finish(home: &Home, db: &Db, pace: Pace, expected: &Snapshot, when: &str) -> Output {
    let committed = db.committed_rows();
    let output = import(home, db, pace).run();
    assert!(matches!(output.code, 0 | 3), "{when}: {}", output.told());
    assert_eq!(output.count("resumed_rows"), committed, "{when}: {}", output.told());
    assert_eq!(output.count("this_run/rows"), output.count("rows") - committed, "{when}: {}", output.told());
    let snapshot = Snapshot::take(home, db, LIST, &output);
    snapshot.assert_same(expected, when);
    let file = String::from_utf8_lossy(&home.read("rejects.csv")).into_owned();
    assert_eq!(file, expected.rejects, "{when}: the reject file is not the same");
    output
}

/// The crash matrix for one engine and one number of writers.
#[cfg(feature = "failpoints")]
fn survive_every_crash_point(engine: Engine, writers: u16) {
    const BATCH: u32 = 50;
    let csv = data::messy(1_000, 7);
    let first = Pace { batch: BATCH, writers };
    // Faster or slower on resume: that must not change the outcome either.
    let second = Pace { batch: 7, writers: 5 - writers };
    let (expected, _) = undisturbed(engine, &csv, first);
    // Points are passed once per committed part, so at least once per batch.
    let batches = expected.counts["rows"].as_u64().expect("a number").div_ceil(u64::from(BATCH));
    let places = [("the first", 0), ("a middle", batches / 2), ("the last", batches - 1)];
    for point in ["import::before_commit", "import::after_commit"] {
        for (name, skipped) in places {
            let when = format!("{engine:?}, {writers} writers, killed at {point} of {name} batch");
            let (home, db) = (home_with(&csv), Db::fresh(engine));
            crash(&home, &db, first, &format!("{point}={skipped}*off->return"));
            if skipped == 0 && point == "import::before_commit" && writers == 1 {
                assert_eq!(db.committed_rows(), 0, "{when}");
            }
            finish(&home, &db, second, &expected, &when);
        }
        let when = format!("{engine:?}, {writers} writers, killed twice at {point}");
        let (home, db) = (home_with(&csv), Db::fresh(engine));
        crash(&home, &db, first, &format!("{point}={}*off->return", batches / 3));
        let after_one = db.committed_rows();
        crash(&home, &db, second, &format!("{point}={}*off->return", batches / 3));
        assert!(db.committed_rows() > after_one, "{when}: the second run committed nothing");
        finish(&home, &db, first, &expected, &when);
    }
    let when = format!("{engine:?}, {writers} writers, killed before the finish");
    let (home, db) = (home_with(&csv), Db::fresh(engine));
    crash(&home, &db, first, "import::before_finish=return");
    crash(&home, &db, second, "import::before_finish=return");
    let output = finish(&home, &db, second, &expected, &when);
    assert_eq!(output.count("this_run/rows"), 0, "{when}");
}

#[cfg(feature = "failpoints")]
mod every_crash_point_resumes_to_the_same_end {
    use super::survive_every_crash_point;
    use crate::common::engine::Engine;

    #[test]
    fn sqlite_with_one_writer() {
        survive_every_crash_point(Engine::Sqlite, 1);
    }

    #[test]
    fn sqlite_with_four_writers() {
        survive_every_crash_point(Engine::Sqlite, 4);
    }

    #[test]
    fn postgres_with_one_writer() {
        survive_every_crash_point(Engine::Postgres, 1);
    }

    #[test]
    fn postgres_with_four_writers() {
        survive_every_crash_point(Engine::Postgres, 4);
    }
}

/// SIGKILL at 20 random times. An import that ends between two kills is compared, and another one begins.
fn survive_random_kills(engine: Engine) {
    const KILLS: u32 = 20;
    let csv = data::messy(200_000, 11);
    let pace = Pace { batch: 1_000, writers: 2 };
    let (expected, took) = undisturbed(engine, &csv, pace);
    let seed = 20_261_130;
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut kills, mut in_the_middle) = (0, 0);
    while kills < KILLS {
        let (home, db) = (home_with(&csv), Db::fresh(engine));
        let mut committed = 0;
        while kills < KILLS {
            // A third of the whole time at most, so that several kills fall into one import.
            let delay = took.mul_f64(random.f64() / 3.0);
            let mut running = import(&home, &db, pace).spawn();
            let_pass(delay, || running.ended());
            if !running.kill9() {
                // It was faster; what it left is compared below.
                drop(running);
                break;
            }
            kills += 1;
            db.settle();
            let now = db.committed_rows();
            assert!(now >= committed, "kill {kills} (seed {seed}): {now} rows are committed, {committed} were");
            in_the_middle += u32::from(now > committed);
            committed = now;
        }
        let when = format!("{engine:?}, {kills} kills at random times (seed {seed})");
        finish(&home, &db, pace, &expected, &when);
    }
    assert!(in_the_middle >= 3, "only {in_the_middle} of {kills} kills came while rows were being committed");
}

#[test]
fn an_import_killed_at_random_times_ends_the_same_on_sqlite() {
    survive_random_kills(Engine::Sqlite);
}

#[test]
fn an_import_killed_at_random_times_ends_the_same_on_postgres() {
    survive_random_kills(Engine::Postgres);
}

both! {
    fn a_finished_import_answers_again_without_doing_anything(db: Db) {
        let csv = data::messy(2_000, 5);
        let home = home_with(&csv);
        let pace = Pace { batch: 100, writers: 2 };
        let first = import(&home, &db, pace).run();
        let before = Snapshot::take(&home, &db, LIST, &first);
        std::fs::remove_file(home.path().join("rejects.csv")).expect("the reject file was written");
        let again = import(&home, &db, Pace { batch: 9, writers: 1 }).run();
        assert_eq!(again.code, first.code, "{}", again.told());
        assert_eq!(again.json()["replayed"], true, "{}", again.told());
        assert_eq!(again.count("this_run/rows"), 0);
        Snapshot::take(&home, &db, LIST, &again).assert_same(&before, "run again");
        assert_eq!(String::from_utf8_lossy(&home.read("rejects.csv")), before.rejects, "a replay writes the reject file");
    }
}
