//! Handlers inside the store's own transaction: everything once, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use enlist::once::{HandlerError, Once, Severity, Terms, Why};
use enlist::store::{Access, Inside, Options, Store, Target};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;

use super::{attempts, column, done, end_leases, key, short, wait_for};
use crate::common::engine::{Db, Engine};
use crate::common::proxy::Proxy;
use crate::common::wait::let_pass;
use crate::store::open;

/// Where the handlers here write; not one of enlist's tables.
pub(super) fn make_table(db: &Db) {
    db.execute(
        "CREATE TABLE points (id INTEGER PRIMARY KEY, n INTEGER NOT NULL); INSERT INTO points VALUES (1, 0), (2, 0)",
    );
}

const ADD: &str = "UPDATE points SET n = n + 1 WHERE id = $1";

/// Adds one to the number of `id`.
pub(super) async fn add(inside: &mut Inside<'_>, id: i32) -> Result<(), HandlerError> {
    let changed = match inside {
        Inside::Sqlite(c) => sqlx::query(ADD).bind(id).execute(&mut **c).await?.rows_affected(),
        Inside::Postgres(c) => sqlx::query(ADD).bind(id).execute(&mut **c).await?.rows_affected(),
    };
    assert_eq!(changed, 1);
    Ok(())
}

/// How often `add` has happened, for both ids.
pub(super) fn added(db: &Db) -> [Option<i64>; 2] {
    [1, 2].map(|id| db.number(&format!("SELECT CAST(n AS BIGINT) FROM points WHERE id = {id}")))
}

fn rows(db: &Db) -> Option<i64> {
    db.number("SELECT CAST(count(*) AS BIGINT) FROM job_runs")
}

/// A store whose tables exist, and the table of the handlers.
async fn ready(db: &Db) -> Store {
    let store = open(db).await;
    make_table(db);
    store
}

both! {
    async fn inside_the_transaction_the_work_and_its_answer_are_committed_together(db: Db) {
        let store = ready(&db).await;
        for replayed in [false, true] {
            let answer = store.once_in(key("k"), &("ayse", 1), Terms::default(), async |mut inside, attempt| {
                assert_eq!(attempt.number, 1);
                add(&mut inside, 1).await?;
                Ok("added".to_owned())
            });
            assert_eq!(answer.await.expect("an answer"), done("added".to_owned(), replayed));
        }
        assert_eq!(added(&db), [Some(1), Some(0)]);
        let other = store.once_in(key("k"), &("ayse", 2), Terms::default(), async |_, _| Ok(String::new()));
        assert_eq!(other.await.expect("an answer"), Once::KeyReused);
        let outside = store.once(key("k"), &("ayse", 1), Terms::default(), async |_| Ok(String::new()));
        assert_eq!(outside.await.expect("an answer"), done("added".to_owned(), true), "both kinds share the keys");
    }

    async fn of_five_transactions_at_once_one_does_the_work(db: Db) {
        let store = ready(&db).await;
        let mut calls = JoinSet::new();
        for _ in 0..5 {
            let own = open(&db).await;
            calls.spawn(async move {
                own.once_in(key("k"), &(), Terms::default(), async |mut inside, _| add(&mut inside, 1).await).await
            });
        }
        let answers: Vec<Once<()>> = calls.join_all().await.into_iter().map(|told| told.expect("an answer")).collect();
        assert_eq!(answers.iter().filter(|answer| **answer == done((), false)).count(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| **answer == done((), true)).count(), 4, "{answers:?}");
        assert_eq!((added(&db), rows(&db)), ([Some(1), Some(0)], Some(1)));
        store.close().await;
    }

    async fn a_handler_that_fails_inside_leaves_nothing_but_its_error(db: Db) {
        let store = ready(&db).await;
        for number in 1..=3 {
            let answer = store.once_in(key("k"), &(), attempts(3), async |mut inside, attempt| {
                assert_eq!(attempt.number, number);
                add(&mut inside, 1).await?;
                Err::<(), _>(HandlerError::transient(format!("no {number}")))
            });
            let answer = answer.await.expect("an answer");
            let exhausted = Once::Failed { error: "no 3".to_owned(), why: Why::Exhausted };
            assert!(if number < 3 { matches!(answer, Once::Pending { .. }) } else { answer == exhausted }, "{answer:?}");
            assert_eq!(added(&db), [Some(0), Some(0)]);
            assert_eq!(column(&db, "attempts"), Some(number.to_string()));
        }
        let again = store.once_in(key("k"), &(), attempts(3), async |_, _| -> Result<(), _> { panic!("it ran") });
        assert!(matches!(again.await.expect("an answer"), Once::Failed { why: Why::Exhausted, .. }));
    }

    async fn a_permanent_error_inside_stays(db: Db) {
        let store = ready(&db).await;
        let ran = AtomicU32::new(0);
        for _ in 0..2 {
            // A statement that can never work is permanent by itself.
            let answer = store.once_in(key("k"), &(), Terms::default(), async |inside, _| {
                ran.fetch_add(1, Ordering::SeqCst);
                let never = "INSERT INTO points (id, n) VALUES (1, 1)";
                Ok(match inside {
                    Inside::Sqlite(c) => sqlx::query(never).execute(c).await?.rows_affected(),
                    Inside::Postgres(c) => sqlx::query(never).execute(c).await?.rows_affected(),
                })
            });
            let answer = answer.await.expect("an answer");
            assert!(matches!(answer, Once::Failed { why: Why::Permanent, .. }), "{answer:?}");
        }
        assert_eq!(ran.into_inner(), 1);
    }

    async fn a_conflict_runs_the_handler_again_without_charging_an_attempt(db: Db) {
        let store = ready(&db).await;
        let ran = AtomicU32::new(0);
        let answer = store.once_in(key("k"), &(), Terms::default(), async |mut inside, attempt| {
            add(&mut inside, 1).await?;
            assert_eq!(attempt.number, 1);
            match ran.fetch_add(1, Ordering::SeqCst) {
                0..3 => Err(HandlerError::new(Severity::Conflict, "once more")),
                _ => Ok(()),
            }
        });
        assert_eq!(answer.await.expect("an answer"), done((), false));
        assert_eq!((ran.into_inner(), added(&db)), (4, [Some(1), Some(0)]));
        assert_eq!(column(&db, "attempts").as_deref(), Some("0"));
    }

    async fn a_handler_that_stays_inside_for_longer_than_its_lease_is_rolled_back(db: Db) {
        let store = ready(&db).await;
        let answer = store.once_in(key("k"), &(), short(300), async |mut inside, _| {
            add(&mut inside, 1).await?;
            // What happens when it waits for the store, whose one connection it has.
            std::future::pending::<Result<(), _>>().await
        });
        let answer = answer.await.expect("an answer");
        assert!(matches!(answer, Once::Pending { .. }), "{answer:?}");
        assert_eq!(added(&db), [Some(0), Some(0)]);
        let again = store.once_in(key("k"), &(), Terms::default(), async |mut inside, attempt| {
            add(&mut inside, 1).await?;
            Ok(attempt.number)
        });
        assert_eq!(again.await.expect("an answer"), done(2, false));
        assert_eq!(added(&db), [Some(1), Some(0)]);
    }

    async fn a_transaction_keeps_off_a_key_that_another_call_holds_and_takes_it_over_after_its_lease(db: Db) {
        let store = ready(&db).await;
        let outer = store.once(key("k"), &(), Terms::default(), async |_| {
            let inner = async || {
                let inner = store.once_in(key("k"), &(), Terms::default(), async |mut inside, _| {
                    add(&mut inside, 1).await?;
                    Ok("inner".to_owned())
                });
                inner.await.expect("an answer")
            };
            assert!(matches!(inner().await, Once::Running { .. }));
            end_leases(&db);
            assert_eq!(inner().await, done("inner".to_owned(), false));
            Ok("outer".to_owned())
        });
        assert_eq!(outer.await.expect("an answer"), done("inner".to_owned(), true));
        assert_eq!((added(&db), rows(&db)), ([Some(1), Some(0)], Some(1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_transactions_that_lock_each_other_out_are_both_done() {
    let db = Db::fresh(Engine::Postgres);
    let store = ready(&db).await;
    let (both_hold_one, ran) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU32::new(0)));
    let mut calls = JoinSet::new();
    for (name, first, second) in [("a", 1, 2), ("b", 2, 1)] {
        let (store, both_hold_one, ran) = (store.clone(), both_hold_one.clone(), ran.clone());
        calls.spawn(async move {
            let answer = store.once_in(key(name), &(), Terms::default(), async move |mut inside, _| {
                let tries = ran.fetch_add(1, Ordering::SeqCst);
                add(&mut inside, first).await?;
                if tries < 2 {
                    both_hold_one.wait().await;
                }
                add(&mut inside, second).await
            });
            answer.await.expect("an answer")
        });
    }
    assert_eq!(calls.join_all().await, [done((), false), done((), false)]);
    assert_eq!(ran.load(Ordering::SeqCst), 3, "PostgreSQL ended one of them");
    assert_eq!(added(&db), [Some(2), Some(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_not_kept_where_another_call_has_done_the_work_in_between() {
    let db = Db::fresh(Engine::Postgres);
    let store = ready(&db).await;
    let begun = Arc::new(Notify::new());
    let (other, waits) = (store.clone(), begun.clone());
    let second = tokio::spawn(async move {
        waits.notified().await;
        other.once_in(key("k"), &(), Terms::default(), async |mut inside, _| add(&mut inside, 1).await).await
    });
    let first = store.once_in(key("k"), &(), Terms::default(), async |mut inside, _| {
        add(&mut inside, 1).await?;
        begun.notify_one();
        let url = db.url.clone();
        wait_for("the other call waits for the key", move || {
            let waiting = "SELECT CAST(count(*) AS BIGINT) FROM pg_stat_activity
                           WHERE datname = current_database() AND wait_event_type = 'Lock'";
            Db::seen(Engine::Postgres, &url).number(waiting) == Some(1)
        })
        .await;
        Err::<(), _>(HandlerError::permanent("never"))
    });
    let first = first.await.expect("an answer");
    let second = second.await.expect("no panic").expect("an answer");
    // Whichever came to the key first after the rollback: both are told what it says now.
    let work = if second == done((), false) { first == done((), true) } else { first == second };
    assert!(work && matches!(second, Once::Done { .. } | Once::Failed { .. }), "{first:?} {second:?}");
    assert_eq!(added(&db)[0], Some(i64::from(second == done((), false))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_went_unanswered_is_found_done_and_not_done_again() {
    let db = Db::fresh(Engine::Postgres);
    ready(&db).await.close().await;
    let proxy = Proxy::to_server_of(&db.url);
    let target = Target::parse(&proxy.url(&db.url)).expect("a URL");
    let store = Store::open(&target, Access::Existing, &Options::default()).await.expect("it opens");
    let answer = store.once_in(key("k"), &(), Terms::default(), async |mut inside, _| {
        proxy.cut_after("COMMIT", 1);
        add(&mut inside, 1).await
    });
    assert_eq!(answer.await.expect("an answer"), done((), false));
    assert_eq!((proxy.cuts(), added(&db)), (1, [Some(1), Some(0)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_file_is_waited_for() {
    let db = Db::fresh(Engine::Sqlite);
    let store = ready(&db).await;
    let mut writer = {
        use sqlx::Connection;
        sqlx::SqliteConnection::connect(&db.url).await.expect("it opens")
    };
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut writer).await.expect("nobody else writes");
    let call = tokio::spawn(async move {
        store.once_in(key("k"), &(), Terms::default(), async |mut inside, _| add(&mut inside, 1).await).await
    });
    // Longer than one statement waits for another process.
    let waits = tokio::task::spawn_blocking(move || (let_pass(Duration::from_secs(6), || call.is_finished()), call));
    let (waited, call) = waits.await.expect("no panic");
    assert!(waited, "it did not wait");
    sqlx::raw_sql("COMMIT").execute(&mut writer).await.expect("it ends");
    assert_eq!(call.await.expect("no panic").expect("an answer"), done((), false));
    assert_eq!(added(&db), [Some(1), Some(0)]);
}
