//! Sweeping dead keys and forgetting old ones, beside keys that must stay.

use std::time::Duration;

use enlist::once::{HandlerError, Once, RequestHash, Terms};
use enlist::store::{KeyClaim, ResetKeys, Store};

use super::{attempts, done, end_leases, key};
use crate::common::engine::{Db, Engine};
use crate::store::open;

const MINUTE: Duration = Duration::from_secs(60);

/// A key that is held and never renewed.
async fn hold(store: &Store, name: &str, terms: Terms) {
    let hash = RequestHash::of(&()).expect("a hash");
    let claim = store.claim_key(key(name), &hash, terms).await.expect("an answer");
    assert!(matches!(claim, KeyClaim::Held(_)), "{claim:?}");
}

fn states(db: &Db) -> Vec<(String, String)> {
    let rows = db.texts("SELECT key || ' ' || status FROM job_runs ORDER BY key");
    let pair = |row: &str| row.rsplit_once(' ').map(|(key, status)| (key.to_owned(), status.to_owned()));
    rows.iter().filter_map(|row| pair(row.as_deref()?)).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, status)| ((*key).to_owned(), (*status).to_owned())).collect()
}

/// The run key of an import's part; with a lease, which none ever has.
fn import_key(db: &Db, status: &str) {
    let past = if db.engine == Engine::Sqlite { "1" } else { "to_timestamp(1)" };
    db.execute(&format!(
        "INSERT INTO job_runs (key, status, job_id, created_at, completed_at, lease_until)
         VALUES ('0a.1/0of1/0-9', '{status}', 1, {past}, {past}, {past})"
    ));
}

both! {
    async fn keys_of_dead_handlers_are_given_back_and_charged(db: Db) {
        let store = open(&db).await;
        import_key(&db, "running");
        hold(&store, "dead", attempts(2)).await;
        hold(&store, "last attempt", attempts(1)).await;
        end_leases(&db);
        hold(&store, "alive", attempts(1)).await;
        assert_eq!(store.reset_dead_keys(MINUTE).await.expect("swept"), ResetKeys { pending: 1, failed: 1 });
        assert_eq!(store.reset_dead_keys(MINUTE).await.expect("swept"), ResetKeys::default());
        assert_eq!(states(&db), pairs(&[
            ("0a.1/0of1/0-9", "running"), ("once:alive", "running"), ("once:dead", "pending"), ("once:last attempt", "failed"),
        ]));
        let again = store.once(key("dead"), &(), attempts(2), async |attempt| Ok((attempt.number, attempt.fence.0)));
        assert_eq!(again.await.expect("an answer"), done((2, 3), false));
        let failed = store.once(key("last attempt"), &(), attempts(9), async |_| Ok(()));
        assert!(matches!(failed.await.expect("an answer"), Once::Failed { .. }));
    }

    async fn a_lease_that_just_ended_is_left_to_its_grace(db: Db) {
        let store = open(&db).await;
        hold(&store, "k", Terms::default()).await;
        // It has a minute; so it would end within the grace of nobody but the future.
        assert_eq!(store.reset_dead_keys(Duration::ZERO).await.expect("swept"), ResetKeys::default());
        end_leases(&db);
        let ages = Duration::from_secs(200 * 366 * 86_400);
        assert_eq!(store.reset_dead_keys(ages).await.expect("swept"), ResetKeys::default());
        assert_eq!(store.reset_dead_keys(Duration::ZERO).await.expect("swept"), ResetKeys { pending: 1, failed: 0 });
    }

    async fn a_handler_that_was_swept_cannot_write_any_more(db: Db) {
        let store = open(&db).await;
        let swept = store.once(key("k"), &(), Terms::default(), async |_| {
            end_leases(&db);
            assert_eq!(store.reset_dead_keys(MINUTE).await.expect("swept").pending, 1);
            Ok(1)
        });
        let answer = swept.await.expect("an answer");
        assert!(matches!(answer, Once::Lost { .. }), "{answer:?}");
        assert_eq!(states(&db), pairs(&[("once:k", "pending")]));
    }

    async fn many_dead_keys_are_given_back_in_one_sweep(db: Db) {
        let store = open(&db).await;
        for n in 0..450 {
            hold(&store, &format!("{n}"), Terms::default()).await;
        }
        end_leases(&db);
        assert_eq!(store.reset_dead_keys(MINUTE).await.expect("swept"), ResetKeys { pending: 450, failed: 0 });
    }

    async fn only_ended_keys_of_callers_are_forgotten(db: Db) {
        let store = open(&db).await;
        import_key(&db, "done");
        let ended = store.once(key("done"), &(), Terms::default(), async |_| Ok(1));
        assert_eq!(ended.await.expect("an answer"), done(1, false));
        let ended = store.once(key("failed"), &(), Terms::default(), async |_| Err::<(), _>(HandlerError::permanent("no")));
        assert!(matches!(ended.await.expect("an answer"), Once::Failed { .. }));
        let waiting = store.once(key("pending"), &(), Terms::default(), async |_| Err::<(), _>(HandlerError::transient("no")));
        assert!(matches!(waiting.await.expect("an answer"), Once::Pending { .. }));
        hold(&store, "running", Terms::default()).await;
        assert_eq!(store.forget_keys(MINUTE).await.expect("forgotten"), 0, "they are too young");
        let past = if db.engine == Engine::Sqlite { "1" } else { "to_timestamp(1)" };
        // Whatever stands in their columns: what runs or waits has not ended.
        db.execute(&format!("UPDATE job_runs SET completed_at = {past}, created_at = {past}"));
        assert_eq!(store.forget_keys(MINUTE).await.expect("forgotten"), 2);
        assert_eq!(states(&db), pairs(&[("0a.1/0of1/0-9", "done"), ("once:pending", "pending"), ("once:running", "running")]));
        let anew = store.once(key("done"), &"another request", Terms::default(), async |_| Ok(2));
        assert_eq!(anew.await.expect("an answer"), done(2, false), "a forgotten key is a new one");
    }

    async fn many_old_keys_are_forgotten_in_small_batches(db: Db) {
        let store = open(&db).await;
        let numbers = if db.engine == Engine::Sqlite {
            "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1200)
             INSERT INTO job_runs (key, status, created_at, completed_at) SELECT 'once:' || n, 'done', 1, 1 FROM s"
        } else {
            "INSERT INTO job_runs (key, status, created_at, completed_at)
             SELECT 'once:' || n, 'done', to_timestamp(1), to_timestamp(1) FROM generate_series(1, 1200) n"
        };
        db.execute(numbers);
        assert_eq!(store.forget_keys(MINUTE).await.expect("forgotten"), 1_200);
        assert!(states(&db).is_empty());
    }
}
