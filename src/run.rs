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
        Self(format!("{}.{generation}/{lane}of{lanes}/{}-{}", job.as_str(), range.from.byte, range.to.byte))
    }

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
