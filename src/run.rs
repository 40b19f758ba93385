//! What one committed stretch of work amounted to, and the key that names it.
//!
//! Owns the counters and the run key. It does not know where they are stored. Invariant: the counters of
//! an import are only ever sums of counters that were committed together with the rows they describe.

use serde::{Deserialize, Serialize};

use crate::job::JobKey;
use crate::position::Range;

/// How the rows of a stretch of input ended. Every figure in a summary is a sum of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Records read; blank rows are not records.
    pub rows: u64,
    /// Recipients that did not exist before.
    pub inserted: u64,
    /// Recipients of which something changed.
    pub updated: u64,
    /// Recipients that were already as the row says.
    pub unchanged: u64,
    /// Rows older than what is stored; they changed nothing.
    pub stale: u64,
    /// Rows folded into a later row of the same phone in the same part.
    pub duplicates: u64,
    /// Rows refused with a reason.
    pub rejected: u64,
    /// Rows without any content, skipped.
    pub blank: u64,
    /// Rows whose recipient has opted out; they are counted above as well.
    pub opted_out: u64,
}

impl Counts {
    /// Rule 14: each row ended in exactly one way.
    pub fn adds_up(&self) -> bool {
        self.rows == self.stored() + self.stale + self.duplicates + self.rejected
    }

    /// The first figure in which `other` differs: its name, here, there.
    pub fn difference(&self, other: &Self) -> Option<(&'static str, u64, u64)> {
        let named = |counts: &Self| {
            let Self { rows, inserted, updated, unchanged, stale, duplicates, rejected, blank, opted_out } = *counts;
            [
                ("rows", rows),
                ("inserted", inserted),
                ("updated", updated),
                ("unchanged", unchanged),
                ("stale", stale),
                ("duplicates", duplicates),
                ("rejected", rejected),
                ("blank", blank),
                ("opted_out", opted_out),
            ]
        };
        let pairs = named(self).into_iter().zip(named(other));
        pairs.filter(|(here, there)| here != there).map(|((name, here), (_, there))| (name, here, there)).next()
    }

    /// Rows that are in the table as they were read.
    pub fn stored(&self) -> u64 {
        self.inserted + self.updated + self.unchanged
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.unchanged += other.unchanged;
        self.stale += other.stale;
        self.duplicates += other.duplicates;
        self.rejected += other.rejected;
        self.blank += other.blank;
        self.opted_out += other.opted_out;
    }
}

/// The length of something that is held in memory, as it is counted.
pub fn count_of(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The name of one lane's share of one stretch: it can be committed once.
///
/// Made of content only (rule 4), so that two processes that read the same rows contend for one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunKey(String);

impl RunKey {
    /// Names `range` of `lane` (of `lanes`) in generation `generation` of the job `job`.
    pub fn new(job: &JobKey, generation: u32, lane: u16, lanes: u16, range: Range) -> Self {
        Self(format!("{}{}-{}", Self::lane_start(job, generation, lane, lanes), range.from.byte, range.to.byte))
    }

    /// What the keys of one lane begin with; the bytes follow as `FROM-TO`.
    pub fn lane_start(job: &JobKey, generation: u32, lane: u16, lanes: u16) -> String {
        format!("{}.{generation}/{lane}of{lanes}/", job.as_str())
    }

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where the stretches of a lane do not follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Nothing covers these bytes.
    Gap(u64, u64),
    /// More than one stretch covers these bytes.
    Overlap(u64, u64),
    /// A stretch that covers nothing, or backwards.
    Empty(u64, u64),
}

impl std::fmt::Display for Break {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gap(from, to) => write!(f, "nothing covers bytes {from} to {to}"),
            Self::Overlap(from, to) => write!(f, "bytes {from} to {to} are covered more than once"),
            Self::Empty(from, to) => write!(f, "a stretch goes from byte {from} to {to}"),
        }
    }
}

/// Follows the half-open stretches of one lane, in order of their bytes.
///
/// Keys sorted by length, then by text, are in that order whenever they follow one another: of `a-b` and `b-c`
/// the second is as long or longer, and of equal length only when all three numbers are.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    at: u64,
    broken: Option<Break>,
}

impl Chain {
    /// Nothing yet, from this byte on.
    pub fn from(byte: u64) -> Self {
        Self { at: byte, broken: None }
    }

    /// The next stretch, as it stands behind the lane in its key. `None`: it is no stretch.
    pub fn follow(&mut self, stretch: &str) -> Option<()> {
        let (from, to) = stretch.split_once('-')?;
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        let found = match from.cmp(&self.at) {
            _ if from >= to => Some(Break::Empty(from, to)),
            std::cmp::Ordering::Greater => Some(Break::Gap(self.at, from)),
            std::cmp::Ordering::Less => Some(Break::Overlap(from, self.at.min(to))),
            std::cmp::Ordering::Equal => None,
        };
        self.broken = self.broken.or(found);
        self.at = self.at.max(to);
        Some(())
    }

    /// The first break, given that the stretches should end at this byte.
    pub fn broken_before(&self, end: u64) -> Option<Break> {
        self.broken.or(match end.cmp(&self.at) {
            std::cmp::Ordering::Greater => Some(Break::Gap(self.at, end)),
            std::cmp::Ordering::Less => Some(Break::Overlap(end, self.at)),
            std::cmp::Ordering::Equal => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(stretches: &[&str], end: u64) -> Option<Break> {
        let mut chain = Chain::from(10);
        let mut sorted = stretches.to_vec();
        sorted.sort_by_key(|text| (text.len(), *text));
        for stretch in sorted {
            chain.follow(stretch).expect(stretch);
        }
        chain.broken_before(end)
    }

    #[test]
    fn stretches_follow_one_another_or_the_first_break_is_named() {
        assert_eq!(broken(&["1000-20000", "10-99", "99-100", "100-1000"], 20_000), None);
        assert_eq!(broken(&[], 10), None);
        assert_eq!(broken(&["10-99", "100-1000"], 1000), Some(Break::Gap(99, 100)));
        assert_eq!(broken(&["10-99", "98-1000"], 1000), Some(Break::Overlap(98, 99)));
        assert_eq!(broken(&["10-99"], 100), Some(Break::Gap(99, 100)));
        assert_eq!(broken(&["10-101"], 100), Some(Break::Overlap(100, 101)));
        assert_eq!(broken(&["10-10", "10-99"], 99), Some(Break::Empty(10, 10)));
        assert_eq!(broken(&["20-99"], 99), Some(Break::Gap(10, 20)));
        assert_eq!(Chain::from(0).follow("a-b"), None);
    }

    #[test]
    fn the_first_figure_that_differs_is_named() {
        let counts = Counts { rows: 1, inserted: 1, ..Counts::default() };
        assert_eq!(counts.difference(&counts), None);
        assert_eq!(counts.difference(&Counts { inserted: 2, ..counts }), Some(("inserted", 1, 2)));
    }

    #[test]
    fn counts_add_up_only_when_every_row_ended_once() {
        let mut counts = Counts {
            rows: 6,
            inserted: 1,
            updated: 1,
            unchanged: 1,
            stale: 1,
            duplicates: 1,
            rejected: 1,
            ..Counts::default()
        };
        assert!(counts.adds_up());
        counts += Counts { blank: 3, opted_out: 2, ..Counts::default() };
        assert!(counts.adds_up());
        counts += Counts { rows: 1, ..Counts::default() };
        assert!(!counts.adds_up());
    }
}
