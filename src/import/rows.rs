//! The rows of an input, decoded and judged, from any position on.
//!
//! Owns putting decoder and normaliser together in the one way that all of an import uses. It does not know
//! why rows are read. Invariant: whoever reads from a position gets the same rows and outcomes.

use crate::batch::Outcome;
use crate::decode::Decoder;
use crate::fault::Fault;
use crate::normalise::Normaliser;
use crate::position::Position;
use crate::reject::RefusedAs;
use crate::row::Row;
use crate::settings::{Settings, trim};
use crate::source::{Survey, TextReader, fault_of};

/// Rows that are read one after another; the buffers are reused.
pub struct Rows<'a> {
    survey: &'a Survey,
    decoder: Decoder<TextReader>,
    normaliser: Normaliser,
    row: Row,
    /// How many cells a row has, and where `_reason` stands, in a reject file.
    reject_reason: Option<(usize, usize)>,
}

impl<'a> Rows<'a> {
    /// The rows from `at` on, which is a row's start.
    pub fn from(survey: &'a Survey, settings: &Settings, at: Position) -> Result<Self, Fault> {
        let columns = &settings.columns;
        let reject_reason = columns.reject_reason.map(|at| (columns.width, at));
        let mut decoder = Decoder::new(survey.open_at(at.byte)?, settings.dialect, at);
        decoder.watch_for(settings.columns.width, settings.columns.phone);
        Ok(Self { survey, decoder, normaliser: Normaliser::new(settings)?, row: Row::default(), reject_reason })
    }

    /// The next row and what becomes of it; `None` at the end of the input.
    pub fn next_row(&mut self) -> Result<Option<(&Row, Outcome)>, Fault> {
        let found = self.decoder.next(&mut self.row).map_err(|error| fault_of(error, self.survey.origin()))?;
        Ok(found.then(|| (&self.row, self.normaliser.normalise(&self.row))))
    }

    /// What the present row says about the refused row that it was, in a reject file.
    ///
    /// None where it says nothing, or has more or fewer cells than the header, so that it is unclear where it does.
    pub(crate) fn refused_as(&self) -> Option<RefusedAs> {
        let (width, reason) = self.reject_reason?;
        let first = reason.checked_sub(2).filter(|_| self.row.cells.len() == width)?;
        let text = |at: usize| trim(&String::from_utf8_lossy(self.row.cell(at))).to_owned();
        let line = text(first).parse().ok()?;
        Some(RefusedAs { line, column: text(first + 1), reason: text(reason), detail: text(reason + 1) })
    }
}
