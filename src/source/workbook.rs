//! One sheet of a workbook as a text file.
//!
//! Owns opening workbooks of Excel and OpenDocument, choosing the sheet and spooling its text. It does not
//! know what a cell means. Invariant: the workbook's bytes are compared with their digests before they are
//! looked at, and the spool file is whole, private and named by what it holds.
//!
//! Memory: of .xlsx and .xlsb the texts that cells share, at most `TEXTS_MAX` unpacked; of .xls and .ods the
//! whole sheet.

use std::io::{self, BufRead, BufWriter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use calamine::{
    Data, DataRef, Ods, OdsError, Range, Reader, SheetType, SheetVisible, Xls, XlsError, Xlsb, Xlsx, XlsxError,
};
use memchr::{memchr_iter, memmem};
use zip::ZipArchive;

use crate::fault::{Code, Fault, Warning};

use super::sheet::{Lines, Refused};
use super::spool::{Aside, unwritable};
use super::verified::{Recording, Verified};
use super::{FIRST_SHEET, Reading};

/// Changes whenever the same sheet gives another text; part of the spool's name.
const CONVERSION: &str = "1";

/// What the parts that are held in memory may come to when unpacked, in bytes.
const TEXTS_MAX: u64 = 1024 * 1024 * 1024;

/// The longest text or tag of a sheet's XML, in bytes; Excel's longest cell has 32,767 characters.
const STRETCH_MAX: usize = 4 * 1024 * 1024;

/// A part of so few packed bytes cannot unpack to much (deflate gains 1,032 at most).
const SMALL_PART: u64 = 64 * 1024;

/// How many names a message lists.
const NAMES_SHOWN: usize = 20;

/// After how many rows the wish to stop is looked at.
const ROWS_BETWEEN_LOOKS: u32 = 4096;

/// The kinds of workbooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Xlsx,
    Xlsb,
    Ods,
    Xls,
}

/// A sheet that was spooled.
#[derive(Debug)]
pub(super) struct Spooled {
    pub(super) path: PathBuf,
    /// The sheet's name as the workbook has it.
    pub(super) sheet: String,
    pub(super) warnings: Vec<Warning>,
}

/// A workbook that is about to be read.
struct Book<'a> {
    recording: &'a Recording,
    format: Format,
    fingerprint: &'a str,
    reading: &'a Reading<'a>,
    shown: &'a str,
}

/// Spools the sheet that `reading` asks for. The same workbook and sheet again give the same file, and an
/// existing one is taken as it is.
///
/// Errors: `is_xlsx`, `is_xls` (no workbook that can be read, with the reason), `unknown_sheet`,
/// `file_changed`, `disk_full`, `unwritable_file`, and what `reading.stopped` gives.
pub(super) fn spool_sheet(
    recording: &Recording,
    format: Format,
    fingerprint: &str,
    reading: &Reading<'_>,
    shown: &str,
) -> Result<Spooled, Fault> {
    let book = Book { recording, format, fingerprint, reading, shown };
    // A reader of such formats that meets what its authors did not think of must not end the program.
    catch_unwind(AssertUnwindSafe(|| book.spool())).unwrap_or_else(|_| Err(book.broken("is damaged")))
}

impl Book<'_> {
    fn spool(&self) -> Result<Spooled, Fault> {
        if self.format != Format::Xls {
            self.measure()?;
        }
        let file = self.recording.open()?;
        match self.format {
            Format::Xlsx => {
                let mut book = Xlsx::new(file).map_err(|error| self.xlsx_fault(&error))?;
                self.convert(&mut book, |book, sheet, sink| {
                    let mut cells = book.worksheet_cells_reader(sheet).map_err(|error| self.xlsx_fault(&error))?;
                    while let Some(cell) = cells.next_cell().map_err(|error| self.xlsx_fault(&error))? {
                        let (row, column) = cell.get_position();
                        sink(row, column, cell.get_value())?;
                    }
                    Ok(())
                })
            }
            Format::Xlsb => {
                let mut book = Xlsb::new(file).map_err(|error| self.fault_of(&error))?;
                self.convert(&mut book, |book, sheet, sink| {
                    let mut cells = book.worksheet_cells_reader(sheet).map_err(|error| self.fault_of(&error))?;
                    while let Some(cell) = cells.next_cell().map_err(|error| self.fault_of(&error))? {
                        let (row, column) = cell.get_position();
                        sink(row, column, cell.get_value())?;
                    }
                    Ok(())
                })
            }
            Format::Ods => {
                let mut book = Ods::new(file).map_err(|error| match error {
                    OdsError::Password => self.protected(),
                    error => self.fault_of(&error),
                })?;
                self.convert(&mut book, |book, sheet, sink| {
                    push_range(&book.worksheet_range(sheet).map_err(|error| self.fault_of(&error))?, sink)
                })
            }
            Format::Xls => {
                let mut book = Xls::new(file).map_err(|error| match error {
                    XlsError::Password => self.protected(),
                    error => self.ole_fault(&error),
                })?;
                self.convert(&mut book, |book, sheet, sink| {
                    push_range(&book.worksheet_range(sheet).map_err(|error| self.fault_of(&error))?, sink)
                })
            }
        }
    }

    /// Spools the sheet whose cells `read` hands to its sink.
    fn convert<B: Reader<Verified>>(
        &self,
        book: &mut B,
        read: impl FnOnce(&mut B, &str, &mut Sink<'_>) -> Result<(), Fault>,
    ) -> Result<Spooled, Fault> {
        let (sheet, warnings) = self.choose(book.sheets_metadata())?;
        let name = blake3::hash(sheet.as_bytes()).to_hex();
        let name = name.as_str().get(..16).unwrap_or_default();
        let folder = self.reading.spools.dir();
        let path = self.reading.spools.path_of(&format!("{}.sheet-{name}-{CONVERSION}", self.fingerprint));
        if path.is_file() {
            return Ok(Spooled { path, sheet, warnings });
        }
        let aside = Aside::begin(self.reading.spools)?;
        let mut lines = Lines::new(BufWriter::new(aside.as_file()));
        let mut next_look = 0;
        read(book, &sheet, &mut |row, column, value| {
            lines.push(row, column, value).map_err(|refused| match refused {
                Refused::Misplaced => self.broken("has cells in the wrong order"),
                Refused::Io(error) => unwritable(folder, &error),
            })?;
            if lines.row() >= next_look {
                next_look = lines.row() + ROWS_BETWEEN_LOOKS;
                (self.reading.stopped)().map_or(Ok(()), Err)?;
            }
            Ok(())
        })?;
        let fail = |error: io::Error| unwritable(folder, &error);
        lines.finish().and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error)).map_err(fail)?;
        aside.keep_as(&path)?;
        Ok(Spooled { path, sheet, warnings })
    }

    /// The sheet that is asked for, or the first that a person sees.
    fn choose(&self, sheets: &[calamine::Sheet]) -> Result<(String, Vec<Warning>), Fault> {
        let sheets: Vec<_> = sheets.iter().filter(|sheet| sheet.typ == SheetType::WorkSheet).collect();
        if sheets.is_empty() {
            return Err(self.broken("holds no sheet"));
        }
        if let Some(wanted) = self.reading.sheet {
            let alike = |name: &str| name.trim().to_lowercase() == wanted.trim().to_lowercase();
            let found = sheets.iter().find(|sheet| sheet.name == wanted);
            let found = found.or_else(|| sheets.iter().find(|sheet| alike(&sheet.name)));
            return found.map(|sheet| (sheet.name.clone(), Vec::new())).ok_or_else(|| {
                let names: Vec<String> =
                    sheets.iter().take(NAMES_SHOWN).map(|sheet| format!("'{}'", sheet.name)).collect();
                let more = if sheets.len() > NAMES_SHOWN { ", …" } else { "" };
                let (shown, names) = (self.shown, names.join(", "));
                Fault::new(Code::UnknownSheet, format!("'{shown}' has no sheet '{wanted}', it has {names}{more}"))
            });
        }
        let visible: Vec<_> = sheets.iter().filter(|sheet| sheet.visible == SheetVisible::Visible).collect();
        let Some(first) = visible.first().copied().or(sheets.first()) else {
            return Err(self.broken("holds no sheet"));
        };
        let warnings = if visible.len() > 1 {
            let (shown, count, name) = (self.shown, visible.len(), &first.name);
            vec![Warning::new(
                FIRST_SHEET,
                format!("'{shown}' has {count} sheets; '{name}' was read, --sheet NAME reads another"),
            )]
        } else {
            Vec::new()
        };
        Ok((first.name.clone(), warnings))
    }

    /// Refuses a workbook that would take too much memory, whatever sizes it states.
    fn measure(&self) -> Result<(), Fault> {
        let fail = |error: &(dyn std::error::Error + 'static)| self.fault_of(error);
        let mut archive = ZipArchive::new(self.recording.open()?).map_err(|error| fail(&error))?;
        let mut texts = 0_u64;
        for index in 0..archive.len() {
            let part = archive.by_index_data(index).map_err(|error| fail(&error))?;
            let name = String::from_utf8_lossy(part.name_raw()).to_ascii_lowercase();
            let is_read = [".xml", ".bin", ".rels"].iter().any(|end| name.ends_with(end));
            if part.compressed_size() <= SMALL_PART || !is_read {
                continue;
            }
            let is_sheet = name.contains("worksheets");
            let mut part = match archive.by_index(index) {
                Ok(part) => io::BufReader::with_capacity(64 * 1024, part),
                // Whoever needs the part says what is wrong with it.
                Err(_) => continue,
            };
            let (mut stretch, mut bytes) = (0, 0);
            loop {
                let here = part.fill_buf().map_err(|error| fail(&error))?;
                if here.is_empty() {
                    break;
                }
                bytes += here.len() as u64;
                if is_sheet && name.ends_with(".xml") {
                    let mut from = 0;
                    for at in memchr_iter(b'<', here) {
                        stretch = 0;
                        from = at;
                    }
                    stretch += here.len() - from;
                }
                if stretch > STRETCH_MAX || (!is_sheet && texts + bytes > TEXTS_MAX) {
                    return Err(self.broken("unpacks to more than a workbook can hold in memory"));
                }
                let len = here.len();
                part.consume(len);
            }
            texts += if is_sheet { 0 } else { bytes };
        }
        Ok(())
    }

    fn xlsx_fault(&self, error: &XlsxError) -> Fault {
        match error {
            XlsxError::Password => self.protected(),
            error => self.fault_of(error),
        }
    }

    /// What an error of the old container format means.
    fn ole_fault(&self, error: &XlsError) -> Fault {
        // Excel keeps an encrypted workbook of the new kind in such a container, under this name.
        let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let encrypted = || -> io::Result<bool> {
            let mut file = self.recording.open().map_err(io::Error::other)?;
            loop {
                let block = file.fill_buf()?;
                // Names do not lie across blocks: the entries of the container's directory are aligned.
                if block.is_empty() || memmem::find(block, &name).is_some() {
                    return Ok(!block.is_empty());
                }
                let len = block.len();
                file.consume(len);
            }
        };
        match encrypted() {
            Ok(true) => {
                Fault::new(Code::IsXlsx, format!("'{}' is an Excel workbook with a password", self.shown)).hint(UNLOCK)
            }
            _ => self.fault_of(error),
        }
    }

    fn protected(&self) -> Fault {
        self.broken("has a password").hint(UNLOCK)
    }

    /// What an error of a reader means; a fault below it stays what it is.
    fn fault_of(&self, error: &(dyn std::error::Error + 'static)) -> Fault {
        fault_in(error).unwrap_or_else(|| self.broken("is damaged, cut short or no workbook at all"))
    }

    fn broken(&self, why: &str) -> Fault {
        let (code, what) = match self.format {
            Format::Xlsx | Format::Xlsb => (Code::IsXlsx, "an Excel workbook"),
            Format::Ods => (Code::IsXlsx, "an OpenDocument workbook"),
            Format::Xls => (Code::IsXls, "an old Excel workbook"),
        };
        Fault::new(code, format!("'{}' is {what} that {why}", self.shown))
    }
}

/// What to do about a password.
const UNLOCK: &str = "remove the password in Excel, or save it as CSV UTF-8 and import that";

/// Takes a cell: row and column from 0, and the value.
type Sink<'a> = dyn FnMut(u32, u32, &DataRef<'_>) -> Result<(), Fault> + 'a;

/// Hands on the cells of a sheet that lies in memory.
fn push_range(range: &Range<Data>, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let (top, left) = range.start().unwrap_or_default();
    for (row, cells) in (top..).zip(range.rows()) {
        for (column, value) in (left..).zip(cells) {
            let value = match value {
                Data::Empty => continue,
                Data::Int(number) => DataRef::Int(*number),
                Data::Float(number) => DataRef::Float(*number),
                Data::String(text) => DataRef::SharedString(text),
                Data::Bool(truth) => DataRef::Bool(*truth),
                Data::DateTime(moment) => DataRef::DateTime(*moment),
                Data::DateTimeIso(text) => DataRef::DateTimeIso(text.clone()),
                Data::DurationIso(text) => DataRef::DurationIso(text.clone()),
                Data::Error(error) => DataRef::Error(error.clone()),
            };
            sink(row, column, &value)?;
        }
    }
    Ok(())
}

/// The fault that a reader of this module raised below an error of somebody else's.
pub(super) fn fault_in(error: &(dyn std::error::Error + 'static)) -> Option<Fault> {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>().or_else(|| Some(error.downcast_ref::<Arc<io::Error>>()?.as_ref()));
        if let Some(fault) = io.and_then(|io| io.get_ref()?.downcast_ref::<Fault>()) {
            return Some(fault.clone());
        }
        // An error of a reader may wrap another one of the system.
        next = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
