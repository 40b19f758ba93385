//! The values that `--set` gives every row.
//!
//! Owns what a field of `--set` may be and that none of them meets a column of the file. It does not know rows.
//! Invariant: a constant and a column never speak about the same thing.

use unicode_normalization::UnicodeNormalization;

use crate::fault::{Code, Fault};
use crate::header::fold_header;
use crate::settings::{Columns, Constants, HeaderRow, Wanted, is_invisible, trim};

use super::names::phone_rank;
use super::{is_blank, shown};

/// What a field of `--set` gives.
enum Gives {
    Name,
    Attribute(String),
}

/// Refuses what no file could make right: `--set phone=…`, the same field twice, an empty value.
///
/// # Errors
/// `usage`, with what to do instead.
pub fn check_constants(set: &[(String, String)]) -> Result<(), Fault> {
    let mut seen: Vec<(String, &str)> = Vec::new();
    for (field, value) in set {
        gives(field)?;
        if trim(value).is_empty() {
            return Err(Fault::new(Code::Usage, format!("'--set {}=' gives no value", shown(field)))
                .hint("write FIELD=VALUE, or leave it out: what a file does not mention stays as it is"));
        }
        if value.chars().any(|c| c == '\0') {
            return Err(Fault::new(
                Code::Usage,
                format!("the value of '--set {}' holds a NUL character", shown(field)),
            ));
        }
        let folded = fold_header(field);
        if let Some((_, before)) = seen.iter().find(|(other, _)| *other == folded) {
            let message = format!("'--set {}' and '--set {}' are the same field", shown(before), shown(field));
            return Err(Fault::new(Code::Usage, message).hint("keep one of them"));
        }
        seen.push((folded, field));
    }
    Ok(())
}

/// Resolves `--set` against the columns of a file.
///
/// # Errors
/// `usage` when a constant and a column are the same field, and what `check_constants` refuses.
pub fn constants(header: &[String], columns: &Columns, wanted: &Wanted) -> Result<Constants, Fault> {
    check_constants(&wanted.set)?;
    let mut found = Constants::default();
    for (field, value) in &wanted.set {
        let value = trim(value).to_owned();
        let gives = gives(field)?;
        if let Some(at) = same_column(field, &gives, header, columns, wanted.header) {
            let name = header.get(at).map(|header| shown(header)).unwrap_or_default();
            let (field, place) = (shown(field), at + 1);
            let message = format!("'--set {field}' and column {place} '{name}' of the file are the same field");
            return Err(Fault::new(Code::Usage, message)
                .hint("leave --set out to take what the rows say, or rename one of the two"));
        }
        match gives {
            Gives::Name => found.name = Some(value),
            Gives::Attribute(key) => found.attributes.push((key, value)),
        }
    }
    found.attributes.sort();
    Ok(found)
}

fn gives(field: &str) -> Result<Gives, Fault> {
    let key: String = field.chars().filter(|c| !is_invisible(*c) && *c != '\0').nfc().collect();
    let key = trim(&key).to_owned();
    let folded = fold_header(field);
    let refused = |why: &str, hint: &'static str| {
        Err(Fault::new(Code::Usage, format!("'--set {}' {why}", shown(field))).hint(hint))
    };
    if key.is_empty() || is_blank(&key) {
        return refused("names no field", "write FIELD=VALUE, for example source=web");
    }
    if phone_rank(&folded).is_some() {
        return refused(
            "would give every row the same phone",
            "phones come from a column of the file: --map phone=HEADER",
        );
    }
    Ok(match folded.as_str() {
        "name" => Gives::Name,
        "region" => return refused("is not how a region is given", "pass --region, for example --region TR"),
        _ => Gives::Attribute(key),
    })
}

/// The column that is the same field as a constant.
fn same_column(field: &str, gives: &Gives, header: &[String], columns: &Columns, row: HeaderRow) -> Option<usize> {
    if let (Gives::Name, Some(at)) = (gives, columns.name) {
        return Some(at);
    }
    let folded = fold_header(field);
    let own = columns.reject_reason.map_or(header.len(), |at| at.saturating_sub(2));
    let named = || {
        let columns = header.iter().enumerate().take(own).filter(|(_, header)| !is_blank(header));
        columns.filter(|(_, header)| fold_header(header) == folded).map(|(at, _)| at).next()
    };
    let keyed = || columns.attributes.iter().find(|(key, _)| fold_header(key) == folded).map(|(_, at)| *at);
    // Without a header row columns have no names but the keys they are stored under.
    if row == HeaderRow::Present { named().or_else(keyed) } else { keyed() }
}
