//! Whether a quote that is open at a line end is meant.
//!
//! Owns the look-ahead over following lines and the judgement on them. It does not produce cells.
//! Invariant: the verdict is a function of the bytes from the start of the record on; the memory of
//! earlier look-aheads (`Chain`) saves time and changes no verdict.
//!
//! A line end inside quotes is legal (addresses have them), so a forgotten quote is told apart by what
//! the quotes would enclose: text that runs on without end, text behind the closing quote, or a line that
//! read by itself is a row, its phone in the phone column.

use memchr::{memchr_iter, memrchr};

use crate::row::RECORD_MAX;
use crate::settings::Dialect;

use super::line::{self, Line, Rest};
use super::shape::Shape;
use super::split::{InsideEnd, Split, read_inside};
use super::{Trouble, piece};

/// How a row of the input looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) width: usize,
    pub(super) phone_column: usize,
}

/// The first physical line of the record in question: its length, its line end and its open quote.
#[derive(Debug, Clone, Copy)]
pub(super) struct First {
    pub(super) len: usize,
    pub(super) ending: usize,
    pub(super) quote_at: usize,
}

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// The record is `len` bytes long, then come `ending` bytes of line end.
    Closed { len: usize, ending: usize },
    /// The quote is not meant.
    Trouble(Trouble),
    /// More text is needed.
    More,
}

/// What an earlier look-ahead found, so that a file in which every line leaves a quote open is still
/// read in linear time: from every line start in `from..=to` on, inside quotes, one arrives at `to`
/// inside quotes, and there the trouble is, if any. Offsets of the decoded text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    from: u64,
    to: u64,
    trouble: Option<Trouble>,
}

/// Follows the open quote of `first` through `window`, which starts with the record, at offset `base`.
#[expect(clippy::too_many_arguments, reason = "one decision over the decoder's whole state, called once")]
pub(super) fn look_ahead(
    window: &[u8],
    rest: Rest,
    base: u64,
    first: First,
    dialect: Dialect,
    quote: u8,
    expected: Option<Expected>,
    chain: &mut Option<Chain>,
) -> Ahead {
    let line = piece(window, 0, first.len);
    if expected.is_some_and(|e| holds_row(line, None, Some(first.quote_at), dialect.delimiter, e)) {
        return Ahead::Trouble(Trouble::SwallowsRow);
    }
    let mut at = first.len + first.ending;
    let from = base + at as u64;
    let remember = |to: usize, trouble| Some(Chain { from, to: base + to as u64, trouble });
    match *chain {
        Some(Chain { trouble: Some(trouble), from: known, to }) if known <= from && from <= to => {
            return Ahead::Trouble(trouble);
        }
        Some(Chain { trouble: None, from: known, to }) if known <= from && from <= to => {
            at = usize::try_from(to - base).unwrap_or(at);
        }
        _ => {}
    }
    loop {
        let (len, ending) = match line::first(window.get(at..).unwrap_or_default(), rest) {
            Line::Ends { len, ending } if at + len <= RECORD_MAX => (len, ending),
            Line::More if window.len() <= RECORD_MAX + 1 => return Ahead::More,
            Line::Ends { .. } | Line::More | Line::Nothing => {
                *chain = remember(at, None);
                return Ahead::Trouble(Trouble::NeverClosed);
            }
        };
        let line = piece(window, at, len);
        let inside = read_inside(line, dialect, quote);
        let open_at = match inside.end {
            InsideEnd::Split(Split::Open { quote_at }) => Some(quote_at),
            _ => None,
        };
        let until = inside.close_at.unwrap_or(len);
        let trouble = if expected.is_some_and(|e| holds_row(line, Some(until), open_at, dialect.delimiter, e)) {
            Trouble::SwallowsRow
        } else {
            match inside.end {
                InsideEnd::Split(Split::Closed) => return Ahead::Closed { len: at + len, ending },
                InsideEnd::SameCell | InsideEnd::Split(Split::Open { .. }) => {
                    at += len + ending;
                    continue;
                }
                InsideEnd::Split(Split::TextAfterQuote) => Trouble::TextAfterQuote,
            }
        };
        *chain = remember(at, Some(trouble));
        return Ahead::Trouble(trouble);
    }
}

/// Whether a line of a record, read by itself and without regard to quotes, is a row whose phone begins
/// inside the quotes that run over its start (up to `until`) or over its end (from `since`).
///
/// Only a phone *inside* counts: in a list with the phone last, the line that closes a name of two lines
/// ends with the record's own phone. A line with fewer cells than a row counts when the delimiter is
/// inside as well and the phone is a whole one, for short rows may be allowed; an address seldom has
/// that, and a reject can be mended while a lost row cannot.
fn holds_row(line: &[u8], until: Option<usize>, since: Option<usize>, delimiter: u8, expected: Expected) -> bool {
    let Expected { width, phone_column } = expected;
    let mut cells = 1;
    let (mut start, mut end) = (if phone_column == 0 { Some(0) } else { None }, None);
    for at in memchr_iter(delimiter, line) {
        if cells == phone_column {
            start = Some(at + 1);
        } else if cells == phone_column + 1 {
            end = Some(at);
        }
        cells += 1;
    }
    let Some(start) = start else { return false };
    let within_start = until.is_some_and(|until| start <= until);
    if !within_start && since.is_none_or(|since| start <= since) {
        return false;
    }
    let shape = Shape::of(line.get(start..end.unwrap_or(line.len())).unwrap_or_default());
    if cells >= width {
        return shape.may_be_phone();
    }
    let enclosed = if within_start { line.get(..until.unwrap_or(0)) } else { line.get(since.unwrap_or(0)..) };
    shape.is_full_phone() && memrchr(delimiter, enclosed.unwrap_or_default()).is_some()
}
