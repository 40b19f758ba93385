//! The digits of a cell, read one by one, and what stands between them.
//!
//! Owns the decision whether a cell holds one number, several, an extension or something else. It knows
//! no country. Invariant: a `Number` holds exactly the digits of the cell in their order, and a letter
//! never becomes a digit.

use super::fold::word;
use crate::reject::{Reason, Refusal};

/// The digits that are kept: more than any number with its prefixes has, enough for two numbers.
const KEPT: usize = 40;

/// From how many digits on a run of digits is a number of its own.
const FULL: usize = 7;

/// Words and signs before an extension, folded by `word`.
const EXTENSIONS: &[&str] = &[
    "x",
    "ext",
    "extn",
    "extension",
    "xtn",
    "dahili",
    "dah",
    "dhl",
    "dahilino",
    "hat",
    "εσωτ",
    "εσωτερικο",
    "εσ",
    "int",
    "anexo",
    "poste",
    "durchwahl",
    "dw",
    "доб",
    "interno",
    "ramal",
    "toestel",
    "local",
];

/// What may be wrong with a number, to be settled by whether its first digits are a number by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// A few digits follow that may be an extension.
    Extension,
    /// The last digits may name the end of a range of numbers (`…12/13`).
    Range,
    /// One or two digits follow a dash: part of a landline (`030 12345-67`), never of a mobile.
    Suffix,
}

/// The digits of one cell.
#[derive(Debug, Clone)]
pub(super) struct Number {
    /// `+` and the digits.
    text: [u8; KEPT + 1],
    /// How many digits are in `text`.
    kept: usize,
    /// How many digits the cell has.
    pub(super) total: usize,
    /// Whether a `+` stands in front.
    pub(super) plus: bool,
    /// After how many digits something other than a digit stands.
    cuts: [u8; 16],
    /// How many of `cuts` are set.
    cut: usize,
    /// A doubt, and how many digits lie before it.
    pub(super) doubt: Option<(Doubt, usize)>,
}

impl Number {
    fn new() -> Self {
        let mut text = [0; KEPT + 1];
        text[0] = b'+';
        Self { text, kept: 0, total: 0, plus: false, cuts: [0; 16], cut: 0, doubt: None }
    }

    /// A number of these ASCII digits, without a plus.
    pub(super) fn exact(digits: impl Iterator<Item = u8>) -> Self {
        let mut number = Self::new();
        digits.for_each(|digit| number.push(digit));
        number
    }

    fn push(&mut self, digit: u8) {
        self.total += 1;
        if let Some(place) = self.text.get_mut(self.total) {
            *place = digit;
            self.kept = self.total;
        }
    }

    fn cut(&mut self) {
        let at = u8::try_from(self.total).unwrap_or(u8::MAX);
        let last = self.cut.checked_sub(1).and_then(|n| self.cuts.get(n));
        if at > 0
            && last != Some(&at)
            && let Some(place) = self.cuts.get_mut(self.cut)
        {
            *place = at;
            self.cut += 1;
        }
    }

    /// The kept digits.
    pub(super) fn digits(&self) -> &str {
        self.text.get(1..=self.kept).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// The first `n` digits as a number of their own, and the digits after them.
    pub(super) fn halves(&self, n: usize) -> Option<(&str, &str)> {
        self.digits().split_at_checked(n)
    }

    /// The kept digits with a `+` in front.
    pub(super) fn international(&self) -> &str {
        self.text.get(..=self.kept).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Where the number can be cut in two.
    pub(super) fn cuts(&self) -> impl Iterator<Item = usize> {
        self.cuts.iter().take(self.cut).map(|at| usize::from(*at))
    }

    /// Whether the digits can begin with a country code: none begins with 0.
    pub(super) fn starts_with_country_code(&self) -> bool {
        self.digits().bytes().next().is_some_and(|b| b != b'0')
    }
}

/// The refusal of a value below zero.
pub(super) fn negative() -> Refusal {
    Refusal::new(Reason::PhoneInvalid, "a negative number; a spreadsheet may have calculated it from a formula")
}

/// The refusal of several numbers.
pub(super) fn multiple() -> Refusal {
    Refusal::new(Reason::PhoneMultiple, "more than one number in the cell; keep one")
}

/// The refusal of an extension.
pub(super) fn extension() -> Refusal {
    Refusal::new(Reason::PhoneExtension, "the number has an extension; remove it or use a direct number")
}

/// The refusal of a sign that no phone number has.
fn foreign(sign: char) -> Refusal {
    let detail = match sign {
        'o' | 'O' | 'ο' | 'Ο' | 'о' | 'О' => "holds the letter O, which is often typed for a zero".to_owned(),
        'l' | 'I' | 'ı' | 'İ' | 'i' | '|' => format!("holds '{sign}', which is often typed for a one"),
        ',' => "holds a comma, which may separate two values".to_owned(),
        '@' => "an address or messenger id, not a phone".to_owned(),
        c if c.is_alphabetic() => "holds letters".to_owned(),
        c => format!("holds '{}', which is no part of a phone number", crate::settings::visible(c)),
    };
    Refusal::new(Reason::PhoneNotANumber, detail)
}

/// The text before an extension, and whether its marker leaves no doubt.
fn before_extension(text: &str) -> Option<(&str, bool)> {
    let text = text.trim_end_matches([' ', '#', ')', '.']);
    let head = text.trim_end_matches(|c: char| c.is_ascii_digit());
    if head.len() == text.len() || text.len() - head.len() > FULL {
        return None;
    }
    let head = head.trim_end_matches([' ', '.', ':', '=', '(', '-']);
    if let Some(number) = head.strip_suffix('#') {
        return Some((number.trim_end_matches([' ', ',', '(']), false));
    }
    let number = head.trim_end_matches(|c: char| c.is_alphabetic());
    let marker = word(head.get(number.len()..).unwrap_or_default());
    if EXTENSIONS.contains(&marker.as_str()) {
        let number = number.trim_end_matches([' ', ',', ';', '(', '-', '.', '/']);
        // Two words: "iç hat".
        let number = if marker == "hat" { number.trim_end_matches(char::is_alphabetic).trim_end() } else { number };
        return Some((number, marker.chars().count() >= 3));
    }
    // Commas or semicolons in a row are dialling pauses.
    head.strip_suffix(",,")
        .or_else(|| head.strip_suffix(";;"))
        .map(|number| (number.trim_end_matches([',', ';']), false))
}

/// Whether `short` can be the end of a range that begins with the last digits of `long`.
fn ends_range(long: &str, short: &str, most: u64) -> bool {
    let Some(tail) = long.len().checked_sub(short.len()).and_then(|at| long.get(at..)) else { return false };
    match (tail.parse::<u64>(), short.parse::<u64>()) {
        (Ok(from), Ok(to)) => to > from && to - from <= most,
        _ => false,
    }
}

/// Reads a folded cell without labels.
pub(super) fn scan(text: &str) -> Result<Number, Refusal> {
    let mut number = Number::new();
    let (mut run, mut group, mut runs, mut groups) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut offence: Option<char> = None;
    let mut below_zero = false;
    let mut dashes = 0_usize;
    // The last sign between two groups, and how many digits stood before it.
    let mut last = ('\0', 0_usize);
    for c in text.chars() {
        match c {
            '0'..='9' => {
                number.push(c as u8);
                run += 1;
                group += 1;
                runs += usize::from(run == FULL);
                groups += usize::from(group == FULL);
                continue;
            }
            '+' if number.total == 0 && offence.is_none() => number.plus = true,
            '-' | '~' | '_' if number.total == 0 => below_zero |= c == '-',
            ' ' | '\t' | '(' | ')' | '[' | ']' | '.' | '_' => {}
            '-' | '~' => {
                dashes += 1;
                // Evenly dashed groups (`0664-123-45-67`) are one number; a dash apart is another matter.
                last = if dashes == 1 || group >= 4 { ('-', number.total) } else { ('\0', 0) };
            }
            '/' => {
                run = 0;
                last = ('/', number.total);
            }
            c if c.is_whitespace() => run = 0,
            '@' => offence = Some('@'),
            c => {
                run = 0;
                // What stands first tells most; a label letter matters less than an address sign.
                offence = offence.or(Some(c));
            }
        }
        group = 0;
        number.cut();
    }
    if offence == Some('@') {
        return Err(foreign('@'));
    }
    if runs >= 2 || (groups >= 2 && number.total > 15) {
        return Err(multiple());
    }
    if let Some(sign) = offence {
        // Only plain signs may stand before the marker, so this goes no deeper than once.
        if let Some((before, certain)) = before_extension(text)
            && before.bytes().all(|b| b.is_ascii_digit() || b" \t+-()[]./_~".contains(&b))
        {
            let mut main = scan(before)?;
            if main.total >= FULL {
                if certain {
                    return Err(extension());
                }
                main.doubt = Some((Doubt::Extension, main.total));
                return Ok(main);
            }
        }
        return Err(foreign(sign));
    }
    if number.total == 0 {
        return Err(Refusal::new(Reason::PhoneNotANumber, "holds no digits"));
    }
    let trailing_minus = text.strip_suffix('-').is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    if below_zero || trailing_minus {
        return Err(negative());
    }
    let (sign, before) = last;
    if let Some((long, short)) = number.halves(before)
        && number.total == number.kept
        && (1..=4).contains(&short.len())
    {
        let doubt = match sign {
            '/' => Some(Doubt::Range),
            '-' if ends_range(long, short, 20) => Some(Doubt::Range),
            '-' if short.len() <= 2 => Some(Doubt::Suffix),
            _ => None,
        };
        number.doubt = doubt.map(|doubt| (doubt, before));
    }
    Ok(number)
}
