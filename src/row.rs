//! One record of the input between decoding and normalising.
//!
//! Owns the buffers that a decoder fills again and again and a normaliser reads. It knows neither of
//! them. Invariant: cells lie inside `text`; when `fault` is set the cells are not to be trusted.

use std::ops::Range;

use crate::position::Position;
use crate::reject::Refusal;

/// The longest record that is taken, in bytes of decoded text.
pub const RECORD_MAX: usize = 1024 * 1024;

/// A record with its place. Reused: `clear` keeps the buffers.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Where the record starts.
    pub start: Position,
    /// The first position after its line end.
    pub end: Position,
    /// The record as it stands in the decoded text, without its line end; cut to `RAW_KEPT` when it is
    /// longer than `RECORD_MAX`.
    pub raw: Vec<u8>,
    /// The unquoted cells, one after another.
    pub text: Vec<u8>,
    /// Where each cell lies in `text`.
    pub cells: Vec<Range<usize>>,
    /// Why the record as a whole cannot be taken.
    pub fault: Option<Refusal>,
}

impl Row {
    /// Empties the row for the next record.
    pub fn clear(&mut self) {
        self.raw.clear();
        self.text.clear();
        self.cells.clear();
        self.fault = None;
    }

    /// The bytes of a cell, or nothing where the row has no such cell.
    pub fn cell(&self, column: usize) -> &[u8] {
        self.cells.get(column).and_then(|range| self.text.get(range.clone())).unwrap_or_default()
    }
}
