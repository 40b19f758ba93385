//! Dates that stand in a phone's place.
//!
//! Owns what is a date beyond doubt: year, month and day between two equal signs, the year in full, a time of
//! day behind it or not. It knows no country and no number. Invariant: without a year from 1900 to 2099 at one
//! end and a day that exists it is no date.

use jiff::civil;

/// The years that dates in lists have.
const YEARS: std::ops::RangeInclusive<i16> = 1900..=2099;

/// A date as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written<'a> {
    /// Its three groups of digits.
    pub(super) groups: [&'a str; 3],
    /// Whether a time of day follows, as no number has.
    pub(super) timed: bool,
}

/// The date that a folded cell without edges consists of: `2024-05-17`, `17.5.2024`, `5/17/2024 10:00`.
pub(super) fn date(text: &str) -> Option<Written<'_>> {
    let end = text.find([' ', 'T']).unwrap_or(text.len());
    let (day, time) = text.split_at(end);
    let sign = day.chars().find(|c| !c.is_ascii_digit()).filter(|c| matches!(c, '.' | '-' | '/'))?;
    let mut parts = day.split(sign);
    let groups = [parts.next()?, parts.next()?, parts.next()?];
    if parts.next().is_some() || !exists(groups) {
        return None;
    }
    let is_time = |c: char| c.is_ascii_digit() || matches!(c, ' ' | 'T' | ':' | '.' | '+' | '-' | 'Z');
    let timed = time.contains(':') && time.chars().all(is_time);
    (timed || time.is_empty()).then_some(Written { groups, timed })
}

/// Whether the groups are a day of the calendar, in whatever order people write one.
fn exists(groups: [&str; 3]) -> bool {
    let number = |text: &str, most: usize| {
        let fits = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| text.parse::<i16>().ok()).flatten()
    };
    let day_of = |year: &str, month: &str, day: &str| {
        let year = number(year, 4).filter(|year| YEARS.contains(year));
        let small = |text| number(text, 2).and_then(|n| i8::try_from(n).ok());
        matches!((year, small(month), small(day)), (Some(y), Some(m), Some(d)) if civil::Date::new(y, m, d).is_ok())
    };
    let [a, b, c] = groups;
    day_of(a, b, c) || day_of(c, b, a) || day_of(c, a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_a_full_year_and_a_day_that_exists() {
        for text in ["2024-05-17", "17.05.2024", "17/05/1984", "5/17/2024", "1.2.1999", "29.02.2024", "2024/1/2"] {
            assert_eq!(date(text).map(|found| found.timed), Some(false), "{text}");
        }
        for text in ["2024-05-17T10:00:00Z", "17.05.2024 10:00", "2024-05-17 10:00:00.000+03:00"] {
            assert_eq!(date(text).map(|found| found.timed), Some(true), "{text}");
        }
    }

    #[test]
    fn what_may_be_a_number_is_no_date() {
        for text in [
            "030/123456",
            "01.23.45.67.89",
            "12.34.56.78",
            "17-05-84",
            "17.05.2124",
            "29.02.2023",
            "31/04/2024",
            "2024.0517",
            "17.05/2024",
            "20240517",
            "17 05 2024",
            "13.13.2024",
            "0.5.2024",
            "+17.05.2024",
            "17.05.2024 11",
            "2024-05-17-1",
            "12.05.20244",
            "",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
