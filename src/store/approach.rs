//! Which way a part's rows take into PostgreSQL.
//!
//! Owns the choice; it costs or saves time and never changes what is stored. It does not know the statements.
//! Invariant: every way ends in the same table and the same counts, so a wrong guess is only slow.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::store::commit::WaveCounts;

/// A way into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Approach {
    /// Copied in as if nobody were known, the cheapest by far; whoever is known after all makes it start again.
    Copy = 0,
    /// Looked up first: new rows are copied, changed ones upserted, and the rest is left alone, unlocked and unlogged.
    Compare = 1,
    /// Upserted without a look, which nearly every row would follow anyway.
    Upsert = 2,
}

impl Approach {
    /// What to try after a part that ended so. Copying is not tried again once somebody was met: what a copy wrote
    /// before it failed stays behind as dead rows until the next vacuum.
    fn after(self, counts: WaveCounts) -> Self {
        let known = counts.updated + counts.unchanged + counts.stale;
        if counts.updated > (counts.inserted + known) / 2 {
            Self::Upsert
        } else if self == Self::Copy && known == 0 {
            Self::Copy
        } else {
            Self::Compare
        }
    }
}

/// The approach of one job in hand, shared by its lanes.
#[derive(Debug)]
pub(crate) struct Course(AtomicU8);

impl Course {
    pub(crate) fn new(first: Approach) -> Self {
        Self(AtomicU8::new(first as u8))
    }

    pub(crate) fn approach(&self) -> Approach {
        match self.0.load(Ordering::Relaxed) {
            0 => Approach::Copy,
            1 => Approach::Compare,
            _ => Approach::Upsert,
        }
    }

    /// Learns from a wave. Another lane may have learnt something else meanwhile; the last word stands, but for
    /// copying, which is given up for good.
    pub(crate) fn learn(&self, taken: Approach, counts: WaveCounts) {
        let next = taken.after(counts);
        if next != Approach::Copy {
            self.0.store(next as u8, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(inserted: u64, updated: u64, unchanged: u64) -> WaveCounts {
        WaveCounts { inserted, updated, unchanged, ..WaveCounts::default() }
    }

    #[test]
    fn copying_goes_on_until_somebody_is_met_and_is_not_tried_again() {
        let course = Course::new(Approach::Copy);
        course.learn(Approach::Copy, counts(10, 0, 0));
        assert_eq!(course.approach(), Approach::Copy);
        course.learn(Approach::Copy, counts(9, 0, 1));
        assert_eq!(course.approach(), Approach::Compare);
        course.learn(Approach::Compare, counts(10, 0, 0));
        course.learn(Approach::Copy, counts(10, 0, 0));
        assert_eq!(course.approach(), Approach::Compare);
    }

    #[test]
    fn a_part_that_changes_most_rows_is_followed_by_upserts_until_one_changes_few() {
        let course = Course::new(Approach::Compare);
        course.learn(Approach::Compare, counts(0, 6, 4));
        assert_eq!(course.approach(), Approach::Upsert);
        course.learn(Approach::Upsert, counts(0, 5, 5));
        assert_eq!(course.approach(), Approach::Compare);
        course.learn(Approach::Compare, counts(0, 0, 0));
        assert_eq!(course.approach(), Approach::Compare);
    }
}
