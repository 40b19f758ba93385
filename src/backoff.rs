//! How long to wait before trying again.
//!
//! Owns the delays. It does not know what is tried. Invariant: a delay lies between half of its nominal
//! value and the value, so that many who failed together do not come back together.

use std::time::Duration;

/// Delays that double from `first` up to `most`.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The nominal delay after the first failure.
    pub first: Duration,
    /// The longest nominal delay.
    pub most: Duration,
}

/// Between tries of one part after a deadlock or a serialisation failure (rule 17).
pub const PART: Backoff = Backoff { first: Duration::from_millis(20), most: Duration::from_secs(1) };

/// Between tries to reach a database that went away.
pub const CONNECTION: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(3) };

/// Between the attempts of a queued job.
pub const JOB: Backoff = Backoff { first: Duration::from_secs(5), most: Duration::from_secs(15 * 60) };

/// Between the calls of one notification.
pub const NOTIFICATION: Backoff = Backoff { first: Duration::from_secs(2), most: Duration::from_secs(15 * 60) };

impl Backoff {
    /// The delay after `failures` failures (1 = the first), with `chance` in `0.0..1.0` as the jitter.
    pub fn delay(&self, failures: u32, chance: f64) -> Duration {
        let doubled = self.first.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1).min(20)));
        doubled.min(self.most).mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_most_and_keep_within_their_half() {
        let backoff = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(1) };
        for (failures, nominal) in [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (4_000_000_000, 1000)] {
            assert_eq!(backoff.delay(failures, 1.0), Duration::from_millis(nominal));
            assert_eq!(backoff.delay(failures, 0.0), Duration::from_millis(nominal) / 2);
        }
    }
}
