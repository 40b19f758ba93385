//! The rows of a sheet as lines of CSV.
//!
//! Owns which line a cell lands on and how wide the first lines are. It does not know workbooks. Invariant:
//! line N of the text is row N of the sheet, whatever the cells hold, and the same cells give the same bytes.
//! Memory: the first rows, at most `HELD_BYTES` and one row.

use std::io::{self, Write};

use calamine::DataRef;

use crate::quoting::{PLAIN, push_cell};
use crate::row::RECORD_MAX;

use super::cell::text_of;

/// How many rows are held back to learn how wide the sheet is.
const HELD_ROWS: usize = 1_000;

/// How many bytes of rows are held back.
const HELD_BYTES: usize = 8 * 1024 * 1024;

/// The rows that a sheet can have (Excel and LibreOffice).
const ROWS: u32 = 1_048_576;

/// The columns that a sheet can have (Excel and LibreOffice).
const COLUMNS: u32 = 16_384;

/// Why a cell was not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// It lies outside a sheet, or before the cell that came last.
    Misplaced,
    /// The line could not be written.
    Io(io::Error),
}

/// Writes the lines of a sheet.
///
/// The first rows are filled up with empty cells to the widest of them, as Excel does when it saves CSV, so
/// that a header or a first row knows of every column. Rows behind them end with their last cell.
pub(super) struct Lines<W> {
    out: W,
    /// Lines without their ends, and how many cells each has.
    held: Option<Vec<(Vec<u8>, u32)>>,
    held_bytes: usize,
    /// The row that `line` belongs to, from 0.
    row: u32,
    line: Vec<u8>,
    /// How many cells `line` has.
    cells: u32,
}

impl<W: Write> Lines<W> {
    /// Nothing written yet.
    pub(super) fn new(out: W) -> Self {
        Self { out, held: Some(Vec::new()), held_bytes: 0, row: 0, line: Vec::new(), cells: 0 }
    }

    /// Takes a cell; rows and columns count from 0, and cells come row by row from left to right.
    pub(super) fn push(&mut self, row: u32, column: u32, value: &DataRef<'_>) -> Result<(), Refused> {
        let text = text_of(value);
        if text.is_empty() {
            return Ok(());
        }
        if row >= ROWS || column >= COLUMNS || row < self.row || (row == self.row && column < self.cells) {
            return Err(Refused::Misplaced);
        }
        while self.row < row {
            self.end_line().map_err(Refused::Io)?;
        }
        // A record that is too long is refused anyway, however much longer it gets.
        if self.line.len() <= 2 * RECORD_MAX {
            // A cell has a separator before it, but for the first of a line.
            let separators = column - self.cells + u32::from(self.cells > 0);
            self.line.extend((0..separators).map(|_| PLAIN.delimiter));
            push_cell(&mut self.line, text.as_bytes(), &PLAIN);
        }
        self.cells = column + 1;
        Ok(())
    }

    /// Which row is being written, from 0.
    pub(super) fn row(&self) -> u32 {
        self.row
    }

    /// Writes what is left. Returns the writer.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.cells > 0 {
            self.end_line()?;
        }
        self.release()?;
        Ok(self.out)
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.row += 1;
        let cells = std::mem::take(&mut self.cells);
        match &mut self.held {
            Some(held) => {
                self.held_bytes += self.line.len();
                held.push((std::mem::take(&mut self.line), cells));
                if held.len() >= HELD_ROWS || self.held_bytes >= HELD_BYTES {
                    self.release()?;
                }
            }
            None => {
                self.line.push(b'\n');
                self.out.write_all(&self.line)?;
                self.line.clear();
            }
        }
        Ok(())
    }

    /// Writes the rows that were held back.
    fn release(&mut self) -> io::Result<()> {
        let held = self.held.take().unwrap_or_default();
        let width = held.iter().map(|(_, cells)| *cells).max().unwrap_or(0);
        for (mut line, cells) in held {
            // A row without a cell stays a blank line.
            let missing = if cells == 0 { 0 } else { width - cells };
            line.extend((0..missing).map(|_| PLAIN.delimiter));
            line.push(b'\n');
            self.out.write_all(&line)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(cells: &[(u32, u32, &str)]) -> String {
        let mut lines = Lines::new(Vec::new());
        for (row, column, text) in cells {
            lines.push(*row, *column, &DataRef::SharedString(text)).unwrap();
        }
        String::from_utf8(lines.finish().unwrap()).unwrap()
    }

    #[test]
    fn rows_keep_their_numbers_and_columns_their_places() {
        assert_eq!(
            lines(&[(2, 1, "phone"), (2, 2, "name"), (4, 1, "1"), (5, 2, "x,\"y\"")]),
            "\n\n,phone,name\n\n,1,\n,,\"x,\"\"y\"\"\"\n"
        );
        assert_eq!(lines(&[(0, 0, "a"), (0, 1, ""), (1, 3, "b\nc")]), "a,,,\n,,,b c\n");
        assert_eq!(lines(&[]), "");
    }

    #[test]
    fn rows_behind_the_first_ones_end_with_their_last_cell() {
        let many = u32::try_from(HELD_ROWS).unwrap();
        let text = lines(&[(0, 0, "a"), (0, 2, "c"), (1, 0, "d"), (many, 0, "e"), (many + 1, 3, "f")]);
        assert!(text.starts_with("a,,c\nd,,\n\n"), "{text}");
        assert!(text.ends_with("\n\ne\n,,,f\n"), "{text}");
        assert_eq!(text.lines().count(), HELD_ROWS + 2);
    }

    #[test]
    fn cells_out_of_order_or_outside_are_refused() {
        for (row, column) in [(1, 2), (0, 9), (ROWS, 0), (2, COLUMNS)] {
            let mut lines = Lines::new(Vec::new());
            lines.push(1, 2, &DataRef::SharedString("x")).unwrap();
            assert!(lines.push(row, column, &DataRef::SharedString("y")).is_err(), "{row} {column}");
        }
    }

    #[test]
    fn a_row_of_any_length_takes_bounded_memory() {
        let mut lines = Lines::new(io::sink());
        let long = "x".repeat(32_767);
        for column in 0..2_000 {
            lines.push(0, column, &DataRef::SharedString(&long)).unwrap();
            assert!(lines.line.len() < 2 * RECORD_MAX + 2 * long.len());
        }
    }
}
