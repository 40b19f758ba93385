//! The text of a reject file: the refused rows as they were, and why.
//!
//! Owns the layout. It does not know where rejects come from or where the text goes. Invariant: every line
//! has as many cells as the header, the text is UTF-8, and the cells of the input are unchanged, so that a
//! file in which the faults are mended can be imported as it is.

use crate::quoting::{push_record, split_cells, split_naively};
use crate::reject::{Reason, Reject};
use crate::settings::{Dialect, Settings, trim};

/// The columns behind those of the input. An import ignores them when all four are there.
pub const COLUMNS: [&str; 4] = ["_line", "_column", "_reason", "_detail"];

/// How many cells beyond the header a row may bring; what is still behind stays in the last of them.
///
/// A row of delimiters alone would else widen every line of the file by a million cells.
const EXTRA_MAX: usize = 256;

/// Writes the lines of one job's reject file.
#[derive(Debug, Clone)]
pub struct RejectFile {
    dialect: Dialect,
    header: Vec<String>,
    input_width: usize,
    extra: usize,
}

impl RejectFile {
    /// The file of a job under `settings`, for rows no wider than its header.
    ///
    /// When the input was itself a reject file, its last four columns are replaced.
    pub fn new(settings: &Settings) -> Self {
        let mut header = settings.header.clone();
        let input_width = header.len();
        if let Some(reason) = settings.columns.reject_reason {
            header.truncate(reason.saturating_sub(2));
        }
        Self { dialect: settings.dialect, header, input_width, extra: 0 }
    }

    /// Makes room for a row: to be called with every reject before the first line is written.
    pub fn make_room(&mut self, reject: &Reject) {
        let beyond = self.cells(reject).len().saturating_sub(self.header.len());
        self.extra = self.extra.max(beyond.min(EXTRA_MAX));
    }

    /// Appends the header line.
    pub fn push_header(&self, out: &mut Vec<u8>) {
        push_record(out, self.header_cells().map(str::as_bytes), &self.dialect);
    }

    /// The header's cells.
    pub fn header_cells(&self) -> impl Iterator<Item = &str> {
        let blanks = std::iter::repeat_n("", self.extra);
        self.header.iter().map(String::as_str).chain(blanks).chain(COLUMNS)
    }

    /// Appends the line of one reject.
    pub fn push_row(&self, reject: &Reject, out: &mut Vec<u8>) {
        let cells = self.row_cells(reject);
        push_record(out, cells.iter().map(|cell| cell.as_bytes()), &self.dialect);
    }

    /// The cells of one reject, as many as the header has.
    pub fn row_cells(&self, reject: &Reject) -> Vec<String> {
        let width = self.header.len() + self.extra;
        let mut cells = self.cells(reject);
        if cells.len() > width {
            let tail = cells.split_off(width).join(&self.dialect.delimiter);
            if let Some(last) = cells.last_mut() {
                last.push(self.dialect.delimiter);
                last.extend_from_slice(&tail);
            }
        }
        cells.resize(width, Vec::new());
        let column = reject.column.clone().unwrap_or_default();
        let why = [reject.at.line.to_string(), column, reject.reason.code().to_owned(), reject.detail.clone()];
        cells.iter().map(|cell| String::from_utf8_lossy(cell).into_owned()).chain(why).collect()
    }

    /// The reject's cells without trailing empty ones beyond the header and without an earlier reject
    /// file's four columns.
    fn cells(&self, reject: &Reject) -> Vec<Vec<u8>> {
        let mut cells = match reject.reason {
            // Quotes that are wrong must not swallow the cells behind them.
            Reason::BadQuoting => split_naively(&reject.raw, &self.dialect),
            _ => split_cells(&reject.raw, &self.dialect),
        };
        let own = self.header.len();
        let earlier = self.input_width - own;
        if cells.len() >= self.input_width {
            // In a row that is too long the four columns are the last ones still.
            cells.truncate(cells.len() - earlier);
        } else {
            cells.truncate(own);
        }
        while cells.len() > own && cells.last().is_some_and(|cell| is_blank(cell)) {
            cells.pop();
        }
        cells
    }
}

/// Whether a cell holds nothing that can be seen.
fn is_blank(cell: &[u8]) -> bool {
    std::str::from_utf8(cell).is_ok_and(|text| trim(text).is_empty())
}

#[cfg(test)]
mod tests;
