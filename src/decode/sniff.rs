//! The dialect and the header of an input, found in its head.
//!
//! Owns which delimiter a list uses, which row is its header and where its data starts. It does not know
//! what a header means; who does hands in a closure. Invariant: an option given by the user is never
//! overruled, and what is found depends on the head and the options alone.

use memchr::memchr_iter;

use crate::fault::{Code, Fault};
use crate::position::Position;
use crate::row::Row;
use crate::settings::{Dialect, HeaderRow, Wanted, shown, trim};

use super::Decoder;
use super::line::{self, Line, Rest};
use super::shape::Shape;

/// How much decoded text is looked at, in bytes; the header row must end within it.
pub const HEAD_MAX: usize = 1024 * 1024;

/// How many rows decide about the delimiter.
const SAMPLE_ROWS: usize = 200;

/// Among how many lines a header is looked for when the first row is none.
const LATER_LINES: u64 = 20;

/// What can stand between cells, the likelier to be meant first when all else is equal: a tab seldom
/// stands in a text, a comma often does.
const DELIMITERS: [u8; 4] = [b'\t', b';', b'|', b','];

/// What stands between cells in few lists and inside cells in many: never taken unasked, only offered.
const ODD_DELIMITERS: [u8; 5] = [b'^', b'~', b'#', b':', b' '];

/// What the head says about the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sniffed {
    /// How cells are told apart.
    pub dialect: Dialect,
    /// The header cells, trimmed; nothing under `--no-header`.
    pub header: Option<Vec<String>>,
    /// How many cells the first row has that is not blank; 0 when there is none under `--no-header`.
    pub width: usize,
    /// Where the first row stands that is not blank.
    pub first_row: Position,
    /// Where the first data record starts.
    pub data_start: Position,
    /// What looks wrong about the dialect; of use when the header makes no sense.
    pub suspicion: Option<Suspicion>,
}

/// What looks wrong about a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// The file seems to use another delimiter than the one that was given.
    OtherDelimiter(u8),
    /// Every line seems to be wrapped in quotes, so that it is a single cell.
    WrappedLines,
}

/// A line further down that looks like the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaterHeader {
    /// The line, from 1.
    pub line: u64,
    /// What `--skip-lines` would have to say.
    pub skip_lines: u64,
    /// The delimiter under which it is a header.
    pub delimiter: u8,
}

/// Finds dialect, header and start of data in `head`, the first decoded text of an input.
///
/// `rest` says whether anything follows the head, which should be `HEAD_MAX` bytes then. Errors:
/// `empty_file` and `no_header` when there is no row; `line_too_long` when the header row does not end
/// within the head; `no_header` when its quotes are broken; `bad_encoding` when it is not UTF-8.
pub fn sniff(head: &[u8], rest: Rest, wanted: &Wanted) -> Result<Sniffed, Fault> {
    if head.is_empty() {
        return Err(Fault::new(Code::EmptyFile, "the file is empty"));
    }
    let head = Head { text: head, rest };
    let (start, named) = head.start(wanted)?;
    let quoting = Dialect { delimiter: b',', quote: wanted.quote.unwrap_or(Some(b'"')), escape: wanted.escape };
    let trials = DELIMITERS.map(|delimiter| head.trial(Dialect { delimiter, ..quoting }, start, wanted.header));
    let guessed = choose(&trials, wanted.header);
    let delimiter = wanted.delimiter.or(named).unwrap_or(guessed);
    let dialect = Dialect { delimiter, ..quoting };

    let mut row = Row::default();
    let found = head.first_row(dialect, start, &mut row)?;
    if wanted.header == HeaderRow::Absent {
        let first_row = if found { row.start } else { start };
        return Ok(Sniffed {
            dialect,
            header: None,
            width: row.cells.len(),
            first_row,
            data_start: start,
            suspicion: None,
        });
    }
    if !found {
        return Err(match wanted.skip_lines {
            0 => Fault::new(Code::EmptyFile, "the file holds nothing but blank lines"),
            lines => Fault::new(Code::NoHeader, format!("nothing follows the {lines} lines that --skip-lines skips"))
                .hint("pass a smaller --skip-lines"),
        });
    }
    let header = header_cells(&row)?;
    let suspicion = if header.len() > 1 {
        None
    } else if wanted.delimiter.is_some() && guessed != delimiter && trials.iter().any(|t| t.is_header_of(guessed)) {
        Some(Suspicion::OtherDelimiter(guessed))
    } else if let Some(odd) = head.odd_delimiter(quoting, start, wanted) {
        Some(Suspicion::OtherDelimiter(odd))
    } else if row.raw.len() > row.text.len() && row.text.iter().any(|byte| DELIMITERS.contains(byte)) {
        Some(Suspicion::WrappedLines)
    } else {
        None
    };
    Ok(Sniffed {
        dialect,
        width: header.len(),
        header: Some(header),
        first_row: row.start,
        data_start: row.end,
        suspicion,
    })
}

/// The first of the head's first 20 lines, below the row that was taken as header, that `is_header` says
/// yes to, under the dialect's delimiter or another.
pub fn later_header(
    head: &[u8],
    sniffed: &Sniffed,
    mut is_header: impl FnMut(&[String]) -> bool,
) -> Option<LaterHeader> {
    let head = Head { text: head, rest: Rest::Nothing };
    let mut at = sniffed.data_start;
    while at.line <= LATER_LINES {
        let (line, next) = head.line(at)?;
        let others = DELIMITERS.into_iter().filter(|other| *other != sniffed.dialect.delimiter);
        for delimiter in std::iter::once(sniffed.dialect.delimiter).chain(others) {
            let mut row = Row::default();
            let mut decoder = Decoder::new(line, Dialect { delimiter, ..sniffed.dialect }, at);
            if decoder.next(&mut row).is_ok_and(|found| found) && row.fault.is_none() && is_header(&texts(&row)) {
                return Some(LaterHeader { line: at.line, skip_lines: at.line - 1, delimiter });
            }
        }
        at = next;
    }
    None
}

/// The first text of an input.
#[derive(Clone, Copy)]
struct Head<'a> {
    text: &'a [u8],
    rest: Rest,
}

impl<'a> Head<'a> {
    /// The line at a position and the position after it.
    fn line(self, at: Position) -> Option<(&'a [u8], Position)> {
        let rest = self.text.get(usize::try_from(at.byte).ok()?..)?;
        match line::first(rest, Rest::Nothing) {
            Line::Ends { len, ending } => {
                Some((rest.get(..len)?, Position { byte: at.byte + (len + ending) as u64, line: at.line + 1 }))
            }
            Line::More | Line::Nothing => None,
        }
    }

    /// Where rows start, after `--skip-lines` and a `sep=` line, and the delimiter which that line names.
    fn start(self, wanted: &Wanted) -> Result<(Position, Option<u8>), Fault> {
        let mut named = self.line(Position::START).and_then(|(line, _)| separator(line));
        let mut at = Position::START;
        for _ in 0..wanted.skip_lines {
            let Some((_, next)) = self.line(at) else {
                return Err(Fault::new(
                    Code::NoHeader,
                    format!("the file has {} lines, --skip-lines skips {}", at.line - 1, wanted.skip_lines),
                )
                .hint("pass a smaller --skip-lines"));
            };
            if self.rest == Rest::Unread && next.byte >= self.text.len() as u64 {
                return Err(Fault::new(
                    Code::LineTooLong,
                    format!("the {} lines that --skip-lines skips do not end within 1 MiB", wanted.skip_lines),
                ));
            }
            at = next;
        }
        if let Some((line, next)) = self.line(at)
            && let Some(delimiter) = separator(line)
        {
            named = named.or(Some(delimiter));
            at = next;
        }
        Ok((at, named))
    }

    /// The rows from `start` on, as far as the head shows them whole.
    fn rows(self, dialect: Dialect, start: Position) -> Decoder<&'a [u8]> {
        let from = usize::try_from(start.byte).unwrap_or(usize::MAX);
        Decoder::new(self.text.get(from..).unwrap_or_default(), dialect, start)
    }

    /// Whether the row may go on behind the head.
    fn is_cut(self, row: &Row) -> bool {
        self.rest == Rest::Unread && row.end.byte >= self.text.len() as u64
    }

    /// Reads the first row that is not blank; `false` when there is none.
    fn first_row(self, dialect: Dialect, start: Position, row: &mut Row) -> Result<bool, Fault> {
        let mut rows = self.rows(dialect, start);
        while rows.next(row).unwrap_or(false) {
            if self.is_cut(row) {
                return Err(Fault::new(
                    Code::LineTooLong,
                    format!("line {} does not end within 1 MiB, so this is hardly a list", row.start.line),
                ));
            }
            if !is_blank(row) {
                return Ok(true);
            }
        }
        row.clear();
        Ok(false)
    }

    /// A delimiter that is not looked for and fits all the same, when none was given.
    fn odd_delimiter(self, quoting: Dialect, start: Position, wanted: &Wanted) -> Option<u8> {
        let fits = |trial: &Trial| {
            let told_apart = trial.data_width == Some(trial.width);
            trial.width > 1 && (told_apart || (trial.delimiter != b' ' && trial.score >= 1500))
        };
        let trials = ODD_DELIMITERS.map(|delimiter| self.trial(Dialect { delimiter, ..quoting }, start, wanted.header));
        trials.into_iter().find(|trial| wanted.delimiter.is_none() && fits(trial)).map(|trial| trial.delimiter)
    }

    /// How the head looks under a dialect.
    fn trial(self, dialect: Dialect, start: Position, header_row: HeaderRow) -> Trial {
        let (mut row, mut rows) = (Row::default(), self.rows(dialect, start));
        let mut sample: Vec<Seen> = Vec::new();
        while sample.len() <= SAMPLE_ROWS && rows.next(&mut row).unwrap_or(false) && !self.is_cut(&row) {
            if !is_blank(&row) {
                sample.push(Seen::of(&row, dialect.delimiter));
            }
        }
        Trial::new(dialect.delimiter, &sample, header_row)
    }
}

/// What matters about a row for the choice of a delimiter.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Its cells; those it would have without quotes when it is at fault.
    cells: usize,
    /// Its cells without empty ones at the end.
    filled: usize,
    has_phone: bool,
    has_letters: bool,
}

impl Seen {
    fn of(row: &Row, delimiter: u8) -> Self {
        if row.fault.is_some() {
            let cells = memchr_iter(delimiter, &row.raw).count() + 1;
            return Self { cells, filled: cells, has_phone: false, has_letters: false };
        }
        let shapes: Vec<Shape> = (0..row.cells.len()).map(|column| Shape::of(row.cell(column))).collect();
        let empty = (0..row.cells.len()).rev().take_while(|column| row.cell(*column).trim_ascii().is_empty()).count();
        Self {
            cells: row.cells.len(),
            filled: row.cells.len() - empty,
            has_phone: shapes.iter().any(|shape| shape.is_bare_phone()),
            has_letters: shapes.iter().any(|shape| shape.has_letters()),
        }
    }
}

/// How well a delimiter fits.
#[derive(Debug, Clone, Copy)]
struct Trial {
    delimiter: u8,
    /// Cells of the header, or of most rows when there is none.
    width: usize,
    /// Rows that agree with the width, and rows with a cell that may be a phone, in thousandths, added.
    score: usize,
    /// Cells of most rows when more than half of them agree, and a phone and text stand in cells of their own.
    data_width: Option<usize>,
    /// Whether any row is split at all.
    splits: bool,
}

impl Trial {
    fn new(delimiter: u8, sample: &[Seen], header_row: HeaderRow) -> Self {
        let (header, data) = match (header_row, sample.split_first()) {
            (HeaderRow::Present, Some((header, data))) => (Some(header), data),
            (HeaderRow::Absent, _) | (HeaderRow::Present, None) => (None, sample),
        };
        let mut counts = std::collections::BTreeMap::new();
        for seen in data {
            *counts.entry(seen.cells).or_insert(0_usize) += 1;
        }
        let (common, most) = counts.into_iter().max_by_key(|(cells, rows)| (*rows, *cells)).unwrap_or((0, 0));
        let width = header.map_or(common, |header| header.cells);
        let agreeing = data.iter().filter(|seen| seen.cells == width || seen.cells > width && seen.filled <= width);
        let phones = data.iter().filter(|seen| seen.has_phone).count();
        let told_apart = phones > 0 && data.iter().any(|seen| seen.has_letters && seen.has_phone);
        Self {
            delimiter,
            width,
            score: (agreeing.count() + phones) * 1000 / data.len().max(1),
            data_width: (common > 1 && most * 2 > data.len() && told_apart).then_some(common),
            splits: sample.iter().any(|seen| seen.cells > 1),
        }
    }

    /// Whether the header falls apart under `delimiter`.
    fn is_header_of(&self, delimiter: u8) -> bool {
        self.delimiter == delimiter && self.width > 1
    }
}

/// The delimiter that fits best.
///
/// The header decides first: it is written by a program or by someone with the columns in mind, while
/// data holds decimal commas and lists. Only when no delimiter splits the header do the rows decide, and
/// only if the split sets a phone apart from text; else the input is one column, and the delimiter is one
/// that it does not contain.
fn choose(trials: &[Trial; 4], header_row: HeaderRow) -> u8 {
    let best_of = |fits: &dyn Fn(&Trial) -> Option<(usize, usize)>| {
        trials.iter().rev().filter_map(|trial| Some((fits(trial)?, trial.delimiter))).max_by_key(|(rank, _)| *rank)
    };
    let by_header = best_of(&|trial| (trial.width > 1).then_some((trial.score, trial.width)));
    let by_data = best_of(&|trial| trial.data_width.map(|width| (trial.score, width)));
    let found = match header_row {
        HeaderRow::Present => by_header.or(by_data),
        HeaderRow::Absent => by_data.or(by_header.filter(|((score, _), _)| *score >= 1500)),
    };
    found
        .map(|(_, delimiter)| delimiter)
        .unwrap_or_else(|| trials.iter().rev().find(|trial| !trial.splits).map_or(b',', |trial| trial.delimiter))
}

/// The delimiter that a `sep=;` line names, as Excel writes it.
fn separator(line: &[u8]) -> Option<u8> {
    let line = trim(std::str::from_utf8(line).ok()?.trim_matches(['\u{FEFF}', '"'])).as_bytes();
    // Trimming takes a tab off the end, and is told by its absence.
    let (word, sign) = line.split_at_checked(4)?;
    match (word.eq_ignore_ascii_case(b"sep="), sign) {
        (true, [] | b"\\t") => Some(b'\t'),
        (true, [sign]) if sign.is_ascii_punctuation() && *sign != b'"' => Some(*sign),
        _ => None,
    }
}

/// Whether a row holds nothing to read.
fn is_blank(row: &Row) -> bool {
    row.fault.is_none()
        && (0..row.cells.len())
            .all(|column| std::str::from_utf8(row.cell(column)).is_ok_and(|text| trim(text).is_empty()))
}

/// The cells of a row as trimmed text.
fn texts(row: &Row) -> Vec<String> {
    (0..row.cells.len()).map(|column| trim(&String::from_utf8_lossy(row.cell(column))).to_owned()).collect()
}

/// The cells of the header row, or what is wrong with it.
fn header_cells(row: &Row) -> Result<Vec<String>, Fault> {
    let line = row.start.line;
    // A stray quote in the header must not make the first rows part of it.
    let swallows = row.end.line > line + 1
        && row
            .text
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .skip(1)
            .any(|part| part.split(|byte| DELIMITERS.contains(byte)).any(|cell| Shape::of(cell).may_be_phone()));
    if row.fault.is_some() || swallows {
        return Err(Fault::new(Code::NoHeader, format!("the header on line {line} has a quote that is not closed"))
            .hint("mend the quote in the header, or pass --quote none when quotes mean nothing in this file"));
    }
    if let Some(column) = (0..row.cells.len()).find(|column| std::str::from_utf8(row.cell(*column)).is_err()) {
        return Err(Fault::new(
            Code::BadEncoding,
            format!(
                "the header on line {line} is not UTF-8: cell {} is '{}'",
                column + 1,
                shown(&String::from_utf8_lossy(row.cell(column)))
            ),
        ));
    }
    Ok(texts(row))
}
