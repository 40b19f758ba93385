//! A wish to stop, shared by everything that works on one job.
//!
//! Owns the token and its causes. It does not know signals or leases: a lost lease is no wish, it ends the work
//! in hand at once. Invariant: the first cause stays; whoever sees it finishes the batch in hand and begins no
//! other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Why to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StopCause {
    /// SIGINT.
    Interrupt = 1,
    /// SIGTERM.
    Terminate = 2,
    /// A person cancelled the job.
    Cancel = 3,
    /// A person paused the job.
    Pause = 4,
}

/// The token: cheap to clone, all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    /// A token that nobody has used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop. The first cause stays.
    pub fn request(&self, cause: StopCause) {
        // A failed exchange means that another cause came first.
        let _ = self.0.compare_exchange(0, cause as u8, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Why to stop, when somebody asked.
    pub fn cause(&self) -> Option<StopCause> {
        match self.0.load(Ordering::Acquire) {
            1 => Some(StopCause::Interrupt),
            2 => Some(StopCause::Terminate),
            3 => Some(StopCause::Cancel),
            4 => Some(StopCause::Pause),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_stays() {
        let stop = Stop::new();
        assert_eq!(stop.cause(), None);
        let same = stop.clone();
        same.request(StopCause::Terminate);
        stop.request(StopCause::Cancel);
        assert_eq!(stop.cause(), Some(StopCause::Terminate));
    }
}
