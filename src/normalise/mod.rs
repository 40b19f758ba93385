//! From a row to a recipient or a reject.
//!
//! Owns the order of the checks and the reading of every cell but the phone. It does not know how a row
//! was decoded or where a recipient is stored. Invariant: a row ends in exactly one way, the same on every
//! run with the same settings; no text with a NUL or an undecodable character leaves here.
//!
//! Words for nothing (`NULL`, `N/A`, `#N/A`, `NaN` …) count as empty in every cell, in exactly these
//! spellings: 'Null' can be a surname.

#[cfg(test)]
mod tests;
mod version;

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::fault::{Code, Fault};
use crate::header::fold_header;
use crate::phone::PhoneRules;
use crate::recipient::{Recipient, Values};
use crate::reject::{Reason, Refusal, Reject};
use crate::row::Row;
use crate::settings::{Blank, Columns, Constants, HeaderRow, Origin, Settings, ShortRows, trim};

/// What databases and spreadsheets write where there is nothing. `NA` is not among them: it is Namibia.
const NOTHING: [&str; 10] = ["NULL", "(NULL)", "\\N", "N/A", "n/a", "#N/A", "#NULL!", "NaN", "#YOK", "#Δ/Υ"];

/// The longest of them, in bytes.
const NOTHING_MAX: usize = 6;

pub use crate::batch::Outcome;

/// What an attribute is filled with.
#[derive(Debug, Clone)]
enum Filled {
    /// The cell of this column.
    Cell(usize),
    /// The same text in every row.
    Constant(String),
}

/// A refusal and the 0-based column at fault.
type Refused = (Option<usize>, Refusal);

/// Reads the rows of one import.
#[derive(Debug, Clone)]
pub struct Normaliser {
    rules: PhoneRules,
    columns: Columns,
    /// Where each attribute comes from, in the order of `Recipient::attributes`.
    attributes: Vec<Filled>,
    /// The name that every row gets.
    constant_name: Option<String>,
    header: Vec<String>,
    /// The folded headers of the list's own columns; empty without a header row.
    folded: Vec<String>,
    /// Whether the phone's header holds a letter: then a repeated header does too.
    lettered: bool,
    /// How many cells a row needs: up to the last column with a header.
    needed: usize,
    /// How many columns are the list's own, without those of a reject file.
    own: usize,
    max_name_length: Option<u32>,
    blank: Blank,
    short_rows: ShortRows,
    /// Whether a row may end with its last cell that is not empty, as those of a sheet do.
    cut_short: bool,
    /// Whether U+FFFD marks a character that could not be decoded.
    transcoded: bool,
}

impl Normaliser {
    /// A normaliser for one import.
    ///
    /// # Errors
    ///
    /// `usage` when the settings name a region for which there are no number rules, or give every row a name
    /// that is too long.
    pub fn new(settings: &Settings) -> Result<Self, Fault> {
        let rules = PhoneRules::new(settings.region.as_deref(), settings.phone_type)
            .map_err(|message| Fault::new(Code::Usage, message).hint(crate::fault::REGION_HINT))?;
        let columns = settings.columns.clone();
        let own = columns.reject_reason.map_or(columns.width, |at| at.saturating_sub(2));
        let present = settings.header_row == HeaderRow::Present;
        let folded: Vec<String> = if present {
            settings.header.iter().take(own).map(|header| fold_header(header)).collect()
        } else {
            Vec::new()
        };
        let lettered = folded.get(columns.phone).is_some_and(|header| header.chars().any(char::is_alphabetic));
        let named = settings.header.iter().rposition(|header| !trim(header).is_empty());
        let filled = settings.attributes().into_iter().map(|(_, origin)| match origin {
            Origin::Column(at) => Filled::Cell(at),
            Origin::Constant(text) => Filled::Constant(text.to_owned()),
        });
        Ok(Self {
            attributes: filled.collect(),
            constant_name: constant_name(&settings.constants, settings.max_name_length)?,
            rules,
            needed: if present { named.map_or(0, |at| at + 1) } else { columns.width },
            header: settings.header.clone(),
            folded,
            lettered,
            own,
            columns,
            max_name_length: settings.max_name_length,
            blank: settings.blank,
            short_rows: settings.short_rows,
            cut_short: settings.sheet.is_some(),
            transcoded: !settings.encoding.eq_ignore_ascii_case("utf-8"),
        })
    }

    /// Reads one row.
    pub fn normalise(&self, row: &Row) -> Outcome {
        match self.read(row) {
            Ok(Some(recipient)) => Outcome::Recipient(recipient),
            Ok(None) => Outcome::Blank,
            Err((column, refusal)) => Outcome::Reject(Reject {
                at: row.start,
                column: column.and_then(|at| self.header.get(at)).cloned(),
                reason: refusal.reason,
                detail: refusal.detail,
                raw: row.raw.clone(),
            }),
        }
    }

    fn read(&self, row: &Row) -> Result<Option<Recipient>, Refused> {
        if let Some(fault) = &row.fault {
            return Err((None, fault.clone()));
        }
        let cells = self.text(row)?;
        if (0..row.cells.len()).all(|at| cells.get(at).is_empty()) {
            return Ok(None);
        }
        if self.repeats_header(&cells) {
            return Err((None, Refusal::new(Reason::RepeatedHeader, "the row repeats the header")));
        }
        self.check_width(row, &cells)?;
        let phone = self.phone(&cells)?;
        let name = match self.columns.name {
            Some(at) => self.name(at, &cells)?,
            None => self.constant_name.clone(),
        };
        let version = match self.columns.version {
            Some(at) => match value(cells.get(at)) {
                "" => None,
                text => Some(version::version(text).ok_or_else(|| {
                    (Some(at), Refusal::new(Reason::VersionInvalid, "neither a whole number nor an ISO date or time"))
                })?),
            },
            None => None,
        };
        let mut attributes = Values::with_capacity(self.attributes.len(), self.attribute_bytes(row));
        for filled in &self.attributes {
            attributes.push(match filled {
                Filled::Cell(at) => self.stated(value(cells.get(*at))),
                Filled::Constant(text) => Some(text),
            });
        }
        Ok(Some(Recipient { phone, name, attributes, version }))
    }

    /// The row as text, once it is known to be text in every cell.
    fn text<'a>(&self, row: &'a Row) -> Result<Cells<'a>, Refused> {
        let column_of = |found: &dyn Fn(&[u8]) -> bool| (0..row.cells.len()).find(|at| found(row.cell(*at)));
        let bad = |column, detail: &str| (column, Refusal::new(Reason::BadEncoding, detail));
        let Ok(text) = std::str::from_utf8(&row.text) else {
            let column = column_of(&|cell| std::str::from_utf8(cell).is_err());
            return Err(bad(column, "holds bytes that are no characters in UTF-8"));
        };
        let cells = Cells { row, text };
        if !row.cells.iter().all(|range| text.get(range.clone()).is_some()) {
            return Err(bad(None, "a character is cut in two"));
        }
        if self.transcoded && text.contains('\u{FFFD}') {
            let column = (0..row.cells.len()).find(|at| cells.get(*at).contains('\u{FFFD}'));
            return Err(bad(column, "holds bytes that are no characters in the file's character set"));
        }
        if memchr::memchr(0, text.as_bytes()).is_some() {
            let column = column_of(&|cell| cell.contains(&0));
            return Err((
                column,
                Refusal::new(Reason::NulByte, "holds a NUL character, which no database text can hold"),
            ));
        }
        Ok(cells)
    }

    /// Whether every cell that says something says what its header says, the phone's among them.
    fn repeats_header(&self, cells: &Cells<'_>) -> bool {
        let phone = cells.get(self.columns.phone);
        if self.folded.is_empty() || phone.is_empty() {
            return false;
        }
        // Nearly every phone is without letters and need not be folded.
        if self.lettered && phone.is_ascii() && !phone.bytes().any(|b| b.is_ascii_alphabetic()) {
            return false;
        }
        self.folded.get(self.columns.phone).is_some_and(|header| *header == fold_header(phone))
            && self
                .folded
                .iter()
                .enumerate()
                .all(|(at, header)| cells.get(at).is_empty() || *header == fold_header(cells.get(at)))
    }

    fn check_width(&self, row: &Row, cells: &Cells<'_>) -> Result<(), Refused> {
        let found = row.cells.len();
        let width = self.columns.width;
        let short = |detail: String| Err((None, Refusal::new(Reason::RowTooShort, detail)));
        let long = |detail: String| Err((None, Refusal::new(Reason::RowTooLong, detail)));
        if found < self.needed && self.short_rows == ShortRows::Reject && !self.cut_short {
            return short(format!("{found} cells, the header has {width}"));
        }
        if (width..found).any(|at| !cells.get(at).is_empty()) {
            return long(format!("{found} cells, the header has {width}"));
        }
        // A reject file pads short rows and gives the cells of long ones blank headers; what was wrong
        // with such a row is mended only when those cells changed.
        let Some(reason) = self.columns.reject_reason.map(|at| cells.get(at)) else { return Ok(()) };
        let last = self.header.iter().take(self.own).rposition(|header| !trim(header).is_empty());
        let unfilled = last.is_some_and(|at| cells.get(at).is_empty());
        if reason == Reason::RowTooShort.code() && unfilled && self.short_rows == ShortRows::Reject {
            return short("the cells that were missing are still empty".to_owned());
        }
        let spare = (last.map_or(0, |at| at + 1)..self.own).any(|at| !cells.get(at).is_empty());
        if reason == Reason::RowTooLong.code() && spare {
            return long("there is still text in cells without a header".to_owned());
        }
        Ok(())
    }

    fn phone(&self, cells: &Cells<'_>) -> Result<crate::phone::Phone, Refused> {
        let region = self.columns.region.map(|at| value(cells.get(at))).filter(|text| !text.is_empty());
        self.rules.read(cells.get(self.columns.phone), region).map_err(|refusal| {
            // The default region would have been used, had the row not named another one.
            let at = match (refusal.reason, region) {
                (Reason::PhoneNoRegion, Some(_)) => self.columns.region,
                _ => Some(self.columns.phone),
            };
            (at, refusal)
        })
    }

    fn name(&self, at: usize, cells: &Cells<'_>) -> Result<Option<String>, Refused> {
        let name = one_line(value(cells.get(at)));
        match too_long(&name, self.max_name_length) {
            Some(detail) => Err((Some(at), Refusal::new(Reason::FieldTooLong, detail))),
            None if self.stated(&name).is_none() => Ok(None),
            None => Ok(Some(name.into_owned())),
        }
    }

    /// What a cell states: nothing where it is empty, unless empty cells are to clear.
    fn stated<'a>(&self, text: &'a str) -> Option<&'a str> {
        if text.is_empty() && self.blank == Blank::Keep { None } else { Some(text) }
    }

    /// How much room the attributes of a row take at most, in bytes.
    fn attribute_bytes(&self, row: &Row) -> usize {
        let bytes = self.attributes.iter().map(|filled| match filled {
            Filled::Cell(at) => row.cells.get(*at).map_or(0, std::ops::Range::len),
            Filled::Constant(text) => text.len(),
        });
        bytes.sum()
    }
}

/// The cells of a row whose text is valid.
struct Cells<'a> {
    row: &'a Row,
    text: &'a str,
}

impl<'a> Cells<'a> {
    /// A cell, trimmed; empty where the row has no such cell.
    fn get(&self, column: usize) -> &'a str {
        trim(self.row.cells.get(column).and_then(|range| self.text.get(range.clone())).unwrap_or_default())
    }
}

/// A trimmed cell, empty where it holds a word for nothing.
fn value(cell: &str) -> &str {
    if cell.len() <= NOTHING_MAX && NOTHING.contains(&cell) { "" } else { cell }
}

/// How a name is longer than what is allowed, if it is.
fn too_long(name: &str, most: Option<u32>) -> Option<String> {
    let (most, length) = (most?, name.chars().count());
    let over = u32::try_from(length).map_or(true, |length| length > most);
    over.then(|| format!("{length} characters, at most {most} are allowed"))
}

/// The name that `--set` gives every row, as a name is stored.
fn constant_name(constants: &Constants, most: Option<u32>) -> Result<Option<String>, Fault> {
    let Some(name) = constants.name.as_deref().map(one_line) else { return Ok(None) };
    match too_long(&name, most) {
        Some(why) => Err(Fault::new(Code::Usage, format!("the name of --set name=… is too long: {why}"))
            .hint("choose a shorter name, or raise --max-name-length")),
        None => Ok(Some(name.into_owned())),
    }
}

/// A name on one line: runs of white space become one blank, characters are composed (NFC).
fn one_line(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let spaced = if text.split(' ').all(|word| !word.is_empty() && !word.contains(char::is_whitespace)) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    match is_nfc_quick(spaced.chars()) {
        IsNormalized::Yes => spaced,
        _ => Cow::Owned(spaced.nfc().collect()),
    }
}

/// Whether a name has no white space but single blanks, and no character that could be composed, as far as bytes tell:
/// those of Latin and Greek names below U+0300 and from U+0388 to U+03FF.
fn is_plain(name: &[u8]) -> bool {
    let mut before = b' ';
    let plain = name.iter().all(|&byte| {
        let last = std::mem::replace(&mut before, byte);
        match byte {
            b' ' => last != b' ',
            b'!'..=b'~' => true,
            // The second byte: after 0xCE it would be U+0387, which is composed to another.
            0x80..=0xBF => last != 0xCE || byte >= 0x88,
            0xC3..=0xCB | 0xCE | 0xCF => true,
            _ => false,
        }
    });
    plain && before != b' '
}
