//! From an input and the user's options to frozen settings.
//!
//! Owns the order in which the head is read: dialect, header, mapping. It does not know the store.
//! Invariant: the same bytes and options give the same settings (rule 9).

use std::borrow::Cow;
use std::io::Read;

use crate::decode::{HEAD_MAX, Rest, Sniffed, Suspicion, later_header, sniff};
use crate::fault::{Code, Fault};
use crate::mapping::{constants, names_a_phone, resolve};
use crate::normalise::Normaliser;
use crate::phone::PhoneRules;
use crate::quoting::PLAIN;
use crate::reject::Reason;
use crate::settings::{HeaderRow, PhoneType, Settings, Wanted, shown, visible};
use crate::source::{FIRST_SHEET, Survey, fault_of};

/// The fewest digits of a phone whose region is not known.
const PHONE_DIGITS: usize = 10;

/// Reads the head of `survey` and resolves `wanted` against it.
pub fn plan(survey: &Survey, wanted: &Wanted) -> Result<Settings, Fault> {
    let wanted = &as_written(survey, wanted);
    let head = read_head(survey)?;
    // One byte more was asked for than is looked at, so a full head has something behind it.
    let rest = if head.len() <= HEAD_MAX { Rest::Nothing } else { Rest::Unread };
    let text = head.get(..HEAD_MAX.min(head.len())).unwrap_or_default();
    let sniffed = sniff(text, rest, wanted)?;
    let header = match &sniffed.header {
        Some(header) => header.clone(),
        None => (1..=sniffed.width).map(|n| format!("#{n}")).collect(),
    };
    let columns = resolve(&header, wanted).map_err(|fault| explain_header(fault, text, &sniffed, survey, wanted))?;
    if wanted.header == HeaderRow::Present
        && header.get(columns.phone).is_some_and(|cell| is_phone(cell, wanted.region.as_deref()))
    {
        return Err(no_header(columns.phone, &sniffed));
    }
    let constants = constants(&header, &columns, wanted)?;
    let settings = Settings {
        dialect: sniffed.dialect,
        encoding: survey.encoding.clone(),
        header_row: wanted.header,
        skip_lines: wanted.skip_lines,
        header,
        data_start: sniffed.data_start,
        columns,
        region: wanted.region.clone(),
        phone_type: wanted.phone_type,
        max_name_length: wanted.max_name_length,
        blank: wanted.blank,
        short_rows: wanted.short_rows,
        sheet: survey.sheet.clone(),
        constants,
    };
    // Settings under which no row can be read must not become a job.
    Normaliser::new(&settings)?;
    Ok(settings)
}

/// The options as they apply to the text: that of a sheet has one dialect, whatever the options say.
fn as_written<'a>(survey: &Survey, wanted: &'a Wanted) -> Cow<'a, Wanted> {
    if survey.sheet.is_none() {
        return Cow::Borrowed(wanted);
    }
    Cow::Owned(Wanted {
        delimiter: Some(PLAIN.delimiter),
        quote: Some(PLAIN.quote),
        escape: PLAIN.escape,
        ..wanted.clone()
    })
}

fn read_head(survey: &Survey) -> Result<Vec<u8>, Fault> {
    let mut head = Vec::new();
    let most = u64::try_from(HEAD_MAX).unwrap_or(u64::MAX).saturating_add(1);
    survey.open_at(0)?.take(most).read_to_end(&mut head).map_err(|error| fault_of(error, survey.origin()))?;
    Ok(head)
}

/// Adds what the head tells about a header in which no phone was found.
fn explain_header(fault: Fault, head: &[u8], sniffed: &Sniffed, survey: &Survey, wanted: &Wanted) -> Fault {
    if wanted.header == HeaderRow::Absent || !matches!(fault.code, Code::NoPhoneColumn | Code::UnknownColumn) {
        return fault;
    }
    let later = later_header(head, sniffed, names_a_phone);
    let cells = sniffed.header.as_deref().unwrap_or_default();
    let phone = cells.iter().position(|cell| is_phone(cell, wanted.region.as_deref()));
    match phone {
        // A title can hold the phone of whoever made the list.
        Some(at) if later.is_none() => return no_header(at, sniffed),
        _ if fault.code == Code::UnknownColumn => return fault,
        _ => {}
    }
    if let Some(Suspicion::OtherDelimiter(other)) = sniffed.suspicion {
        if let Some(sheet) = survey.sheet.as_deref().map(shown) {
            let header = shown(&sniffed.header.as_deref().unwrap_or_default().join(""));
            return Fault::new(
                Code::NoPhoneColumn,
                format!("the header of sheet '{sheet}' is a single cell '{header}'"),
            )
            .hint("split the column in the spreadsheet ('Text to columns'), or save the sheet as text");
        }
        let (used, other) = (visible(sniffed.dialect.delimiter as char), visible(other as char));
        let header = shown(&sniffed.header.as_deref().unwrap_or_default().join(""));
        return Fault::new(
            Code::NoPhoneColumn,
            format!("with '{used}' the header is one column '{header}'; the file seems to use '{other}'"),
        )
        .hint(match wanted.delimiter {
            Some(_) => format!("pass --delimiter '{other}', or leave --delimiter out"),
            None => format!("pass --delimiter '{other}'"),
        });
    }
    if let Some(Suspicion::WrappedLines) = sniffed.suspicion {
        let header = shown(&sniffed.header.as_deref().unwrap_or_default().join(""));
        return Fault::new(
            Code::NoPhoneColumn,
            format!("the header is a single cell '{header}'; every line seems to be wrapped in quotes"),
        )
        .hint("export the list again without quotes around whole lines, or pass --quote none");
    }
    match later {
        Some(later) => {
            let sign = visible(sniffed.dialect.delimiter as char);
            let first = shown(&sniffed.header.as_deref().unwrap_or_default().join(&sign));
            Fault::new(
                Code::NoPhoneColumn,
                format!("line {} is '{first}'; line {} looks like the header", sniffed.first_row.line, later.line),
            )
            .hint(format!("pass --skip-lines {}", later.skip_lines))
        }
        None if survey.warnings.iter().any(|warning| warning.code == FIRST_SHEET) => {
            let sheet = shown(survey.sheet.as_deref().unwrap_or_default());
            Fault::new(Code::NoPhoneColumn, format!("{} in the first sheet '{sheet}'", fault.message))
                .hint("name another sheet with --sheet NAME, or the column with --map phone=HEADER")
        }
        None => fault,
    }
}

/// Whether a cell of the header is a phone, and no word for one.
///
/// The region need not be known: digits that are a number somewhere are no header.
fn is_phone(cell: &str, region: Option<&str>) -> bool {
    let Ok(rules) = PhoneRules::new(region, PhoneType::Any) else { return false };
    match rules.read(cell, None) {
        Ok(_) => true,
        Err(refusal) => {
            refusal.reason == Reason::PhoneNoRegion && cell.chars().filter(char::is_ascii_digit).count() >= PHONE_DIGITS
        }
    }
}

/// The first row is one like the others. Its cells are a person's and are not told.
fn no_header(phone: usize, sniffed: &Sniffed) -> Fault {
    let (line, column) = (sniffed.first_row.line, phone + 1);
    Fault::new(Code::NoHeader, format!("line {line} is a row and no header: its cell {column} is a phone"))
        .hint(format!("pass --no-header --map phone=#{column}, or add a header"))
}
