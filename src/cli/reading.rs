//! The options that say how a file is read and what its rows mean: of `import`, of `check`, of a profile.
//!
//! Owns their grammar and what becomes of them. It does not know the file, nor how an import runs. Invariant:
//! nothing is taken for granted here: an option that nobody gave is `None`, so that another place can give it.

mod layers;

use crate::cli::config::{Origin, Valued};
use crate::cli::values::{self, Sign};
use crate::fault::{Code, Fault};
use crate::import::report::Budget;
use crate::settings::{Blank, ColumnRef, Field, HeaderRow, PhoneType, ShortRows, Wanted};

pub(crate) use layers::Layered;

const FORMAT: &str = "How the file is written";
const ROWS: &str = "What rows mean";
pub(crate) const REJECTS: &str = "Refused rows";

/// The options, each as it was given or not at all.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Country in which numbers without a country code are read, for example TR
    #[arg(long, value_name = "REGION", value_parser = values::region)]
    pub(super) region: Option<String>,
    /// Which column holds a field (phone, name, region): FIELD=HEADER or FIELD=#N
    #[arg(long, value_name = "FIELD=COLUMN", value_parser = values::mapping)]
    pub(super) map: Vec<(Field, ColumnRef)>,
    /// Give every row this value: FIELD=VALUE (name, or an attribute that no column of the file has)
    #[arg(long, value_name = "FIELD=VALUE", value_parser = values::constant)]
    pub(super) set: Vec<(String, String)>,
    /// Between cells: one character, or comma, semicolon, tab, pipe [default: found out]
    #[arg(long, value_name = "SIGN", value_parser = values::delimiter, allow_hyphen_values = true, help_heading = FORMAT)]
    pub(super) delimiter: Option<u8>,
    /// Around cells: one character, or none [default: "]
    #[arg(long, value_name = "SIGN", value_parser = values::sign_or_none, help_heading = FORMAT)]
    pub(super) quote: Option<Sign>,
    /// Before a quote inside a quoted cell: one character, backslash or none [default: none]
    #[arg(long, value_name = "SIGN", value_parser = values::sign_or_none, help_heading = FORMAT)]
    pub(super) escape: Option<Sign>,
    /// Character set, for example windows-1254 [default: found out]
    #[arg(long, value_name = "NAME", help_heading = FORMAT)]
    pub(super) encoding: Option<String>,
    /// The sheet of a workbook [default: the first]
    #[arg(long, value_name = "NAME", help_heading = FORMAT)]
    pub(super) sheet: Option<String>,
    /// The first row is data; name the phone column with --map phone=#N
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true, help_heading = FORMAT)]
    pub(super) no_header: Option<bool>,
    /// Lines above the header
    #[arg(long, value_name = "N", help_heading = FORMAT)]
    pub(super) skip_lines: Option<u32>,
    /// What to do with a row of too few cells: reject it, or fill it with empty ones [default: reject]
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true, help_heading = FORMAT)]
    pub(super) short_rows: Option<ShortRowsWord>,
    /// Which phones are taken: any valid number, or mobile [default: any]
    #[arg(long = "type", value_name = "TYPE", value_enum, hide_possible_values = true, help_heading = ROWS)]
    pub(super) phone_type: Option<TypeWord>,
    /// Refuse rows with a longer name, in characters
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = ROWS)]
    pub(super) max_name_length: Option<u32>,
    /// What an empty cell does to a stored value: keep or clear it [default: keep]
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true, help_heading = ROWS)]
    pub(super) blank: Option<BlankWord>,
    /// Column with a date or number that grows: older rows never replace newer ones
    #[arg(long, value_name = "COLUMN", value_parser = values::column, help_heading = ROWS)]
    pub(super) newer_by: Option<ColumnRef>,
    /// Rejects that are acceptable: a number of rows or a share; more stop the import
    #[arg(long, value_name = "N|P%", value_parser = values::budget, help_heading = REJECTS)]
    pub(crate) max_rejects: Option<Budget>,
    /// Known people that may get another name, of a hundred; more stop the import [default: 50%]
    #[arg(long, value_name = "P%", value_parser = values::percent, help_heading = REJECTS)]
    pub(crate) max_changes: Option<f64>,
}

/// Declares an option's words for a type of the settings, which knows no command line.
macro_rules! words {
    ($name:ident => $target:ident { $($(#[doc = $doc:literal])* $variant:ident,)* }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
        pub(crate) enum $name { $($(#[doc = $doc])* $variant,)* }

        impl From<$name> for $target {
            fn from(word: $name) -> Self {
                match word { $($name::$variant => Self::$variant,)* }
            }
        }
    };
}

words!(ShortRowsWord => ShortRows {
    /// refuse it
    Reject,
    /// its missing cells are empty
    Fill,
});
words!(TypeWord => PhoneType {
    /// every valid number
    Any,
    /// numbers that can be mobile phones
    Mobile,
});
words!(BlankWord => Blank {
    /// nothing
    Keep,
    /// clears it
    Clear,
});

impl Options {
    /// What an import is to go by; the region of the configuration counts where none was given.
    ///
    /// # Errors
    /// `usage` for signs that cannot be told apart.
    pub(crate) fn wanted(&self, region: Option<&Valued<String>>) -> Result<Wanted, Fault> {
        let quote = self.quote.map(|sign| sign.0);
        let quote_sign = quote.unwrap_or(Some(b'"'));
        if self.delimiter.is_some() && self.delimiter == quote_sign {
            let message = "the delimiter and the quote are the same character";
            return Err(Fault::new(Code::Usage, message).hint("choose another --delimiter or --quote"));
        }
        // Doubling a quote is always understood, so an escape that is the quote says nothing new.
        let escape = self.escape.and_then(|sign| sign.0).filter(|escape| Some(*escape) != quote_sign);
        if escape.is_some() && escape == self.delimiter {
            let message = "the delimiter and the escape are the same character";
            return Err(Fault::new(Code::Usage, message).hint("choose another --delimiter or --escape"));
        }
        let mut wanted = Wanted {
            region: self.region.clone(),
            map: self.map.clone(),
            delimiter: self.delimiter,
            quote,
            escape,
            encoding: self.encoding.clone(),
            sheet: self.sheet.clone(),
            header: if self.no_header == Some(true) { HeaderRow::Absent } else { HeaderRow::Present },
            skip_lines: self.skip_lines.unwrap_or(0),
            short_rows: self.short_rows.map(ShortRows::from).unwrap_or_default(),
            phone_type: self.phone_type.map(PhoneType::from).unwrap_or_default(),
            max_name_length: self.max_name_length,
            blank: self.blank.map(Blank::from).unwrap_or_default(),
            newer_by: self.newer_by.clone(),
            set: self.set.clone(),
            ..Wanted::default()
        };
        if let (None, Some(Valued { value, origin })) = (&self.region, region) {
            wanted.region = Some(value.clone());
            if *origin != Origin::Default {
                wanted.origins.insert("region", origin.to_string());
            }
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests;
