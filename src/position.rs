//! Where a row stands in the input.
//!
//! Owns the one notion of place that checkpoints, rejects and messages share. It does not know how the
//! text was decoded. Invariant: a position always lies after a whole line end (or at the very start),
//! and its two halves are advanced together.

use serde::{Deserialize, Serialize};

/// A place in the *decoded* text of an input.
///
/// `byte` counts bytes of UTF-8 text after decompression, character set conversion and removal of a
/// byte order mark. `line` is the 1-based number of the physical line that starts there; CR, LF and
/// CRLF each end one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Offset in bytes of decoded text, from 0.
    pub byte: u64,
    /// Number of the line that starts here, from 1.
    pub line: u64,
}

impl Position {
    /// The start of every input.
    pub const START: Self = Self { byte: 0, line: 1 };
}

impl Default for Position {
    fn default() -> Self {
        Self::START
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {} (byte {})", self.line, self.byte)
    }
}

/// A contiguous, half-open stretch `[from, to)` of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Range {
    /// First position inside.
    pub from: Position,
    /// First position after.
    pub to: Position,
}
