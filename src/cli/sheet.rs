//! A workbook with one sheet of text cells.
//!
//! Owns the writing of it. It does not know what the cells mean. Invariant: every cell is text, so that a
//! spreadsheet neither drops a leading zero nor makes 9.05E+11 of a phone.

use std::io::{Read, Seek};

use rust_xlsxwriter::{Format, Workbook, XlsxError};

use crate::fault::{Code, Fault};

/// The limits of the file format: rows of a sheet and characters of a cell.
const ROWS_MAX: u32 = 1_048_576;
const CELL_MAX: usize = 32_767;

/// A sheet that is being filled; its rows are kept in a temporary file, not in memory.
pub(crate) struct Sheet {
    workbook: Workbook,
    text: Format,
    row: u32,
}

impl Sheet {
    /// An empty sheet.
    pub(crate) fn begin() -> Result<Self, Fault> {
        let mut workbook = Workbook::new();
        workbook.add_worksheet_with_constant_memory().map_err(|error| unwritable(&error))?;
        // `@` is the format that keeps what is typed into the cell as text, too.
        Ok(Self { workbook, text: Format::new().set_num_format("@"), row: 0 })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// `unwritable_file` when a sheet cannot hold it: CSV can.
    pub(crate) fn push<'a>(&mut self, cells: impl Iterator<Item = &'a str>) -> Result<(), Fault> {
        if self.row >= ROWS_MAX {
            return Err(too_large(&format!("a sheet holds at most {ROWS_MAX} rows")));
        }
        let sheet = self.workbook.worksheet_from_index(0).map_err(|error| unwritable(&error))?;
        for (column, cell) in (0..).zip(cells) {
            if cell.chars().count() > CELL_MAX {
                return Err(too_large(&format!("row {} has a cell of more than {CELL_MAX} characters", self.row + 1)));
            }
            sheet.write_string_with_format(self.row, column, cell, &self.text).map_err(|error| unwritable(&error))?;
        }
        self.row += 1;
        Ok(())
    }

    /// Hands the whole file to `write`, piece by piece.
    pub(crate) fn finish(mut self, mut write: impl FnMut(&[u8]) -> Result<(), Fault>) -> Result<(), Fault> {
        let failed = |error: std::io::Error| unwritable(&XlsxError::IoError(error));
        let mut file = tempfile::tempfile().map_err(failed)?;
        self.workbook.save_to_writer(&mut file).map_err(|error| unwritable(&error))?;
        file.rewind().map_err(failed)?;
        let mut piece = vec![0; 64 * 1024];
        loop {
            let length = file.read(&mut piece).map_err(failed)?;
            if length == 0 {
                return Ok(());
            }
            write(piece.get(..length).unwrap_or_default())?;
        }
    }
}

fn too_large(why: &str) -> Fault {
    Fault::new(Code::UnwritableFile, format!("the workbook cannot be written: {why}")).hint("write a .csv file instead")
}

fn unwritable(error: &XlsxError) -> Fault {
    Fault::new(Code::UnwritableFile, format!("the workbook cannot be written: {error}"))
        .hint("write a .csv file instead, or free space for temporary files")
}
