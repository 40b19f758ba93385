//! Phone numbers: cleaning, judging, the canonical form.
//!
//! Owns what a phone cell means: `clean` takes off what surrounds a number, `scan` reads its digits, the
//! libphonenumber rules judge them. It does not know rows, columns or lists. Invariant: a phone that was
//! accepted is valid, and is accepted again as its own E.164 text and yields itself.

mod clean;
mod date;
mod fold;
mod plan;
#[cfg(test)]
mod properties;
mod region;
#[cfg(test)]
mod rules_tests;
mod scan;
#[cfg(test)]
mod tests;

use rlibphonenumber::{
    NumberLengthType, PHONE_NUMBER_UTIL, ParseError, PhoneNumber, PhoneNumberFormat, PhoneNumberType, Region,
    ValidationError,
};

use crate::reject::{Reason, Refusal};
use crate::settings::{PhoneType, trim};
use scan::{Doubt, Number};

/// The version of libphonenumber's metadata that the number rules come from (as the readme of
/// `rlibphonenumber` 2.2.15 states it).
pub const METADATA_VERSION: &str = "9.0.42";

/// Longest number of digits with an international prefix in front: 15 (E.164) and 4 (`0011`).
const DIGITS_MAX: usize = 19;

/// National numbers that the British regulator keeps for films and tests, by their first digits.
const FICTION_GB: &[&str] = &[
    "7700900", "1632960", "2079460", "1134960", "1144960", "1154960", "1164960", "1174960", "1184960", "1214960",
    "1314960", "1414960", "1514960", "1614960", "1914980", "2890180", "2920180", "3069990", "8081570", "9098790",
];

/// A valid phone number in E.164 form (`+905320000011`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Phone(String);

impl Phone {
    /// A phone that was stored earlier and is E.164 by that.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The E.164 text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The phone as it may stand in a log or a message: `+9053*****01`. The stars do not tell its length.
    pub fn masked(&self) -> String {
        let shown = if self.0.len() >= 11 { 5 } else { 3 };
        let head = self.0.get(..shown).unwrap_or("+");
        let tail = self.0.len().checked_sub(2).filter(|at| *at > shown).and_then(|at| self.0.get(at..));
        format!("{head}*****{}", tail.unwrap_or_default())
    }
}

/// A cell that should hold a phone, as it may stand in a log: its first three and last two characters, letters
/// among them as `x`. Nothing of a short one is shown.
pub fn masked_cell(cell: &str) -> String {
    let plain = |c: char| if c.is_ascii_digit() || c.is_ascii_punctuation() || c == ' ' { c } else { 'x' };
    let cell: Vec<char> = trim(cell).chars().map(plain).collect();
    match (cell.first_chunk::<3>(), cell.last_chunk::<2>()) {
        (Some(head), Some(tail)) if cell.len() >= 8 => {
            head.iter().copied().chain("*****".chars()).chain(tail.iter().copied()).collect()
        }
        _ => "*****".to_owned(),
    }
}

/// How the phone cells of an import are read.
#[derive(Debug, Clone)]
pub struct PhoneRules {
    region: Option<Region>,
    phone_type: PhoneType,
}

impl PhoneRules {
    /// Rules that read national numbers as those of `region` (ISO 3166 alpha-2, or what a region cell may
    /// say) and take numbers of `phone_type`.
    ///
    /// # Errors
    ///
    /// A fragment for a person when no region with number rules is known by that text.
    pub fn new(region: Option<&str>, phone_type: PhoneType) -> Result<Self, String> {
        let region = match region {
            None => None,
            Some(text) => Some(region::region(text).ok_or_else(|| format!("there is no region '{text}'"))?),
        };
        Ok(Self { region, phone_type })
    }

    /// Reads a phone cell. `row_region` is what the row's own region cell says; it wins over the default,
    /// an empty one says nothing, and a number with `+` needs neither.
    ///
    /// # Errors
    ///
    /// The reason why the cell holds no single valid phone. The detail never quotes the cell's digits.
    pub fn read(&self, cell: &str, row_region: Option<&str>) -> Result<Phone, Refusal> {
        let cell = trim(cell);
        if let Some(digits) = cell.strip_prefix('+')
            && (8..=15).contains(&digits.len())
            && digits.bytes().all(|b| b.is_ascii_digit())
        {
            return valid(cell, None).map_err(|wrong| wrong.refusal()).and_then(|found| self.of_type(found));
        }
        let region = match row_region.map(trim) {
            None | Some("") => Ok(self.region),
            Some(text) => region::region(text).map(Some).ok_or(()),
        };
        let folded = fold::fold(cell);
        if let Some(date) = date::date(clean::strip_edges(&folded))
            && (date.timed || !is_written_so(date.groups, region.ok().flatten()))
        {
            return Err(Refusal::new(Reason::PhoneIsDate, "a date; the phone may be in another column"));
        }
        let number = clean::clean(&folded)?;
        self.settle(&number, region)
    }

    /// Judges the digits of a cell; `Err` as region when the row names one that is not known.
    fn settle(&self, number: &Number, region: Result<Option<Region>, ()>) -> Result<Phone, Refusal> {
        if number.total > DIGITS_MAX {
            let two = number.digits().split_at_checked(number.total / 2);
            let twice = two.is_some_and(|(a, b)| number.total.is_multiple_of(2) && both(number, a, b, region));
            return Err(if twice || cut_in_two(number, region) {
                scan::multiple()
            } else {
                invalid("too long for a phone number")
            });
        }
        if number.plus {
            return self.weigh(number, number.international(), None, region);
        }
        if number.total < 3 {
            return Err(invalid("too short for a phone number"));
        }
        match region {
            Ok(Some(home)) => self.weigh(number, number.digits(), Some(home), region),
            Ok(None) | Err(()) if matches!(number.doubt, Some((Doubt::Extension, _))) => Err(scan::extension()),
            Ok(None) => Err(Refusal::new(
                Reason::PhoneNoRegion,
                "written without '+' and country code, and no region was given to read it in",
            )),
            Err(()) => Err(Refusal::new(
                Reason::PhoneNoRegion,
                "the row's region cell names no region that is known; write a two-letter code such as TR",
            )),
        }
    }

    /// Judges `text`, the digits of `number`, and settles what was left in doubt.
    fn weigh(
        &self,
        number: &Number,
        text: &str,
        home: Option<Region>,
        region: Result<Option<Region>, ()>,
    ) -> Result<Phone, Refusal> {
        if let Some((doubt, before)) = number.doubt {
            let main = text.get(..before + usize::from(number.plus)).unwrap_or(text);
            let alone = valid(main, home).ok().map(|(kind, _)| kind);
            match (doubt, alone) {
                (Doubt::Extension, Some(_)) => return Err(scan::extension()),
                (Doubt::Extension, None) => {
                    return Err(Refusal::new(Reason::PhoneNotANumber, "holds a letter or sign between its digits"));
                }
                (Doubt::Range, Some(_)) | (Doubt::Suffix, Some(PhoneNumberType::Mobile)) => {
                    return Err(invalid("several numbers written short, like 12/13; write one number in full"));
                }
                (Doubt::Range | Doubt::Suffix, _) => {}
            }
        }
        match valid(text, home) {
            Ok(found) => {
                if let Some(home) = home {
                    refuse_ambiguous(&found.1, number, home)?;
                }
                self.of_type(found)
            }
            Err(_) if cut_in_two(number, region) => Err(scan::multiple()),
            Err(wrong) => Err(wrong.refusal()),
        }
    }

    /// Lets a valid number pass if it is of the type that is asked for.
    fn of_type(&self, (kind, phone): (PhoneNumberType, Phone)) -> Result<Phone, Refusal> {
        match (self.phone_type, kind) {
            (PhoneType::Any, _) | (PhoneType::Mobile, PhoneNumberType::Mobile | PhoneNumberType::FixedLineOrMobile) => {
                Ok(phone)
            }
            (PhoneType::Mobile, kind) => {
                Err(Refusal::new(Reason::PhoneNotMobile, format!("valid, but {}", kind_name(kind))))
            }
        }
    }
}

/// Whether people of `home` write the valid number of these digits in these groups.
fn is_written_so(groups: [&str; 3], home: Option<Region>) -> bool {
    let Some(home) = home else { return false };
    let Ok(number) = PHONE_NUMBER_UTIL.parse(groups.concat(), Some(home)) else { return false };
    let national = PHONE_NUMBER_UTIL.format(&number, PhoneNumberFormat::National);
    PHONE_NUMBER_UTIL.get_number_type(&number) != PhoneNumberType::Unknown
        && national.split(|c: char| !c.is_ascii_digit()).filter(|group| !group.is_empty()).eq(groups)
}

/// Refuses bare digits that are one valid number as national ones and another with a `+` in front.
fn refuse_ambiguous(phone: &Phone, number: &Number, home: Region) -> Result<(), Refusal> {
    if phone.as_str() == number.international() {
        return Ok(());
    }
    let code = PHONE_NUMBER_UTIL.get_country_code_for_region(home).unwrap_or_default();
    let mut own = 0;
    let starts = number.digits().bytes().take(3).any(|b| {
        own = own * 10 + i32::from(b - b'0');
        own == code
    });
    match starts.then(|| valid(number.international(), None)) {
        Some(Ok((_, other))) if other != *phone => Err(invalid(format!(
            "ambiguous: the digits are a valid number both with +{code} in front and when they begin with it; \
             write the number with '+'"
        ))),
        _ => Ok(()),
    }
}

/// Whether the digits fall into two valid numbers where something stands between them.
fn cut_in_two(number: &Number, region: Result<Option<Region>, ()>) -> bool {
    number.total >= 14 && number.cuts().any(|at| number.halves(at).is_some_and(|(a, b)| both(number, a, b, region)))
}

/// Whether the two parts of a cell's digits are valid numbers by themselves.
fn both(number: &Number, first: &str, second: &str, region: Result<Option<Region>, ()>) -> bool {
    let home = region.ok().flatten();
    let passes = |text: &str, plus: bool| {
        if plus { valid(&format!("+{text}"), None).is_ok() } else { home.is_some() && valid(text, home).is_ok() }
    };
    first.len() >= 7
        && second.len() >= 7
        && passes(first, number.plus)
        && (passes(second, false) || passes(second, true))
}

/// Lets the number rules judge plain digits, with `+` in front or read in `home`.
fn valid(text: &str, home: Option<Region>) -> Result<(PhoneNumberType, Phone), Wrong> {
    let known = plan::known(text, home).map(|number| (PHONE_NUMBER_UTIL.get_number_type(&number), number));
    let (kind, parsed) = match known {
        Some(valid) if valid.0 != PhoneNumberType::Unknown => valid,
        _ => {
            let parsed = PHONE_NUMBER_UTIL.parse(text, home).map_err(Wrong::Parse)?;
            (PHONE_NUMBER_UTIL.get_number_type(&parsed), parsed)
        }
    };
    if kind == PhoneNumberType::Unknown {
        return Err(Wrong::Unassigned(Box::new(parsed)));
    }
    Ok((kind, Phone(PHONE_NUMBER_UTIL.format(&parsed, PhoneNumberFormat::E164).into_owned())))
}

/// Why the number rules refuse plain digits.
enum Wrong {
    /// They are no number at all.
    Parse(ParseError),
    /// They are one by form, but not a valid one.
    Unassigned(Box<PhoneNumber>),
}

impl Wrong {
    fn refusal(&self) -> Refusal {
        match self {
            Self::Parse(ParseError::InvalidCountryCode) => invalid("no country has the calling code after the '+'"),
            Self::Parse(ParseError::TooLongNsn) => invalid("too long for a phone number"),
            Self::Parse(_) => invalid("too short for a phone number"),
            Self::Unassigned(parsed) => unassigned(parsed),
        }
    }
}

fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal::new(Reason::PhoneInvalid, detail)
}

/// Says what is wrong with a number of known country.
fn unassigned(parsed: &PhoneNumber) -> Refusal {
    let place = match PHONE_NUMBER_UTIL.get_region_for_country_code(parsed.country_code) {
        Some(region) if region != Region::World => format!("{region} (+{})", parsed.country_code),
        _ => format!("+{}", parsed.country_code),
    };
    invalid(match length(parsed) {
        Err(ValidationError::TooShort) => format!("too short for a number in {place}"),
        Err(ValidationError::TooLong) => format!("too long for a number in {place}"),
        Err(ValidationError::InvalidLength) => format!("no number in {place} has that many digits"),
        Err(ValidationError::InvalidCountryCode) => format!("no country has the calling code {place}"),
        Ok(NumberLengthType::IsPossibleLocalOnly) => {
            format!("too short for a number in {place}: the area code is missing")
        }
        Ok(NumberLengthType::IsPossible) if is_fiction(parsed) => {
            "in a range that Britain keeps for films and tests, so nobody can be reached there; \
             fine as an example, put a real number in its place to import it"
                .to_owned()
        }
        Ok(NumberLengthType::IsPossible) => format!(
            "the length is right, but the range is not assigned in {place} as of number metadata {METADATA_VERSION}"
        ),
    })
}

/// How the length fits the country; a length that only special numbers have counts as wrong.
fn length(parsed: &PhoneNumber) -> Result<NumberLengthType, ValidationError> {
    let of = |kind| PHONE_NUMBER_UTIL.is_possible_number_for_type_with_reason(parsed, kind);
    match (of(PhoneNumberType::Unknown), of(PhoneNumberType::Mobile), of(PhoneNumberType::FixedLine)) {
        (Ok(_), Err(short @ ValidationError::TooShort), Err(_)) => Err(short),
        (Ok(_), Err(long @ ValidationError::TooLong), Err(_)) => Err(long),
        (whole, ..) => whole,
    }
}

fn is_fiction(parsed: &PhoneNumber) -> bool {
    let national = parsed.national_number.to_string();
    parsed.country_code == 44 && FICTION_GB.iter().any(|range| national.starts_with(range))
}

fn kind_name(kind: PhoneNumberType) -> &'static str {
    match kind {
        PhoneNumberType::FixedLine => "a fixed line",
        PhoneNumberType::TollFree => "a toll-free number",
        PhoneNumberType::PremiumRate => "a premium-rate number",
        PhoneNumberType::SharedCost => "a shared-cost number",
        PhoneNumberType::VoIP => "an internet phone number",
        PhoneNumberType::PersonalNumber => "a personal forwarding number",
        PhoneNumberType::Pager => "a pager",
        PhoneNumberType::UAN => "a company-wide number",
        PhoneNumberType::VoiceMail => "a voicemail number",
        PhoneNumberType::Mobile | PhoneNumberType::FixedLineOrMobile | PhoneNumberType::Unknown => {
            "not a mobile number"
        }
    }
}
