//! What surrounds a number in a cell: quotes, labels, links, spreadsheet damage.
//!
//! Owns the steps before the digits are read one by one. It knows no country and no validity. Invariant:
//! a step takes away only what cannot be a digit of the number, or refuses the cell.

use super::fold::word;
use super::scan::Number;
use crate::reject::{Reason, Refusal};

/// What spreadsheets and databases write where there is nothing, in lower case.
const NOTHING: &[&str] = &[
    "null",
    "(null)",
    "<null>",
    "[null]",
    "#null!",
    "\\n",
    "n/a",
    "#n/a",
    "na",
    "#na",
    "nan",
    "none",
    "nil",
    "undefined",
    "#yok",
    "#δ/υ",
    "n.a.",
    "<na>",
    "n\\a",
];

/// Words in front of a number that only say that it is one, folded by `word`.
const LABELS: &[&str] = &[
    "tel",
    "telefon",
    "telefonu",
    "telefonno",
    "telno",
    "tlf",
    "tlfn",
    "telf",
    "telefono",
    "telephone",
    "phone",
    "ph",
    "mob",
    "mobil",
    "mobile",
    "cell",
    "cellphone",
    "cellular",
    "handy",
    "gsm",
    "gsmno",
    "cep",
    "ceptel",
    "ceptelefonu",
    "whatsapp",
    "wa",
    "wp",
    "wapp",
    "viber",
    "telegram",
    "signal",
    "sms",
    "no",
    "nr",
    "num",
    "number",
    "numara",
    "numarasi",
    "num",
    "numero",
    "is",
    "ev",
    "home",
    "work",
    "office",
    "main",
    "private",
    "business",
    "m",
    "t",
    "p",
    "c",
    "h",
    "w",
    "dir",
    "direct",
    "τηλ",
    "τηλεφωνο",
    "κιν",
    "κινητο",
    "σταθερο",
    "αριθμοσ",
    "αρ",
    "τ",
    "κ",
    "телефон",
    "тел",
    "iletisim",
    "sabit",
    "contact",
    "callto",
    "skype",
];

/// What a link begins with when a number follows, and how it writes the number.
const LINKS: &[(&str, Form)] = &[
    ("https://", Form::Either),
    ("http://", Form::Either),
    ("www.", Form::Either),
    ("wa.me/", Form::International),
    ("api.whatsapp.com/send", Form::International),
    ("web.whatsapp.com/send", Form::International),
    ("whatsapp.com/send", Form::International),
    ("whatsapp://send", Form::International),
    ("viber://chat", Form::International),
    ("viber://add", Form::International),
    ("tel://", Form::Either),
    ("tel:", Form::Either),
    ("callto:", Form::Either),
    ("sms:", Form::Either),
    ("smsto:", Form::Either),
];

/// How a link writes its number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As people do.
    Either,
    /// With the country code, whether a `+` is there or not.
    International,
}

/// Whether the text is a word or sign for nothing.
pub(super) fn is_nothing(text: &str) -> bool {
    if text.chars().all(|c| matches!(c, '-' | '.' | '_' | ' ' | '?' | '/' | ',' | '*' | ';' | ':' | '\'' | '"' | '=')) {
        return true;
    }
    text.len() <= 12 && NOTHING.contains(&text.to_lowercase().as_str())
}

/// White space, quotes and separators without a neighbour, off both ends.
pub(super) fn strip_edges(text: &str) -> &str {
    let blank = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | ',' | ';' | ':' | '|' | '/' | '.');
    text.trim_start_matches(blank).trim_start_matches('=').trim_start_matches(blank).trim_end_matches(blank)
}

/// The text after `prefix`, compared without case.
fn after<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| text.get(prefix.len()..).unwrap_or_default())
}

/// The number inside a link, and whether the link says that it is international.
fn unlink(text: &str) -> (&str, Form) {
    let mut rest = text;
    let mut form = Form::Either;
    for (prefix, says) in LINKS {
        if let Some(inner) = after(rest, prefix) {
            rest = inner;
            if *says == Form::International {
                form = Form::International;
            }
        }
    }
    if form == Form::International {
        rest = rest.trim_start_matches('/');
        rest = match rest.strip_prefix('?') {
            // The parameters may stand in any order; the text of the message is none of ours.
            Some(query) => query
                .split('&')
                .find_map(|part| after(part, "phone=").or_else(|| after(part, "number=")))
                .unwrap_or_default(),
            None => rest.split(['?', '&', '#']).next().unwrap_or_default(),
        };
        rest = rest.trim_end_matches('/');
        if let Some(inner) = after(rest, "%2B") {
            rest = inner;
        }
        return (rest, form);
    }
    // A link to some other place is no phone, whatever digits are in it.
    let web = ["http", "www."].iter().any(|web| after(text, web).is_some());
    (if web { text } else { rest }, form)
}

/// The text after a label such as `Tel.:` or `Cep No -`, or the text itself.
///
/// Every word in front of the first digit must be one that only announces a number.
fn unlabel(text: &str) -> &str {
    let start = text.find(|c: char| c.is_ascii_digit() || matches!(c, '+' | '(')).unwrap_or(text.len());
    let (label, rest) = text.split_at(start);
    let sign = |c: char| matches!(c, '☎' | '☏' | '✆' | '℡' | '✉' | '📞' | '📱' | '📲' | '🤙' | '№' | '•' | '►');
    let mut words = label
        .split(|c: char| {
            c.is_whitespace() || sign(c) || matches!(c, '.' | ':' | '-' | '=' | '/' | ',' | ')' | '>' | '#')
        })
        .filter(|part| !part.is_empty())
        .peekable();
    let announced = words.peek().is_some() || label.chars().any(sign);
    // A single letter without a sign behind it may as well be a mistyped digit.
    let signed = label.contains(['.', ':']);
    let known = words.all(|part| LABELS.contains(&word(part).as_str()) && (signed || part.chars().nth(1).is_some()));
    if announced && known && !rest.is_empty() { rest } else { text }
}

/// The number that scientific notation stands for.
///
/// `None` when the text is nothing of the kind. Exact only when every digit is still written.
fn scientific(text: &str) -> Option<Result<Number, Refusal>> {
    let at = text.find(['e', 'E', 'Ε', 'Е'])?;
    let (mantissa, exponent) = text.split_at(at);
    let exponent = exponent.trim_start_matches(['e', 'E', 'Ε', 'Е']).trim_start();
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let mantissa = mantissa.trim_end();
    let plus = mantissa.starts_with('+');
    let number = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, fraction) = number.split_once(['.', ',']).unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || unsigned.is_empty() || !digits(whole) || !digits(fraction) || !digits(unsigned) {
        return None;
    }
    let written =
        unsigned.len() != exponent.len() || whole.len() == 1 || (whole.len() <= 3 && number.len() > whole.len());
    if !written {
        return None;
    }
    if exponent.starts_with('-') {
        return Some(Err(Refusal::new(Reason::PhoneNotANumber, "a tiny number in scientific notation, no phone")));
    }
    let power = unsigned.parse::<usize>().unwrap_or(usize::MAX);
    if fraction.len() < power {
        let detail = "a spreadsheet turned the number into scientific notation and its last digits are gone; \
                      export again with the column formatted as text";
        return Some(Err(Refusal::new(Reason::PhonePrecisionLost, detail)));
    }
    let (kept, rest) = fraction.split_at(power);
    if rest.bytes().any(|b| b != b'0') {
        return Some(Err(Refusal::new(Reason::PhoneNotANumber, "a decimal fraction, no phone")));
    }
    if mantissa.starts_with('-') {
        return Some(Err(super::scan::negative()));
    }
    let mut number = Number::exact(whole.bytes().chain(kept.bytes()));
    number.plus = plus;
    Some(Ok(number))
}

/// The whole part of a number that a spreadsheet or a database wrote with decimals (`905320000016.0`).
///
/// `Ok(None)` when there are no decimals.
fn unfloat(text: &str) -> Result<Option<&str>, Refusal> {
    let Some(at) = text.rfind(['.', ',']) else { return Ok(None) };
    let (whole, tail) = text.split_at(at);
    let tail = tail.get(1..).unwrap_or_default();
    if tail.is_empty() || !tail.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    let zeros = tail.bytes().all(|b| b == b'0');
    let digits = whole.strip_prefix('+').unwrap_or(whole);
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        let decimals = (digits.len() >= 7 && tail.len() <= 2) || (digits.len() >= 10 && zeros);
        return match (decimals, zeros) {
            (true, true) => Ok(Some(whole)),
            (true, false) => Err(Refusal::new(Reason::PhoneNotANumber, "a number with decimals, no phone")),
            (false, _) => Ok(None),
        };
    }
    let lone = !whole.contains(['.', ',']);
    let long = digits.bytes().filter(u8::is_ascii_digit).count() >= 7;
    if zeros && tail.len() <= 2 && lone && long {
        let detail = "it is unclear whether the zeros at the end are decimals or digits of the number";
        return Err(Refusal::new(Reason::PhoneNotANumber, detail));
    }
    Ok(None)
}

/// Reads the digits of a folded cell, or says why there is no single number in it.
pub(super) fn clean(text: &str) -> Result<Number, Refusal> {
    if is_nothing(text) {
        return Err(Refusal::new(Reason::PhoneMissing, "the cell is empty or says that there is none"));
    }
    let mut text = strip_edges(text);
    let mut form = Form::Either;
    // Digits, spaces and the usual signs only: nothing to peel off.
    if text.bytes().any(|b| !matches!(b, b'0'..=b'9' | b' ' | b'+' | b'-' | b'(' | b')' | b'.' | b',' | b'/')) {
        if let Some(number) = scientific(text) {
            return number;
        }
        (text, form) = unlink(text);
        text = strip_edges(unlabel(text));
        if is_nothing(text) {
            return Err(Refusal::new(Reason::PhoneNotANumber, "a link or label without a number"));
        }
        if let Some(number) = scientific(text) {
            return number;
        }
    }
    let text = unfloat(text)?.unwrap_or(text);
    let mut number = super::scan::scan(text)?;
    if form == Form::International && number.starts_with_country_code() {
        number.plus = true;
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_words_for_nothing_are_written_as_they_are_compared() {
        for label in LABELS {
            assert_eq!(*label, word(label));
            assert_eq!(unlabel(&format!("{label}: 5")), "5");
        }
        for nothing in NOTHING {
            assert!(is_nothing(nothing) && is_nothing(&nothing.to_uppercase()), "{nothing}");
        }
    }
}
