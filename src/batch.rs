//! Rows gathered into batches on a frozen grid, split into lanes, folded into what is written.
//!
//! Owns the grid's edges, the split and the fold (rules 5, 6 and 12). It does not know where rows come
//! from or go to. Invariant: batches are contiguous and half-open, and where they end depends on the
//! records since the first data record alone, never on where reading began or how many write.

use std::collections::HashMap;

use crate::job::{BATCH_BYTES_MAX, Grid, lane_of};
use crate::phone::Phone;
use crate::position::{Position, Range};
use crate::recipient::Recipient;
use crate::reject::{RefusedAs, Reject};

/// A row after judging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// No content; counted and skipped.
    Blank,
    /// Taken.
    Recipient(Recipient),
    /// Refused.
    Reject(Reject),
}

/// One lane's share of one batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Taken rows in file order.
    pub recipients: Vec<Recipient>,
    /// Refused rows in file order; lane 0 only.
    pub rejects: Vec<Reject>,
    /// Blank rows; lane 0 only.
    pub blank: u64,
    /// Of a reject file: the refused rows that are taken now.
    pub mended: Vec<RefusedAs>,
    /// Of a reject file: those that are refused once more, with the line on which they stand now.
    pub refused_again: Vec<(u64, RefusedAs)>,
}

/// A part whose rows are folded, ready to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoldedPart {
    /// What is written, wave after wave.
    pub waves: Vec<Wave>,
    /// How many rows were taken.
    pub taken: usize,
    /// As in `Part`.
    pub rejects: Vec<Reject>,
    /// As in `Part`.
    pub blank: u64,
    /// As in `Part`.
    pub mended: Vec<RefusedAs>,
    /// As in `Part`.
    pub refused_again: Vec<(u64, RefusedAs)>,
}

impl Part {
    /// Folds its rows.
    pub fn fold(self) -> FoldedPart {
        let Self { recipients, rejects, blank, mended, refused_again } = self;
        FoldedPart { taken: recipients.len(), waves: fold(recipients), rejects, blank, mended, refused_again }
    }
}

impl FoldedPart {
    /// Whether committing it would write nothing but a position.
    pub fn is_empty(&self) -> bool {
        self.taken == 0 && self.rejects.is_empty() && self.blank == 0
    }

    /// How many of the taken rows were folded into others.
    pub fn duplicates(&self) -> usize {
        self.taken - self.waves.iter().map(Vec::len).sum::<usize>()
    }
}

/// A contiguous range of the input, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// What it covers.
    pub range: Range,
    /// One part per lane.
    pub parts: Vec<Part>,
}

/// Cuts judged rows into batches.
#[derive(Debug)]
pub struct Batcher {
    grid: Grid,
    from: Position,
    to: Position,
    records: u32,
    parts: Vec<Part>,
}

impl Batcher {
    /// Begins at `from`, which is the first data record or the end of a batch of the same grid.
    pub fn new(grid: Grid, from: Position) -> Self {
        Self { grid, from, to: from, records: 0, parts: empty_parts(grid) }
    }

    /// Notes that the row to be added next was refused before.
    pub fn was_refused(&mut self, outcome: &Outcome, before: RefusedAs) {
        let lane = self.lane(outcome);
        if let Some(part) = self.parts.get_mut(lane) {
            match outcome {
                Outcome::Blank => {}
                Outcome::Recipient(_) => part.mended.push(before),
                Outcome::Reject(reject) => part.refused_again.push((reject.at.line, before)),
            }
        }
    }

    /// The lane that a row belongs to.
    fn lane(&self, outcome: &Outcome) -> usize {
        match outcome {
            Outcome::Recipient(recipient) => usize::from(lane_of(recipient.phone.as_str(), self.grid.lanes)),
            Outcome::Blank | Outcome::Reject(_) => 0,
        }
    }

    /// Adds the row that ends at `end`. Returns the batch that it completes, if it does.
    pub fn push(&mut self, outcome: Outcome, end: Position) -> Option<Batch> {
        let lane = self.lane(&outcome);
        if let Some(part) = self.parts.get_mut(lane) {
            match outcome {
                Outcome::Blank => part.blank += 1,
                Outcome::Recipient(recipient) => {
                    self.records += 1;
                    part.recipients.push(recipient);
                }
                Outcome::Reject(reject) => {
                    self.records += 1;
                    part.rejects.push(reject);
                }
            }
        }
        self.to = end;
        let full = self.records >= self.grid.batch_rows || end.byte - self.from.byte >= BATCH_BYTES_MAX;
        if full { self.take() } else { None }
    }

    /// The last batch, cut by the end of the input. Not to be called when reading stopped before.
    pub fn finish(mut self) -> Option<Batch> {
        self.take()
    }

    fn take(&mut self) -> Option<Batch> {
        if self.to == self.from {
            return None;
        }
        let range = Range { from: self.from, to: self.to };
        self.from = self.to;
        self.records = 0;
        Some(Batch { range, parts: std::mem::replace(&mut self.parts, empty_parts(self.grid)) })
    }
}

fn empty_parts(grid: Grid) -> Vec<Part> {
    (0..grid.lanes.max(1)).map(|_| Part::default()).collect()
}

/// Rows of one part, each phone at most once, sorted by phone.
pub type Wave = Vec<Folded>;

/// What one or more rows of a part say about one phone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded {
    /// Their merged meaning.
    pub recipient: Recipient,
    /// How many rows it stands for, at least 1.
    pub copies: u64,
}

/// Folds rows of one part, in file order, into waves that are applied one after another.
///
/// Rows of one phone fold into one while their version stays the same; another version starts the next
/// wave (rule 13). A file without versions gives one wave.
pub fn fold(mut rows: Vec<Recipient>) -> Vec<Wave> {
    // Stable: the rows of one phone stay in file order.
    rows.sort_by(|a, b| a.phone.cmp(&b.phone));
    let mut waves: Vec<Wave> = vec![Vec::with_capacity(rows.len())];
    // In which wave the phone at hand was seen last.
    let mut wave = 0;
    for row in rows {
        let latest = waves.get_mut(wave).and_then(|entries| entries.last_mut());
        match latest.filter(|latest| latest.recipient.phone == row.phone) {
            Some(latest) if latest.recipient.version == row.version => {
                latest.copies += 1;
                latest.recipient.fold(row);
                continue;
            }
            Some(_) => wave += 1,
            None => wave = 0,
        }
        if waves.len() <= wave {
            waves.push(Vec::new());
        }
        if let Some(entries) = waves.get_mut(wave) {
            entries.push(Folded { recipient: row, copies: 1 });
        }
    }
    waves.retain(|wave| !wave.is_empty());
    waves
}

/// For each row of one part, in file order, the later row that `fold` folds it into; none where it stands.
pub fn winners(rows: &[Recipient]) -> Vec<Option<usize>> {
    // The runs of rows that fold into one: version and last row.
    let mut runs: Vec<(Option<i64>, usize)> = Vec::new();
    let mut latest: HashMap<&Phone, usize> = HashMap::with_capacity(rows.len());
    let mut run_of = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let open = latest.get(&row.phone).copied();
        let run = match open.and_then(|run| Some((run, runs.get_mut(run)?))) {
            Some((run, (version, last))) if *version == row.version => {
                *last = at;
                run
            }
            _ => {
                runs.push((row.version, at));
                latest.insert(&row.phone, runs.len() - 1);
                runs.len() - 1
            }
        };
        run_of.push(run);
    }
    let last = |(at, run): (usize, &usize)| runs.get(*run).map(|(_, last)| *last).filter(|last| *last != at);
    run_of.iter().enumerate().map(last).collect()
}

#[cfg(test)]
mod tests;
