//! Windows of time: slots in which a thing happens at most once.
//!
//! Owns where windows begin and which of them are due. It does not know who claims them; `now` comes from the
//! database that the pass works on (rule 17). Invariant: windows are aligned to 1970-01-01 UTC, so all
//! replicas see the same ones, and what is due never lies in the future.

use std::time::Duration;

use crate::clock::Timestamp;

/// What to do about windows that went by while nobody was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// Nothing: only a window that has just begun is run.
    Skip,
    /// Run the newest, once.
    Latest,
    /// Run them all in order, at most `CATCH_UP_MOST`.
    All,
}

/// The most windows that are made up for at once; older ones are counted as skipped.
pub const CATCH_UP_MOST: u64 = 24;

/// The windows to claim now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Starts of windows, oldest first.
    pub starts: Vec<Timestamp>,
    /// Windows that are passed over for good.
    pub skipped: u64,
    /// Up to where windows are dealt with, when there is nothing to run but something to pass over.
    pub passed: Option<Timestamp>,
}

impl CatchUp {
    /// The word it is stored under.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Latest => "latest",
            Self::All => "all",
        }
    }

    /// The policy with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Skip, Self::Latest, Self::All].into_iter().find(|policy| policy.as_str() == word)
    }
}

/// The start of the window of length `every` in which `now` lies.
pub fn start_of(now: Timestamp, every: Duration) -> Timestamp {
    let every = millis(every);
    Timestamp::from_millis(now.millis().div_euclid(every).saturating_mul(every))
}

/// Which windows are due at `now`, the last dealt with having begun at `high_water`.
pub fn due(high_water: Timestamp, now: Timestamp, every: Duration, catch_up: CatchUp) -> Due {
    let step = millis(every);
    let current = start_of(now, every);
    let last = start_of(high_water, every);
    let missed = u64::try_from(current.millis().saturating_sub(last.millis()) / step).unwrap_or(0);
    if missed == 0 {
        return Due { starts: Vec::new(), skipped: 0, passed: None };
    }
    let late = now.millis().saturating_sub(current.millis()) > (step / 10).clamp(1_000, 60_000);
    let run = match catch_up {
        CatchUp::Skip if late => 0,
        CatchUp::Skip | CatchUp::Latest => 1,
        CatchUp::All => missed.min(CATCH_UP_MOST),
    };
    let starts = (0..run)
        .rev()
        .map(|back| {
            let back = i64::try_from(back).unwrap_or(0).saturating_mul(step);
            Timestamp::from_millis(current.millis().saturating_sub(back))
        })
        .collect();
    Due { starts, skipped: missed - run, passed: (run == 0).then_some(current) }
}

/// A length in milliseconds, at least one.
fn millis(every: Duration) -> i64 {
    i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(minutes: i64, millis: i64) -> Timestamp {
        Timestamp::from_millis(minutes * 60_000 + millis)
    }

    #[test]
    fn a_window_is_due_once() {
        let now = at(10, 500);
        assert_eq!(due(at(9, 0), now, MINUTE, CatchUp::Latest).starts, [at(10, 0)]);
        assert!(due(at(10, 0), now, MINUTE, CatchUp::Latest).starts.is_empty());
        assert!(due(at(11, 0), now, MINUTE, CatchUp::All).starts.is_empty(), "a clock that was set back");
    }

    #[test]
    fn missed_windows_follow_the_policy() {
        let now = at(10, 30_000);
        let skip = due(at(5, 0), now, MINUTE, CatchUp::Skip);
        assert_eq!((skip.starts.len(), skip.skipped, skip.passed), (0, 5, Some(at(10, 0))));
        let prompt = due(at(5, 0), at(10, 10), MINUTE, CatchUp::Skip);
        assert_eq!((prompt.starts, prompt.skipped), (vec![at(10, 0)], 4));
        let latest = due(at(5, 0), now, MINUTE, CatchUp::Latest);
        assert_eq!((latest.starts, latest.skipped), (vec![at(10, 0)], 4));
        let all = due(at(7, 0), now, MINUTE, CatchUp::All);
        assert_eq!((all.starts, all.skipped), (vec![at(8, 0), at(9, 0), at(10, 0)], 0));
    }

    #[test]
    fn making_up_is_capped_and_the_newest_are_kept() {
        let all = due(at(0, 0), at(1_000, 0), MINUTE, CatchUp::All);
        assert_eq!(all.starts.len(), 24);
        assert_eq!(all.starts.last(), Some(&at(1_000, 0)));
        assert_eq!(all.skipped, 976);
    }

    #[test]
    fn windows_are_aligned_to_the_epoch_also_before_it() {
        assert_eq!(start_of(at(0, 59_999), MINUTE), at(0, 0));
        assert_eq!(start_of(at(-1, 0), MINUTE), at(-1, 0));
        assert_eq!(start_of(Timestamp::from_millis(-1), MINUTE), at(-1, 0));
    }
}
