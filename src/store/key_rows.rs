//! The rows of `job_runs` that belong to callers of `once`: claim, look, renew, finish, fail.
//!
//! Owns the statements on one key; they run on one connection inside a transaction of somebody else's. It
//! does not know handlers or heartbeats. Invariant: a row that is held changes only under its fence *and* its
//! owner, or after its lease has ended by the database's clock; `attempts` counts those that failed or died.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, SqliteConnection};

use crate::clock::Timestamp;
use crate::job::Fence;
use crate::once::{
    Attempt, HandlerError, KeyState, OnceKey, RETRY_MIN, RequestHash, Seen, Terms, Told, Why, after_failure, tell,
};
use crate::store::{StoreError, postgres, sqlite};

/// A key that wants to be claimed.
#[derive(Debug, Clone)]
pub(crate) struct KeyAsk {
    pub(crate) key: OnceKey,
    pub(crate) hash: RequestHash,
    /// New for every call.
    pub(crate) owner: String,
    pub(crate) terms: Terms,
}

/// A key in hand.
#[derive(Debug, Clone)]
pub struct HeldKey {
    /// What the handler is given.
    pub attempt: Attempt,
    pub(crate) ask: KeyAsk,
}

/// What a claim found.
#[derive(Debug, Clone)]
pub enum KeyClaim {
    /// The key is held by the caller now.
    Held(HeldKey),
    /// It is not to be had: what to tell, and the row. Never `Told::Free`.
    Refused(Told, Option<Seen>),
}

/// What `result` holds as long as there is no result.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// For the sweeper, which knows no terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Why it does not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<Why>,
}

impl Notes {
    /// A failure whose last attempt said nothing.
    pub(crate) fn died() -> Self {
        let error = "the last attempt died, or could not renew its lease".to_owned();
        Self { error: Some(error), why: Some(Why::Exhausted), max_attempts: None }
    }

    pub(crate) fn of(seen: &Seen) -> Self {
        serde_json::from_value(seen.result.clone()).unwrap_or_default()
    }
}

/// New, given back, or held under a lease that has ended: one statement, so that one of many wins. $7 is
/// `max_attempts`, $8 the notes of a key that has none left.
///
/// A row that conflicts stays locked until the transaction ends, claimed or not: what `LOOK` then reads is
/// what the claim met.
const CLAIM: &str = "INSERT INTO job_runs AS r
      (key, status, result, attempts, created_at, request_hash, owner, fence, lease_until)
    VALUES ($1, 'running', $2, 0, $3, $4, $5, 1, $6)
    ON CONFLICT (key) DO UPDATE
    SET status = CASE WHEN r.attempts + CASE r.status WHEN 'running' THEN 1 ELSE 0 END >= $7
                      THEN 'failed' ELSE 'running' END,
        result = CASE WHEN r.attempts + CASE r.status WHEN 'running' THEN 1 ELSE 0 END >= $7
                      THEN $8 ELSE excluded.result END,
        completed_at = CASE WHEN r.attempts + CASE r.status WHEN 'running' THEN 1 ELSE 0 END >= $7
                            THEN excluded.created_at END,
        lease_until = CASE WHEN r.attempts + CASE r.status WHEN 'running' THEN 1 ELSE 0 END >= $7
                           THEN NULL ELSE excluded.lease_until END,
        attempts = r.attempts + CASE r.status WHEN 'running' THEN 1 ELSE 0 END,
        owner = excluded.owner,
        fence = r.fence + 1
    WHERE r.request_hash = excluded.request_hash
      AND (r.status = 'pending' OR (r.status = 'running' AND r.lease_until < excluded.created_at))
    RETURNING status, fence, attempts";

const LOOK: &str = "SELECT status, request_hash, result, owner, attempts, lease_until FROM job_runs WHERE key = $1";

const RENEW: &str = "UPDATE job_runs SET lease_until = $4
    WHERE key = $1 AND status = 'running' AND fence = $2 AND owner = $3";

/// Fence and owner stay: whoever missed the answer to its COMMIT can see that it was it.
const FINISH: &str = "UPDATE job_runs SET status = 'done', result = $4, completed_at = $5, lease_until = NULL
    WHERE key = $1 AND status = 'running' AND fence = $2 AND owner = $3";

const FAIL: &str = "UPDATE job_runs
    SET status = $4, result = $5, completed_at = $6, lease_until = NULL, attempts = attempts + 1
    WHERE key = $1 AND status = 'running' AND fence = $2 AND owner = $3";

/// The failure of an attempt whose claim was rolled back with everything else: $8 is the fence that it had,
/// $9 its number. Where the key has changed since, nothing is written.
const FAIL_ANEW: &str = "INSERT INTO job_runs AS r
      (key, status, result, attempts, created_at, completed_at, request_hash, owner, fence)
    VALUES ($1, $2, $3, $9, $4, $5, $6, $7, $8)
    ON CONFLICT (key) DO UPDATE
    SET status = excluded.status, result = excluded.result, attempts = excluded.attempts,
        completed_at = excluded.completed_at, owner = excluded.owner, fence = excluded.fence, lease_until = NULL
    WHERE r.request_hash = excluded.request_hash AND r.fence = $8 - 1
      AND (r.status = 'pending' OR (r.status = 'running' AND r.lease_until < excluded.created_at))";

#[derive(FromRow)]
struct Row {
    status: String,
    request_hash: Option<String>,
    result: Option<Json<Value>>,
    owner: Option<String>,
    attempts: i64,
    lease_until: Option<Timestamp>,
}

impl Row {
    fn seen(self, now: Timestamp) -> Result<Seen, StoreError> {
        let impossible = || StoreError::Corrupt(format!("a run key has the impossible status '{}'", self.status));
        Ok(Seen {
            state: KeyState::from_word(&self.status).ok_or_else(impossible)?,
            request_hash: self.request_hash.unwrap_or_default(),
            result: self.result.map_or(Value::Null, |result| result.0),
            owner: self.owner,
            attempts: narrow(self.attempts),
            left: self.lease_until.filter(|until| *until >= now).map(|until| until.since(now)),
        })
    }
}

fn narrow(attempts: i64) -> u32 {
    u32::try_from(attempts).unwrap_or(u32::MAX)
}

/// One connection, in a transaction that writes. `now` is the database's clock, read in that transaction:
/// waiting for a lock afterwards only makes a claim more careful and a lease end sooner.
pub(crate) trait KeyRows {
    /// The database's clock.
    async fn clock(&mut self) -> Result<Timestamp, StoreError>;
    /// Claims a key, or says why not.
    async fn claim(&mut self, ask: &KeyAsk, now: Timestamp) -> Result<KeyClaim, StoreError>;
    /// Reads a key.
    async fn look(&mut self, key: &OnceKey, now: Timestamp) -> Result<Option<Seen>, StoreError>;
    /// Renews the lease. `LeaseLost`: it is not held any more.
    async fn renew(&mut self, held: &HeldKey, now: Timestamp) -> Result<(), StoreError>;
    /// Keeps the handler's result. `LeaseLost`: nothing was written.
    async fn finish(&mut self, held: &HeldKey, result: &Value, now: Timestamp) -> Result<(), StoreError>;
    /// Keeps the handler's error. `LeaseLost`: nothing was written.
    async fn fail(&mut self, held: &HeldKey, error: &HandlerError, now: Timestamp) -> Result<(), StoreError>;
    /// Keeps the error of a handler whose transaction was rolled back. `LeaseLost`: nothing was written.
    async fn fail_anew(&mut self, held: &HeldKey, error: &HandlerError, now: Timestamp) -> Result<(), StoreError>;
}

/// One body for both engines.
macro_rules! key_rows {
    ($connection:ty, $now:expr) => {
        impl KeyRows for $connection {
            async fn clock(&mut self) -> Result<Timestamp, StoreError> {
                Ok(sqlx::query_scalar($now).fetch_one(&mut *self).await?)
            }

            async fn claim(&mut self, ask: &KeyAsk, now: Timestamp) -> Result<KeyClaim, StoreError> {
                let notes = Notes { max_attempts: Some(ask.terms.max_attempts), ..Notes::default() };
                let claimed: Vec<(String, i64, i64)> = sqlx::query_as(CLAIM)
                    .bind(ask.key.stored())
                    .bind(Json(&notes))
                    .bind(now)
                    .bind(ask.hash.as_str())
                    .bind(&ask.owner)
                    .bind(now.plus(ask.terms.lease))
                    .bind(i64::from(ask.terms.max_attempts))
                    .bind(Json(Notes::died()))
                    .fetch_all(&mut *self)
                    .await?;
                if let Some((status, fence, attempts)) = claimed.first()
                    && status == KeyState::Running.as_str()
                {
                    let number = narrow(*attempts).saturating_add(1);
                    let attempt = Attempt { key: ask.key.clone(), fence: Fence(*fence), number };
                    return Ok(KeyClaim::Held(HeldKey { attempt, ask: ask.clone() }));
                }
                let seen = self.look(&ask.key, now).await?;
                let told = match tell(seen.as_ref(), &ask.hash) {
                    // Its row is locked, so this cannot be; whoever asks again loses nothing.
                    Told::Free => Told::Running(RETRY_MIN),
                    told => told,
                };
                Ok(KeyClaim::Refused(told, seen))
            }

            async fn look(&mut self, key: &OnceKey, now: Timestamp) -> Result<Option<Seen>, StoreError> {
                let row: Option<Row> = sqlx::query_as(LOOK).bind(key.stored()).fetch_optional(&mut *self).await?;
                row.map(|row| row.seen(now)).transpose()
            }

            async fn renew(&mut self, held: &HeldKey, now: Timestamp) -> Result<(), StoreError> {
                let renewed = sqlx::query(RENEW)
                    .bind(held.attempt.key.stored())
                    .bind(held.attempt.fence.0)
                    .bind(&held.ask.owner)
                    .bind(now.plus(held.ask.terms.lease))
                    .execute(&mut *self)
                    .await?;
                still_held(renewed.rows_affected())
            }

            async fn finish(&mut self, held: &HeldKey, result: &Value, now: Timestamp) -> Result<(), StoreError> {
                let finished = sqlx::query(FINISH)
                    .bind(held.attempt.key.stored())
                    .bind(held.attempt.fence.0)
                    .bind(&held.ask.owner)
                    .bind(Json(result))
                    .bind(now)
                    .execute(&mut *self)
                    .await?;
                still_held(finished.rows_affected())
            }

            async fn fail(&mut self, held: &HeldKey, error: &HandlerError, now: Timestamp) -> Result<(), StoreError> {
                let (state, notes) = held.failure(error);
                let failed = sqlx::query(FAIL)
                    .bind(held.attempt.key.stored())
                    .bind(held.attempt.fence.0)
                    .bind(&held.ask.owner)
                    .bind(state.as_str())
                    .bind(Json(&notes))
                    .bind(ended(state, now))
                    .execute(&mut *self)
                    .await?;
                still_held(failed.rows_affected())
            }

            async fn fail_anew(
                &mut self,
                held: &HeldKey,
                error: &HandlerError,
                now: Timestamp,
            ) -> Result<(), StoreError> {
                let (state, notes) = held.failure(error);
                let failed = sqlx::query(FAIL_ANEW)
                    .bind(held.attempt.key.stored())
                    .bind(state.as_str())
                    .bind(Json(&notes))
                    .bind(now)
                    .bind(ended(state, now))
                    .bind(held.ask.hash.as_str())
                    .bind(&held.ask.owner)
                    .bind(held.attempt.fence.0)
                    .bind(i64::from(held.attempt.number))
                    .execute(&mut *self)
                    .await?;
                still_held(failed.rows_affected())
            }
        }
    };
}

key_rows!(SqliteConnection, sqlite::NOW);
key_rows!(PgConnection, postgres::NOW);

fn still_held(rows: u64) -> Result<(), StoreError> {
    if rows == 1 { Ok(()) } else { Err(StoreError::LeaseLost) }
}

/// When a key ended, if that state is final.
fn ended(state: KeyState, now: Timestamp) -> Option<Timestamp> {
    (state == KeyState::Failed).then_some(now)
}

impl HeldKey {
    /// Where the key goes after `error`, and what is noted.
    pub(crate) fn failure(&self, error: &HandlerError) -> (KeyState, Notes) {
        let max_attempts = self.ask.terms.max_attempts;
        let (state, why) = after_failure(error.severity(), self.attempt.number, max_attempts);
        let kept = (state == KeyState::Pending).then_some(max_attempts);
        (state, Notes { max_attempts: kept, error: Some(error.to_string()), why })
    }
}
