//! The header `Retry-After` (RFC 9110, 10.2.3).
//!
//! Owns its two forms: seconds, and a date. It does not know what waits. Invariant: what is not understood is no
//! answer, and a date that is over asks for nothing.

use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;

use crate::clock::Timestamp;

/// How long to wait from `now` on, by this machine's clock.
pub(crate) fn parse(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Timestamp::from_millis(date.as_millisecond()).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood_and_nothing_else() {
        let now = Timestamp::from_millis(784_111_777_000 - 90_000);
        assert_eq!(parse(" 120 ", now), Some(Duration::from_secs(120)));
        assert_eq!(parse("99999999999999999999999", now), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(90)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:40:00 GMT", now), Some(Duration::ZERO));
        for wrong in ["", "soon", "-1", "1.5", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(parse(wrong, now), None, "{wrong}");
        }
    }
}
