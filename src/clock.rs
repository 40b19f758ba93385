//! Time: the moment as it is stored, and the one place that reads the machine's clock.
//!
//! Owns `Timestamp` and `Stopwatch`. It does not know leases or windows; on PostgreSQL those are judged by
//! the database's clock (rule 17). Invariant: no other file of `src` reads a clock.

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

/// A moment: milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A moment by its milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub fn millis(self) -> i64 {
        self.0
    }

    /// The moment `by` later; saturates.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Timestamp {
    /// The moment `by` earlier; saturates.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How much later this moment is than `earlier`; nothing if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl std::fmt::Display for Timestamp {
    /// RFC 3339 in UTC with whole seconds.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{}", moment.strftime("%Y-%m-%dT%H:%M:%SZ")),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// The machine's wall clock. Only for what no database judges: log lines, SQLite's own process.
pub fn wall_clock() -> Timestamp {
    // The one reader of the wall clock.
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    let now = SystemTime::now();
    let millis = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis());
    Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// Measures how long something has taken, by whichever of the monotonic and the wall clock says more.
///
/// The monotonic clock stands still while the machine is suspended, the wall clock can be set back: a
/// lease must be thought lost when either says so.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    monotonic: Instant,
    wall: Timestamp,
}

impl Stopwatch {
    /// Begins now.
    pub fn start() -> Self {
        Self { monotonic: Instant::now(), wall: wall_clock() }
    }

    /// The time since it began, the longer of both clocks.
    pub fn elapsed(&self) -> Duration {
        let wall = u64::try_from(wall_clock().0.saturating_sub(self.wall.0)).unwrap_or(0);
        self.monotonic.elapsed().max(Duration::from_millis(wall))
    }

    /// The time since it began by the monotonic clock, for rates and for what a person waited.
    pub fn worked(&self) -> Duration {
        self.monotonic.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_prints_as_rfc_3339_in_utc() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Timestamp::from_millis(1_796_083_931_999).to_string(), "2026-12-01T00:12:11Z");
        assert_eq!(Timestamp::from_millis(-1).to_string(), "1969-12-31T23:59:59Z");
    }
}
