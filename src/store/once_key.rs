//! A key in hand, step by step: claim, renew, finish, fail. `once` is made of these.
//!
//! Owns their transactions, and what a call is told about a key that it does not hold. It does not know when
//! a heartbeat is due. Invariant: what is answered as done or failed has been committed durably (rule 15).

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::Connection;

use crate::backoff::JOB;
use crate::once::{HandlerError, KeyState, Once, OnceKey, RETRY_MIN, RequestHash, Seen, Severity, Terms, Told, tell};
use crate::owner::{Owner, Process};
use crate::store::key_rows::{HeldKey, KeyAsk, KeyClaim, KeyRows, Notes};
use crate::store::{Pool, Store, StoreError, on};

/// How long an exchange with a server may take before its line counts as dead.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// Why `once` has no answer. Whether the handler ran is then told by the next call.
#[derive(Debug)]
pub enum OnceError {
    /// The request is no JSON; nothing was claimed.
    Request(serde_json::Error),
    /// The stored result is not of the type that is asked for.
    Result(serde_json::Error),
    /// The database.
    Store(StoreError),
}

impl From<StoreError> for OnceError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for OnceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request(error) => write!(f, "the request cannot be written as JSON: {error}"),
            Self::Result(error) => write!(f, "the stored result is not of the type that is asked for: {error}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OnceError {}

/// A handler's own database errors: what may go away by itself is transient.
impl From<StoreError> for HandlerError {
    fn from(error: StoreError) -> Self {
        let severity = match &error {
            StoreError::Retry(_) | StoreError::Busy(_) => Severity::Conflict,
            StoreError::Gone(_) | StoreError::Silent | StoreError::DiskFull(_) | StoreError::ReadOnly(_) => {
                Severity::Transient
            }
            _ => Severity::Permanent,
        };
        Self::new(severity, error)
    }
}

impl From<sqlx::Error> for HandlerError {
    fn from(error: sqlx::Error) -> Self {
        StoreError::from(error).into()
    }
}

/// Runs `$body` in a transaction that is durable once it has committed, also where SQLite is otherwise at its
/// ease: `durably!(pool, |tx, now| …)`. An error in the body rolls back.
macro_rules! durably {
    ($pool:expr, |$tx:ident, $now:ident| $body:expr) => {
        $crate::store::on!($pool, |db, begin| {
            let mut connection = db.acquire().await?;
            let pragmas = $crate::store::once_key::durability($pool);
            if let Some((full, _)) = pragmas {
                sqlx::raw_sql(full).execute(&mut *connection).await?;
            }
            let outcome = async {
                let mut $tx = connection.begin_with(begin).await?;
                let $now = $crate::store::key_rows::KeyRows::clock(&mut *$tx).await?;
                let value = $body;
                $tx.commit().await?;
                Ok::<_, $crate::store::StoreError>(value)
            }
            .await;
            if let Some((_, normal)) = pragmas {
                // Left at FULL it would only be slower.
                let _ = sqlx::raw_sql(normal).execute(&mut *connection).await;
            }
            outcome
        })
    };
}
pub(crate) use durably;

/// What makes a commit durable on this engine, and what it was before. PostgreSQL's commits are.
pub(crate) fn durability(pool: &Pool) -> Option<(&'static str, &'static str)> {
    match pool {
        Pool::Sqlite(_) => Some(("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")),
        Pool::Postgres(_) => None,
    }
}

impl Store {
    /// Claims a key that is new, given back, or whose lease has ended. Whoever holds it renews the lease and
    /// ends with `finish_key` or `fail_key`; [`Store::once`] does all of that.
    ///
    /// After a crash the key is held until its lease ends. `Retry`: a transaction holds the key just now.
    pub async fn claim_key(&self, key: &OnceKey, hash: &RequestHash, terms: Terms) -> Result<KeyClaim, StoreError> {
        self.claim_as(&KeyAsk::new(key, hash, terms)).await
    }

    pub(crate) async fn claim_as(&self, ask: &KeyAsk) -> Result<KeyClaim, StoreError> {
        self.key_answer(async {
            on!(&self.pool, |db, begin| {
                let mut tx = db.begin_with(begin).await?;
                let now = tx.clock().await?;
                let claim = tx.claim(ask, now).await?;
                tx.commit().await?;
                Ok(claim)
            })
        })
        .await
    }

    /// Renews the lease of a key in hand. `LeaseLost`: somebody else has it; write nothing more. Any other
    /// error means that it is unknown: go on until the lease, counted from before the last renewal, is over.
    pub async fn renew_key(&self, held: &HeldKey) -> Result<(), StoreError> {
        renew_on(&self.pool, held).await
    }

    /// Keeps a result: the key is done. `LeaseLost`: nothing was written.
    ///
    /// After `Gone` or `Silent` it is unknown whether it was committed: `see_key` tells.
    pub async fn finish_key(&self, held: &HeldKey, result: &Value) -> Result<(), StoreError> {
        self.key_answer(async { durably!(&self.pool, |tx, now| tx.finish(held, result, now).await?) }).await
    }

    /// Keeps an error: the key is `pending`, or `failed` for a permanent error or the last attempt.
    /// `LeaseLost`: nothing was written.
    pub async fn fail_key(&self, held: &HeldKey, error: &HandlerError) -> Result<(), StoreError> {
        self.key_answer(async { durably!(&self.pool, |tx, now| tx.fail(held, error, now).await?) }).await
    }

    /// Reads a key; `None` when it was never used, or was forgotten.
    pub async fn see_key(&self, key: &OnceKey) -> Result<Option<Seen>, StoreError> {
        self.key_answer(async {
            on!(&self.pool, |db| {
                let mut connection = db.acquire().await?;
                let now = connection.clock().await?;
                Ok(connection.look(key, now).await?)
            })
        })
        .await
    }

    /// Bounds an exchange with a server: `Silent` when it took longer. A file has no line that could die.
    pub(crate) async fn key_answer<T>(
        &self,
        exchange: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match &self.pool {
            Pool::Sqlite(_) => exchange.await,
            Pool::Postgres(_) => {
                tokio::time::timeout(ANSWER_PATIENCE, exchange).await.unwrap_or(Err(StoreError::Silent))
            }
        }
    }
}

/// Renews a lease over the connections of `pool`.
pub(crate) async fn renew_on(pool: &Pool, held: &HeldKey) -> Result<(), StoreError> {
    on!(pool, |db, begin| {
        let mut tx = db.begin_with(begin).await?;
        let now = tx.clock().await?;
        tx.renew(held, now).await?;
        tx.commit().await?;
        Ok(())
    })
}

impl KeyAsk {
    /// A call of its own.
    pub(crate) fn new(key: &OnceKey, hash: &RequestHash, terms: Terms) -> Self {
        Self { key: key.clone(), hash: hash.clone(), owner: new_owner().to_text(), terms: terms.bounded() }
    }

    /// What a call is told that did not get the key, or whose own answer was lost.
    pub(crate) fn answer<T: DeserializeOwned>(&self, told: Told, seen: Option<Seen>) -> Result<Once<T>, OnceError> {
        Ok(match (told, seen) {
            (Told::Done, Some(seen)) => {
                let replayed = seen.owner.as_ref() != Some(&self.owner);
                Once::Done { value: serde_json::from_value(seen.result).map_err(OnceError::Result)?, replayed }
            }
            (Told::Failed, Some(seen)) => told_of(Notes::of(&seen), seen.attempts),
            (Told::KeyReused, _) => Once::KeyReused,
            (Told::Running(retry_after), _) => Once::Running { retry_after },
            (Told::Free | Told::Done | Told::Failed, _) => Once::Running { retry_after: RETRY_MIN },
        })
    }

    /// What a call is told from which the key was taken, or which does not know what became of its last word.
    pub(crate) fn overtaken<T: DeserializeOwned>(&self, seen: Option<Seen>) -> Result<Once<T>, OnceError> {
        match (tell(seen.as_ref(), &self.hash), &seen) {
            (Told::Running(retry_after), _) => Ok(Once::Lost { retry_after }),
            (Told::Free, Some(key)) if key.state == KeyState::Pending && key.owner.as_ref() == Some(&self.owner) => {
                Ok(told_of(Notes::of(key), key.attempts))
            }
            (Told::Free, _) => Ok(Once::Lost { retry_after: RETRY_MIN }),
            (told, _) => self.answer(told, seen),
        }
    }
}

impl HeldKey {
    /// What the call is told whose handler ended with `error`, now that this is stored.
    pub(crate) fn failed<T>(&self, error: &HandlerError) -> Once<T> {
        let (_, notes) = self.failure(error);
        told_of(notes, self.attempt.number)
    }
}

/// A key that is pending after `attempts`, or failed.
fn told_of<T>(notes: Notes, attempts: u32) -> Once<T> {
    let error = notes.error.unwrap_or_default();
    match notes.why {
        Some(why) => Once::Failed { error, why },
        None => Once::Pending { error, retry_after: JOB.delay(attempts, fastrand::f64()) },
    }
}

/// A name for one call's hold on a key: never given out twice, whatever the fences say after a failover.
fn new_owner() -> Owner {
    let process = Process {
        boot: String::new(),
        namespace: String::new(),
        pid: std::process::id(),
        started: 0,
        host: String::new(),
    };
    Owner { nonce: format!("{:016x}", fastrand::u64(..)), process }
}
