//! Handlers that may be called twice and do their work once, on both engines.

#[cfg(feature = "failpoints")]
mod crash;
mod inside;
mod lease;
mod model;
mod retention;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use enlist::once::{HandlerError, Once, OnceKey, Terms, Why};
use enlist::store::{Access, OnceError, Options, Store, Target};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::common::engine::{Db, Engine};
use crate::common::wait::wait_until;
use crate::store::open;

/// How long anything here may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// A key that outlives every call.
fn key(text: &str) -> &'static OnceKey {
    Box::leak(Box::new(OnceKey::parse(text).expect("a key")))
}

/// `attempts` attempts under a lease that does not end by itself.
fn attempts(max_attempts: u32) -> Terms {
    Terms { max_attempts, ..Terms::default() }
}

fn short(millis: u64) -> Terms {
    Terms { lease: Duration::from_millis(millis), ..Terms::default() }
}

/// One column of the only key, as text.
fn column(db: &Db, name: &str) -> Option<String> {
    let mut rows = db.texts(&format!("SELECT CAST({name} AS TEXT) FROM job_runs"));
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

/// Lets every lease have ended long ago, as if the holders had been frozen.
fn end_leases(db: &Db) {
    let past = if db.engine == Engine::Sqlite { "1" } else { "to_timestamp(1)" };
    db.execute(&format!("UPDATE job_runs SET lease_until = {past} WHERE status = 'running'"));
}

/// Waits in an asynchronous test for what others do.
async fn wait_for(what: &'static str, condition: impl FnMut() -> bool + Send + 'static) {
    tokio::task::spawn_blocking(move || wait_until(what, DEADLINE, condition)).await.expect("it came");
}

fn done<T>(value: T, replayed: bool) -> Once<T> {
    Once::Done { value, replayed }
}

both! {
    async fn a_handler_called_twice_does_the_work_once_and_answers_the_same(db: Db) {
        let store = open(&db).await;
        let work = AtomicU32::new(0);
        for replayed in [false, true, true] {
            let answer = store.once(key("pay 7"), &("order", 7), Terms::default(), async |attempt| {
                work.fetch_add(1, Ordering::SeqCst);
                assert_eq!((attempt.key.as_str(), attempt.number), ("pay 7", 1));
                Ok(("receipt ş\"".to_owned(), 1.5))
            });
            assert_eq!(answer.await.expect("an answer"), done(("receipt ş\"".to_owned(), 1.5), replayed));
        }
        assert_eq!(work.into_inner(), 1);
        assert_eq!(column(&db, "status").as_deref(), Some("done"));
        assert_eq!(column(&db, "key").as_deref(), Some("once:pay 7"));
    }

    async fn of_five_calls_at_once_one_works_and_four_are_told_to_come_back(db: Db) {
        let (work, release) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let mut calls = JoinSet::new();
        for _ in 0..5 {
            // Connections of their own, as five processes have.
            let store = open(&db).await;
            let (work, release) = (work.clone(), release.clone());
            calls.spawn(async move {
                store.once(key("one"), &(), Terms::default(), async move |_| {
                    release.notified().await;
                    Ok(work.fetch_add(1, Ordering::SeqCst))
                }).await.expect("an answer")
            });
        }
        for _ in 0..4 {
            let told = calls.join_next().await.expect("a call").expect("no panic");
            assert!(matches!(told, Once::Running { retry_after } if retry_after >= Duration::from_secs(1)), "{told:?}");
        }
        release.notify_one();
        assert_eq!(calls.join_next().await.expect("a call").expect("no panic"), done(0, false));
        let store = open(&db).await;
        let later = store.once(key("one"), &(), Terms::default(), async |_| Ok(work.fetch_add(1, Ordering::SeqCst)));
        assert_eq!(later.await.expect("an answer"), done(0, true));
        assert_eq!(work.load(Ordering::SeqCst), 1);
        assert_eq!(column(&db, "attempts").as_deref(), Some("0"), "nothing failed");
    }

    async fn a_key_that_is_used_for_another_request_is_refused_in_every_state(db: Db) {
        let store = open(&db).await;
        let other = async || {
            let answer = store.once(key("k"), &"other", attempts(1), async |_| -> Result<(), _> { panic!("it ran") });
            answer.await.expect("an answer")
        };
        let running = store.once(key("k"), &"mine", attempts(2), async |_| {
            assert_eq!(other().await, Once::KeyReused);
            Err::<(), _>(HandlerError::transient("later"))
        });
        assert!(matches!(running.await.expect("an answer"), Once::Pending { .. }));
        assert_eq!(other().await, Once::KeyReused);
        let again = store.once(key("k"), &"mine", attempts(2), async |_| Ok(()));
        assert_eq!(again.await.expect("an answer"), done((), false));
        assert_eq!(other().await, Once::KeyReused);
    }

    async fn after_a_transient_error_the_next_call_runs_it_again_with_the_same_key(db: Db) {
        let store = open(&db).await;
        let mut fences = Vec::new();
        for number in 1..=3 {
            let answer = store.once(key("k"), &(), Terms::default(), async |attempt| {
                assert_eq!((attempt.number, attempt.key.as_str()), (number, "k"));
                fences.push(attempt.fence);
                if number < 3 { Err(HandlerError::transient(format!("no {number}"))) } else { Ok(number) }
            });
            match answer.await.expect("an answer") {
                Once::Pending { error, retry_after } => {
                    assert!(error == format!("no {number}") && retry_after >= Duration::from_secs(2), "{retry_after:?}");
                    assert_eq!(column(&db, "attempts"), Some(number.to_string()));
                    assert_eq!(column(&db, "status").as_deref(), Some("pending"));
                }
                answer => assert_eq!((number, answer), (3, done(3, false))),
            }
        }
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    }

    async fn a_permanent_error_is_answered_again_without_running(db: Db) {
        let store = open(&db).await;
        let ran = AtomicU32::new(0);
        for _ in 0..2 {
            let answer = store.once(key("k"), &(), Terms::default(), async |_| {
                ran.fetch_add(1, Ordering::SeqCst);
                Err::<(), _>(HandlerError::permanent("no such\0order"))
            });
            let error = "no such\u{FFFD}order".to_owned();
            assert_eq!(answer.await.expect("an answer"), Once::Failed { error, why: Why::Permanent });
        }
        assert_eq!(ran.into_inner(), 1);
        assert_eq!(column(&db, "status").as_deref(), Some("failed"));
    }

    async fn when_the_attempts_are_used_up_it_has_failed_with_the_last_error(db: Db) {
        let store = open(&db).await;
        let mut ran = 0;
        for _ in 0..4 {
            let answer = store.once(key("k"), &(), attempts(2), async |attempt| {
                ran += 1;
                Err::<(), _>(HandlerError::transient(format!("attempt {}", attempt.number)))
            });
            match answer.await.expect("an answer") {
                Once::Pending { .. } => assert_eq!(ran, 1),
                answer => {
                    assert_eq!(answer, Once::Failed { error: "attempt 2".to_owned(), why: Why::Exhausted });
                }
            }
        }
        assert_eq!(ran, 2);
    }

    async fn an_attempt_that_died_is_charged_and_the_last_one_is_not_followed_by_another(db: Db) {
        let store = open(&db).await;
        let begun = Notify::new();
        for number in 1..=2 {
            let dying = store.once(key("k"), &(), attempts(2), async |attempt| {
                assert_eq!(attempt.number, number);
                begun.notify_one();
                std::future::pending::<Result<(), _>>().await
            });
            // The call is dropped in the middle of its handler, as if its process had died.
            tokio::select! { answer = dying => panic!("{answer:?}"), () = begun.notified() => end_leases(&db) }
        }
        for _ in 0..2 {
            let answer = store.once(key("k"), &(), attempts(2), async |_| -> Result<(), _> { panic!("it ran") });
            let answer = answer.await.expect("an answer");
            assert!(matches!(&answer, Once::Failed { error, why: Why::Exhausted } if error.contains("died")), "{answer:?}");
        }
        assert_eq!(column(&db, "attempts").as_deref(), Some("2"));
    }

    async fn a_handler_can_use_the_store_and_call_another_handler_meanwhile(db: Db) {
        let target = Target::parse(&db.url).expect("a URL");
        let one = Options { max_connections: Some(1), ..Options::default() };
        let store = Store::open(&target, Access::Create, &one).await.expect("it opens");
        let outer = store.once(key("outer"), &(), Terms::default(), async |_| {
            let made = crate::store::list(&store, "made inside").await;
            let inner = store.once(key("inner"), &(), Terms::default(), async |_| Ok(made.0)).await;
            match inner.map_err(HandlerError::permanent)? {
                Once::Done { value, .. } => Ok(value),
                other => Err(HandlerError::permanent(format!("{other:?}"))),
            }
        });
        let answer = outer.await.expect("an answer");
        assert!(matches!(answer, Once::Done { replayed: false, .. }), "{answer:?}");
        assert_eq!(store.lists().await.expect("lists").len(), 1);
    }

    async fn what_cannot_be_kept_fails_at_once_and_what_is_of_another_type_is_said_to_be(db: Db) {
        let store = open(&db).await;
        for _ in 0..2 {
            let answer = store.once(key("nul"), &(), Terms::default(), async |_| Ok("a\0".to_owned()));
            let answer = answer.await.expect("an answer");
            assert!(matches!(&answer, Once::Failed { error, why: Why::Permanent } if error.contains("NUL")), "{answer:?}");
        }
        let text = store.once(key("text"), &(), Terms::default(), async |_| Ok("a".to_owned()));
        assert_eq!(text.await.expect("an answer"), done("a".to_owned(), false));
        let number = store.once(key("text"), &(), Terms::default(), async |_| Ok(1_u8)).await;
        assert!(matches!(number, Err(OnceError::Result(_))), "{number:?}");
    }
}
