//! From header to columns: which cell of a row is the phone, the name, the region, an attribute.
//!
//! Owns how headers are compared and which ones are known. It does not know rows or files. Invariant: the
//! same header and options always give the same columns, and a doubtful phone column is a fault, never a
//! guess.
//!
//! Decisions: a plain phone header ('phone', 'Cep Telefonu') wins over a qualified one ('Home Phone',
//! 'Phone 2 - Value'); two of equal rank are a fault. Of several name or region headers the surest, then
//! the leftmost, is taken and the others become attributes. A first name is no name: 'First Name' and
//! 'Last Name' stay attributes, and so do 'Ad' or 'Όνομα' beside a surname column.

mod constants;
mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;

use crate::fault::{Code, Fault};
use crate::header::fold_header;
use crate::reject_file;
use crate::settings::{ColumnRef, Columns, Field, HeaderRow, Wanted, is_invisible, shown, trim, visible};
pub use constants::{check_constants, constants};
use names::{NAME, NAME_OR_FIRST, PHONE, PHONE_QUALIFIED, REGION, SURNAME, phone_rank};

/// The delimiters that files use, for the guess what was meant.
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];

/// How many headers a message lists at most.
const LISTED: usize = 30;

/// How alike two headers must be to be offered instead, from 0 to 1 (Jaro-Winkler).
const ALIKE: f64 = 0.85;

/// Whether a row looks like a header with a phone column.
pub fn names_a_phone(header: &[String]) -> bool {
    header.iter().any(|cell| phone_rank(&fold_header(cell)).is_some())
}

/// Whether a header is blank: such a column is mapped to nothing.
fn is_blank(header: &str) -> bool {
    header.chars().all(|c| c.is_whitespace() || c.is_control() || is_invisible(c))
}

/// The headers found, for a message.
fn listed(header: &[String]) -> String {
    let named: Vec<String> =
        header.iter().filter(|h| !is_blank(h)).take(LISTED).map(|h| format!("'{}'", shown(h))).collect();
    let more = header.iter().filter(|h| !is_blank(h)).count().saturating_sub(named.len());
    let mut text = named.join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Finds out which column holds what.
///
/// # Errors
///
/// `no_phone_column`, `duplicate_phone_column`, `unknown_column`, `no_header` for a blank header, and
/// `usage` when one column is asked to be two things. Each lists the headers that were found.
pub fn resolve(header: &[String], wanted: &Wanted) -> Result<Columns, Fault> {
    if header.iter().all(|cell| is_blank(cell)) {
        return Err(Fault::new(Code::NoHeader, "the header row is blank"));
    }
    let reject_reason = reject_columns(header, wanted.header);
    let own = reject_reason.map_or(header.len(), |at| at.saturating_sub(2));
    let mut search = Search { header, wanted, folded: header.iter().map(|h| fold_header(h)).collect(), own };
    if wanted.header == HeaderRow::Absent {
        search.folded.iter_mut().for_each(String::clear);
    }

    let mut mapped: Vec<(Field, usize)> = Vec::new();
    for (field, column) in &wanted.map {
        let at = search.column(column, &format!("--map {}=", field.as_str()))?;
        match mapped.iter().find(|(f, c)| f == field || *c == at) {
            Some(same) if same == &(*field, at) => {}
            Some((f, before)) if f == field => {
                return Err(Fault::new(
                    Code::DuplicatePhoneColumn,
                    format!("'{}' is mapped to columns {} and {}; say which one", f.as_str(), before + 1, at + 1),
                )
                .hint(format!("keep one --map {}=#N", f.as_str())));
            }
            Some((f, _)) => {
                return Err(Fault::new(
                    Code::Usage,
                    format!(
                        "column {} '{}' is mapped to both '{}' and '{}'",
                        at + 1,
                        search.show(at),
                        f.as_str(),
                        field.as_str()
                    ),
                )
                .hint("map each column to one field"));
            }
            None => mapped.push((*field, at)),
        }
    }
    let version = match &wanted.newer_by {
        Some(column) => Some(search.column(column, "--newer-by ")?),
        None => None,
    };
    let given = |field| mapped.iter().find(|(f, _)| *f == field).map(|(_, at)| *at);
    let mut taken: Vec<usize> = mapped.iter().map(|(_, at)| *at).chain(version).collect();
    let phone = match given(Field::Phone) {
        Some(at) => at,
        None => search.phone(&taken)?,
    };
    if version == Some(phone) || mapped.iter().any(|(_, at)| version == Some(*at)) {
        return Err(Fault::new(Code::Usage, "--newer-by names a column that is mapped to another field")
            .hint("name the column that holds a number or date that grows with each change"));
    }
    taken.push(phone);
    let name = given(Field::Name).or_else(|| search.name(&taken));
    taken.extend(name);
    let region = given(Field::Region).or_else(|| search.first_of(REGION, &taken));
    let fields = [Some(phone), name, region];
    Ok(Columns {
        width: header.len(),
        phone,
        name,
        region,
        version,
        attributes: search.attributes(&fields),
        reject_reason,
    })
}

/// The place of `_reason` when the four last headers are those of a reject file.
fn reject_columns(header: &[String], row: HeaderRow) -> Option<usize> {
    let start = header.len().checked_sub(reject_file::COLUMNS.len()).filter(|start| *start > 0)?;
    let last = header.get(start..)?;
    let all = row == HeaderRow::Present && last.iter().zip(reject_file::COLUMNS).all(|(h, name)| trim(h) == name);
    all.then_some(start + 2)
}

/// A header and what is asked of it.
struct Search<'a> {
    header: &'a [String],
    wanted: &'a Wanted,
    folded: Vec<String>,
    /// The columns of the list itself: all but those that a reject file adds.
    own: usize,
}

impl Search<'_> {
    fn show(&self, at: usize) -> String {
        self.header.get(at).map(|h| shown(h)).unwrap_or_default()
    }

    /// The column that an option names.
    fn column(&self, column: &ColumnRef, option: &str) -> Result<usize, Fault> {
        let unknown = |message: String| Err(Fault::new(Code::UnknownColumn, message));
        match column {
            ColumnRef::Number(n) => match n.checked_sub(1).filter(|at| *at < self.header.len()) {
                Some(at) => Ok(at),
                None => unknown(format!("'{option}#{n}' names no column; there are {}", self.header.len())),
            },
            ColumnRef::Header(text) if self.wanted.header == HeaderRow::Absent => unknown(format!(
                "'{option}{}' names a header, but with --no-header columns are named by place: {option}#1",
                shown(text)
            )),
            ColumnRef::Header(text) => {
                let folded = fold_header(text);
                let found: Vec<usize> = self.places(|h| !is_blank(h) && fold_header(h) == folded);
                let exact: Vec<usize> = self.places(|h| trim(h) == trim(text));
                match (found.as_slice(), exact.as_slice()) {
                    ([at], _) | (_, [at]) => Ok(*at),
                    ([], _) => unknown(format!(
                        "'{option}{}' names no column; found {}{}",
                        shown(text),
                        listed(self.header),
                        self.nearest(&folded)
                    )),
                    (several, _) => Err(Fault::new(
                        Code::DuplicatePhoneColumn,
                        format!("'{option}{}' names {}; say which one", shown(text), self.columns_named(several)),
                    )
                    .hint(format!("name it by place: {option}#{}", several.first().map_or(1, |at| at + 1)))),
                }
            }
        }
    }

    fn places(&self, is: impl Fn(&str) -> bool) -> Vec<usize> {
        self.header.iter().enumerate().filter(|(_, h)| is(h)).map(|(at, _)| at).collect()
    }

    /// `columns 1 'phone' and 3 'Phone'`.
    fn columns_named(&self, columns: &[usize]) -> String {
        let named: Vec<String> = columns.iter().map(|at| format!("{} '{}'", at + 1, self.show(*at))).collect();
        match named.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("columns {} and {last}", rest.join(", ")),
            _ => format!("column {}", named.concat()),
        }
    }

    /// `; nearest is 'telefon'`, where a header is alike.
    fn nearest(&self, folded: &str) -> String {
        self.alike(&[folded]).map_or_else(String::new, |at| format!("; the nearest is '{}'", self.show(at)))
    }

    /// The header most like one of `names`.
    fn alike(&self, names: &[&str]) -> Option<usize> {
        let score = |folded: &String| names.iter().map(|n| strsim::jaro_winkler(folded, n)).fold(0.0, f64::max);
        self.folded
            .iter()
            .enumerate()
            .take(self.own)
            .filter(|(_, folded)| folded.chars().count() >= 3)
            .map(|(at, folded)| (at, score(folded)))
            .filter(|(_, score)| *score >= ALIKE)
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(at, _)| at)
    }

    /// The one phone column among those that are not taken.
    fn phone(&self, taken: &[usize]) -> Result<usize, Fault> {
        let ranked: Vec<_> = self
            .folded
            .iter()
            .enumerate()
            .take(self.own)
            .filter(|(at, _)| !taken.contains(at))
            .filter_map(|(at, folded)| phone_rank(folded).map(|rank| (rank, at)))
            .collect();
        let best = ranked.iter().map(|(rank, _)| *rank).min();
        let places: Vec<usize> = ranked.iter().filter(|(rank, _)| Some(*rank) == best).map(|(_, at)| *at).collect();
        match places.as_slice() {
            [at] => Ok(*at),
            [] => Err(self.no_phone()),
            several => Err(self.two_phones(several)),
        }
    }

    fn two_phones(&self, several: &[usize]) -> Fault {
        let options: Vec<String> = several.iter().map(|at| format!("--map phone=#{}", at + 1)).collect();
        let same = several.windows(2).all(|pair| matches!(pair, [a, b] if self.folded.get(*a) == self.folded.get(*b)));
        let message = match (same, several) {
            (true, [first, rest @ ..]) => {
                let numbers: Vec<String> = rest.iter().map(|at| (at + 1).to_string()).collect();
                format!(
                    "'{}' is in columns {} and {}; say which one",
                    self.show(*first),
                    first + 1,
                    numbers.join(" and ")
                )
            }
            _ => format!("{} could all hold the phones; say which one", self.columns_named(several)),
        };
        Fault::new(Code::DuplicatePhoneColumn, message).hint(format!("pass {}", options.join(" or ")))
    }

    fn no_phone(&self) -> Fault {
        if self.wanted.header == HeaderRow::Absent {
            return Fault::new(
                Code::NoPhoneColumn,
                "without a header row it is not known which column holds the phones",
            )
            .hint("say so by place: --map phone=#1");
        }
        if let [only] = self.header
            && let Some(fault) = self.one_cell(only)
        {
            return fault;
        }
        let fault = Fault::new(Code::NoPhoneColumn, format!("no phone column; found {}", listed(self.header)));
        let names: Vec<&str> = PHONE.iter().chain(PHONE_QUALIFIED).copied().collect();
        match self.alike(&names) {
            Some(at) => fault.hint(format!("if column {0} holds the phones, pass --map phone=#{0}", at + 1)),
            None => fault,
        }
    }

    /// What went wrong when a header of one cell holds the names of several columns.
    fn one_cell(&self, only: &str) -> Option<Fault> {
        let parts = |d: char| only.split(d).map(|part| part.trim_matches(['"', ' ']).to_owned()).collect::<Vec<_>>();
        let inside = DELIMITERS.into_iter().find(|d| {
            let parts = parts(*d);
            parts.len() > 1 && names_a_phone(&parts)
        })?;
        let sign = if inside == '\t' { "tab".to_owned() } else { inside.to_string() };
        match self.wanted.delimiter.map(char::from) {
            Some(given) if given != inside => Some(
                Fault::new(
                    Code::NoPhoneColumn,
                    format!(
                        "with '{}' the header is one column '{}'; the file seems to use '{sign}'",
                        visible(given),
                        shown(only)
                    ),
                )
                .hint(format!("pass --delimiter '{sign}', or leave it out")),
            ),
            // The cell holds the delimiter itself, so quotes stand around it.
            _ => Some(
                Fault::new(
                    Code::NoPhoneColumn,
                    format!("the header is a single cell '{}'; every line is wrapped in quotes", shown(only)),
                )
                .hint(format!(
                    "the file was pasted into one column and saved again: export it anew, or split that column at '{sign}'"
                )),
            ),
        }
    }

    /// The leftmost column with the surest of `names`.
    fn first_of(&self, names: &[&str], taken: &[usize]) -> Option<usize> {
        names.iter().find_map(|name| {
            let found = self.folded.iter().take(self.own).enumerate();
            found.filter(|(at, folded)| !taken.contains(at) && folded == name).map(|(at, _)| at).next()
        })
    }

    fn name(&self, taken: &[usize]) -> Option<usize> {
        self.first_of(NAME, taken).or_else(|| match self.first_of(SURNAME, &[]) {
            Some(_) => None,
            None => self.first_of(NAME_OR_FIRST, taken),
        })
    }

    /// Every other column under a key of its own, sorted by key.
    fn attributes(&self, fields: &[Option<usize>]) -> Vec<(String, usize)> {
        let columns = self.header.iter().enumerate().take(self.own);
        let columns: Vec<(String, usize)> = columns
            .filter(|(at, header)| !fields.contains(&Some(*at)) && !is_blank(header))
            .map(|(at, header)| (self.key(at, header), at))
            .collect();
        let plain: BTreeSet<String> = columns.iter().map(|(key, _)| key.clone()).collect();
        let mut used = BTreeSet::new();
        let mut attributes: Vec<(String, usize)> = Vec::with_capacity(columns.len());
        for (key, at) in columns {
            let mut own = key.clone();
            let mut n = 2_usize;
            while used.contains(&own) || (n > 2 && plain.contains(&own)) {
                own = format!("{key}_{n}");
                n += 1;
            }
            used.insert(own.clone());
            attributes.push((own, at));
        }
        attributes.sort();
        attributes
    }

    /// The key of an attribute: its header trimmed, NFC, without what cannot be seen.
    fn key(&self, at: usize, header: &str) -> String {
        if self.wanted.header == HeaderRow::Absent {
            return format!("column_{}", at + 1);
        }
        let key: String = header.chars().filter(|c| !is_invisible(*c) && *c != '\0').nfc().collect();
        trim(&key).to_owned()
    }
}
