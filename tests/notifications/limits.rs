//! What ends, what is kept, and what is never shown.

use enlist::clock::Timestamp;
use enlist::store::{Access, Options, Store, Target};

use super::{configure, drain, enlist, enqueue, home, import, rows};
use crate::common::cli::{Home, SECRET};
use crate::common::data;
use crate::common::engine::Engine;
use crate::common::receiver::{Act, Receiver};

both! {
    fn a_notification_whose_time_is_over_is_unknown_and_calls_nobody(db: Db) {
        let receiver = Receiver::scripted([Act::status(500)]);
        let home = home(&receiver, "give_up = '2s'");
        enqueue(&home, &db, "a.csv");
        drain(&home, &db).run().expect(0);
        assert_eq!((rows(&db, "state"), receiver.calls().len()), (vec!["pending".to_owned()], 1));
        let end = match db.engine {
            Engine::Sqlite => "give_up_at - created_at",
            Engine::Postgres => "CAST(extract(epoch FROM give_up_at - created_at) * 1000 AS BIGINT)",
        };
        assert_eq!(db.number(&format!("SELECT {end} FROM notifications")), Some(2_000));
        db.execute("UPDATE notifications SET give_up_at = created_at");
        drain(&home, &db).run().expect(0);
        assert_eq!((rows(&db, "state last_status"), receiver.calls().len()), (vec!["unknown 500".to_owned()], 1));
    }

    fn only_the_beginning_of_an_answer_is_kept_whatever_its_size(db: Db) {
        let long = format!("X-Long: {}", "x".repeat(200_000));
        let receiver = Receiver::scripted([Act::Flood(20_000_000), Act::Answer(200, vec![long])]);
        let home = home(&receiver, "");
        import(&home, &db, "a.csv").run().expect(0);
        assert_eq!(rows(&db, "state last_status length(response)"), ["sent 200 2048"]);
        home.write("b.csv", data::clean(20, 2));
        enqueue(&home, &db, "b.csv");
        drain(&home, &db).run().expect(0);
        let last = rows(&db, "state last_error").pop().unwrap();
        assert_eq!(last, "pending the head of its answer is too long");
    }

    fn neither_an_address_nor_a_secret_is_shown_anywhere(db: Db) {
        let receiver = Receiver::scripted([Act::status(500)]);
        let home = Home::new();
        home.write("a.csv", data::clean(20, 1));
        home.write("secret", SECRET);
        configure(&home, &receiver.url(&format!("/hook/{SECRET}?token={SECRET}")), "secret_file = 'secret'");
        let job = enqueue(&home, &db, "a.csv").to_string();
        let outputs = [
            drain(&home, &db).args(["-v", "--log-format", "json"]).env("ENLIST_LOG", "trace").run().expect(0),
            enlist(&home, &db).args(["jobs", "show", &job]).run().expect(0),
            enlist(&home, &db).args(["jobs", "show", &job, "--json"]).run().expect(0),
            enlist(&home, &db).args(["config"]).run().expect(0),
            import(&home, &db, "a.csv").args(["--again", "-v"]).run().expect(0),
        ];
        for output in &outputs {
            assert!(!output.told().contains(SECRET), "{}", output.told());
        }
        assert!(outputs[0].stderr.contains("http://127.0.0.1"), "{}", outputs[0].told());
        assert!(receiver.told().iter().all(|call| call.path.contains(SECRET)));
        let wrong = import(&home, &db, "a.csv").args(["--notify", &format!("https://u:{SECRET}@example.com/")]).run();
        wrong.refused(2, "usage");
    }

    fn finished_notifications_are_forgotten_and_their_keys_never_come_back(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        let job = enqueue(&home, &db, "a.csv").to_string();
        enlist(&home, &db).args(["jobs", "cancel", &job]).run().expect(0);
        drain(&home, &db).run().expect(0);
        let first = rows(&db, "external_event_id state");
        assert!(first.len() == 1 && first[0].ends_with("cancelled sent"), "{first:?}");
        enlist(&home, &db).args(["jobs", "retry", &job]).run().expect(0);
        let (url, old, new) = (db.url.clone(), Timestamp::from_millis(0), Timestamp::from_millis(9_000_000_000_000));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let gone = runtime.block_on(async move {
            let target = Target::parse(&url).unwrap();
            let store = Store::open(&target, Access::Existing, &Options::default()).await.unwrap();
            let gone = [
                store.forget_notifications(old, 10).await.unwrap(),
                store.forget_notifications(new, 0).await.unwrap(),
                store.forget_notifications(new, 10).await.unwrap(),
            ];
            store.close().await;
            gone
        });
        assert_eq!((gone, rows(&db, "state").len()), ([0, 0, 1], 0));
        enlist(&home, &db).args(["jobs", "cancel", &job]).run().expect(0);
        drain(&home, &db).run().expect(0);
        assert_eq!(receiver.done().len(), 2, "{:?}", receiver.done());
    }
}
