//! What rings by itself: written with its event, delivered by whoever lives, rung once.

use std::time::Duration;

use serde_json::Value;

use crate::common::cli::Home;
use crate::common::data;
use crate::common::engine::Db;
use crate::common::receiver::{Act, Receiver};
use crate::common::wait::{wait_for, wait_until};
use crate::common::webhook::Webhook;
use crate::queue::{drain, end, enqueue, field, wait_for_state, worker};

/// How long anything here may take; a claim of somebody who died lasts 20 s.
const PATIENCE: Duration = Duration::from_secs(90);

/// A home whose alerts go to a receiver.
fn home_of(receiver: &Webhook) -> Home {
    let home = Home::new();
    home.write("config/enlist/enlist.toml", format!("[alerts]\nwebhook = '{}'\n", receiver.url()));
    home
}

/// Queues a job that fails for good: the file is another one when a worker reads it.
fn doomed(home: &Home, db: &Db) -> i64 {
    home.write("a.csv", data::clean(50, 1));
    let job = enqueue(home, db, "a.csv", "bahar").run().expect(0).count("job");
    home.write("a.csv", data::clean(51, 2));
    job
}

fn undelivered(db: &Db) -> Option<i64> {
    db.number("SELECT CAST(count(*) AS BIGINT) FROM alert_outbox WHERE delivered_at IS NULL")
}

fn kinds(db: &Db) -> Vec<String> {
    db.texts("SELECT kind FROM alert_outbox ORDER BY id").into_iter().flatten().collect()
}

fn got(receiver: &Webhook, key: &str) -> Value {
    receiver.wait_for(key, PATIENCE).body
}

both! {
    fn a_job_that_failed_for_good_rings_once_although_two_workers_deliver(db: Db) {
        let receiver = Webhook::start();
        let home = home_of(&receiver);
        let job = doomed(&home, &db);
        let workers = [worker(&home, &db).spawn(), worker(&home, &db).spawn()];
        let told = got(&receiver, &format!("job_failed/{job}"));
        assert_eq!((&told["severity"], &told["details"]["list"]), (&"p1".into(), &"bahar".into()), "{told}");
        assert!(told["message"].as_str().is_some_and(|text| text.contains("a.csv") && text.contains("file_changed")), "{told}");
        wait_until("the row is done", PATIENCE, || undelivered(&db) == Some(0));
        // Whoever marks a row may die first: the next one takes it again and asks.
        db.execute("UPDATE alert_outbox SET delivered_at = NULL, outcome = NULL");
        wait_until("the row is done again", PATIENCE, || undelivered(&db) == Some(0));
        assert_eq!(db.texts("SELECT outcome FROM alert_outbox"), [Some("suppressed".to_owned())]);
        workers.into_iter().for_each(|worker| drop(end(worker)));
        assert_eq!(receiver.received().len(), 1);
    }

    fn a_worker_that_drains_rings_before_it_ends(db: Db) {
        let receiver = Webhook::start();
        let home = home_of(&receiver);
        let job = doomed(&home, &db);
        let worked = drain(&home, &db).run().expect(1);
        assert_eq!(receiver.count(&format!("job_failed/{job}")), 1, "{}", worked.told());
        assert!(!worked.stderr.contains(crate::common::cli::SECRET), "{}", worked.stderr);
    }

    fn a_worker_killed_between_claim_and_send_leaves_the_alert_to_another_and_it_rings_once(db: Db) {
        let receiver = Webhook::start();
        let home = home_of(&receiver);
        let job = doomed(&home, &db);
        let died = worker(&home, &db).failpoint("alert::after_claim=return").spawn().wait(PATIENCE);
        assert_eq!((died.signal, receiver.received().len()), (Some(6), 0), "{}", died.told());
        let other = worker(&home, &db).spawn();
        got(&receiver, &format!("job_failed/{job}"));
        wait_until("the row is done", PATIENCE, || undelivered(&db) == Some(0));
        end(other);
        assert_eq!(receiver.received().len(), 1);
    }

    fn a_receiver_that_is_down_gets_the_alert_later(db: Db) {
        let receiver = Webhook::start();
        let home = home_of(&receiver);
        let job = doomed(&home, &db);
        receiver.answer(500);
        let worker = worker(&home, &db).spawn();
        let put_back = "SELECT CAST(count(*) AS BIGINT) FROM alert_outbox WHERE error LIKE '%500%'";
        wait_until("it was refused", PATIENCE, || db.number(put_back) == Some(1));
        receiver.answer(200);
        got(&receiver, &format!("job_failed/{job}"));
        wait_until("the row is done", PATIENCE, || undelivered(&db) == Some(0));
        end(worker);
        assert_eq!(receiver.received().len(), 1);
    }

    fn a_job_taken_from_dead_workers_three_times_is_told_once(db: Db) {
        let receiver = Webhook::start();
        let home = home_of(&receiver);
        home.write("a.csv", data::clean(50, 1));
        let job = enqueue(&home, &db, "a.csv", "l").args(["--max-attempts", "9"]).run().expect(0).count("job");
        for rescues in 1..=4 {
            let died = worker(&home, &db).failpoint("work::after_claim=return").spawn().wait(PATIENCE);
            assert_eq!(died.signal, Some(6), "{}", died.told());
            db.settle();
            home.enlist(&db).args(["pass", "sweep"]).run().expect(0);
            assert_eq!(field(&db, job, "rescues"), rescues);
            assert_eq!(kinds(&db).len(), usize::try_from(rescues - 2).unwrap_or(0));
            db.execute("UPDATE jobs SET run_at = created_at WHERE state = 'queued'");
        }
        let worker = worker(&home, &db).spawn();
        wait_for_state(&db, job, "done");
        wait_until("the rows are done", PATIENCE, || undelivered(&db) == Some(0));
        end(worker);
        assert_eq!(receiver.count(&format!("job_rescued/{job}")), 1);
    }

    #[doc = "A direct import tells what it wrote itself, and only that; the person has read the rest."]
    fn an_import_tells_of_its_error_budget_and_of_many_rejects_at_its_end(db: Db) {
        let receiver = Webhook::start();
        let home = home_of(&receiver);
        home.write("a.csv", "phone\n05320000011\n05320000012\nx\ny\n");
        let import = |options: &[&str]| {
            let line = ["import", "a.csv", "--list", "l", "--create-list", "--region", "TR", "--json"];
            home.enlist(&db).args(line).args(options).run()
        };
        import(&["--max-rejects", "1"]).stopped(4, "too_many_rejects");
        assert_eq!(receiver.count("too_many_rejects/1"), 1);
        import(&["--max-rejects", "1"]).stopped(4, "too_many_rejects");
        assert_eq!(receiver.count("too_many_rejects/1"), 1, "the same import stopped again");
        import(&[]).expect(3);
        let told = got(&receiver, "many_rejects/1");
        assert_eq!((&told["details"]["rows"], &told["details"]["rejected"]), (&4.into(), &2.into()), "{told}");
        assert_eq!((receiver.received().len(), undelivered(&db)), (2, Some(0)));
    }

    fn without_a_receiver_an_import_says_nothing_more_and_a_worker_tells_its_log(db: Db) {
        let home = Home::new();
        home.write("a.csv", "phone\n05320000011\nx\n");
        let line = ["import", "a.csv", "--list", "l", "--create-list", "--region", "TR", "--json"];
        let output = home.enlist(&db).args(line).run().expect(3);
        assert!(!output.stderr.contains("WARN"), "{}", output.told());
        assert_eq!(undelivered(&db), Some(1));
        let running = worker(&home, &db).spawn();
        wait_for("it is logged", PATIENCE, || running.stderr_so_far().contains("1 of 2 rows were refused").then_some(()));
        wait_until("the row is done", PATIENCE, || undelivered(&db) == Some(0));
        end(running);
    }

    fn a_notification_that_its_receiver_refuses_rings(db: Db) {
        let (alarms, receiver) = (Webhook::start(), Receiver::scripted([Act::status(404)]));
        let home = home_of(&alarms);
        home.write("a.csv", data::clean(20, 1));
        enqueue(&home, &db, "a.csv", "l").args(["--notify", &receiver.url("/hook")]).run().expect(0);
        drain(&home, &db).run().expect(0);
        let told = alarms.received().into_iter().map(|one| one.body).collect::<Vec<_>>();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((&told[0]["severity"], &told[0]["details"]["job"]), (&"p2".into(), &1.into()), "{told:?}");
        assert!(told[0]["key"].as_str().is_some_and(|key| key.starts_with("notification_failed/")), "{told:?}");
    }
}
