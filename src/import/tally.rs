//! What is known to be committed while an import runs.
//!
//! Owns the figures that heartbeats, progress and the budget read. They are a copy: the store's run keys
//! decide. Invariant: a figure is added only after its commit was confirmed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::UnboundedSender;

use crate::import::report::{Event, Progress};
use crate::position::Position;
use crate::run::Counts;

/// The figures, shared by everything that works on one job.
#[derive(Debug)]
pub(crate) struct Tally {
    figures: Mutex<Figures>,
    events: UnboundedSender<Event>,
    total_bytes: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct Figures {
    counts: Counts,
    resumed_rows: u64,
    resumed_line: Option<u64>,
    lanes: BTreeMap<u16, Position>,
    parts: u64,
}

impl Tally {
    pub(crate) fn new(events: UnboundedSender<Event>, total_bytes: Option<u64>) -> Self {
        Self { figures: Mutex::new(Figures::default()), events, total_bytes }
    }

    fn figures(&self) -> MutexGuard<'_, Figures> {
        // The figures are plain numbers: a panic elsewhere cannot leave them half written.
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what earlier runs committed.
    pub(crate) fn resume(&self, counts: Counts, line: Option<u64>) {
        let mut figures = self.figures();
        figures.counts = counts;
        figures.resumed_rows = counts.rows;
        figures.resumed_line = line;
    }

    /// Notes what the store says is committed, when positions were read again.
    pub(crate) fn correct(&self, counts: Counts, lanes: &BTreeMap<u16, Position>) {
        {
            let mut figures = self.figures();
            figures.counts = counts;
            figures.lanes.clone_from(lanes);
        }
        self.tell();
    }

    /// Notes a confirmed commit of `lane` up to `to`.
    pub(crate) fn add(&self, lane: u16, to: Position, counts: Counts) {
        {
            let mut figures = self.figures();
            figures.counts += counts;
            figures.parts += 1;
            figures.lanes.insert(lane, to);
        }
        self.tell();
    }

    pub(crate) fn counts(&self) -> Counts {
        self.figures().counts
    }

    /// How many parts this run has committed; never less than before, whatever a crashed server lost.
    pub(crate) fn parts(&self) -> u64 {
        self.figures().parts
    }

    /// Something to say at once.
    pub(crate) fn note(&self, note: impl Into<String>) {
        // Nobody listening any more is no reason to stop.
        let _ = self.events.send(Event::Note(note.into()));
    }

    fn tell(&self) {
        let figures = self.figures().clone();
        let slowest = figures.lanes.values().min().copied().unwrap_or_default();
        let _ = self.events.send(Event::Progress(Progress {
            bytes: slowest.byte,
            total_bytes: self.total_bytes,
            line: slowest.line,
            resumed_line: figures.resumed_line,
            rows: figures.counts.rows,
            resumed_rows: figures.resumed_rows,
            rejected: figures.counts.rejected,
        }));
    }
}
