//! What is told of which end, to whom.

use hmac::{Hmac, KeyInit, Mac};

use super::{configure, drain, enlist, enqueue, home, import, rows, wait_for_all, worker};
use crate::common::data;
use crate::common::receiver::{Act, Receiver};

both! {
    fn an_import_tells_its_end_once_with_its_figures_and_a_signature(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        home.write("a.csv", format!("{}nonsense,Ayşe,,,\n", data::clean(20, 1)));
        let output = import(&home, &db, "a.csv").env("ENLIST_NOTIFY_SECRET", "anahtar").run().expect(3);
        assert_eq!(output.json()["warnings"].as_array().map(Vec::len), Some(0), "{}", output.told());
        let told = receiver.told();
        assert_eq!(told.len(), 1);
        let (call, body) = (&told[0], told[0].json());
        assert_eq!((call.path.as_str(), call.header("content-type")), ("/hook", "application/json"));
        assert_eq!(body["key"].as_str(), Some(call.key()));
        assert!(call.header("x-enlist-timestamp").parse::<u64>().is_ok_and(|seconds| seconds > 1_700_000_000));
        for (pointer, expected) in [
            ("/job", output.count("job").into()),
            ("/list", "l".into()),
            ("/state", "done".into()),
            ("/counts/rows", 21.into()),
            ("/counts/inserted", 20.into()),
            ("/reasons/0/reason", "phone_not_a_number".into()),
            ("/reasons/0/rows", 1.into()),
            ("/error", serde_json::Value::Null),
            ("/generation", 1.into()),
            ("/end", 1.into()),
        ] {
            assert_eq!(body.pointer(pointer), Some(&expected), "{pointer} in {body}");
        }
        assert!(body["finished_at"].is_string() && body["started_at"].is_string() && body["created_at"].is_string());
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"anahtar").expect("any length is good");
        mac.update(&call.body);
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(call.header("x-enlist-signature"), format!("sha256={hex}"));
        assert_eq!(rows(&db, "state attempts holds last_status job_id"), [format!("sent 0 0 200 {}", output.count("job"))]);
        // A replay ends nothing.
        import(&home, &db, "a.csv").run().expect(3);
        assert_eq!(receiver.told().len(), 1);
    }

    fn a_queued_import_tells_its_end_by_the_worker_and_jobs_show_tells_of_it(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        let job = enqueue(&home, &db, "a.csv");
        assert!(receiver.calls().is_empty());
        // The job knows whom to tell; the worker's own configuration says nothing.
        home.write("enlist.toml", "");
        drain(&home, &db).run().expect(0);
        let told = receiver.told();
        assert_eq!((told.len(), told[0].json()["state"].as_str()), (1, Some("done")));
        assert_eq!(told[0].header("x-enlist-signature"), "");
        let shown = enlist(&home, &db).args(["jobs", "show", &job.to_string(), "--json"]).run().expect(0).json();
        let notification = &shown["notifications"][0];
        assert_eq!(notification["key"].as_str(), Some(told[0].key()), "{shown}");
        assert_eq!((&notification["state"], &notification["last_status"]), (&"sent".into(), &200.into()), "{shown}");
        let text = enlist(&home, &db).args(["jobs", "show", &job.to_string()]).run().expect(0).text();
        assert!(text.contains(told[0].key()) && !text.contains("/hook"), "{text}");
    }

    fn a_job_that_fails_is_retried_and_succeeds_tells_both_ends_once_each(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        let job = enqueue(&home, &db, "a.csv");
        let good = home.read("a.csv");
        home.write("a.csv", data::clean(20, 2));
        drain(&home, &db).run().expect(1);
        home.write("a.csv", good);
        enlist(&home, &db).args(["jobs", "retry", &job.to_string()]).run().expect(0);
        drain(&home, &db).run().expect(0);
        let told: Vec<_> = receiver.told().iter().map(|call| (call.key().to_owned(), call.json())).collect();
        let states: Vec<_> = told.iter().map(|(_, body)| body["state"].clone()).collect();
        assert_eq!(states, ["failed", "done"]);
        assert_eq!(told[0].1["error"]["code"], "file_changed");
        assert_ne!(told[0].0, told[1].0);
        assert!(receiver.done().values().all(|times| *times == 1));
    }

    fn each_cancellation_is_an_end_of_its_own(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        let job = enqueue(&home, &db, "a.csv").to_string();
        for _ in 0..2 {
            enlist(&home, &db).args(["jobs", "cancel", &job]).run().expect(0);
            enlist(&home, &db).args(["jobs", "retry", &job]).run().expect(0);
        }
        let running = worker(&home, &db);
        wait_for_all(&db, "sent");
        crate::common::wait::wait_until("three ends are told", super::PATIENCE, || receiver.told().len() == 3);
        crate::queue::end(running);
        let mut states: Vec<_> = receiver.told().iter().map(|call| call.json()["state"].clone()).collect();
        states.sort_by_key(ToString::to_string);
        assert_eq!(states, ["cancelled", "cancelled", "done"]);
        assert_eq!(receiver.done().len(), 3);
    }

    fn whoever_was_named_last_is_told_and_no_one_is_told_of_a_check(db: Db) {
        let (first, last) = (Receiver::scripted([]), Receiver::scripted([]));
        let home = home(&first, "");
        enlist(&home, &db).args(["check", "a.csv", "--list", "l", "--region", "TR"]).run().expect(0);
        enqueue(&home, &db, "a.csv");
        configure(&home, &last.url("/other"), "");
        enqueue(&home, &db, "a.csv");
        drain(&home, &db).run().expect(0);
        assert_eq!((first.calls().len(), last.told().len()), (0, 1));
        // The same for an import that is taken up again.
        home.write("b.csv", data::clean(200, 3));
        let slow = import(&home, &db, "b.csv").args(["--batch-size", "20"]).failpoint("import::before_finish=return");
        assert_eq!(slow.run().signal, Some(6));
        db.settle();
        import(&home, &db, "b.csv").args(["--notify", &first.url("/named")]).run().expect(0);
        assert_eq!((first.told().len(), last.told().len()), (1, 1));
        import(&home, &db, "b.csv").args(["--again", "--notify", "none"]).run().expect(0);
        assert_eq!((first.told().len(), last.told().len()), (1, 1));
    }

    fn what_an_import_could_not_tell_is_left_to_the_workers_and_said(db: Db) {
        let receiver = Receiver::scripted([Act::status(500), Act::status(500), Act::status(500), Act::status(500)]);
        let home = home(&receiver, "");
        let output = import(&home, &db, "a.csv").run().expect(0);
        assert_eq!(output.json()["warnings"][0]["code"], "notification_waiting", "{}", output.told());
        let before = receiver.told().len();
        assert!((1..=4).contains(&before), "{before} calls");
        db.execute("UPDATE notifications SET not_before = created_at");
        let running = worker(&home, &db);
        crate::common::wait::wait_until("it is told", super::PATIENCE, || {
            db.execute("UPDATE notifications SET not_before = created_at WHERE state = 'pending'");
            rows(&db, "state") == ["sent"]
        });
        crate::queue::end(running);
        let told = receiver.told();
        assert!(told.len() > before && told.iter().all(|call| call.key() == told[0].key() && call.body == told[0].body));
        assert_eq!(receiver.done().into_values().collect::<Vec<_>>(), [1]);
    }
}
