//! The heartbeat of a job in hand.
//!
//! Owns when the lease is renewed and when it must be thought lost. It does not know what is being
//! imported. Invariant: whoever cannot say that the lease was renewed within its duration, counted by
//! the longer of the monotonic and the wall clock, stops.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::import::tally::Tally;
use crate::stop::{Stop, StopCause};
use crate::store::{Beat, Session};

/// The longest time between two beats: whoever cancels or pauses a job is seen no later.
const LOOK: Duration = Duration::from_secs(2);

/// Renews the lease until `stop` says otherwise; asks to stop when the lease is lost or a person wants it.
pub(crate) async fn beat_until_stopped(session: Arc<Session>, tally: Arc<Tally>, stop: Stop) {
    let lease = session.lease().duration;
    let mut renewed = Stopwatch::start();
    loop {
        tokio::time::sleep(interval(lease, fastrand::f64())).await;
        if stop.cause() == Some(StopCause::LeaseLost) {
            return;
        }
        // The lease counts from before it was asked for: the answer may have been long on its way.
        let asked = Stopwatch::start();
        match tokio::time::timeout(lease / 3, session.beat(&tally.counts())).await {
            Ok(Ok(Beat::Held)) => renewed = asked,
            Ok(Ok(Beat::CancelRequested)) => {
                renewed = asked;
                stop.request(StopCause::Cancel);
            }
            Ok(Ok(Beat::PauseRequested)) => {
                renewed = asked;
                stop.request(StopCause::Pause);
            }
            Ok(Ok(Beat::Lost)) => {
                stop.request(StopCause::LeaseLost);
                return;
            }
            Ok(Err(error)) => tracing::warn!(job = session.lease().job.0, %error, "the heartbeat got no answer"),
            Err(_) => tracing::warn!(job = session.lease().job.0, "the heartbeat took too long"),
        }
        if renewed.elapsed() >= lease {
            stop.request(StopCause::LeaseLost);
            return;
        }
    }
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
