//! Waiting for a condition with a deadline, so that no test sleeps for a guessed time.

use std::time::{Duration, Instant};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(10);

/// Looks at `condition` until it gives a value; panics with `what` after `deadline`.
pub(crate) fn wait_for<T>(what: &str, deadline: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "waited {deadline:?} in vain: {what}");
        std::thread::sleep(POLL);
    }
}

/// Looks at `condition` until it holds; panics with `what` after `deadline`.
pub(crate) fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, deadline, || condition().then_some(()));
}

/// Lets `delay` pass, or less when `ended` holds before; whether it passed whole.
///
/// For moments that are meant to be arbitrary (a kill at a random time), not for waiting for something.
pub(crate) fn let_pass(delay: Duration, mut ended: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + delay;
    loop {
        if ended() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(POLL / 5));
    }
}
