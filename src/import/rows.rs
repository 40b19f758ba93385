//! The rows of an input, decoded and judged, from any position on.
//!
//! Owns putting decoder and normaliser together in the one way that all of an import uses. It does not know
//! why rows are read. Invariant: whoever reads from a position gets the same rows and outcomes.

use crate::batch::Outcome;
use crate::decode::Decoder;
use crate::fault::Fault;
use crate::normalise::Normaliser;
use crate::position::Position;
use crate::row::Row;
use crate::settings::Settings;
use crate::source::{Survey, TextReader, fault_of};

/// Rows that are read one after another; the buffers are reused.
pub struct Rows<'a> {
    survey: &'a Survey,
    decoder: Decoder<TextReader>,
    normaliser: Normaliser,
    row: Row,
}

impl<'a> Rows<'a> {
    /// The rows from `at` on, which is a row's start.
    pub fn from(survey: &'a Survey, settings: &Settings, at: Position) -> Result<Self, Fault> {
        let mut decoder = Decoder::new(survey.open_at(at.byte)?, settings.dialect, at);
        decoder.watch_for(settings.columns.width, settings.columns.phone);
        Ok(Self { survey, decoder, normaliser: Normaliser::new(settings)?, row: Row::default() })
    }

    /// The next row and what becomes of it; `None` at the end of the input.
    pub fn next_row(&mut self) -> Result<Option<(&Row, Outcome)>, Fault> {
        let found = self.decoder.next(&mut self.row).map_err(|error| fault_of(error, self.survey.origin()))?;
        Ok(found.then(|| (&self.row, self.normaliser.normalise(&self.row))))
    }
}
