//! What is old enough goes, exactly that, and nothing of a job that may go on.

use crate::common::cli::Home;
use crate::common::data;
use crate::passes::{DAY, ago, backdate, belongings, cancel, import, kill_import, pass, rows};
use crate::queue::field;

/// A list with refused rows: in how many parts it is written, and how many of its rows are refused.
const BATCH: &[&str] = &["--batch-size", "50"];

both! {
    fn keys_go_after_30_days_rejects_after_90_and_the_job_after_400(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::messy(1_000, 3));
        let first = import(&home, &db, "a.csv", BATCH).expect(3);
        let job = first.count("job");
        let [keys, rejects, lanes, attempts] = belongings(&db, job);
        assert!(keys >= 20 && rejects > 0 && lanes > 0 && attempts == 1);

        backdate(&db, job, 29);
        let result = pass(&home, &db, "prune");
        assert_eq!((&result["keys"], &result["rejects"], &result["jobs"]), (&0.into(), &0.into(), &0.into()), "{result}");
        assert_eq!(belongings(&db, job), [keys, rejects, lanes, attempts]);

        backdate(&db, job, 31);
        let result = pass(&home, &db, "prune");
        assert_eq!((result["keys"].as_i64(), result["rejects"].as_i64()), (Some(keys), Some(0)), "{result}");
        assert_eq!(belongings(&db, job), [0, rejects, lanes, attempts]);
        let replayed = import(&home, &db, "a.csv", &["--rejects", "r.csv"]).expect(3);
        assert_eq!(replayed.json()["replayed"], true, "{}", replayed.told());
        for figure in ["rows", "inserted", "duplicates", "rejected", "blank"] {
            assert_eq!(replayed.count(figure), first.count(figure), "{figure}: {}", replayed.told());
        }
        assert!(home.read("r.csv").len() > 100, "the refused rows are still there");

        backdate(&db, job, 91);
        assert_eq!(pass(&home, &db, "prune")["rejects"].as_i64(), Some(rejects));
        assert_eq!(belongings(&db, job), [0, 0, lanes, attempts]);
        let replayed = import(&home, &db, "a.csv", &[]).expect(3);
        assert_eq!((replayed.count("rejected"), &replayed.json()["replayed"]), (first.count("rejected"), &true.into()));
        assert_eq!(replayed.json()["warnings"][0]["code"], "rejects_removed", "{}", replayed.told());
        let asked = home.enlist(&db).args(["rejects", &job.to_string()]).run().expect(0);
        assert!(asked.stderr.contains("retention removed the refused rows"), "{}", asked.told());

        backdate(&db, job, 401);
        assert_eq!(pass(&home, &db, "prune")["jobs"].as_i64(), Some(1));
        assert_eq!((belongings(&db, job), rows(&db, "jobs")), ([0; 4], 0));
        let anew = import(&home, &db, "a.csv", BATCH).expect(3);
        assert_eq!((&anew.json()["replayed"], anew.count("inserted")), (&false.into(), 0), "{}", anew.told());
        assert_eq!(anew.count("rows"), first.count("rows"));
        home.enlist(&db).arg("audit").run().expect(0);
    }

    fn nothing_of_an_unfinished_job_goes_however_old(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::messy(500, 4));
        let job = kill_import(&home, &db, "a.csv", 4, BATCH);
        let before = belongings(&db, job);
        assert!(before[0] == 4 || before[0] == 5, "{before:?}");
        // A time that no such job has: the state alone protects it.
        for state in ["running", "interrupted", "queued", "paused"] {
            let free = if state == "running" { "" } else { ", owner = NULL, lease_until = NULL" };
            db.execute(&format!("UPDATE jobs SET state = '{state}'{free} WHERE id = {job}"));
            backdate(&db, job, 1_000);
            let result = pass(&home, &db, "prune");
            assert_eq!((&result["keys"], &result["rejects"], &result["jobs"]), (&0.into(), &0.into(), &0.into()), "{state}");
            assert_eq!(belongings(&db, job), before, "{state}");
            if state == "running" {
                assert_eq!(rows(&db, "jobs WHERE keys_pruned_at IS NOT NULL OR rejects_pruned_at IS NOT NULL"), 0);
            }
        }
        db.execute(&format!("UPDATE jobs SET state = 'interrupted', finished_at = NULL WHERE id = {job}"));
        let finished = import(&home, &db, "a.csv", &[]).expect(3);
        assert!(finished.count("job") == job && finished.count("resumed_rows") > 0, "{}", finished.told());
        home.enlist(&db).arg("audit").run().expect(0);
    }

    fn a_job_that_is_reopened_keeps_its_keys(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::messy(500, 4));
        let job = kill_import(&home, &db, "a.csv", 4, BATCH);
        let keys = belongings(&db, job)[0];
        cancel(&home, &db, job);
        backdate(&db, job, 31);
        let again = kill_import(&home, &db, "a.csv", 1, BATCH);
        assert_eq!(again, job, "the same import reopens it");
        assert_eq!(pass(&home, &db, "prune")["keys"], 0);
        assert!(belongings(&db, job)[0] > keys);
        let finished = import(&home, &db, "a.csv", &[]).expect(3);
        assert_eq!((finished.count("job"), finished.count("rows")), (job, finished.count("rows")));
        home.enlist(&db).arg("audit").run().expect(0);
    }

    fn one_that_is_reopened_while_it_is_pruned_loses_no_more_and_begins_anew(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(2_600, 5));
        let line = ["--batch-size", "1", "--writers", "1"];
        let job = kill_import(&home, &db, "a.csv", 2_499, &line);
        let keys = belongings(&db, job)[0];
        assert!((2_499..=2_500).contains(&keys), "{keys}");
        cancel(&home, &db, job);
        backdate(&db, job, 31);
        home.enlist(&db).args(["pass", "prune"]).failpoint("prune::after_batch=return").run();
        db.settle();
        assert_eq!(belongings(&db, job)[0], keys - 1_000, "one batch is gone");
        // As a program that knows nothing of marks would do it.
        db.execute(&format!("UPDATE jobs SET state = 'interrupted', finished_at = NULL WHERE id = {job}"));
        assert_eq!(pass(&home, &db, "prune")["keys"], 0);
        assert_eq!(belongings(&db, job)[0], keys - 1_000);
        let anew = import(&home, &db, "a.csv", &[]).expect(0);
        assert!(anew.count("job") > job, "{}", anew.told());
        assert_eq!((anew.count("rows"), anew.count("inserted")), (2_600, 2_600 - keys), "{}", anew.told());
        home.enlist(&db).arg("audit").run().expect(0);
    }

    fn a_prune_killed_in_the_middle_is_finished_by_the_next(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(2_500, 6));
        let first = import(&home, &db, "a.csv", &["--batch-size", "1", "--writers", "1"]).expect(0);
        let job = first.count("job");
        backdate(&db, job, 31);
        let killed = home.enlist(&db).args(["pass", "prune"]).failpoint("prune::after_batch=1*off->return").run();
        assert_eq!(killed.signal, Some(6), "{}", killed.told());
        db.settle();
        assert_eq!(belongings(&db, job)[0], 500);
        assert_eq!(rows(&db, "jobs WHERE keys_pruned_at IS NOT NULL AND pruning"), 1, "the mark came first");
        home.enlist(&db).arg("audit").run().expect(0);
        assert_eq!(pass(&home, &db, "prune")["keys"], 500);
        assert_eq!((belongings(&db, job)[0], rows(&db, "jobs WHERE pruning")), (0, 0));
        let replayed = import(&home, &db, "a.csv", &[]).expect(0);
        assert_eq!((replayed.count("rows"), &replayed.json()["replayed"]), (2_500, &true.into()));
    }

    fn what_an_ended_job_committed_stays_on_record_when_its_keys_go(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(400, 7));
        home.write("b.csv", data::clean(300, 8));
        let done = import(&home, &db, "a.csv", BATCH).expect(0);
        let half = kill_import(&home, &db, "b.csv", 2, &["--batch-size", "50", "--writers", "1"]);
        let written = belongings(&db, half)[0] * 50;
        cancel(&home, &db, half);
        backdate(&db, done.count("job"), 35);
        backdate(&db, half, 34);
        assert!(pass(&home, &db, "prune")["keys"].as_i64() > Some(2));
        let shown = crate::queue::show(&home, &db, half);
        assert_eq!(shown["counts"]["rows"], written, "{shown}");
        // It wrote into the list after the other was done, so that one's result is no answer any more.
        let again = import(&home, &db, "a.csv", &[]).expect(0);
        assert_eq!(again.json()["replayed"], false, "{}", again.told());
        let anew = import(&home, &db, "b.csv", &[]).expect(0);
        assert!(anew.count("job") > half && anew.count("rows") == 300, "{}", anew.told());
        home.enlist(&db).arg("audit").run().expect(0);
    }

    fn a_worker_does_not_go_on_with_a_job_that_lost_its_keys(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(300, 9));
        let job = crate::queue::enqueue(&home, &db, "a.csv", "l").run().expect(0).count("job");
        cancel(&home, &db, job);
        backdate(&db, job, 31);
        pass(&home, &db, "prune");
        home.enlist(&db).args(["jobs", "retry", &job.to_string(), "--json"]).run().stopped(2, "job_state");
        let anew = crate::queue::enqueue(&home, &db, "a.csv", "l").run().expect(0).count("job");
        assert_ne!(anew, job);
        crate::queue::drain(&home, &db).run().expect(0);
        assert_eq!(field(&db, anew, "CASE WHEN state = 'done' THEN 1 ELSE 0 END"), 1);
    }

    fn ages_follow_the_settings_and_old_traces_of_workers_go(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::messy(300, 3));
        let job = import(&home, &db, "a.csv", BATCH).expect(3).count("job");
        backdate(&db, job, 399);
        home.write("config/enlist/enlist.toml", "[retention]\nkeys = 'never'\nrejects = 'off'\njobs = '400d'\n");
        let before = belongings(&db, job);
        pass(&home, &db, "prune");
        assert_eq!(belongings(&db, job), before);
        for (name, days) in [("sweep", 2), ("prune", 2), ("prune", 31)] {
            let at = ago(&db, days * DAY);
            db.execute(&format!(
                "INSERT INTO schedule_runs (name, window_start, owner, started_at) VALUES ('{name}', {at}, 'x', {at})"
            ));
        }
        for n in 0..12 {
            let at = ago(&db, (40 + n) * DAY);
            db.execute(&format!("INSERT INTO workers (owner, queues, concurrency, started_at, seen_at) VALUES ('w{n}', 'q', 1, {at}, {at})"));
        }
        let result = pass(&home, &db, "prune");
        assert_eq!((&result["runs"], &result["workers"]), (&2.into(), &2.into()), "{result}");
        home.write("config/enlist/enlist.toml", "[retention]\nkeys = 'never'\nrejects = 'off'\njobs = '30d'\n");
        assert_eq!(pass(&home, &db, "prune")["jobs"], 1);
        assert_eq!(belongings(&db, job), [0; 4]);
    }
}
