//! Giving back the keys of dead handlers, and forgetting old ones.
//!
//! Owns the statements over many keys of `once`. It does not know when they run: a sweeper and retention call
//! them, from any number of processes at once. Invariant: each statement repeats its condition on the row it
//! changes; run keys of imports, which lie outside the prefix, are never touched.

use std::time::Duration;

use sqlx::types::Json;

use crate::once::{BEHIND_PREFIX, KeyState, PREFIX};
use crate::store::key_rows::{KeyRows, Notes};
use crate::store::{Pool, Store, StoreError, on};

/// Keys that one statement gives back: the rows are locked for as long.
const RESET_MAX: i64 = 200;

/// Keys that one statement forgets.
const FORGET_MAX: i64 = 500;

/// How many keys were given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResetKeys {
    /// The next call runs their handler again.
    pub pending: u64,
    /// They had no attempts left.
    pub failed: u64,
}

/// Differs: PostgreSQL skips rows that somebody is just finishing. $1 and $2 are the prefix, $3 the moment
/// before which the lease must have ended, $4 the notes of a failure, $5 now, $6 how many.
macro_rules! reset {
    ($lock:literal) => {
        concat!(
            "WITH dead AS MATERIALIZED (
               SELECT key FROM job_runs
               WHERE status = 'running' AND key >= $1 AND key < $2 AND job_id IS NULL AND lease_until < $3
               ORDER BY key LIMIT $6 ",
            $lock,
            ")
             UPDATE job_runs AS r
             SET status = CASE WHEN r.attempts + 1 >= CAST(r.result ->> 'max_attempts' AS BIGINT)
                               THEN 'failed' ELSE 'pending' END,
                 result = CASE WHEN r.attempts + 1 >= CAST(r.result ->> 'max_attempts' AS BIGINT)
                               THEN $4 ELSE r.result END,
                 completed_at = CASE WHEN r.attempts + 1 >= CAST(r.result ->> 'max_attempts' AS BIGINT)
                                     THEN $5 END,
                 attempts = r.attempts + 1, fence = r.fence + 1, owner = NULL, lease_until = NULL
             WHERE r.key IN (SELECT key FROM dead) AND r.status = 'running' AND r.job_id IS NULL AND r.lease_until < $3
             RETURNING status"
        )
    };
}

const RESET_SQLITE: &str = reset!("");
const RESET_POSTGRES: &str = reset!("FOR UPDATE SKIP LOCKED");

/// Differs as above. $3 is the moment before which the key must have ended.
macro_rules! forget {
    ($lock:literal) => {
        concat!(
            "WITH old AS MATERIALIZED (
               SELECT key FROM job_runs
               WHERE job_id IS NULL AND completed_at < $3 AND key >= $1 AND key < $2 AND status IN ('done', 'failed')
               ORDER BY completed_at LIMIT $4 ",
            $lock,
            ")
             DELETE FROM job_runs
             WHERE key IN (SELECT key FROM old) AND status IN ('done', 'failed') AND completed_at < $3"
        )
    };
}

const FORGET_SQLITE: &str = forget!("");
const FORGET_POSTGRES: &str = forget!("FOR UPDATE SKIP LOCKED");

impl Store {
    /// Gives back every key whose lease ended more than `grace` ago, by the database's clock: one attempt more
    /// is charged, and the holder, should it still live, has lost the key. `grace` covers a commit that is
    /// on its way; a few seconds do.
    ///
    /// Not needed for progress: a call takes over such a key by itself. It shows dead handlers as what they are,
    /// and lets a key that nobody calls again end. After an outage of the database every lease may have ended
    /// at once: let holders renew for a heartbeat's time before sweeping.
    pub async fn reset_dead_keys(&self, grace: Duration) -> Result<ResetKeys, StoreError> {
        let reset = match &self.pool {
            Pool::Sqlite(_) => RESET_SQLITE,
            Pool::Postgres(_) => RESET_POSTGRES,
        };
        let mut all = ResetKeys::default();
        loop {
            let swept = async {
                on!(&self.pool, |db, begin| {
                    let mut tx = db.begin_with(begin).await?;
                    let now = tx.clock().await?;
                    let states = sqlx::query_scalar(reset)
                        .bind(PREFIX)
                        .bind(BEHIND_PREFIX)
                        .bind(now.minus(grace))
                        .bind(Json(Notes::died()))
                        .bind(now)
                        .bind(RESET_MAX)
                        .fetch_all(&mut *tx)
                        .await?;
                    tx.commit().await?;
                    Ok(states)
                })
            };
            let states: Vec<String> = self.key_answer(swept).await?;
            for state in &states {
                match KeyState::from_word(state) {
                    Some(KeyState::Failed) => all.failed += 1,
                    _ => all.pending += 1,
                }
            }
            if i64::try_from(states.len()).unwrap_or(0) < RESET_MAX {
                return Ok(all);
            }
        }
    }

    /// Forgets keys that were done or failed more than `age` ago; how many. A forgotten key is a new one:
    /// `age` must be longer than anybody repeats a call. Keys that run or wait are never touched.
    ///
    /// A crash in the middle leaves the rest for the next time: each few hundred keys are a transaction.
    pub async fn forget_keys(&self, age: Duration) -> Result<u64, StoreError> {
        let forget = match &self.pool {
            Pool::Sqlite(_) => FORGET_SQLITE,
            Pool::Postgres(_) => FORGET_POSTGRES,
        };
        let mut all = 0;
        loop {
            let swept = async {
                on!(&self.pool, |db, begin| {
                    let mut tx = db.begin_with(begin).await?;
                    let now = tx.clock().await?;
                    let forgotten = sqlx::query(forget)
                        .bind(PREFIX)
                        .bind(BEHIND_PREFIX)
                        .bind(now.minus(age))
                        .bind(FORGET_MAX)
                        .execute(&mut *tx)
                        .await?;
                    tx.commit().await?;
                    Ok(forgotten.rows_affected())
                })
            };
            let forgotten = self.key_answer(swept).await?;
            all += forgotten;
            if forgotten < FORGET_MAX.unsigned_abs() {
                return Ok(all);
            }
            // Others wait for the one connection of SQLite.
            tokio::task::yield_now().await;
        }
    }
}
