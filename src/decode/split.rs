//! One record into its cells.
//!
//! Owns the rules of quoting: a quote opens at the start of a cell only (after blanks at most), is
//! doubled or escaped inside, and is followed by the end of the cell (after blanks at most); elsewhere
//! it is an ordinary character. It does not know lines. Invariant: nothing is lost silently; what does
//! not follow the rules is reported.

use memchr::{memchr, memchr_iter, memchr2};

use crate::row::Row;
use crate::settings::Dialect;

/// How the splitting of a stretch of text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Split {
    /// Outside of quotes.
    Closed,
    /// Inside the quoted cell whose quote stands at `quote_at`.
    Open { quote_at: usize },
    /// At text behind a closing quote.
    TextAfterQuote,
}

/// Splits a record in which quotes mean nothing; an empty one has no cells.
pub(super) fn split_plain(line: &[u8], delimiter: u8, row: &mut Row) {
    if line.is_empty() {
        return;
    }
    row.text.extend_from_slice(line);
    let mut start = 0;
    for at in memchr_iter(delimiter, line) {
        row.cells.push(start..at);
        start = at + 1;
    }
    row.cells.push(start..line.len());
}

/// Splits a record into the row's cells, unquoted.
pub(super) fn split_quoted(content: &[u8], dialect: Dialect, quote: u8, row: &mut Row) -> Split {
    let Row { text, cells, .. } = row;
    walk(content, 0, dialect, quote, |event| match event {
        Event::Text(bytes) => text.extend_from_slice(bytes),
        Event::CellEnds => {
            let start = cells.last().map_or(0, |cell: &std::ops::Range<usize>| cell.end);
            cells.push(start..text.len());
        }
    })
}

/// What a line holds that starts inside a quoted cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inside {
    /// Where the quote is closed, when it is.
    pub(super) close_at: Option<usize>,
    /// How the line ends; `Open` without a place when the first quote is never closed in it.
    pub(super) end: InsideEnd,
}

/// How a line ends that starts inside a quoted cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InsideEnd {
    /// Still inside the same cell.
    SameCell,
    /// As any line.
    Split(Split),
}

/// Reads a line that starts inside a quoted cell.
pub(super) fn read_inside(line: &[u8], dialect: Dialect, quote: u8) -> Inside {
    let Some(after) = unquote(line, 0, quote, dialect.escape, &mut |_| {}) else {
        return Inside { close_at: None, end: InsideEnd::SameCell };
    };
    let at = skip_blanks(line, after, dialect.delimiter);
    let split = match line.get(at) {
        None => Split::Closed,
        Some(byte) if *byte == dialect.delimiter => walk(line, at + 1, dialect, quote, |_| {}),
        Some(_) => Split::TextAfterQuote,
    };
    Inside { close_at: Some(after - 1), end: InsideEnd::Split(split) }
}

/// What is met on the way through a record.
enum Event<'a> {
    /// More of the present cell, unquoted.
    Text(&'a [u8]),
    /// The present cell is whole.
    CellEnds,
}

/// Goes through a record from the start of a cell at `at`.
fn walk(content: &[u8], mut at: usize, dialect: Dialect, quote: u8, mut on: impl FnMut(Event<'_>)) -> Split {
    loop {
        let opened = skip_blanks(content, at, dialect.delimiter);
        if content.get(opened) == Some(&quote) {
            let Some(after) = unquote(content, opened + 1, quote, dialect.escape, &mut |text| on(Event::Text(text)))
            else {
                return Split::Open { quote_at: opened };
            };
            on(Event::CellEnds);
            at = skip_blanks(content, after, dialect.delimiter);
            match content.get(at) {
                None => return Split::Closed,
                Some(byte) if *byte == dialect.delimiter => at += 1,
                Some(_) => return Split::TextAfterQuote,
            }
        } else {
            let rest = content.get(at..).unwrap_or_default();
            let len = memchr(dialect.delimiter, rest);
            on(Event::Text(rest.get(..len.unwrap_or(rest.len())).unwrap_or_default()));
            on(Event::CellEnds);
            match len {
                None => return Split::Closed,
                Some(len) => at += len + 1,
            }
        }
    }
}

/// Reads a quoted cell from behind its opening quote; where it goes on behind the closing one, or
/// nothing when it is not closed.
fn unquote(
    content: &[u8],
    mut at: usize,
    quote: u8,
    escape: Option<u8>,
    on_text: &mut impl FnMut(&[u8]),
) -> Option<usize> {
    // An escape that is the quote itself is the doubling that is understood anyway.
    let escape = escape.filter(|escape| *escape != quote);
    loop {
        let rest = content.get(at..).unwrap_or_default();
        let found = match escape {
            Some(escape) => memchr2(quote, escape, rest),
            None => memchr(quote, rest),
        };
        let Some(len) = found else {
            on_text(rest);
            return None;
        };
        on_text(rest.get(..len).unwrap_or_default());
        let sign = rest.get(len..=len).unwrap_or_default();
        let next = rest.get(len + 1).copied();
        if sign == [quote] {
            if next != Some(quote) {
                return Some(at + len + 1);
            }
            on_text(sign);
            at += len + 2;
        } else if next.is_some() && (next == Some(quote) || next == escape) {
            on_text(rest.get(len + 1..len + 2).unwrap_or_default());
            at += len + 2;
        } else {
            // An escape before anything else is a character like others.
            on_text(sign);
            at += len + 1;
        }
    }
}

/// Past the blanks that may stand around a quoted cell: space, tab, no-break space, and the byte order
/// mark that joined files have in their middle.
fn skip_blanks(content: &[u8], mut at: usize, delimiter: u8) -> usize {
    loop {
        match content.get(at..).unwrap_or_default() {
            [b' ' | b'\t', ..] if content.get(at) != Some(&delimiter) => at += 1,
            [0xC2, 0xA0, ..] => at += 2,
            [0xEF, 0xBB, 0xBF, ..] => at += 3,
            _ => return at,
        }
    }
}
