//! Physical lines.
//!
//! Owns what a line end is: CR, LF and CRLF, in any mix, each end one line. It knows no quotes.
//! Invariant: CRLF is one line end, wherever a buffer ends.

use memchr::{memchr2, memchr2_iter};

/// The first physical line of a stretch of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// It is whole: `len` bytes, then `ending` bytes of line end (none at the end of the input).
    Ends { len: usize, ending: usize },
    /// It cannot be told without more text.
    More,
    /// There is no line.
    Nothing,
}

/// What comes behind a stretch of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: the input ends with the text.
    Nothing,
    /// There may be more.
    Unread,
}

/// The first line of `text`.
pub(super) fn first(text: &[u8], rest: Rest) -> Line {
    match memchr2(b'\r', b'\n', text) {
        Some(len) if text.get(len) == Some(&b'\n') => Line::Ends { len, ending: 1 },
        Some(len) => match text.get(len + 1) {
            Some(b'\n') => Line::Ends { len, ending: 2 },
            Some(_) => Line::Ends { len, ending: 1 },
            None if rest == Rest::Nothing => Line::Ends { len, ending: 1 },
            None => Line::More,
        },
        None if rest == Rest::Unread => Line::More,
        None if text.is_empty() => Line::Nothing,
        None => Line::Ends { len: text.len(), ending: 0 },
    }
}

/// How many line ends `text` has, taken as whole.
pub(super) fn count_ends(text: &[u8]) -> u64 {
    memchr2_iter(b'\r', b'\n', text)
        .filter(|at| !(text.get(*at) == Some(&b'\r') && text.get(at + 1) == Some(&b'\n')))
        .count() as u64
}
