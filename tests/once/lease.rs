//! The lease of a handler: renewed while it runs, lost when another takes over, given up when nobody answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use enlist::once::{HandlerError, Once, Terms};
use enlist::store::{Access, Options, Store, Target};
use tokio::sync::Notify;

use super::{DEADLINE, column, done, end_leases, key, short, wait_for};
use crate::common::engine::{Db, Engine};
use crate::common::proxy::Proxy;
use crate::store::open;

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The end of the only lease in milliseconds.
fn lease_end(db: &Db) -> i64 {
    let (sqlite, postgres) = (
        "SELECT lease_until FROM job_runs",
        "SELECT CAST(extract(epoch FROM lease_until) * 1000 AS BIGINT) FROM job_runs",
    );
    db.number(if db.engine == Engine::Sqlite { sqlite } else { postgres }).unwrap_or(0)
}

both! {
    async fn the_lease_is_renewed_for_as_long_as_the_handler_runs(db: Db) {
        let store = open(&db).await;
        let terms = short(600);
        let answer = store.once(key("k"), &(), terms, async |_| {
            let first = lease_end(&db);
            let (url, engine) = (db.url.clone(), db.engine);
            // Three leases long.
            wait_for("the lease is renewed", move || lease_end(&Db::seen(engine, &url)) > first + 1_800).await;
            let other = store.once(key("k"), &(), terms, async |_| Ok(2)).await.map_err(HandlerError::permanent)?;
            assert!(matches!(other, Once::Running { .. }), "{other:?}");
            Ok(1)
        });
        assert_eq!(answer.await.expect("an answer"), done(1, false));
    }

    async fn a_handler_that_was_overtaken_cannot_write_its_result(db: Db) {
        let store = open(&db).await;
        let zombie = store.once(key("k"), &(), Terms::default(), async |attempt| {
            end_leases(&db);
            let successor = store.once(key("k"), &(), Terms::default(), async |next| {
                assert!(next.fence > attempt.fence && next.number == 2);
                Ok("the successor's".to_owned())
            });
            assert_eq!(successor.await.expect("an answer"), done("the successor's".to_owned(), false));
            Ok("the zombie's".to_owned())
        });
        // Not its own result: the stored one.
        assert_eq!(zombie.await.expect("an answer"), done("the successor's".to_owned(), true));
        assert_eq!(column(&db, "result").as_deref(), Some("\"the successor's\""));
    }

    async fn a_handler_that_was_overtaken_cannot_write_its_error(db: Db) {
        let store = open(&db).await;
        let (begun, release) = (Notify::new(), Notify::new());
        let zombie = store.once(key("k"), &(), Terms::default(), async |_| {
            end_leases(&db);
            begun.notify_one();
            release.notified().await;
            Err::<u8, _>(HandlerError::permanent("the zombie's"))
        });
        let successor = async {
            begun.notified().await;
            let answer = store.once(key("k"), &(), Terms::default(), async |_| {
                release.notify_one();
                // The zombie is answered while its successor is still at it.
                std::future::pending::<Result<u8, _>>().await
            });
            panic!("{:?}", answer.await);
        };
        let answer = tokio::select! { answer = zombie => answer.expect("an answer"), () = successor => unreachable!() };
        assert!(matches!(answer, Once::Lost { retry_after } if retry_after > Duration::from_secs(30)), "{answer:?}");
        assert_eq!(column(&db, "status").as_deref(), Some("running"));
        assert_eq!(column(&db, "fence").as_deref(), Some("2"));
    }

    async fn the_heartbeat_of_an_overtaken_handler_drops_it(db: Db) {
        let store = open(&db).await;
        let dropped = Arc::new(AtomicBool::new(false));
        let started = Instant::now();
        let zombie = store.once(key("k"), &(), short(900), async |_| {
            let _guard = Dropped(dropped.clone());
            db.execute("UPDATE job_runs SET fence = 7, owner = 'somebody else'");
            std::future::pending::<Result<(), _>>().await
        });
        let answer = tokio::time::timeout(DEADLINE, zombie).await.expect("it is dropped").expect("an answer");
        assert!(matches!(answer, Once::Lost { .. }), "{answer:?}");
        assert!(dropped.load(Ordering::SeqCst));
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert_eq!(column(&db, "owner").as_deref(), Some("somebody else"));
    }

    async fn the_same_fence_in_other_hands_is_no_lease(db: Db) {
        let store = open(&db).await;
        // A failover can hand a fence out twice; the owner tells them apart.
        let zombie = store.once(key("k"), &(), Terms::default(), async |_| {
            db.execute("UPDATE job_runs SET owner = 'somebody else'");
            Ok(1)
        });
        let answer = zombie.await.expect("an answer");
        assert!(matches!(answer, Once::Lost { .. }), "{answer:?}");
        assert_eq!(column(&db, "status").as_deref(), Some("running"));
    }
}

/// A store that reaches the server by way of a proxy.
async fn via(proxy: &Proxy, db: &Db) -> Store {
    let target = Target::parse(&proxy.url(&db.url)).expect("a URL");
    let options = Options { connect_timeout: Duration::from_secs(2), ..Options::default() };
    Store::open(&target, Access::Existing, &options).await.expect("it opens")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_that_fails_ends_no_handler() {
    let db = Db::fresh(Engine::Postgres);
    open(&db).await.close().await;
    let proxy = Proxy::to_server_of(&db.url);
    let store = via(&proxy, &db).await;
    let answer = store.once(key("k"), &(), short(3_000), async |_| {
        let (first, url) = (lease_end(&db), db.url.clone());
        proxy.cut_after("UPDATE job_runs SET lease_until", 1);
        wait_for("a later heartbeat is answered", move || lease_end(&Db::seen(Engine::Postgres, &url)) > first).await;
        assert_eq!(proxy.cuts(), 1, "the first one was not");
        Ok(1)
    });
    assert_eq!(answer.await.expect("an answer"), done(1, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_silent_for_longer_than_the_lease_ends_the_handler() {
    let db = Db::fresh(Engine::Postgres);
    open(&db).await.close().await;
    let proxy = Proxy::to_server_of(&db.url);
    let store = via(&proxy, &db).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let answer = store.once(key("k"), &(), short(900), async |_| {
        let _guard = Dropped(dropped.clone());
        proxy.hang();
        std::future::pending::<Result<(), _>>().await
    });
    let answer = tokio::time::timeout(DEADLINE, answer).await.expect("it is dropped");
    assert!(dropped.load(Ordering::SeqCst), "{answer:?}");
    assert!(answer.is_err(), "nobody knows what the store says: {answer:?}");
    assert!(started.elapsed() < DEADLINE / 3, "{:?}", started.elapsed());
    proxy.pass();
    let direct = open(&db).await;
    let next = direct.once(key("k"), &(), Terms::default(), async |attempt| Ok(attempt.number));
    assert_eq!(next.await.expect("an answer"), done(2, false), "its lease has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_commit_went_unanswered_is_known_to_be_ones_own() {
    let db = Db::fresh(Engine::Postgres);
    open(&db).await.close().await;
    let proxy = Proxy::to_server_of(&db.url);
    let store = via(&proxy, &db).await;
    let answer = store.once(key("k"), &(), Terms::default(), async |_| {
        proxy.cut_after("COMMIT", 1);
        Ok(1)
    });
    assert_eq!(answer.await.expect("an answer"), done(1, false));
    assert_eq!(proxy.cuts(), 1);
    let again = store.once(key("k"), &(), Terms::default(), async |_| Ok(2));
    assert_eq!(again.await.expect("an answer"), done(1, true));
}
