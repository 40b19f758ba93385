//! One cell of a sheet as text.
//!
//! Owns how numbers, dates, durations, truth values and errors are written. It does not know where a cell
//! stands. Invariant: the text of a cell lies on one line, a number keeps its digits, and the same value
//! always gives the same text.

use std::borrow::Cow;

use calamine::{DataRef, ExcelDateTime};

/// The first day that Excel does not know: 10000-01-01 as a serial number.
const DAYS_END: f64 = 2_958_466.0;

/// The value as text.
///
/// Numbers are written in full with as few digits as tell them apart, never with an exponent; dates are
/// `2026-02-01`, moments `2026-02-01T10:00:00`, times and durations `10:00:00`; line breaks become spaces.
pub(super) fn text_of<'a>(value: &'a DataRef<'_>) -> Cow<'a, str> {
    match value {
        DataRef::Empty => Cow::Borrowed(""),
        DataRef::Int(number) => Cow::Owned(number.to_string()),
        DataRef::Float(number) => Cow::Owned(digits(*number)),
        DataRef::String(text) => one_line(text),
        DataRef::SharedString(text) => one_line(text),
        DataRef::Bool(true) => Cow::Borrowed("TRUE"),
        DataRef::Bool(false) => Cow::Borrowed("FALSE"),
        DataRef::DateTime(moment) => Cow::Owned(excel_moment(moment)),
        DataRef::DateTimeIso(text) => one_line(iso_moment(text)),
        DataRef::DurationIso(text) => iso_duration(text).map_or_else(|| one_line(text), Cow::Owned),
        DataRef::Error(error) => Cow::Owned(error.to_string()),
    }
}

fn digits(number: f64) -> String {
    // Zero has a sign in a file, and nowhere else.
    if number == 0.0 { "0".to_owned() } else { number.to_string() }
}

/// The text without line breaks, so that a row of the sheet stays a line of the text.
fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\r']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", " ").replace(['\n', '\r'], " "))
}

/// A serial number of days, as Excel keeps dates.
fn excel_moment(moment: &ExcelDateTime) -> String {
    let days = moment.as_f64();
    if moment.is_duration() && days.is_finite() && days.abs() < DAYS_END {
        let seconds = (days.abs() * 86_400.0).round();
        let sign = if days < 0.0 && seconds > 0.0 { "-" } else { "" };
        let (hours, rest) = ((seconds / 3600.0).floor(), seconds % 3600.0);
        return format!("{sign}{hours:02}:{:02}:{:02}", (rest / 60.0).floor(), rest % 60.0);
    }
    // A number that only looks like a date by its format, a phone for example, stays what it is.
    if !(0.0..DAYS_END).contains(&days) {
        return digits(days);
    }
    let (year, month, day, hour, minute, second, milli) = moment.to_ymd_hms_milli();
    let fraction = if milli == 0 { String::new() } else { format!(".{milli:03}") };
    let date = format!("{year:04}-{month:02}-{day:02}");
    let time = format!("{hour:02}:{minute:02}:{second:02}{fraction}");
    if days < 1.0 {
        time
    } else if time == "00:00:00" {
        date
    } else {
        format!("{date}T{time}")
    }
}

/// A moment that is written in ISO 8601 already, without a midnight that nobody meant.
fn iso_moment(text: &str) -> &str {
    let Some((date, time)) = text.split_once('T') else { return text };
    let midnight = time.trim_end_matches('Z').split('.').enumerate().all(|(n, part)| match n {
        0 => matches!(part, "00:00:00" | "00:00"),
        _ => part.bytes().all(|byte| byte == b'0'),
    });
    if midnight {
        return date;
    }
    match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|byte| byte == b'0') => whole,
        _ => text,
    }
}

/// `PT10H30M05S` as `10:30:05`.
fn iso_duration(text: &str) -> Option<String> {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let rest = rest.strip_prefix("PT")?;
    let (hours, rest) = rest.split_once('H').unwrap_or(("0", rest));
    let (minutes, rest) = rest.split_once('M').unwrap_or(("0", rest));
    let seconds = if rest.is_empty() { "0" } else { rest.strip_suffix('S')? };
    let seconds = seconds.split(['.', ',']).next()?;
    let number = |text: &str| text.parse::<u32>().ok();
    Some(format!("{sign}{:02}:{:02}:{:02}", number(hours)?, number(minutes)?, number(seconds)?))
}

#[cfg(test)]
mod tests {
    use calamine::{CellErrorType, ExcelDateTimeType};

    use super::*;

    fn moment(days: f64) -> String {
        text_of(&DataRef::DateTime(ExcelDateTime::new(days, ExcelDateTimeType::DateTime, false))).into_owned()
    }

    fn duration(days: f64) -> String {
        text_of(&DataRef::DateTime(ExcelDateTime::new(days, ExcelDateTimeType::TimeDelta, false))).into_owned()
    }

    #[test]
    fn numbers_keep_their_digits() {
        for (number, text) in [
            (905_320_000_011.0, "905320000011"),
            (5_320_000_011.0, "5320000011"),
            (0.1, "0.1"),
            (-0.0, "0"),
            (-1.5, "-1.5"),
            (1e21, "1000000000000000000000"),
            (1e-7, "0.0000001"),
        ] {
            assert_eq!(text_of(&DataRef::Float(number)), text);
        }
        assert_eq!(text_of(&DataRef::Int(905_320_000_011)), "905320000011");
    }

    #[test]
    fn dates_times_and_durations_are_iso() {
        assert_eq!(moment(46_054.0), "2026-02-01");
        assert_eq!(moment(46_054.0 + 10.0 / 24.0), "2026-02-01T10:00:00");
        assert_eq!(moment(0.5), "12:00:00");
        assert_eq!(moment(905_320_000_011.0), "905320000011");
        assert_eq!(moment(-3.0), "-3");
        assert_eq!(moment(f64::NAN), "NaN");
        assert_eq!(duration(1.0 + 1.0 / 48.0), "24:30:00");
        assert_eq!(duration(-0.5), "-12:00:00");
        for (iso, text) in [
            ("2026-02-01", "2026-02-01"),
            ("2026-02-01T00:00:00", "2026-02-01"),
            ("2026-02-01T00:00:00.000Z", "2026-02-01"),
            ("2026-02-01T10:00:00", "2026-02-01T10:00:00"),
            ("2026-02-01T10:00:00.000000000", "2026-02-01T10:00:00"),
            ("2026-02-01T10:00:00.5", "2026-02-01T10:00:00.5"),
        ] {
            assert_eq!(text_of(&DataRef::DateTimeIso(iso.to_owned())), text);
        }
        for (iso, text) in
            [("PT10H00M00S", "10:00:00"), ("PT5M", "00:05:00"), ("-PT1H2M3.5S", "-01:02:03"), ("P1D", "P1D")]
        {
            assert_eq!(text_of(&DataRef::DurationIso(iso.to_owned())), text);
        }
    }

    #[test]
    fn other_values_are_written_as_the_sheet_shows_them() {
        assert_eq!(text_of(&DataRef::Bool(true)), "TRUE");
        assert_eq!(text_of(&DataRef::Error(CellErrorType::NA)), "#N/A");
        assert_eq!(text_of(&DataRef::SharedString("a\r\nb\nc\rd")), "a b c d");
        assert_eq!(text_of(&DataRef::Empty), "");
    }
}
