//! How a cell looks, from afar.
//!
//! Owns the rough question whether a cell could hold a phone: it helps to tell rows from text and
//! delimiters from characters. It does not know which numbers exist. Invariant: nothing is stored or
//! refused as a phone by its shape alone.

/// The fewest digits of what looks like a phone.
const DIGITS_MIN: usize = 7;

/// The fewest digits of what looks like a phone with its area or country.
const DIGITS_FULL: usize = 10;

/// What a cell is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    digits: usize,
    letters: usize,
    delimiters: usize,
}

impl Shape {
    /// Counts the characters of a cell; bytes that are no UTF-8 count as letters.
    pub(super) fn of(cell: &[u8]) -> Self {
        let mut shape = Self { digits: 0, letters: 0, delimiters: 0 };
        for chunk in cell.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_numeric() {
                    shape.digits += 1;
                } else if c.is_alphabetic() {
                    shape.letters += 1;
                } else if matches!(c, ',' | ';' | '|' | '\t') {
                    shape.delimiters += 1;
                }
            }
            shape.letters += chunk.invalid().len();
        }
        shape
    }

    /// Whether it may be a phone, `tel:` and the like before it allowed.
    pub(super) fn may_be_phone(self) -> bool {
        self.digits >= DIGITS_MIN && self.letters < self.digits
    }

    /// Whether it may be a phone and nothing else.
    pub(super) fn is_bare_phone(self) -> bool {
        self.digits >= DIGITS_MIN && self.letters == 0 && self.delimiters == 0
    }

    /// Whether it may be a whole number with its area or country, and nothing else.
    pub(super) fn is_full_phone(self) -> bool {
        self.digits >= DIGITS_FULL && self.letters == 0
    }

    /// Whether it has letters.
    pub(super) fn has_letters(self) -> bool {
        self.letters > 0
    }
}
