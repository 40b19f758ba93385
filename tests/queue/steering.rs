//! People steer: cancel, pause, resume, retry, and an import by hand of what is queued.

use crate::common::cli::Home;
use crate::common::data;
use crate::queue::{drain, end, enqueue, field, state, wait_for_rows, wait_for_state, why, worker};

/// Makes each batch wait, so that there is a middle to act in.
const SLOW: &str = "import::after_commit=sleep(50)";

both! {
    fn a_running_job_is_cancelled_after_the_batch_in_hand_and_retried_from_there(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(4_000, 1));
        let job = enqueue(&home, &db, "a.csv", "l").args(["--batch-size", "20"]).run().expect(0).count("job");
        let running = worker(&home, &db).failpoint(SLOW).spawn();
        wait_for_rows(&db, 40);
        home.enlist(&db).args(["jobs", "cancel", &job.to_string()]).run().expect(0);
        wait_for_state(&db, job, "cancelled");
        end(running);
        let committed = db.committed_rows();
        assert!((40..4_000).contains(&committed), "{committed}");
        home.enlist(&db).args(["jobs", "retry", &job.to_string()]).run().expect(0);
        assert_eq!(state(&db, job), "queued");
        drain(&home, &db).run().expect(0);
        assert_eq!((state(&db, job).as_str(), db.committed_rows()), ("done", 4_000));
        assert_eq!(field(&db, job, "attempts"), 0, "nobody failed");
    }

    fn a_running_job_pauses_and_goes_on_when_it_is_let(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(4_000, 1));
        let job = enqueue(&home, &db, "a.csv", "l").args(["--batch-size", "20"]).run().expect(0).count("job");
        let running = worker(&home, &db).failpoint(SLOW).spawn();
        wait_for_rows(&db, 40);
        home.enlist(&db).args(["jobs", "pause", &job.to_string()]).run().expect(0);
        wait_for_state(&db, job, "paused");
        assert_eq!(why(&home, &db, job), ["paused"]);
        let options = ["import", "a.csv", "--list", "l", "--region", "TR", "--json"];
        let refused = home.enlist(&db).args(options).run();
        assert_eq!((refused.code, refused.error().as_deref()), (75, Some("paused")), "{}", refused.told());
        home.enlist(&db).args(["jobs", "resume", &job.to_string()]).run().expect(0);
        end(running);
        drain(&home, &db).run().expect(0);
        assert_eq!((state(&db, job).as_str(), db.committed_rows()), ("done", 4_000));
    }

    fn a_queued_job_can_be_cancelled_paused_and_resumed_before_it_ran(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(20, 1));
        let job = enqueue(&home, &db, "a.csv", "l").run().expect(0).count("job").to_string();
        let steer = |verb: &str| home.enlist(&db).args(["jobs", verb, &job, "--json"]).run();
        steer("pause").expect(0);
        assert_eq!(drain(&home, &db).run().expect(0).count("claimed"), 0);
        assert_eq!(enqueue(&home, &db, "a.csv", "l").run().expect(0).json()["state"], "paused");
        steer("resume").expect(0);
        steer("cancel").expect(0);
        assert_eq!(drain(&home, &db).run().expect(0).count("claimed"), 0);
        assert_eq!(steer("cancel").error().as_deref(), Some("job_state"));
        steer("retry").expect(0);
        assert_eq!(drain(&home, &db).run().expect(0).count("done"), 1);
        assert_eq!(steer("retry").error().as_deref(), Some("job_state"), "what is done stays done");
    }

    fn an_import_by_hand_runs_a_queued_job_at_once(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(20, 1));
        let job = enqueue(&home, &db, "a.csv", "l").args(["--run-at", "2999-01-01T00:00:00Z"]).run().expect(0).count("job");
        let imported = home.enlist(&db).args(["import", "a.csv", "--list", "l", "--region", "TR", "--json"]).run().expect(0);
        assert_eq!((imported.count("job"), imported.count("inserted")), (job, 20), "{}", imported.told());
        assert_eq!(drain(&home, &db).run().expect(0).count("claimed"), 0);
    }

    fn an_interrupted_import_can_be_given_to_the_workers_and_a_stopped_queued_one_waits_for_them(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(2_000, 1));
        let import = ["import", "a.csv", "--list", "l", "--create-list", "--region", "TR", "--batch-size", "20", "--json"];
        let running = home.enlist(&db).args(import).failpoint(SLOW).spawn();
        wait_for_rows(&db, 40);
        running.term();
        let stopped = running.wait(crate::queue::PATIENCE);
        let job = stopped.count("job");
        assert_eq!((stopped.code, state(&db, job).as_str()), (143, "interrupted"));
        let queued = enqueue(&home, &db, "a.csv", "l").run().expect(0);
        assert_eq!((queued.count("job"), state(&db, job).as_str()), (job, "queued"), "{}", queued.told());
        // A command that runs it and is stopped gives it back to the workers.
        let running = home.enlist(&db).args(import).failpoint(SLOW).spawn();
        let before = db.committed_rows();
        wait_for_rows(&db, before + 40);
        running.term();
        assert_eq!(running.wait(crate::queue::PATIENCE).code, 143);
        assert_eq!((state(&db, job).as_str(), field(&db, job, "attempts")), ("queued", 0));
        drain(&home, &db).run().expect(0);
        assert_eq!((state(&db, job).as_str(), db.committed_rows()), ("done", 2_000));
    }
}
