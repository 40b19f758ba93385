//! Telling the service manager: ready, alive, stopping.
//!
//! Owns systemd's notification protocol (sd_notify(3)). It does not know jobs. Invariant: without a service
//! manager it does nothing; a worker that does not look at its queues any more stops feeding the watchdog.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::clock::wall_clock;

/// The line to the service manager.
pub(crate) struct Service {
    /// Between two signs of life, a third of what the watchdog allows.
    every: Option<Duration>,
    /// When the last one was given, in milliseconds of the wall clock.
    last: AtomicU64,
}

/// Says that the worker is ready.
pub(crate) fn start() -> Service {
    let every = sd_notify::watchdog_enabled().map(|allowed| allowed / 3);
    say(&[NotifyState::Ready, NotifyState::Status("looking for jobs")]);
    Service { every, last: AtomicU64::new(0) }
}

impl Service {
    /// Shows life, no more often than the watchdog needs.
    pub(crate) fn alive(&self) {
        let Some(every) = self.every else { return };
        let now = u64::try_from(wall_clock().millis()).unwrap_or(0);
        let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        if now.abs_diff(self.last.load(Ordering::Relaxed)) >= every {
            self.last.store(now, Ordering::Relaxed);
            say(&[NotifyState::Watchdog]);
        }
    }

    /// Says that the worker stops.
    pub(crate) fn stopping(&self) {
        say(&[NotifyState::Stopping, NotifyState::Status("handing jobs back")]);
    }
}

fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager was not told");
    }
}
