//! Rows that are refused.
//!
//! Owns the reasons, their stable codes and what to do about each. A refused row is data and never an
//! error; this file does not know who refuses. Invariant: a code, once published, keeps its meaning.

use serde::{Deserialize, Serialize};

use crate::position::Position;

/// Declares the reasons with their code, what each means and what to do about it, in one table.
macro_rules! reasons {
    ($($variant:ident $code:literal $means:literal $remedy:literal;)*) => {
        /// Why a row was refused. The codes are a contract (`_reason` in reject files, `enlist explain`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $(#[doc = $means] $variant,)*
        }

        impl Reason {
            /// Every reason, in the order in which they are documented.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable code.
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// What it means, one sentence without a dot.
            pub fn means(self) -> &'static str {
                match self { $(Self::$variant => $means,)* }
            }

            /// What the owner of the list can do, one sentence without a dot.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }

            /// The reason with this code.
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

reasons! {
    PhoneMissing "phone_missing"
        "the phone cell is empty or holds a word for nothing (NULL, N/A, -)"
        "fill in the phone, or delete the row";
    PhoneNotANumber "phone_not_a_number"
        "the phone cell holds letters or signs that are no part of a phone number"
        "leave nothing but the number in the cell (a letter O is often typed for a zero); if most rows have this, \
         another column holds the phones: name it with --map phone=HEADER";
    PhonePrecisionLost "phone_precision_lost"
        "a spreadsheet turned the number into scientific notation (9.05E+11), and its last digits are gone"
        "format the phone column as text in the original and export again; this file no longer has the digits";
    PhoneIsDate "phone_is_date"
        "the phone cell holds a date (2024-05-17, 17.05.2024), which in some countries would pass as a number"
        "put the phone into the cell; if most rows have this, another column holds the phones: name it with \
         --map phone=HEADER";
    PhoneMultiple "phone_multiple"
        "the phone cell holds more than one number"
        "keep one number in the row, and give each other number a row of its own";
    PhoneExtension "phone_extension"
        "the number ends in an extension, which cannot be called or written to by itself"
        "remove the extension, or put a direct number in its place";
    PhoneNoRegion "phone_no_region"
        "the number is written without a country code, and nothing says which country it belongs to"
        "pass --region (for example --region TR), or name a column of countries with --map region=HEADER, or write \
         the number with its code, as +90…";
    PhoneInvalid "phone_invalid"
        "the digits are no valid number in their country: too short, too long, or in a range that nobody has"
        "compare the number with its source, and ask its owner if it is the same there; if most rows have this, check \
         --region; numbers made up for examples (07700 900xxx) are refused as well";
    PhoneNotMobile "phone_not_mobile"
        "the number is valid but cannot be a mobile phone, and --type mobile asks for one"
        "give a mobile number, or import without --type mobile";
    VersionInvalid "version_invalid"
        "the cell of the --newer-by column is neither a whole number nor an ISO date or time"
        "write 20260201, 2026-02-01 or 2026-02-01T10:00:00Z, or leave the cell empty";
    RowTooShort "row_too_short"
        "the row has fewer cells than the header, so part of it may be missing"
        "complete the row; if missing cells at the end mean empty ones in this file, pass --short-rows fill";
    RowTooLong "row_too_long"
        "the row has more cells than the header, so it is unclear which cell is which"
        "put quotes around the cell that holds the delimiter, or give the header the column it lacks";
    BadQuoting "bad_quoting"
        "a quoted cell is not closed, or text follows its closing quote"
        "close the quote, and double a quote that stands inside a cell; pass --escape '\\' when the file writes \\\" for \
         it, or --quote none when quotes mean nothing";
    BadEncoding "bad_encoding"
        "the row holds bytes that are no characters in the file's character set"
        "save the file as UTF-8, or name its character set with --encoding (for example windows-1254)";
    NulByte "nul_byte"
        "the row holds a NUL character, which no database can keep in a text"
        "remove it, or export again: a NUL is left by a program that broke off";
    FieldTooLong "field_too_long"
        "a name is longer than --max-name-length, or the whole row is longer than 1 MiB"
        "shorten the name, or raise --max-name-length; in a row of 1 MiB, look for a quote that is not closed";
    RepeatedHeader "repeated_header"
        "the row is the header once more, as in files that were joined one behind another"
        "nothing, no recipient is lost; delete the row if the count disturbs you";
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Self::from_code(&code).ok_or_else(|| serde::de::Error::custom(format!("unknown reason '{code}'")))
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

/// Why a cell was refused, before it is known which row and column it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable reason.
    pub reason: Reason,
    /// A fragment for a person, without the cell's content where that is a phone or a name.
    pub detail: String,
}

impl Refusal {
    /// A refusal with its explanation.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// A refused row, whole enough to be written out, mended and imported again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// Where the record starts.
    pub at: Position,
    /// The header of the column that is at fault, where one is.
    pub column: Option<String>,
    /// The stable reason.
    pub reason: Reason,
    /// A fragment for a person.
    pub detail: String,
    /// The record as it was read, without its line end; cut to `RAW_KEPT` bytes when it is longer than a
    /// record may be.
    pub raw: Vec<u8>,
}

/// What a row of a reject file says about the row that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedAs {
    /// The line on which it started.
    pub line: u64,
    /// The header of the column that was at fault; empty where none was.
    pub column: String,
    /// The code of the reason, as it is written.
    pub reason: String,
    /// The fragment for a person.
    pub detail: String,
}

/// How often a reason occurred in a job, and where first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonCount {
    /// The reason.
    pub reason: Reason,
    /// How many rows.
    pub rows: u64,
    /// The line of the first of them.
    pub first_line: u64,
    /// The detail of the first of them.
    pub first_detail: String,
}

/// How much is kept of a record that is longer than a record may be, in bytes.
pub const RAW_KEPT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_found_by_its_code() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(*reason));
        }
    }
}
