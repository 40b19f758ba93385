//! Figures, times and columns as people read them.
//!
//! Owns the formatting of text answers. It does not know what the figures mean. Invariant: pure functions
//! only.

use std::time::Duration;

use crate::clock::Timestamp;

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 row`, `2,000 rows`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { many })
}

/// A duration to the precision that matters: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn elapsed(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A number of bytes: `512 B`, `79.0 MB` (powers of ten, as file managers show them).
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if n < 1000 {
        return format!("{n} B");
    }
    // Cannot lose anything that is shown: one decimal of a figure below a thousand.
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut value = n as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS.get(unit).copied().unwrap_or_default())
}

/// A duration as it is written on the command line: `30s`, `10m`, `24h`, `30d`.
pub(crate) fn duration_word(duration: Duration) -> String {
    let millis = duration.as_millis();
    // A day is usually called 24 hours.
    if millis > 86_400_000 && millis.is_multiple_of(86_400_000) {
        return format!("{}d", millis / 86_400_000);
    }
    for (unit, size) in [("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{}{unit}", millis / size);
        }
    }
    format!("{millis}ms")
}

/// A span for people, in its largest unit: `45 s`, `12 min`, `23 h`.
pub(crate) fn roughly(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{} s", seconds.max(1)),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

/// On which side the text of a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// Rows under a heading, in columns two spaces apart; no space at the end of a line.
pub(crate) fn table(heading: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let width = |n: usize, title: &str| {
        rows.iter().filter_map(|row| row.get(n)).map(|cell| shown(cell)).max().unwrap_or(0).max(shown(title))
    };
    let widths: Vec<usize> = heading.iter().enumerate().map(|(n, (title, _))| width(n, title)).collect();
    let mut out = String::new();
    let titles: Vec<String> = heading.iter().map(|(title, _)| (*title).to_owned()).collect();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for ((cell, (_, align)), width) in row.iter().zip(heading).zip(&widths) {
            let padding = " ".repeat(width.saturating_sub(shown(cell)));
            match align {
                Align::Left => line.extend([cell.as_str(), &padding, "  "]),
                Align::Right => line.extend([padding.as_str(), cell, "  "]),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Names and values, one pair a line, the values below each other.
pub(crate) fn pairs(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| shown(name)).max().unwrap_or(0);
    rows.iter()
        .map(|(name, value)| format!("{name}{}  {value}\n", " ".repeat(width.saturating_sub(shown(name)))))
        .collect()
}

/// The end of a text that is too long for its column, after `…`.
pub(crate) fn tail(text: &str, width: usize) -> String {
    let length = shown(text);
    if length <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(length + 1 - width).collect();
    format!("…{kept}")
}

/// The start of a text that is too long for its column, before `…`.
pub(crate) fn head(text: &str, width: usize) -> String {
    if shown(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// How many columns a text takes, near enough: one a character.
fn shown(text: &str) -> usize {
    text.chars().count()
}

/// A moment as the clock on the wall of this machine shows it, with its offset.
pub(crate) fn local(moment: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(moment.millis()) {
        Ok(utc) => utc.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
        Err(_) => moment.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1000, 1_234_567].map(thousands).each_ref().map(|s| s.as_str())
        );
        assert_eq!(counted(1, "row", "rows"), "1 row");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(79_000_000), "79.0 MB");
        assert_eq!(bytes(999_999), "1.0 MB");
        assert_eq!(elapsed(Duration::from_millis(420)), "0.4 s");
        assert_eq!(elapsed(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(elapsed(Duration::from_secs(7500)), "2 h 5 min");
        assert_eq!(duration_word(Duration::from_secs(90)), "90s");
        assert_eq!(duration_word(Duration::from_secs(3600)), "1h");
        assert_eq!(duration_word(Duration::from_secs(86_400)), "24h");
        assert_eq!(duration_word(Duration::from_secs(30 * 86_400)), "30d");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [vec!["7".to_owned(), "ümit".to_owned()], vec!["123".to_owned(), "x".to_owned()]];
        let text = table(&[("ID", Align::Right), ("LIST", Align::Left)], &rows);
        assert_eq!(text, " ID  LIST\n  7  ümit\n123  x\n");
        assert_eq!(pairs(&[("a".into(), "1".into()), ("bcd".into(), "2".into())]), "a    1\nbcd  2\n");
        assert_eq!(tail("/a/long/path", 6), "…/path");
        assert_eq!(head("spring", 4), "spr…");
    }
}
