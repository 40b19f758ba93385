//! `once_in`: a handler inside the store's own transaction, exactly once.
//!
//! Owns that transaction: key, what the handler writes, result. It does not know what the handler writes.
//! Invariant: the key is done if and only if everything the handler wrote has been committed with it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::backoff::{CONNECTION, PART};
use crate::clock::Stopwatch;
use crate::crash;
use crate::once::{Attempt, HandlerError, Once, OnceKey, RETRY_MIN, RequestHash, Seen, Severity, Terms, Told};
use crate::store::key_rows::{HeldKey, KeyAsk, KeyClaim, KeyRows};
use crate::store::once::keepable;
use crate::store::once_key::{ANSWER_PATIENCE, OnceError, durability, durably};
use crate::store::{CLOSE_PATIENCE, Pool, Store, StoreError, postgres, sqlite};

/// The connection of a handler's transaction, on either engine.
#[derive(Debug)]
pub enum Inside<'c> {
    /// SQLite, in `BEGIN IMMEDIATE`.
    Sqlite(&'c mut SqliteConnection),
    /// PostgreSQL, `READ COMMITTED`. Only the schema `enlist` is on the search path: name others.
    Postgres(&'c mut PgConnection),
}

/// How one try ended.
enum Try<T> {
    /// Everything is committed.
    Committed(T),
    /// The key is not to be had; nothing ran.
    Refused(Told, Option<Seen>),
    /// The handler failed; its transaction is rolled back.
    Failed(HeldKey, HandlerError),
    /// Nobody knows whether the COMMIT was heard.
    Unknown(StoreError),
}

/// Expands one try for one engine.
macro_rules! try_inside {
    ($store:expr, $db:expr, $begin:expr, $inside:path, $ask:expr, $handler:expr) => {{
        let ask: &KeyAsk = $ask;
        let mut connection = $db.acquire().await?;
        let pragmas = durability(&$store.pool);
        if let Some((full, _)) = pragmas {
            sqlx::raw_sql(full).execute(&mut *connection).await?;
        }
        let outcome = async {
            let mut tx = connection.begin_with($begin).await?;
            let now = tx.clock().await?;
            let held = match tx.claim(ask, now).await {
                Ok(KeyClaim::Held(held)) => held,
                Ok(KeyClaim::Refused(told, seen)) => {
                    // The claim may have found that no attempts are left, and written that down.
                    tx.commit().await?;
                    return Ok(Try::Refused(told, seen));
                }
                // Only the key's own row can be in the way: another transaction has it.
                Err(StoreError::Retry(_)) => return Ok(Try::Refused(Told::Running(RETRY_MIN), None)),
                Err(error) => return Err(error),
            };
            let handled =
                tokio::time::timeout(ask.terms.lease, $handler.clone()($inside(&mut tx), held.attempt.clone())).await;
            let kept = match handled {
                Ok(outcome) => outcome.and_then(|value| keepable(&value)),
                Err(_) => Err(HandlerError::transient(format!(
                    "the handler was inside its transaction for longer than {:?}",
                    ask.terms.lease
                ))),
            };
            let (json, value): (Value, T) = match kept {
                Ok(kept) => kept,
                Err(error) => {
                    // A statement in hand may not end soon; dropping the transaction rolls back as well.
                    let _ = tokio::time::timeout(CLOSE_PATIENCE, tx.rollback()).await;
                    return Ok(Try::Failed(held, error));
                }
            };
            let now = tx.clock().await?;
            tx.finish(&held, &json, now).await?;
            crash::point("once::before_commit");
            Ok(match tx.commit().await.map_err(StoreError::from) {
                Ok(()) => {
                    crash::point("once::after_commit");
                    Try::Committed(value)
                }
                Err(error @ (StoreError::Gone(_) | StoreError::Silent)) => Try::Unknown(error),
                Err(error) => return Err(error),
            })
        }
        .await;
        if let Some((_, normal)) = pragmas {
            // Left at FULL it would only be slower.
            let _ = sqlx::raw_sql(normal).execute(&mut *connection).await;
        }
        outcome
    }};
}

impl Store {
    /// Runs `handler` in one transaction with its key, unless the work named `key` is done already.
    ///
    /// **What is guaranteed: exactly once, for what goes through the connection that the handler is given.**
    /// The key, everything that the handler wrote, and its result are committed together or not at all,
    /// wherever the process dies. Effects elsewhere are not undone by a rollback: those belong into
    /// [`Store::once`], or into an outbox row that is written here.
    ///
    /// Answers are those of `once`, but a call at the same time waits for the transaction that has the key (a
    /// few seconds on PostgreSQL, then `Running`). An attempt that died leaves nothing, so it is not charged. A
    /// deadlock, a serialisation failure and a busy file run the handler again with jitter for as long as
    /// the lease lasts, which is why it may be called more than once (rule 17); `?` on errors of the driver
    /// classes them. Each try has a clone of the handler; one that is to be spawned captures with `async move`.
    ///
    /// Limits: the handler must not end the transaction itself, nor use the store: on SQLite it would wait for
    /// its own connection. One that takes longer than the lease is dropped and rolled back. PostgreSQL
    /// ends a transaction that is idle for 8 s, and SQLite lets nobody else write meanwhile: wait for no
    /// network in here.
    ///
    /// ```
    /// use enlist::once::{Once, OnceKey, Terms};
    /// use enlist::store::{Access, Inside, Options, Store, Target, sqlx};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("enlist.db");
    /// let target = Target::parse(&format!("sqlite:{}", file.display()))?;
    /// let store = Store::open(&target, Access::Create, &Options::default()).await?;
    ///
    /// let add = "INSERT INTO points (customer, points) VALUES ($1, $2) \
    ///            ON CONFLICT (customer) DO UPDATE SET points = points.points + excluded.points RETURNING points";
    /// # store.once_in(&OnceKey::parse("table")?, &(), Terms::default(), async |inside, _| {
    /// #     let Inside::Sqlite(c) = inside else { unreachable!() };
    /// #     sqlx::query("CREATE TABLE points (customer TEXT PRIMARY KEY, points INTEGER NOT NULL)").execute(c).await?;
    /// #     Ok(())
    /// # }).await?;
    /// let key = OnceKey::parse("points for order 1042")?;
    /// for replayed in [false, true] {
    ///     let answer = store.once_in(&key, &("ayse", 10), Terms::default(), async |inside, _attempt| {
    ///         let points: i64 = match inside {
    ///             Inside::Sqlite(c) => sqlx::query_scalar(add).bind("ayse").bind(10_i64).fetch_one(c).await?,
    ///             Inside::Postgres(c) => sqlx::query_scalar(add).bind("ayse").bind(10_i64).fetch_one(c).await?,
    ///         };
    ///         Ok(points)
    ///     });
    ///     assert_eq!(answer.await?, Once::Done { value: 10, replayed });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn once_in<T, H>(
        &self,
        key: &OnceKey,
        request: &(impl Serialize + ?Sized),
        terms: Terms,
        handler: H,
    ) -> Result<Once<T>, OnceError>
    where
        T: Serialize + DeserializeOwned,
        H: AsyncFnOnce(Inside<'_>, Attempt) -> Result<T, HandlerError> + Clone,
    {
        let ask = KeyAsk::new(key, &RequestHash::of(request).map_err(OnceError::Request)?, terms);
        let begun = Stopwatch::start();
        let mut failures = 0;
        loop {
            let again = begun.worked() < ask.terms.lease;
            failures += 1;
            let delay = match self.try_inside(&ask, &handler).await {
                Ok(Try::Committed(value)) => return Ok(Once::Done { value, replayed: false }),
                Ok(Try::Refused(told, seen)) => return ask.answer(told, seen),
                Ok(Try::Failed(_, error)) if error.severity() == Severity::Conflict && again => PART,
                Ok(Try::Failed(held, error)) => return self.fail_anew(&held, &error).await,
                Err(StoreError::Retry(_) | StoreError::Busy(_)) if again => PART,
                // The next claim finds the result, waits for the commit, or runs the handler again.
                Ok(Try::Unknown(_)) if again => CONNECTION,
                Ok(Try::Unknown(error)) | Err(error) => return Err(error.into()),
            };
            tokio::time::sleep(delay.delay(failures, fastrand::f64())).await;
        }
    }

    async fn try_inside<T, H>(&self, ask: &KeyAsk, handler: &H) -> Result<Try<T>, StoreError>
    where
        T: Serialize + DeserializeOwned,
        H: AsyncFnOnce(Inside<'_>, Attempt) -> Result<T, HandlerError> + Clone,
    {
        match &self.pool {
            Pool::Sqlite(db) => try_inside!(self, db, sqlite::BEGIN, Inside::Sqlite, ask, handler),
            Pool::Postgres(db) => {
                // No timeout of the server helps where it cannot be reached.
                let patience = ask.terms.lease.saturating_add(ANSWER_PATIENCE);
                let outcome = async { try_inside!(self, db, postgres::BEGIN, Inside::Postgres, ask, handler) };
                tokio::time::timeout(patience, outcome).await.unwrap_or(Ok(Try::Unknown(StoreError::Silent)))
            }
        }
    }

    /// Keeps the error of a handler whose transaction was rolled back, and answers.
    async fn fail_anew<T: DeserializeOwned>(&self, held: &HeldKey, error: &HandlerError) -> Result<Once<T>, OnceError> {
        let begun = Stopwatch::start();
        let mut failures = 0;
        loop {
            let stored =
                self.key_answer(async { durably!(&self.pool, |tx, now| tx.fail_anew(held, error, now).await?) });
            match stored.await {
                Ok(()) => return Ok(held.failed(error)),
                Err(StoreError::LeaseLost) => return self.overtaken(held).await,
                Err(error) if error.is_reconnectable() && begun.worked() < held.ask.terms.lease => {
                    failures += 1;
                    tokio::time::sleep(PART.delay(failures, fastrand::f64())).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
