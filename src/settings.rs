//! Everything that decides the outcome of an import, as the user asked for it and as it was resolved.
//!
//! Owns the two shapes `Wanted` (options) and `Settings` (frozen with the job, rule 9). It does not know
//! how a dialect or a column is found. Invariant: two imports with equal input and equal `Settings` under
//! the same `RULES_VERSION` give the same table; how fast they run is not in here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::position::Position;

/// The program's own rules that decide an outcome: decoder, text of a sheet, phone rules and metadata, lane hash.
///
/// Changes whenever one of them changes; an unfinished import under other rules begins anew (rule 9).
pub const RULES_VERSION: &str = "decode1-sheet2-phone2-rlibphonenumber2.2.15-fnv1a";

/// How the cells of the text are told apart. All three are ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialect {
    /// Between cells.
    pub delimiter: u8,
    /// Around cells that hold the delimiter; `None` when quotes mean nothing.
    pub quote: Option<u8>,
    /// Before a quote inside a quoted cell, besides doubling it.
    pub escape: Option<u8>,
}

/// What a column can be mapped to; all others become attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// The identity.
    Phone,
    /// The person's name.
    Name,
    /// The region in which a national number of this row is to be read (ISO 3166 alpha-2).
    Region,
}

impl Field {
    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Phone => "phone",
            Self::Name => "name",
            Self::Region => "region",
        }
    }
}

/// How an option names a column: `HEADER` or `#N`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnRef {
    /// By its header, compared as `mapping` compares headers.
    Header(String),
    /// By its place, from 1.
    Number(usize),
}

/// Whether the first row names the columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderRow {
    /// It does.
    #[default]
    Present,
    /// It is a record like the others (`--no-header`).
    Absent,
}

/// What a row with fewer cells than the header means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShortRows {
    /// It may be half of a broken row: refuse it.
    #[default]
    Reject,
    /// The missing cells are empty.
    Fill,
}

/// Which phones are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhoneType {
    /// Every valid number.
    #[default]
    Any,
    /// Only numbers that can be mobile phones.
    Mobile,
}

/// What an empty cell says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blank {
    /// Nothing: what is stored stays.
    #[default]
    Keep,
    /// That the value is to be cleared.
    Clear,
}

/// The options of an import as the user gave them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `--region`, upper case.
    pub region: Option<String>,
    /// `--map`, in the order given.
    pub map: Vec<(Field, ColumnRef)>,
    /// `--delimiter`.
    pub delimiter: Option<u8>,
    /// `--quote`: `Some(None)` is `--quote none`.
    pub quote: Option<Option<u8>>,
    /// `--escape`.
    pub escape: Option<u8>,
    /// `--encoding`, as written.
    pub encoding: Option<String>,
    /// `--sheet`, as written.
    pub sheet: Option<String>,
    /// `--no-header`.
    pub header: HeaderRow,
    /// `--skip-lines`: physical lines above the header.
    pub skip_lines: u32,
    /// `--short-rows`.
    pub short_rows: ShortRows,
    /// `--type`.
    pub phone_type: PhoneType,
    /// `--max-name-length`, in characters.
    pub max_name_length: Option<u32>,
    /// `--blank`.
    pub blank: Blank,
    /// `--newer-by`.
    pub newer_by: Option<ColumnRef>,
    /// `--set`, in the order given: field and value.
    pub set: Vec<(String, String)>,
    /// Where a value came from, by the name of the option without dashes, when it was not the command
    /// line (for example `region` → `/etc/enlist/enlist.toml`).
    pub origins: BTreeMap<&'static str, String>,
}

/// Which column holds what; all are 0-based.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// How many cells a row has.
    pub width: usize,
    /// The phone.
    pub phone: usize,
    /// The name.
    pub name: Option<usize>,
    /// The region of the row.
    pub region: Option<usize>,
    /// The version of the row (`--newer-by`); it is stored as an attribute as well.
    pub version: Option<usize>,
    /// The attribute columns with the key each is stored under, sorted by key, keys unique.
    pub attributes: Vec<(String, usize)>,
    /// The place of `_reason` when the input is a reject file, whose four last columns are ignored.
    pub reject_reason: Option<usize>,
}

/// Values that every row gets, whatever its cells say (`--set`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constants {
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Key and value, sorted by key; no key is that of a column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<(String, String)>,
}

impl Constants {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Constants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.iter().map(|name| format!("name={name}"));
        let all: Vec<String> =
            name.chain(self.attributes.iter().map(|(key, value)| format!("{key}={value}"))).collect();
        f.write_str(if all.is_empty() { "none" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

/// Where the value of an attribute comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The cell of this column, from 0.
    Column(usize),
    /// `--set`.
    Constant(&'a str),
}

/// What decides an outcome, resolved against the input and frozen with the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The cells' dialect.
    pub dialect: Dialect,
    /// The character set by its WHATWG name in lower case, for example `utf-8` or `windows-1254`.
    pub encoding: String,
    /// Whether `header` was read from the input.
    pub header_row: HeaderRow,
    /// Lines above the header that were skipped.
    pub skip_lines: u32,
    /// The header cells as they were read, trimmed; `#1`, `#2` … without a header row.
    pub header: Vec<String>,
    /// Where the first data record starts.
    pub data_start: Position,
    /// Which column holds what.
    pub columns: Columns,
    /// The region in which national numbers are read.
    pub region: Option<String>,
    /// Which phones are taken.
    pub phone_type: PhoneType,
    /// The longest name taken, in characters.
    pub max_name_length: Option<u32>,
    /// What an empty cell says.
    pub blank: Blank,
    /// What a short row means.
    pub short_rows: ShortRows,
    /// The sheet that is read, where the input is a workbook.
    // Left out when there is none, so that jobs stored before sheets were read keep their digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sheet: Option<String>,
    /// What every row gets besides its cells.
    // Left out when there is none, for the same reason.
    #[serde(default, skip_serializing_if = "Constants::is_empty")]
    pub constants: Constants,
}

impl Settings {
    /// The name of a setting and its value as a person reads it, for messages and comparison.
    pub fn named(&self) -> Vec<(&'static str, String)> {
        let column = |n: Option<usize>| {
            n.map_or_else(
                || "none".to_owned(),
                |n| self.header.get(n).cloned().unwrap_or_else(|| format!("#{}", n + 1)),
            )
        };
        let sign = |b: Option<u8>| b.map_or_else(|| "none".to_owned(), |b| visible(b as char));
        vec![
            ("region", self.region.clone().unwrap_or_else(|| "none".to_owned())),
            ("delimiter", sign(Some(self.dialect.delimiter))),
            ("quote", sign(self.dialect.quote)),
            ("escape", sign(self.dialect.escape)),
            ("encoding", self.encoding.clone()),
            ("sheet", self.sheet.clone().unwrap_or_else(|| "none".to_owned())),
            ("header", if self.header_row == HeaderRow::Present { "present" } else { "absent" }.to_owned()),
            ("skip-lines", self.skip_lines.to_string()),
            ("map phone", column(Some(self.columns.phone))),
            ("map name", column(self.columns.name)),
            ("map region", column(self.columns.region)),
            ("newer-by", column(self.columns.version)),
            ("type", if self.phone_type == PhoneType::Mobile { "mobile" } else { "any" }.to_owned()),
            ("max-name-length", self.max_name_length.map_or_else(|| "none".to_owned(), |n| n.to_string())),
            ("blank", if self.blank == Blank::Clear { "clear" } else { "keep" }.to_owned()),
            ("short-rows", if self.short_rows == ShortRows::Fill { "fill" } else { "reject" }.to_owned()),
            ("set", self.constants.to_string()),
        ]
    }

    /// The settings that differ: name, value here, value in `other`.
    pub fn differences(&self, other: &Self) -> Vec<(&'static str, String, String)> {
        let mut found: Vec<_> = self
            .named()
            .into_iter()
            .zip(other.named())
            .filter(|(mine, theirs)| mine.1 != theirs.1)
            .map(|((name, mine), (_, theirs))| (name, mine, theirs))
            .collect();
        if found.is_empty() && self != other {
            found.push(("columns", self.header.join(", "), other.header.join(", ")));
        }
        found
    }

    /// A digest over every setting, in a fixed order of fields; equal settings have equal digests.
    pub fn digest(&self) -> blake3::Hash {
        // Cannot fail: the type holds only strings, numbers and enums.
        #[expect(clippy::expect_used, reason = "serialising plain data cannot fail")]
        let json = serde_json::to_vec(self).expect("settings are plain data");
        blake3::hash(&json)
    }

    /// The attributes with where their values come from, sorted by key: the order of `Recipient::attributes`.
    pub fn attributes(&self) -> Vec<(&str, Origin<'_>)> {
        let columns = self.columns.attributes.iter().map(|(key, at)| (key.as_str(), Origin::Column(*at)));
        let constants = self.constants.attributes.iter().map(|(key, value)| (key.as_str(), Origin::Constant(value)));
        let mut all: Vec<_> = columns.chain(constants).collect();
        all.sort_by_key(|(key, _)| *key);
        all
    }

    /// The keys of the attributes, in the order of `Recipient::attributes`.
    pub fn attribute_keys(&self) -> impl Iterator<Item = &str> {
        self.attributes().into_iter().map(|(key, _)| key)
    }

    /// Whether a row can say what its person is called.
    pub fn names_people(&self) -> bool {
        self.columns.name.is_some() || self.constants.name.is_some()
    }
}

/// A character as a person can see it in a message.
pub fn visible(c: char) -> String {
    match c {
        '\t' => "tab".to_owned(),
        ' ' => "space".to_owned(),
        c if c.is_control() || is_invisible(c) => format!("U+{:04X}", c as u32),
        c => c.to_string(),
    }
}

/// The longest text of an input that a message quotes, in characters.
const SHOWN_MAX: usize = 80;

/// Text of an input for a message: its start, in which what cannot be seen is spelt out.
pub fn shown(text: &str) -> String {
    let mut out = String::new();
    for c in trim(text).chars().take(SHOWN_MAX) {
        match c {
            ' ' => out.push(' '),
            c if c.is_control() || is_invisible(c) || c.is_whitespace() => {
                let name =
                    if c.is_whitespace() && !c.is_control() { format!("U+{:04X}", c as u32) } else { visible(c) };
                out.extend(["<", &name, ">"]);
            }
            c => out.push(c),
        }
    }
    out
}

/// Characters that take no room: zero-width, bidirectional marks, byte order mark, soft hyphen.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}')
}

/// White space of any script and invisible marks off both ends: how every cell is read.
pub fn trim(text: &str) -> &str {
    // Nearly every cell begins and ends with a sign of ASCII and needs no closer look.
    if let (Some(b'!'..=b'~'), Some(b'!'..=b'~')) = (text.as_bytes().first(), text.as_bytes().last()) {
        return text;
    }
    text.trim_matches(|c: char| c.is_whitespace() || is_invisible(c))
}
