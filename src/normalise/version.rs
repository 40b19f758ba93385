//! The version of a row: what `--newer-by` compares.
//!
//! Owns the forms in which a version may be written. It does not know columns or the clock. Invariant: of
//! two dates the later one gives the larger number, whatever their offsets.

const DAY_MS: i64 = 86_400_000;

/// A text that is read piece by piece from the left.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    /// `min` to `max` digits.
    fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        let n = self.0.iter().take(max).take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at_checked(n).filter(|_| n >= min)?;
        self.0 = rest;
        Some(digits.iter().fold(0, |sum, b| sum * 10 + i64::from(b - b'0')))
    }

    /// One of `signs`, if it is next.
    fn sign(&mut self, signs: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        signs.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; `None` where there is no such day.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is the last one of a year; 719,468 days lie between
    // 0000-03-01 and 1970-01-01.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Milliseconds of a time of day, and of what follows it: fraction and offset.
fn time(cursor: &mut Cursor<'_>) -> Option<i64> {
    let hour = cursor.number(2, 2)?;
    cursor.sign(b":")?;
    let minute = cursor.number(2, 2)?;
    let mut second = 0;
    let mut ms = 0;
    if cursor.sign(b":").is_some() {
        second = cursor.number(2, 2)?;
        if cursor.sign(b".,").is_some() {
            let digits = cursor.0.iter().take_while(|b| b.is_ascii_digit()).count();
            let kept = cursor.number(1, 3)?;
            ms = [0, 100, 10, 1].get(digits.min(3)).map_or(0, |scale| kept * scale);
            cursor.number(0, 15)?;
        }
    }
    // A leap second counts as the next second.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(((hour * 60 + minute) * 60 + second) * 1000 + ms)
}

/// Milliseconds by which the clock of an offset is ahead of UTC; none written means UTC.
fn offset(cursor: &mut Cursor<'_>) -> Option<i64> {
    while cursor.sign(b" ").is_some() {}
    match cursor.sign(b"Zz+-") {
        None if cursor.0.eq_ignore_ascii_case(b"UTC") || cursor.0.eq_ignore_ascii_case(b"GMT") => cursor.0 = b"",
        None | Some(b'Z' | b'z') => {}
        Some(sign) => {
            let hours = cursor.number(2, 2)?;
            cursor.sign(b":");
            let minutes = if cursor.0.is_empty() { 0 } else { cursor.number(2, 2)? };
            if hours > 18 || minutes > 59 {
                return None;
            }
            let ahead = (hours * 60 + minutes) * 60_000;
            return Some(if sign == b'-' { -ahead } else { ahead });
        }
    }
    Some(0)
}

fn date(text: &str) -> Option<i64> {
    let mut cursor = Cursor(text.as_bytes());
    let year = cursor.number(4, 4)?;
    cursor.sign(b"-")?;
    let month = cursor.number(2, 2)?;
    cursor.sign(b"-")?;
    let mut ms = days(year, month, cursor.number(2, 2)?)? * DAY_MS;
    if cursor.sign(b"Tt ").is_some() {
        ms += time(&mut cursor)?;
        ms -= offset(&mut cursor)?;
    }
    cursor.0.is_empty().then_some(ms)
}

/// Reads a trimmed version cell: a whole number as it is, or an ISO 8601 date or date-time in milliseconds
/// since 1970 UTC (a time without offset is UTC; what is finer than a millisecond is cut off).
pub(super) fn version(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().or_else(|| date(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_numbers_and_iso_dates_are_read() {
        let noon = 1_769_940_000_000;
        for (text, expected) in [
            ("0", 0),
            ("-5", -5),
            ("+7", 7),
            ("20260201", 20_260_201),
            ("9223372036854775807", i64::MAX),
            ("1970-01-01", 0),
            ("1969-12-31", -DAY_MS),
            ("2000-02-29", 951_782_400_000),
            ("2026-02-01T10:00:00Z", noon),
            ("2026-02-01 10:00", noon),
            ("2026-02-01T13:00:00+03:00", noon),
            ("2026-02-01 13:00:00+03", noon),
            ("2026-02-01 13:00:00 +0300", noon),
            ("2026-02-01t05:30:00-0430", noon),
            ("2026-02-01 10:00:00 UTC", noon),
            ("2026-02-01T10:00:00.5Z", noon + 500),
            ("2026-02-01T10:00:00.123456+00:00", noon + 123),
            ("2026-02-01T10:00:00,05", noon + 50),
            ("0001-01-01", -62_135_596_800_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(version(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_unreadable() {
        for text in [
            "",
            "x",
            "1.5",
            "9223372036854775808",
            "2026-02-30",
            "2026-13-01",
            "2026-00-10",
            "2026-2-1",
            "01.02.2026",
            "2026-02-01T",
            "2026-02-01T25:00",
            "2026-02-01T10",
            "2026-02-01T10:60",
            "2026-02-01T10:00:00+",
            "2026-02-01x",
            "2026-02-01T10:00:00+19:00",
            "2026-02-01T10:00:00Zx",
            "2026-02-01T10:00:00.",
            "2025-02-29",
            "٢٠٢٦-٠٢-٠١",
            "1e5",
        ] {
            assert_eq!(version(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_the_calendar_is_one_after_the_day_before() {
        let all = (1..=2400).flat_map(|y| (1..=12).flat_map(move |m| (1..=31).map(move |d| (y, m, d))));
        let numbers: Vec<i64> = all.filter_map(|(y, m, d)| days(y, m, d)).collect();
        assert_eq!(numbers.len(), 6 * 146_097);
        assert!(numbers.is_sorted_by(|a, b| a + 1 == *b));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*|[0-9TZ:+. -]{0,40}") {
            let _ = version(&text);
        }
    }
}
