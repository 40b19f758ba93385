//! What this process rang itself, for the time in which the claim store cannot be asked.
//!
//! Owns one end of window per key. It does not know the store or the clock. Invariant: each entry keeps its own
//! window; cleaning removes only entries whose own window has ended, and a full memory rings rather than
//! forgets.

use std::collections::HashMap;

use crate::alert::AlertKey;
use crate::clock::Timestamp;

/// Ends of windows by key.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    ends: HashMap<AlertKey, Timestamp>,
}

/// From so many entries on, a new one begins with a cleaning.
const CLEANED_FROM: usize = 512;

/// The most keys; what comes after them is not remembered, and so rings.
const MOST: usize = 100_000;

impl Memory {
    /// Whether `key` is quiet at `now`: this process rang it, and the window of that ring has not ended.
    pub(crate) fn is_quiet(&self, key: &AlertKey, now: Timestamp) -> bool {
        self.ends.get(key).is_some_and(|end| now < *end)
    }

    /// Remembers that `key` rang at `now` and is quiet until `end`.
    pub(crate) fn rang(&mut self, key: &AlertKey, end: Timestamp, now: Timestamp) {
        if self.ends.len() >= CLEANED_FROM && !self.ends.contains_key(key) {
            self.ends.retain(|_, end| now < *end);
        }
        if self.ends.len() < MOST || self.ends.contains_key(key) {
            self.ends.insert(key.clone(), end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(n: usize) -> AlertKey {
        AlertKey::parse(&format!("key {n}")).unwrap()
    }

    #[test]
    fn a_key_of_24_hours_outlives_600_others_that_arrive_20_minutes_later() {
        let mut memory = Memory::default();
        let start = Timestamp::from_millis(1_796_000_000_000);
        memory.rang(&key(0), start.plus(24 * 60 * MINUTE), start);
        let later = start.plus(20 * MINUTE);
        for n in 1..=600 {
            memory.rang(&key(n), later.plus(MINUTE), later);
        }
        let much_later = later.plus(2 * MINUTE);
        for n in 601..=1_200 {
            memory.rang(&key(n), much_later.plus(MINUTE), much_later);
        }
        assert!(memory.is_quiet(&key(0), much_later));
        assert!(memory.is_quiet(&key(0), start.plus(24 * 60 * MINUTE - MINUTE)));
        assert!(!memory.is_quiet(&key(0), start.plus(24 * 60 * MINUTE)));
        assert!(!memory.is_quiet(&key(1), much_later) && memory.is_quiet(&key(1_200), much_later));
        assert!(memory.ends.len() <= 602, "what has ended goes: {}", memory.ends.len());
    }

    #[test]
    fn a_full_memory_forgets_nobody_whose_window_is_open() {
        let mut memory = Memory::default();
        let now = Timestamp::from_millis(0);
        for n in 0..MOST + 10 {
            memory.ends.insert(key(n), now.plus(MINUTE));
        }
        memory.rang(&key(MOST + 20), now.plus(MINUTE), now);
        assert!(!memory.is_quiet(&key(MOST + 20), now), "it rings again rather than push another out");
        assert!(memory.is_quiet(&key(0), now));
    }
}
