//! Workers that die, hang, or are told to stop: the job goes on, and who is to blame is charged.

use std::time::Duration;

use crate::common::cli::Home;
use crate::common::data;
use crate::common::engine::Db;
use crate::common::halt::Halted;
use crate::common::oracle::Snapshot;
use crate::queue::{PATIENCE, drain, end, enqueue, field, show, state, wait_for_rows, wait_for_state, worker};

/// Makes each batch wait, so that there is a middle to act in.
const SLOW: &str = "import::after_commit=sleep(30)";

/// What an undisturbed run of `a.csv` leaves.
fn calm(home: &Home, db: &Db) -> Snapshot {
    let calm = Db::fresh(db.engine);
    Snapshot::take(home, &calm, "l", &import(home, &calm))
}

fn import(home: &Home, db: &Db) -> crate::common::cli::Output {
    let options = ["import", "a.csv", "--list", "l", "--create-list", "--region", "TR", "--batch-size", "20", "--json"];
    home.enlist(db).args(options).run()
}

both! {
    fn a_killed_workers_job_is_taken_by_another_and_ends_as_if_nothing_had_happened(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::messy(3_000, 1));
        let expected = calm(&home, &db);
        let job = enqueue(&home, &db, "a.csv", "l").args(["--batch-size", "20"]).run().expect(0).count("job");
        let mut dead = worker(&home, &db).failpoint(SLOW).spawn();
        wait_for_rows(&db, 200);
        assert!(dead.kill9());
        let survivor = worker(&home, &db).spawn();
        wait_for_state(&db, job, "done");
        end(survivor);
        assert_eq!((field(&db, job, "attempts"), field(&db, job, "rescues")), (1, 1));
        Snapshot::take(&home, &db, "l", &import(&home, &db)).assert_same(&expected, "after a kill");
    }

    fn a_worker_that_hangs_past_its_lease_loses_the_job_and_writes_nothing_when_it_wakes(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::messy(3_000, 2));
        let expected = calm(&home, &db);
        let job = enqueue(&home, &db, "a.csv", "l").args(["--batch-size", "20", "--writers", "1"]).run().expect(0).count("job");
        let frozen = Halted::after(worker(&home, &db), &db, 10, 200);
        let survivor = worker(&home, &db).spawn();
        wait_for_state(&db, job, "done");
        let told = Snapshot::take(&home, &db, "l", &import(&home, &db));
        let frozen = frozen.resume();
        crate::common::wait::wait_until("it notices", PATIENCE, || frozen.stderr_so_far().contains("lease_lost"));
        end(frozen);
        end(survivor);
        told.assert_same(&expected, "while the former holder was frozen");
        Snapshot::take(&home, &db, "l", &import(&home, &db)).assert_same(&expected, "after it woke up");
    }

    fn sigterm_hands_the_job_back_uncharged_and_ends_with_0(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(3_000, 1));
        let job = enqueue(&home, &db, "a.csv", "l").args(["--batch-size", "20"]).run().expect(0).count("job");
        let told = worker(&home, &db).failpoint(SLOW).spawn();
        wait_for_rows(&db, 100);
        let output = end(told);
        assert_eq!(output.count("released"), 1, "{}", output.told());
        assert_eq!((state(&db, job).as_str(), field(&db, job, "attempts")), ("queued", 0));
        let left = db.committed_rows();
        drain(&home, &db).run().expect(0);
        assert!(left < 3_000);
        assert_eq!((db.committed_rows(), field(&db, job, "attempts"), field(&db, job, "rescues")), (3_000, 0, 0));
    }

    fn a_second_signal_stops_at_once_and_loses_nothing(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(3_000, 1));
        let job = enqueue(&home, &db, "a.csv", "l").args(["--batch-size", "20"]).run().expect(0).count("job");
        let told = worker(&home, &db).failpoint("import::after_commit=sleep(4000)").spawn();
        wait_for_rows(&db, 20);
        told.term();
        crate::common::wait::wait_until("the first is heard", PATIENCE, || told.stderr_so_far().contains("second signal"));
        told.term();
        let output = told.wait(Duration::from_secs(3));
        assert_eq!(output.signal, Some(15), "{}", output.told());
        assert_eq!(state(&db, job), "running");
        drain(&home, &db).run().expect(0);
        assert_eq!((state(&db, job).as_str(), db.committed_rows()), ("done", 3_000));
    }

    fn a_job_that_kills_every_worker_ends_as_failed_with_its_last_error(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(50, 1));
        let job = enqueue(&home, &db, "a.csv", "l").args(["--max-attempts", "2"]).run().expect(0).count("job");
        for attempt in 1..=2 {
            let died = worker(&home, &db).failpoint("work::after_claim=return").spawn().wait(PATIENCE);
            assert_eq!(died.signal, Some(6), "{}", died.told());
            db.settle();
            home.enlist(&db).args(["pass", "sweep"]).run().expect(0);
            assert_eq!((field(&db, job, "attempts"), field(&db, job, "rescues")), (attempt, attempt));
            db.execute("UPDATE jobs SET run_at = created_at WHERE state = 'queued'");
        }
        let shown = show(&home, &db, job);
        assert_eq!((&shown["state"], &shown["job_error"]["code"]), (&"failed".into(), &"holder_died".into()), "{shown}");
        assert_eq!(drain(&home, &db).run().expect(0).count("claimed"), 0);
        let failures = home.enlist(&db).args(["jobs", "retry", &job.to_string()]).run().expect(0);
        assert!(failures.text().contains("queued"));
        drain(&home, &db).run().expect(0);
        assert_eq!(state(&db, job), "done");
    }

    #[doc = "A holder on another machine cannot be looked at: only its lease counts, and it counts in full."]
    fn the_sweep_leaves_a_job_alone_while_its_lease_is_good(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(50, 1));
        let job = enqueue(&home, &db, "a.csv", "l").run().expect(0).count("job");
        let lease = |seconds: i64| match db.engine {
            crate::common::engine::Engine::Sqlite => format!("CAST(unixepoch('subsec') * 1000 AS INTEGER) + {seconds}000"),
            crate::common::engine::Engine::Postgres => format!("clock_timestamp() + {seconds} * interval '1 s'"),
        };
        let hold = |seconds: i64| {
            db.execute(&format!(
                "UPDATE jobs SET state = 'running', owner = 'n otherboot otherns 1 1 otherhost', fence = fence + 1,
                   lease_until = {} WHERE id = {job}",
                lease(seconds)
            ));
            home.enlist(&db).args(["pass", "sweep", "--json"]).run().expect(0).json()["result"]["jobs"].clone()
        };
        for (seconds, swept) in [(30, 0), (-2, 0), (-30, 1)] {
            assert_eq!(hold(seconds).as_array().map(Vec::len), Some(swept), "a lease that ends in {seconds} s");
        }
        assert_eq!((state(&db, job).as_str(), field(&db, job, "rescues")), ("queued", 1));
    }
}
