//! The heartbeat of a job in hand.
//!
//! Owns when the lease is renewed and when it must be thought lost. It does not know what is being
//! imported. Invariant: it ends no later than the lease that it could not renew, counted by the longer of the
//! monotonic and the wall clock; whoever writes under it then stops.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::import::tally::Tally;
use crate::stop::{Stop, StopCause};
use crate::store::{Beat, Session, StoreError};

/// The longest time between two beats: whoever cancels or pauses a job is seen no later.
const LOOK: Duration = Duration::from_secs(2);

/// Why the heart does not beat any more.
#[derive(Debug)]
pub(crate) enum PulseEnd {
    /// The job is not held under this lease any more.
    Lost,
    /// The lease ended before a heartbeat was answered: nobody knows who holds the job.
    Unrenewed(StoreError),
}

/// Renews the lease, which was last renewed when `renewed` began, until that fails; asks to stop when a
/// person wants it.
pub(crate) async fn beat_while_held(
    session: Arc<Session>,
    tally: Arc<Tally>,
    stop: Stop,
    mut renewed: Stopwatch,
) -> PulseEnd {
    let lease = session.lease().duration;
    let job = session.lease().job.0;
    let mut failure = StoreError::Silent;
    loop {
        tokio::time::sleep(interval(lease, fastrand::f64()).min(left(lease, renewed))).await;
        // The lease counts from before it was asked for: the answer may have been long on its way.
        let asked = Stopwatch::start();
        let patience = (lease / 3).min(left(lease, renewed));
        match tokio::time::timeout(patience, session.beat(&tally.counts())).await {
            Ok(Ok(Beat::Held)) => renewed = asked,
            Ok(Ok(Beat::CancelRequested)) => {
                renewed = asked;
                stop.request(StopCause::Cancel);
            }
            Ok(Ok(Beat::PauseRequested)) => {
                renewed = asked;
                stop.request(StopCause::Pause);
            }
            Ok(Ok(Beat::Lost)) => return PulseEnd::Lost,
            Ok(Err(error)) => {
                tracing::info!(job, %error, "the heartbeat got no answer");
                failure = error;
            }
            Err(_) => {
                tracing::info!(job, "the heartbeat took too long");
                failure = StoreError::Silent;
            }
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

/// A third of the lease or less, a fifth less at most: many holders do not beat at once, and two beats can fail.
fn interval(lease: Duration, chance: f64) -> Duration {
    (lease / 3).min(LOOK).mul_f64(1.0 - 0.2 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_beats_can_fail_before_the_lease_ends() {
        for (seconds, chance) in [(1, 0.0), (3, 0.5), (6, 1.0), (30, 0.0), (30, 1.0)] {
            let lease = Duration::from_secs(seconds);
            let interval = interval(lease, chance);
            assert!(interval * 3 <= lease && interval <= LOOK, "{interval:?}");
            assert!(interval * 4 > lease.min(LOOK), "{interval:?}");
        }
    }
}
