//! What each answer of a receiver leads to.

use std::time::Duration;

use super::{PATIENCE, configure, drain, enqueue, home, import, rows, wait_for_all, worker};
use crate::common::cli::Home;
use crate::common::data;
use crate::common::engine::Db;
use crate::common::receiver::{Act, Receiver};
use crate::common::wait::wait_until;
use crate::queue::end;

/// Enqueues the list and lets a worker run until every notification stands in `state`.
fn run_until(home: &Home, db: &Db, state: &str) {
    enqueue(home, db, "a.csv");
    let before = rows(db, "state").len();
    let running = worker(home, db);
    wait_until("the end is written down", PATIENCE, || rows(db, "state").len() > before);
    wait_for_all(db, state);
    end(running);
}

/// One key over all calls.
#[track_caller]
fn assert_one_key(receiver: &Receiver) {
    let told = receiver.told();
    assert!(told.iter().all(|call| call.key() == told[0].key() && call.body == told[0].body), "{told:?}");
}

both! {
    fn a_receiver_that_asks_to_wait_is_waited_for_and_no_attempt_is_charged(db: Db) {
        let wait = || Act::Answer(429, vec!["Retry-After: 2".to_owned()]);
        let receiver = Receiver::scripted([wait(), wait()]);
        let home = home(&receiver, "");
        run_until(&home, &db, "sent");
        let told = receiver.told();
        assert_eq!(told.len(), 3);
        assert_one_key(&receiver);
        assert_eq!(receiver.done().into_values().collect::<Vec<_>>(), [1]);
        assert_eq!(rows(&db, "attempts holds last_status"), ["0 2 200"]);
        for pair in told.windows(2) {
            let waited = pair[1].at.duration_since(pair[0].at);
            assert!(waited >= Duration::from_millis(1_900), "called again after {waited:?}");
        }
    }

    fn a_503_without_a_time_is_a_hold_too(db: Db) {
        let receiver = Receiver::scripted([Act::status(503)]);
        let home = home(&receiver, "");
        run_until(&home, &db, "sent");
        assert_eq!((receiver.told().len(), rows(&db, "attempts holds")), (2, vec!["0 1".to_owned()]));
    }

    fn a_500_is_tried_again_with_the_same_key_and_charged(db: Db) {
        let receiver = Receiver::scripted([Act::status(500)]);
        let home = home(&receiver, "");
        run_until(&home, &db, "sent");
        assert_eq!((receiver.told().len(), rows(&db, "attempts holds")), (2, vec!["1 0".to_owned()]));
        assert_one_key(&receiver);
    }

    fn a_receiver_that_does_the_work_and_drops_the_line_is_called_again_with_the_same_key(db: Db) {
        let receiver = Receiver::scripted([Act::AcceptAndDrop]);
        let home = home(&receiver, "");
        run_until(&home, &db, "sent");
        assert_eq!((receiver.told().len(), rows(&db, "attempts")), (2, vec!["1".to_owned()]));
        assert_one_key(&receiver);
        assert_eq!(receiver.done().into_values().collect::<Vec<_>>(), [1]);
    }

    fn a_receiver_that_does_not_answer_is_called_again_with_the_same_key(db: Db) {
        let receiver = Receiver::scripted([Act::Hang(Duration::from_secs(30))]);
        let home = home(&receiver, "");
        configure(&home, &receiver.url("/hook"), "");
        let quick = String::from_utf8(home.read("enlist.toml")).unwrap().replace("5s", "500ms");
        home.write("enlist.toml", quick);
        run_until(&home, &db, "sent");
        assert_eq!(receiver.told().len(), 2);
        assert_one_key(&receiver);
    }

    fn a_400_fails_at_once_and_is_said(db: Db) {
        let receiver = Receiver::scripted([Act::status(400)]);
        let home = home(&receiver, "");
        let output = import(&home, &db, "a.csv").run().expect(0);
        assert_eq!(output.json()["warnings"][0]["code"], "notification_failed", "{}", output.told());
        drain(&home, &db).run().expect(0);
        assert_eq!(receiver.told().len(), 1);
        assert_eq!(rows(&db, "state last_status response"), ["failed 400 no"]);
    }

    fn a_redirect_is_followed_within_its_host_and_not_to_another(db: Db) {
        let other = Receiver::scripted([]);
        let leads = |to: String| Act::Answer(307, vec![format!("Location: {to}")]);
        let receiver = Receiver::scripted([leads("/moved".to_owned()), Act::Accept, leads(other.url("/hook"))]);
        let home = home(&receiver, "");
        import(&home, &db, "a.csv").run().expect(0);
        let told = receiver.told();
        assert_eq!(told.iter().map(|call| call.path.as_str()).collect::<Vec<_>>(), ["/hook", "/moved"]);
        assert_eq!((told[0].key(), &told[0].body), (told[1].key(), &told[1].body));
        home.write("b.csv", data::clean(20, 2));
        let output = import(&home, &db, "b.csv").run().expect(0);
        assert_eq!(output.json()["warnings"][0]["code"], "notification_failed", "{}", output.told());
        assert!(other.calls().is_empty());
        assert_eq!(rows(&db, "state last_status"), ["sent 200", "failed 307"]);
    }

    fn a_receiver_without_keys_is_never_called_twice(db: Db) {
        for act in [Act::AcceptAndDrop, Act::status(500), Act::status(503), Act::Drop] {
            let receiver = Receiver::scripted([act.clone()]);
            let home = home(&receiver, "receiver = 'none'");
            let seed = fastrand::u64(..);
            home.write("a.csv", data::clean(20, seed));
            let output = import(&home, &db, "a.csv").arg("--again").run().expect(0);
            assert_eq!(output.json()["warnings"][0]["code"], "notification_unknown", "{act:?}: {}", output.told());
            drain(&home, &db).run().expect(0);
            assert_eq!(receiver.calls().len(), 1, "{act:?}");
        }
        assert!(rows(&db, "state").iter().all(|state| state == "unknown"));
    }

    fn a_receiver_that_can_be_asked_is_asked_before_it_is_told_again(db: Db) {
        for (act, told, asked) in [(Act::AcceptAndDrop, 1, "200"), (Act::Drop, 2, "404")] {
            let receiver = Receiver::scripted([act]);
            let home = home(&receiver, &format!("receiver = 'lookup'\nlookup_url = '{}'", receiver.url("/seen")));
            home.write("a.csv", data::clean(20, told));
            run_until(&home, &db, "sent");
            let calls: Vec<String> = receiver.calls().iter().map(|call| call.method.clone()).collect();
            let expected: &[&str] = if told == 1 { &["POST", "GET"] } else { &["POST", "GET", "POST"] };
            assert_eq!(calls, expected, "the look-up answered {asked}");
            let key = receiver.told()[0].key().to_owned();
            assert_eq!(receiver.calls()[1].path, format!("/seen?key={key}"));
            assert_eq!(receiver.done().into_values().collect::<Vec<_>>(), [1]);
        }
    }
}
