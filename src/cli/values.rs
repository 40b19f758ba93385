//! How the values of options are written.
//!
//! Owns the spelling of durations, signs, columns, budgets, regions and job numbers. It does not know which
//! option a value belongs to. Invariant: a value that is not understood is refused with what would be.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::fault::Code;
use crate::import::report::{Budget, Wait};
use crate::job::{JobId, QueueName};
use crate::settings::{ColumnRef, Field};

/// A duration such as `90s`, `10m`, `1h`, `24h`, `500ms`, `2d` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is no duration; write for example 90s, 10m, 1h or 24h");
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at(letters);
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let part = number.parse::<u64>().ok().and_then(|n| n.checked_mul(millis)).ok_or_else(wrong)?;
        total = total.checked_add(Duration::from_millis(part)).ok_or_else(wrong)?;
        rest = next;
    }
    Ok(total)
}

/// `--lease`: a duration of at least one second.
pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    let lease = duration(text)?;
    if lease < Duration::from_secs(1) {
        return Err(format!("a lease of '{text}' is too short; it lasts at least 1s"));
    }
    Ok(lease)
}

/// `--window`: a duration of at least one second and at most a year.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    let window = duration(text)?;
    if window < Duration::from_secs(1) || window > Duration::from_secs(366 * 86_400) {
        return Err(format!("a window of '{text}' is none; it lasts from 1s to 366d"));
    }
    Ok(window)
}

/// `--queue`.
pub(crate) fn queue(text: &str) -> Result<QueueName, String> {
    QueueName::parse(text).map_err(|fault| format!("{}; {}", fault.message, Code::BadQueueName.means()))
}

/// `--run-at`: a moment with its offset; without one nobody knows whose evening is meant.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("'{text}' is no time with an offset; write for example 2026-12-01T22:00:00+03:00 or …Z");
    let moment: jiff::Timestamp = text.trim().parse().map_err(|_| wrong())?;
    Ok(Timestamp::from_millis(moment.as_millisecond()))
}

/// `--wait=D`.
pub(crate) fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "forever" => Ok(Wait::Forever),
        text => duration(text).map(Wait::Until),
    }
}

/// `--delimiter`: one ASCII character or a word for it.
pub(crate) fn delimiter(text: &str) -> Result<u8, String> {
    let sign = match text {
        "tab" | "\\t" => b'\t',
        "comma" => b',',
        "semicolon" => b';',
        "pipe" => b'|',
        "space" => b' ',
        text => ascii(text, "comma, semicolon, tab, pipe or space")?,
    };
    Ok(sign)
}

/// `--quote` and `--escape`: one ASCII character, a word for it, or `none`.
pub(crate) fn sign_or_none(text: &str) -> Result<Sign, String> {
    let sign = match text {
        "none" => return Ok(Sign(None)),
        "double" => b'"',
        "single" => b'\'',
        "backslash" => b'\\',
        "tab" | "\\t" => b'\t',
        "comma" => b',',
        "semicolon" => b';',
        "pipe" => b'|',
        text => ascii(text, "double, single, backslash or none")?,
    };
    Ok(Sign(Some(sign)))
}

/// A sign that can be `none`; clap would take a bare `Option` for an option that may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sign(pub(crate) Option<u8>);

fn ascii(text: &str, words: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [b'\n' | b'\r' | 0] => Err("a line end or NUL cannot separate or quote cells".to_owned()),
        [b] if b.is_ascii() => Ok(*b),
        _ => Err(format!("'{text}' is not one ASCII character; write one, or {words}")),
    }
}

/// `--newer-by`: `HEADER` or `#N`.
pub(crate) fn column(text: &str) -> Result<ColumnRef, String> {
    let number = text.strip_prefix('#').filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    match number.map(str::parse::<usize>) {
        Some(Ok(n)) if n > 0 => Ok(ColumnRef::Number(n)),
        Some(_) => Err(format!("'{text}' is no column; columns count from #1")),
        None if text.trim().is_empty() => Err("a column is named by its header or as #N".to_owned()),
        None => Ok(ColumnRef::Header(text.to_owned())),
    }
}

/// `--map`: `FIELD=HEADER` or `FIELD=#N`.
pub(crate) fn mapping(text: &str) -> Result<(Field, ColumnRef), String> {
    let (field, name) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is no mapping; write FIELD=HEADER or FIELD=#N, for example phone=Mobile"))?;
    let field = match field.trim().to_ascii_lowercase().as_str() {
        "phone" => Field::Phone,
        "name" => Field::Name,
        "region" => Field::Region,
        _ => {
            return Err(format!(
                "'{field}' is no field; the fields are phone, name and region, and all other columns become attributes"
            ));
        }
    };
    Ok((field, column(name)?))
}

/// `--set`: `FIELD=VALUE`.
pub(crate) fn constant(text: &str) -> Result<(String, String), String> {
    let (field, value) = text
        .split_once('=')
        .ok_or_else(|| format!("'{text}' is no constant; write FIELD=VALUE, for example source=web"))?;
    Ok((field.to_owned(), value.to_owned()))
}

/// `--max-rejects`: `100` rows or `2%` of the rows.
pub(crate) fn budget(text: &str) -> Result<Budget, String> {
    let wrong = || format!("'{text}' is no limit; write a number of rows such as 100, or a share such as 2%");
    match text.strip_suffix('%') {
        Some(percent) => {
            let plain = percent.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let value: f64 = percent.parse().map_err(|_| wrong())?;
            if plain && (0.0..=100.0).contains(&value) { Ok(Budget::Percent(value)) } else { Err(wrong()) }
        }
        None => text.parse().map(Budget::Rows).map_err(|_| wrong()),
    }
}

/// `--expect-sha256`: 64 hexadecimal digits.
pub(crate) fn sha256(text: &str) -> Result<String, String> {
    if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!("'{text}' is no SHA-256; it has 64 digits from 0 to f"))
    }
}

/// `--max-changes`: `50%` or `50`, of a hundred.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    match budget(&format!("{}%", text.strip_suffix('%').unwrap_or(text))) {
        Ok(Budget::Percent(value)) => Ok(value),
        _ => Err(format!("'{text}' is no share; write for example 50%")),
    }
}

/// `--region`: two letters, returned in upper case.
pub(crate) fn region(text: &str) -> Result<String, String> {
    if text.len() == 2 && text.bytes().all(|b| b.is_ascii_alphabetic()) {
        Ok(text.to_ascii_uppercase())
    } else {
        Err(format!("'{text}' is no region; write the two letters of the country, for example TR or GR"))
    }
}

/// How a job is named: by its number, or as the newest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobRef {
    /// `last`.
    Last,
    /// A number.
    Id(JobId),
}

/// A job's number, or `last`.
pub(crate) fn job(text: &str) -> Result<JobRef, String> {
    match text {
        "last" => Ok(JobRef::Last),
        text => match text.parse::<i64>() {
            Ok(id) if id > 0 => Ok(JobRef::Id(JobId(id))),
            _ => Err(format!("'{text}' is no job; write its number or 'last'")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        let seconds = |text| duration(text).map(|d| d.as_millis());
        assert_eq!(seconds("90s"), Ok(90_000));
        assert_eq!(seconds("10m"), Ok(600_000));
        assert_eq!(seconds("24h"), Ok(86_400_000));
        assert_eq!(seconds("1h30m"), Ok(5_400_000));
        assert_eq!(seconds("250ms"), Ok(250));
        for wrong in ["", "10", "s", "-1s", "1.5h", "10 m", "99999999999999999999s", "18446744073709551615d", "1w"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(lease("999ms").is_err());
        assert_eq!(wait("10m"), Ok(Wait::Until(Duration::from_secs(600))));
    }

    #[test]
    fn signs_are_one_ascii_character_or_a_word() {
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        assert_eq!(delimiter("\\t"), Ok(b'\t'));
        assert_eq!(delimiter("\t"), Ok(b'\t'));
        assert_eq!(delimiter(";"), Ok(b';'));
        assert_eq!(delimiter("pipe"), Ok(b'|'));
        for wrong in ["", "||", "§", "\n", "\r", "none"] {
            assert!(delimiter(wrong).is_err(), "{wrong}");
        }
        assert_eq!(sign_or_none("none"), Ok(Sign(None)));
        assert_eq!(sign_or_none("'"), Ok(Sign(Some(b'\''))));
    }

    #[test]
    fn columns_are_headers_or_numbers_from_one() {
        assert_eq!(column("#3"), Ok(ColumnRef::Number(3)));
        assert_eq!(column("#tag"), Ok(ColumnRef::Header("#tag".to_owned())));
        assert!(column("#0").is_err());
        assert!(column(" ").is_err());
        assert_eq!(mapping("phone=Cep Tel=2"), Ok((Field::Phone, ColumnRef::Header("Cep Tel=2".to_owned()))));
        assert!(mapping("phone").is_err());
        assert!(mapping("email=x").unwrap_err().contains("attributes"));
    }

    #[test]
    fn budgets_are_rows_or_a_share() {
        assert_eq!(budget("100"), Ok(Budget::Rows(100)));
        assert_eq!(budget("2%"), Ok(Budget::Percent(2.0)));
        assert_eq!(budget("0.5%"), Ok(Budget::Percent(0.5)));
        for wrong in ["", "%", "101%", "-1", "nan%", "inf%", "1e1%", "2 %", "many"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_may_leave_the_sign_out() {
        assert_eq!((percent("50%"), percent("100")), (Ok(50.0), Ok(100.0)));
        assert!(percent("101%").is_err() && percent("half").is_err());
    }

    #[test]
    fn regions_are_two_letters_and_jobs_are_numbers() {
        assert_eq!(region("tr"), Ok("TR".to_owned()));
        assert!(region("TUR").is_err());
        assert!(region("90").is_err());
        assert_eq!(job("last"), Ok(JobRef::Last));
        assert_eq!(job("7"), Ok(JobRef::Id(JobId(7))));
        assert!(job("0").is_err());
    }
}
