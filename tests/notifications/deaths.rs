//! Senders that die between the call and the mark, or come back after another took over.

use std::time::Duration;

use super::{PATIENCE, drain, enlist, enqueue, home, import, rows, wait_for_all, worker};
use crate::common::receiver::{Act, Receiver};
use crate::common::wait::wait_until;
use crate::queue::end;

const DIES: &str = "notify::after_send=return";

both! {
    fn a_worker_killed_between_call_and_mark_leaves_it_to_the_next_with_the_same_key(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        enqueue(&home, &db, "a.csv");
        let died = enlist(&home, &db).args(["work", "--lease", "2s"]).failpoint(DIES).spawn().wait(PATIENCE);
        assert_eq!(died.signal, Some(6), "{}", died.told());
        db.settle();
        assert_eq!(rows(&db, "state"), ["sending"]);
        let running = worker(&home, &db);
        wait_for_all(&db, "sent");
        end(running);
        let told = receiver.told();
        assert_eq!(told.len(), 2);
        assert_eq!((told[0].key(), &told[0].body), (told[1].key(), &told[1].body));
        assert_eq!(receiver.done().into_values().collect::<Vec<_>>(), [1]);
        assert_eq!(rows(&db, "attempts fence"), ["1 2"]);
    }

    fn an_import_killed_between_call_and_mark_leaves_it_to_a_worker(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        assert_eq!(import(&home, &db, "a.csv").failpoint(DIES).run().signal, Some(6));
        db.settle();
        drain(&home, &db).run().expect(0);
        assert_eq!((rows(&db, "state"), receiver.told().len()), (vec!["sent".to_owned()], 2));
        assert_eq!(receiver.done().into_values().collect::<Vec<_>>(), [1]);
    }

    fn an_import_killed_between_call_and_mark_goes_on_with_it_when_it_is_run_again(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        assert_eq!(import(&home, &db, "a.csv").failpoint(DIES).run().signal, Some(6));
        db.settle();
        for _ in 0..2 {
            let output = import(&home, &db, "a.csv").run().expect(0);
            assert_eq!(output.json()["replayed"], true, "{}", output.told());
            assert_eq!((rows(&db, "state"), receiver.told().len()), (vec!["sent".to_owned()], 2));
        }
        assert_eq!(receiver.done().into_values().collect::<Vec<_>>(), [1]);
    }

    fn an_end_whose_transaction_was_cut_off_is_told_of_only_once(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "");
        assert_eq!(import(&home, &db, "a.csv").failpoint("import::before_finish=return").run().signal, Some(6));
        db.settle();
        assert!(rows(&db, "state").is_empty() && receiver.calls().is_empty());
        import(&home, &db, "a.csv").run().expect(0);
        assert_eq!((receiver.told().len(), rows(&db, "state")), (1, vec!["sent".to_owned()]));
    }

    fn a_killed_sender_to_a_receiver_without_keys_ends_as_unknown(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, "receiver = 'none'");
        assert_eq!(import(&home, &db, "a.csv").failpoint(DIES).run().signal, Some(6));
        db.settle();
        drain(&home, &db).run().expect(0);
        assert_eq!((rows(&db, "state"), receiver.calls().len()), (vec!["unknown".to_owned()], 1));
    }

    fn a_killed_sender_to_a_receiver_that_can_be_asked_is_followed_by_a_question(db: Db) {
        let receiver = Receiver::scripted([]);
        let home = home(&receiver, &format!("receiver = 'lookup'\nlookup_url = '{}'", receiver.url("/seen/{key}")));
        assert_eq!(import(&home, &db, "a.csv").failpoint(DIES).run().signal, Some(6));
        db.settle();
        drain(&home, &db).run().expect(0);
        let calls: Vec<String> = receiver.calls().iter().map(|call| call.method.clone()).collect();
        assert_eq!((calls, rows(&db, "state")), (vec!["POST".to_owned(), "GET".to_owned()], vec!["sent".to_owned()]));
        assert_eq!(receiver.calls()[1].path, format!("/seen/{}", receiver.told()[0].key()));
    }

    #[doc = "Only the lease counts for a sender on another machine; the one that comes back late marks nothing."]
    fn a_sender_that_lost_its_lease_marks_nothing(db: Db) {
        let receiver = Receiver::scripted([Act::Hang(Duration::from_secs(4))]);
        let home = home(&receiver, "");
        enqueue(&home, &db, "a.csv");
        let slow = worker(&home, &db);
        wait_until("it is called", PATIENCE, || !receiver.calls().is_empty());
        db.execute("UPDATE notifications SET lease_until = created_at WHERE state = 'sending'");
        let quick = worker(&home, &db);
        wait_for_all(&db, "sent");
        wait_until("the slow one notices", PATIENCE, || {
            [&slow, &quick].iter().any(|worker| worker.stderr_so_far().contains("could not be marked"))
        });
        assert_eq!((rows(&db, "state fence attempts"), receiver.told().len()), (vec!["sent 2 1".to_owned()], 2));
        end(slow);
        end(quick);
    }
}
