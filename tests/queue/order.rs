//! Which job is next: by list, by priority, by time, by queue.

use crate::common::cli::Home;
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::queue::{PATIENCE, drain, end, enqueue, state, wait_for_state, why, worker};

/// Jobs in the order in which they were begun.
fn begun(db: &Db) -> Vec<i64> {
    let sql = "SELECT CAST(job_id AS TEXT) FROM job_attempts ORDER BY started_at, job_id";
    db.texts(sql).into_iter().flatten().filter_map(|id| id.parse().ok()).collect()
}

both! {
    fn jobs_of_one_list_run_in_order_and_one_at_a_time_whatever_the_number_of_workers(db: Db) {
        let home = Home::new();
        for n in 0..12 {
            home.write(&format!("{n}.csv"), data::clean(300, n));
            enqueue(&home, &db, &format!("{n}.csv"), &format!("list-{}", n % 3)).run().expect(0);
        }
        let workers: Vec<_> =
            (0..3).map(|_| drain(&home, &db).args(["--concurrency", "2"]).spawn()).collect();
        for worker in workers {
            worker.wait(PATIENCE).expect(0);
        }
        assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs WHERE state = 'done'"), Some(12));
        let overlaps = "SELECT CAST(count(*) AS BIGINT)
            FROM job_attempts a JOIN jobs i ON i.id = a.job_id
            JOIN job_attempts b ON b.job_id <> a.job_id JOIN jobs j ON j.id = b.job_id AND j.list_id = i.list_id
            WHERE i.id < j.id AND b.started_at < a.ended_at";
        assert_eq!(db.number(overlaps), Some(0), "a later job of a list began before an earlier one had ended");
    }

    fn smaller_priorities_go_first_and_a_job_that_was_put_off_keeps_nobody_waiting(db: Db) {
        let home = Home::new();
        let give = |n: u64, list: &str, more: &[&str]| {
            home.write(&format!("{n}.csv"), data::clean(20, n));
            enqueue(&home, &db, &format!("{n}.csv"), list).args(more).run().expect(0).count("job")
        };
        let usual = give(1, "a", &[]);
        let last = give(2, "b", &["--priority", "5"]);
        let first = give(3, "c", &["--priority=-5"]);
        let later = give(4, "a", &["--run-at", "2999-01-01T00:00:00+03:00"]);
        let after = give(5, "a", &[]);
        drain(&home, &db).run().expect(0);
        assert_eq!(begun(&db), [first, usual, after, last]);
        assert_eq!(state(&db, later), "queued");
        assert!(why(&home, &db, later).contains(&"waiting_for_time".to_owned()));
    }

    fn a_worker_looks_only_at_its_queues_and_the_first_one_first(db: Db) {
        let home = Home::new();
        let give = |n: u64, list: &str, queue: &str| {
            home.write(&format!("{n}.csv"), data::clean(20, n));
            enqueue(&home, &db, &format!("{n}.csv"), list).args(["--queue", queue]).run().expect(0).count("job")
        };
        let (day, night, other) = (give(1, "a", "day"), give(2, "b", "night"), give(3, "c", "other"));
        drain(&home, &db).args(["--queue", "night", "--queue", "day"]).run().expect(0);
        assert_eq!(begun(&db), [night, day]);
        assert_eq!(why(&home, &db, other), ["no_worker"]);
        enqueue(&home, &db, "1.csv", "a").args(["--queue", "no such name!"]).run().expect(2);
    }

    fn a_time_needs_its_offset_and_is_told_in_utc_and_here(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(5, 1));
        enqueue(&home, &db, "a.csv", "l").args(["--run-at", "2999-01-01T00:00:00"]).run().expect(2);
        let queued = enqueue(&home, &db, "a.csv", "l")
            .args(["--run-at", "2999-01-01T01:30:00+03:00"])
            .env("TZ", "Europe/Istanbul")
            .run()
            .expect(0);
        assert_eq!(queued.json()["run_at"], "2998-12-31T22:30:00Z", "{}", queued.told());
        let local = queued.json()["run_at_local"].as_str().map(str::to_owned).unwrap_or_default();
        assert!(local.starts_with("2999-01-01 01:30:00 +03"), "{local}");
        let at = "2001-01-01T00:00:00Z";
        home.write("b.csv", data::clean(5, 2));
        enqueue(&home, &db, "b.csv", "l").args(["--run-at", at]).run().expect(0);
        assert_eq!(drain(&home, &db).run().expect(0).count("done"), 1, "a time that is over means at once");
    }

    fn an_idle_worker_begins_what_is_queued_without_delay(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(20, 1));
        home.enlist(&db).arg("migrate").run().expect(0);
        let worker = worker(&home, &db).spawn();
        crate::common::wait::wait_until("it has started", PATIENCE, || worker.stderr_so_far().contains("worker started"));
        let given = std::time::Instant::now();
        let job = enqueue(&home, &db, "a.csv", "l").run().expect(0).count("job");
        wait_for_state(&db, job, "done");
        let took = given.elapsed();
        end(worker);
        let most = if db.engine == Engine::Postgres { 10 } else { 15 };
        assert!(took.as_secs() < most, "it took {took:?}");
    }
}
