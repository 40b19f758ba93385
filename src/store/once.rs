//! `once`: a handler with effects outside the database, at most one at a time and its answer kept.
//!
//! Owns the heartbeat and the order claim, work, answer. It does not know what a handler does. Invariant: the
//! handler runs only while its key is held, counted by the longer of the monotonic and the wall clock, and
//! what it gave is answered only once it is stored.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::backoff::{CONNECTION, PART};
use crate::clock::Stopwatch;
use crate::crash;
use crate::once::{Attempt, HandlerError, Once, OnceKey, RETRY_MIN, RequestHash, Terms, Told, unkeepable};
use crate::store::key_rows::{HeldKey, KeyAsk, KeyClaim};
use crate::store::once_key::{OnceError, renew_on};
use crate::store::target::Kind;
use crate::store::{CLOSE_PATIENCE, Pool, Store, StoreError, postgres};

/// Why nobody renews the lease any more.
#[derive(Debug)]
enum PulseEnd {
    /// Somebody else holds the key, or it has ended.
    Lost,
    /// The lease ended before a heartbeat was answered.
    Unrenewed(StoreError),
}

impl Store {
    /// Runs `handler` unless the work named `key` is done already, and keeps its result.
    ///
    /// The key is claimed before anything else, so of many calls at once one runs the handler; the others are
    /// told to come back. A finished call answers later ones with its stored result, as JSON, as long as
    /// `forget_keys` has not removed it. The same key with another `request` is refused.
    ///
    /// **What is guaranteed: at least once, one at a time, one answer.** A process can die after the work and
    /// before its answer is stored; when its lease has ended the next call runs the handler again, with the
    /// same key. So hand [`Attempt::key`] on as the idempotency key of whatever is called: then the effect
    /// happens once as well. For what goes into this database alone [`Store::once_in`] needs no such help.
    /// Should the key be taken over while the handler runs (its process was frozen past the lease, say), its
    /// result is thrown away and what the store says is answered.
    ///
    /// A handler may use the store meanwhile: no connection is held for it. The lease is renewed by a task of
    /// its own, so a handler that blocks its thread needs another thread in the runtime. When the lease cannot
    /// be renewed in time the handler's future is dropped. A panic and a dropped call leave the key as a crash
    /// would: held until its lease ends.
    ///
    /// ```
    /// use enlist::once::{HandlerError, Once, OnceKey, Terms};
    /// use enlist::store::{Access, Options, Store, Target};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("enlist.db");
    /// let target = Target::parse(&format!("sqlite:{}", file.display()))?;
    /// let store = Store::open(&target, Access::Create, &Options::default()).await?;
    ///
    /// let key = OnceKey::parse("charge order 1042")?;
    /// let request = ("order 1042", 4_990);
    /// let charge = || store.once(&key, &request, Terms::default(), async |attempt| {
    ///     // POST it with `attempt.key` as the header `Idempotency-Key`; a timeout is `transient`.
    ///     let receipt = format!("receipt for {}", attempt.key);
    ///     if receipt.is_empty() { Err(HandlerError::transient("no receipt")) } else { Ok(receipt) }
    /// });
    ///
    /// let first = charge().await?;
    /// assert_eq!(first, Once::Done { value: "receipt for charge order 1042".to_owned(), replayed: false });
    /// let again = charge().await?;
    /// assert_eq!(again, Once::Done { value: "receipt for charge order 1042".to_owned(), replayed: true });
    ///
    /// let other: Once<String> = store.once(&key, &("order 1042", 1), Terms::default(), async |_| unreachable!()).await?;
    /// assert_eq!(other, Once::KeyReused);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn once<T, H>(
        &self,
        key: &OnceKey,
        request: &(impl Serialize + ?Sized),
        terms: Terms,
        handler: H,
    ) -> Result<Once<T>, OnceError>
    where
        T: Serialize + DeserializeOwned,
        H: AsyncFnOnce(Attempt) -> Result<T, HandlerError>,
    {
        let ask = KeyAsk::new(key, &RequestHash::of(request).map_err(OnceError::Request)?, terms);
        let (held, claimed) = match self.claim_patiently(&ask).await? {
            (KeyClaim::Held(held), claimed) => (held, claimed),
            (KeyClaim::Refused(told, seen), _) => return ask.answer(told, seen),
        };
        let mut pulse = Aborting(tokio::spawn(beat_while_held(self.clone(), held.clone(), claimed)));
        let work = async {
            let outcome = handler(held.attempt.clone()).await;
            crash::point("once::after_work");
            self.settle(&held, outcome).await
        };
        let ended = tokio::select! {
            answer = work => return answer,
            ended = &mut pulse.0 => ended,
        };
        match ended {
            Ok(PulseEnd::Lost) => self.overtaken(&held).await,
            Ok(PulseEnd::Unrenewed(error)) => {
                let error = HandlerError::transient(format!("the lease could not be renewed: {error}"));
                match tokio::time::timeout(CLOSE_PATIENCE, self.fail_key(&held, &error)).await {
                    Ok(Ok(())) => Ok(held.failed(&error)),
                    Ok(Err(StoreError::LeaseLost)) => self.overtaken(&held).await,
                    Ok(Err(error)) => Err(error.into()),
                    Err(_) => Err(StoreError::Silent.into()),
                }
            }
            Err(error) => Err(StoreError::Corrupt(format!("the heartbeat ended early: {error}")).into()),
        }
    }

    /// Claims, waiting while another process holds an SQLite file. With the moment before the claim was sent.
    async fn claim_patiently(&self, ask: &KeyAsk) -> Result<(KeyClaim, Stopwatch), StoreError> {
        let begun = Stopwatch::start();
        let mut failures = 0;
        loop {
            let asked = Stopwatch::start();
            match self.claim_as(ask).await {
                // Only the key's own row can be in the way: `once_in` has it in a transaction.
                Err(StoreError::Retry(_)) => return Ok((KeyClaim::Refused(Told::Running(RETRY_MIN), None), asked)),
                Err(StoreError::Busy(_)) if begun.worked() < ask.terms.lease => {
                    failures += 1;
                    tokio::time::sleep(PART.delay(failures, fastrand::f64())).await;
                }
                outcome => return Ok((outcome?, asked)),
            }
        }
    }

    /// Stores what the handler gave, trying again for as long as the lease is held: whoever waits for this
    /// ends it then.
    async fn settle<T>(&self, held: &HeldKey, outcome: Result<T, HandlerError>) -> Result<Once<T>, OnceError>
    where
        T: Serialize + DeserializeOwned,
    {
        let kept = outcome.and_then(|value| keepable(&value));
        let mut failures = 0;
        loop {
            let stored = match &kept {
                Ok((json, _)) => self.finish_key(held, json).await,
                Err(error) => self.fail_key(held, error).await,
            };
            match stored {
                Ok(()) => {
                    return Ok(match kept {
                        Ok((_, value)) => Once::Done { value, replayed: false },
                        Err(error) => held.failed(&error),
                    });
                }
                Err(StoreError::LeaseLost) => return self.overtaken(held).await,
                Err(error) if error.is_reconnectable() => {
                    failures += 1;
                    let key = held.attempt.key.as_str();
                    tracing::info!(key, failures, %error, "storing the answer again");
                    tokio::time::sleep(CONNECTION.delay(failures, fastrand::f64())).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The answer of a call that does not hold its key any more, or whose own commit went unanswered.
    pub(crate) async fn overtaken<T: DeserializeOwned>(&self, held: &HeldKey) -> Result<Once<T>, OnceError> {
        held.ask.overtaken(self.see_key(&held.attempt.key).await?)
    }

    /// Heartbeats of PostgreSQL have a connection of their own: the handler may use up all others.
    async fn beat_pool(&self, patience: Duration) -> Result<Pool, StoreError> {
        match (&self.target.0, &self.pool) {
            (Kind::Postgres(options), _) => {
                let timeout = self.options.connect_timeout.min(patience);
                Ok(Pool::Postgres(postgres::connect(options, "enlist/once", 1, patience, timeout).await?))
            }
            (_, pool) => Ok(pool.clone()),
        }
    }
}

/// A handler's value as it is stored, and as it reads back: the first call is answered as later ones are.
///
/// A value that cannot be kept is a permanent error: the work is done, and doing it again makes the same value.
pub(crate) fn keepable<T>(value: &T) -> Result<(serde_json::Value, T), HandlerError>
where
    T: Serialize + DeserializeOwned,
{
    let json = serde_json::to_value(value)
        .map_err(|error| HandlerError::permanent(format!("the handler's result is no JSON: {error}")))?;
    if let Some(error) = unkeepable(&json) {
        return Err(HandlerError::permanent(error));
    }
    let value = T::deserialize(&json)
        .map_err(|error| HandlerError::permanent(format!("the handler's result does not read back: {error}")))?;
    Ok((json, value))
}

/// Renews the lease, which was last renewed when `renewed` began, until that fails.
async fn beat_while_held(store: Store, held: HeldKey, mut renewed: Stopwatch) -> PulseEnd {
    let lease = held.ask.terms.lease;
    let mut failure = StoreError::Silent;
    // Connected when the first beat is due: most handlers are done before.
    let mut beats: Option<Pool> = None;
    loop {
        tokio::time::sleep(interval(lease, fastrand::f64()).min(left(lease, renewed))).await;
        let asked = Stopwatch::start();
        let patience = (lease / 3).min(left(lease, renewed));
        let beat = async {
            let pool = match &beats {
                Some(pool) => pool,
                None => beats.insert(store.beat_pool(lease / 3).await?),
            };
            renew_on(pool, &held).await
        };
        match tokio::time::timeout(patience, beat).await {
            Ok(Ok(())) => renewed = asked,
            Ok(Err(StoreError::LeaseLost)) => return PulseEnd::Lost,
            Ok(Err(error)) => failure = error,
            Err(_) => failure = StoreError::Silent,
        }
        if renewed.elapsed() > asked.elapsed() {
            tracing::info!(key = held.attempt.key.as_str(), error = %failure, "the heartbeat got no answer");
        }
        if left(lease, renewed).is_zero() {
            return PulseEnd::Unrenewed(failure);
        }
    }
}

/// What is left of a lease that was renewed when `renewed` began.
fn left(lease: Duration, renewed: Stopwatch) -> Duration {
    lease.saturating_sub(renewed.elapsed())
}

/// A third of the lease, a fifth less at most: many holders do not beat at once, and two beats can fail.
fn interval(lease: Duration, chance: f64) -> Duration {
    (lease / 3).mul_f64(1.0 - 0.2 * chance.clamp(0.0, 1.0))
}

/// A task that ends with the value.
struct Aborting<T>(JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_beats_can_fail_before_the_lease_ends() {
        for (seconds, chance) in [(1, 0.0), (3, 0.5), (60, 1.0)] {
            let lease = Duration::from_secs(seconds);
            let interval = interval(lease, chance);
            assert!(interval * 3 <= lease && interval * 4 > lease, "{interval:?}");
        }
    }

    #[test]
    fn a_value_that_does_not_read_back_is_an_error_that_lasts() {
        let error = keepable(&f64::NAN).expect_err("JSON has no NaN");
        assert_eq!(error.severity(), crate::once::Severity::Permanent);
        assert_eq!(keepable(&(1, "a".to_owned())).map(|(_, value)| value), Ok((1, "a".to_owned())));
    }
}
