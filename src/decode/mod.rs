//! Records with their positions, out of decoded text.
//!
//! Owns line ends, quoting, line numbers and the decision which bytes are one record. It does not know
//! where the text comes from, what a column means or how a row is judged. Invariant: every byte of the
//! text lies in exactly one row, and what a row is depends on the bytes from its start on and on nothing
//! else: not on how the reader chunks them, nor on where decoding began.
//!
//! A quote that is opened and never closed, closed by mistake in a later row, or followed by text costs
//! its own physical line alone: that line is a row at fault, and decoding goes on with the next line.

mod ahead;
mod line;
mod shape;
mod sniff;
mod split;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod sniff_tests;
#[cfg(test)]
mod tests;

use std::io::{self, Read};

use memchr::memchr;

use crate::position::Position;
use crate::reject::{RAW_KEPT, Reason, Refusal};
use crate::row::{RECORD_MAX, Row};
use crate::settings::Dialect;

use ahead::{Ahead, Chain, Expected, look_ahead};
use line::Line;
pub use line::Rest;
use split::{Split, split_plain, split_quoted};

pub use sniff::{HEAD_MAX, LaterHeader, Sniffed, Suspicion, later_header, sniff};

/// What the buffer holds at first, in bytes; enough that a system call is cheap beside its rows.
const BUFFER_START: usize = 256 * 1024;

/// What the buffer may grow to: one record and as much again, so that moving its rest to the front
/// costs no more than reading did.
const BUFFER_MAX: usize = 2 * RECORD_MAX;

/// Why a quoted cell makes its row one that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Something other than blanks stands between the closing quote and the end of the cell.
    TextAfterQuote,
    /// The quote is not closed before the input or the longest record ends.
    NeverClosed,
    /// What the quote would enclose holds a row of its own.
    SwallowsRow,
}

impl Trouble {
    fn refusal(self) -> Refusal {
        let detail = match self {
            Self::TextAfterQuote => "text follows the closing quote of a cell",
            Self::NeverClosed => "a quoted cell is not closed within 1 MiB or before the end of the file",
            Self::SwallowsRow => "a quoted cell is not closed before the next row begins",
        };
        Refusal::new(Reason::BadQuoting, detail)
    }
}

/// Reads records one after another, in memory that does not grow with the input (at most 2 MiB, beside
/// the row).
#[derive(Debug)]
pub struct Decoder<R> {
    reader: R,
    dialect: Dialect,
    expected: Option<Expected>,
    buffer: Vec<u8>,
    /// The bytes `from..to` of the buffer are read and not yet returned.
    from: usize,
    to: usize,
    /// The reader has said that there is no more.
    rest: Rest,
    at: Position,
    chain: Option<Chain>,
}

impl<R: Read> Decoder<R> {
    /// A decoder of text that `reader` gives from `at` on; `at` is the start of a record.
    pub fn new(reader: R, dialect: Dialect, at: Position) -> Self {
        Self {
            reader,
            dialect,
            expected: None,
            buffer: vec![0; BUFFER_START],
            from: 0,
            to: 0,
            rest: Rest::Unread,
            at,
            chain: None,
        }
    }

    /// Tells how a row of this input looks: `width` cells, the phone at `phone_column` (from 0).
    ///
    /// From then on a quoted cell that runs over a line end is refused when what it encloses holds a row
    /// of its own, so that a forgotten quote which happens to meet a later one loses no rows. Give every
    /// decoder of one input the same expectation.
    pub fn watch_for(&mut self, width: usize, phone_column: usize) {
        self.expected = Some(Expected { width, phone_column });
        self.chain = None;
    }

    /// Where the next record starts.
    pub fn position(&self) -> Position {
        self.at
    }

    /// Fills `row` with the next record; `false` at the end of the input.
    ///
    /// A blank physical line is a row without cells; a line that is not ended by the end of the input is
    /// a row, and nothing follows the last line end. A record at fault has no cells. Errors are the
    /// reader's own.
    pub fn next(&mut self, row: &mut Row) -> io::Result<bool> {
        row.clear();
        row.start = self.at;
        let (len, ending) = loop {
            match line::first(self.window(), self.rest) {
                Line::Ends { len, ending } if len <= RECORD_MAX => break (len, ending),
                Line::Ends { .. } => return self.overlong(row),
                Line::More if self.to - self.from > RECORD_MAX + 1 => return self.overlong(row),
                Line::More => self.fill()?,
                Line::Nothing => return Ok(false),
            }
        };
        let line = piece(&self.buffer, self.from, len);
        let quote = match self.dialect.quote {
            Some(quote) if memchr(quote, line).is_some() => quote,
            _ => {
                split_plain(line, self.dialect.delimiter, row);
                self.advance(row, len, ending, 1);
                return Ok(true);
            }
        };
        let trouble = match split_quoted(line, self.dialect, quote, row) {
            Split::Closed => {
                self.advance(row, len, ending, 1);
                return Ok(true);
            }
            Split::TextAfterQuote => Trouble::TextAfterQuote,
            Split::Open { quote_at } => {
                let ahead = loop {
                    let (window, rest, at) = (piece(&self.buffer, self.from, self.to - self.from), self.rest, self.at);
                    let first = ahead::First { len, ending, quote_at };
                    match look_ahead(window, rest, at.byte, first, self.dialect, quote, self.expected, &mut self.chain)
                    {
                        Ahead::More => self.fill()?,
                        decided => break decided,
                    }
                };
                match ahead {
                    Ahead::Closed { len, ending } => {
                        row.clear();
                        let content = piece(&self.buffer, self.from, len);
                        split_quoted(content, self.dialect, quote, row);
                        let lines = line::count_ends(content) + 1;
                        self.advance(row, len, ending, lines);
                        return Ok(true);
                    }
                    Ahead::Trouble(trouble) => trouble,
                    Ahead::More => Trouble::NeverClosed,
                }
            }
        };
        row.clear();
        row.fault = Some(trouble.refusal());
        self.advance(row, len, ending, 1);
        Ok(true)
    }

    /// What is read and not yet returned.
    fn window(&self) -> &[u8] {
        piece(&self.buffer, self.from, self.to - self.from)
    }

    /// Takes the record of `len` bytes off the buffer.
    fn advance(&mut self, row: &mut Row, len: usize, ending: usize, lines: u64) {
        row.raw.extend_from_slice(piece(&self.buffer, self.from, len));
        self.from += len + ending;
        self.at.byte += (len + ending) as u64;
        self.at.line += lines;
        row.end = self.at;
    }

    /// A physical line that is longer than a record may be: its head is kept, the rest is skipped.
    fn overlong(&mut self, row: &mut Row) -> io::Result<bool> {
        row.raw.extend_from_slice(piece(&self.buffer, self.from, whole_characters(self.window(), RAW_KEPT)));
        let mut size = 0_u64;
        loop {
            match line::first(self.window(), self.rest) {
                Line::Ends { len, ending } => {
                    size += len as u64;
                    self.from += len + ending;
                    self.at.byte += size + ending as u64;
                    break;
                }
                Line::Nothing => {
                    self.at.byte += size;
                    break;
                }
                Line::More => {
                    // A CR at the very end stays: an LF may follow it.
                    let window = self.window();
                    let skipped = window.len() - usize::from(window.last() == Some(&b'\r'));
                    size += skipped as u64;
                    self.from += skipped;
                    self.fill()?;
                }
            }
        }
        self.at.line += 1;
        row.end = self.at;
        row.fault = Some(Refusal::new(
            Reason::FieldTooLong,
            format!("the row is {size} bytes long, a row may have {RECORD_MAX}"),
        ));
        Ok(true)
    }

    /// Reads until the buffer is full or the input ends, so that decisions never depend on chunks.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        if self.to == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).min(BUFFER_MAX), 0);
        }
        while let Some(free @ [_, ..]) = self.buffer.get_mut(self.to..) {
            match self.reader.read(free) {
                Ok(0) => {
                    self.rest = Rest::Nothing;
                    break;
                }
                Ok(read) => self.to += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The `len` bytes from `from` on, or what there is of them.
fn piece(buffer: &[u8], from: usize, len: usize) -> &[u8] {
    buffer.get(from..from + len).unwrap_or_default()
}

/// At most `most` bytes of `text`, fewer where the last would be part of a UTF-8 character.
fn whole_characters(text: &[u8], most: usize) -> usize {
    if text.len() <= most {
        return text.len();
    }
    (most.saturating_sub(3)..=most)
        .rev()
        .find(|end| text.get(*end).is_none_or(|byte| byte & 0xC0 != 0x80))
        .unwrap_or(most)
}
