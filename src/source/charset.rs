//! Which character set a text is in.
//!
//! Owns the decision, which looks at the whole text and at nothing else but the user's word and the
//! region. It does not convert. Invariant: a text that may be UTF-8 in any part is never read as a
//! legacy character set, for that would spoil it silently, while a bad row is refused visibly.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::fault::{Code, Fault};

use crate::fault::Warning;

/// How much of the head tells UTF-16 without a byte order mark, in bytes.
const HEAD: usize = 4096;

/// The longest run of bytes above ASCII that is judged in one piece.
const RUN_MAX: usize = 4096;

/// What was decided.
#[derive(Debug)]
pub(super) struct Charset {
    pub(super) encoding: &'static Encoding,
    /// The length of the byte order mark.
    pub(super) mark: usize,
    pub(super) warnings: Vec<Warning>,
}

/// Watches a text go by, in chunks of any size.
#[derive(Debug, Default)]
pub(super) struct Detector {
    head: Vec<u8>,
    /// A run above ASCII that the last chunk cut.
    run: Vec<u8>,
    /// Some run was UTF-8, of characters that names are written in.
    plain_utf8: bool,
    /// Some run was not UTF-8.
    other: bool,
}

impl Detector {
    /// Takes the next bytes.
    pub(super) fn push(&mut self, mut chunk: &[u8]) {
        if self.head.len() < HEAD {
            let wanted = (HEAD - self.head.len()).min(chunk.len());
            self.head.extend_from_slice(chunk.get(..wanted).unwrap_or_default());
        }
        while !chunk.is_empty() && !self.plain_utf8 {
            if self.run.is_empty() {
                chunk = chunk.get(Encoding::ascii_valid_up_to(chunk)..).unwrap_or_default();
            }
            let len = chunk.iter().take(RUN_MAX).position(u8::is_ascii);
            self.run.extend_from_slice(chunk.get(..len.unwrap_or(RUN_MAX.min(chunk.len()))).unwrap_or_default());
            chunk = chunk.get(len.unwrap_or(RUN_MAX.min(chunk.len()))..).unwrap_or_default();
            if len.is_some() {
                self.judge_whole();
            } else if self.run.len() > RUN_MAX {
                self.judge_cut();
            }
        }
    }

    /// Judges a run that is over.
    fn judge_whole(&mut self) {
        match std::str::from_utf8(&self.run) {
            Ok(text) => self.plain_utf8 |= !text.is_empty() && text.chars().all(is_likely),
            Err(_) => self.other = true,
        }
        self.run.clear();
    }

    /// Judges a run that goes on; a character that is cut waits for its rest.
    fn judge_cut(&mut self) {
        match std::str::from_utf8(&self.run) {
            Err(error) if error.error_len().is_some() => {
                self.other = true;
                self.run.clear();
            }
            checked => {
                let whole = checked.map_or_else(|error| error.valid_up_to(), str::len);
                let rest = self.run.split_off(whole);
                self.judge_whole();
                self.run = rest;
            }
        }
    }

    /// Decides, after the last byte. `wanted` is the user's `--encoding`.
    pub(super) fn finish(mut self, wanted: Option<&str>, region: Option<&str>) -> Result<Charset, Fault> {
        let wanted = wanted.map(|label| Ok::<_, Fault>((label, by_label(label)?))).transpose()?;
        if self.head.starts_with(&[0xFF, 0xFE, 0, 0]) || self.head.starts_with(&[0, 0, 0xFE, 0xFF]) {
            return Err(Fault::new(Code::BadEncoding, "the file is UTF-32, which is not read")
                .hint("save it as UTF-8 and import that"));
        }
        // A byte order mark is stronger than the user's word: in no other character set is it sensible text.
        if let Some((marked, mark)) = Encoding::for_bom(&self.head) {
            let warnings = match wanted {
                Some((label, wanted)) if wanted != marked && !is_utf16(wanted, marked) => vec![Warning::new(
                    "encoding_ignored",
                    format!(
                        "the file starts with the byte order mark of {}, so --encoding '{label}' was ignored",
                        name(marked)
                    ),
                )],
                _ => Vec::new(),
            };
            return Ok(Charset { encoding: marked, mark, warnings });
        }
        let certain = |encoding| Ok(Charset { encoding, mark: 0, warnings: Vec::new() });
        if let Some((_, encoding)) = wanted {
            return certain(encoding);
        }
        if let Some(encoding) = bare_utf16(&self.head) {
            return certain(encoding);
        }
        // A character that the end of the file cuts speaks for nothing but that.
        if std::str::from_utf8(&self.run).is_ok_and(|run| !run.is_empty())
            || std::str::from_utf8(&self.run).is_err_and(|error| error.error_len().is_some())
        {
            self.judge_whole();
        }
        if self.plain_utf8 || !self.other {
            return certain(UTF_8);
        }
        let encoding = legacy(region);
        let because =
            region.map_or_else(|| "no region was given".to_owned(), |region| format!("the region is {region}"));
        Ok(Charset {
            encoding,
            mark: 0,
            warnings: vec![Warning::new(
                "encoding_guessed",
                format!(
                    "the file is not UTF-8; it was read as {} because {because}, pass --encoding if that is wrong",
                    name(encoding)
                ),
            )],
        })
    }
}

/// The WHATWG name in lower case.
pub(super) fn name(encoding: &'static Encoding) -> String {
    encoding.name().to_ascii_lowercase()
}

/// Whether a user's label names a character set; else the fault that says what would.
pub fn check_encoding(label: &str) -> Result<(), Fault> {
    by_label(label).map(drop)
}

/// The character set that a user's label names.
fn by_label(label: &str) -> Result<&'static Encoding, Fault> {
    let known = match label.trim().to_ascii_lowercase().as_str() {
        "utf-8-sig" | "utf8-sig" | "utf-8-bom" | "utf8-bom" => Some(UTF_8),
        other => Encoding::for_label_no_replacement(other.as_bytes()),
    };
    known.ok_or_else(|| {
        Fault::new(Code::Usage, format!("--encoding '{label}' is not known"))
            .hint("known are for example utf-8, utf-16le, windows-1254, windows-1253, iso-8859-7 and iso-8859-9")
    })
}

/// Whether both are UTF-16: `--encoding utf-16` leaves the byte order to the mark.
fn is_utf16(one: &'static Encoding, other: &'static Encoding) -> bool {
    [UTF_16LE, UTF_16BE].contains(&one) && [UTF_16LE, UTF_16BE].contains(&other)
}

/// UTF-16 without a byte order mark: the high bytes of digits, line ends and Latin letters are NUL, and
/// no byte of the other half is.
fn bare_utf16(head: &[u8]) -> Option<&'static Encoding> {
    let pairs = head.len() / 2;
    let zeros = |first: usize| head.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
    let (high_be, high_le) = (zeros(0), zeros(1));
    // Three tenths is far above a stray NUL and below the share of digits and line ends in a Greek list.
    let many = |count: usize| pairs > 0 && count * 10 >= pairs * 3;
    if many(high_le) && high_be == 0 {
        Some(UTF_16LE)
    } else if many(high_be) && high_le == 0 {
        Some(UTF_16BE)
    } else {
        None
    }
}

/// Whether a character is one that lists of people hold. The others appear when two letters of a legacy
/// character set happen to look like UTF-8 (`Ü’` in windows-1254 reads as a Syriac letter).
fn is_likely(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{17F}' | '\u{18F}' | '\u{1A0}' | '\u{1A1}' | '\u{1AF}' | '\u{1B0}' | '\u{218}'..='\u{21B}'
        | '\u{259}' | '\u{300}'..='\u{36F}' | '\u{384}'..='\u{3CE}' | '\u{400}'..='\u{45F}' | '\u{490}' | '\u{491}'
        | '\u{531}'..='\u{58F}' | '\u{5D0}'..='\u{5EA}' | '\u{60C}'..='\u{6FF}')
        || c as u32 >= 0x800
}

/// The code page that old programs use in a region.
fn legacy(region: Option<&str>) -> &'static Encoding {
    match region.unwrap_or_default().to_ascii_uppercase().as_str() {
        "TR" | "AZ" => encoding_rs::WINDOWS_1254,
        "GR" | "CY" => encoding_rs::WINDOWS_1253,
        "RU" | "BG" | "UA" | "BY" | "RS" | "MK" | "KZ" | "KG" | "TJ" | "MN" => encoding_rs::WINDOWS_1251,
        "PL" | "CZ" | "SK" | "HU" | "RO" | "MD" | "SI" | "HR" | "BA" | "ME" | "AL" => encoding_rs::WINDOWS_1250,
        "EE" | "LV" | "LT" => encoding_rs::WINDOWS_1257,
        "IL" => encoding_rs::WINDOWS_1255,
        "SA" | "AE" | "EG" | "IQ" | "JO" | "KW" | "LB" | "LY" | "MA" | "DZ" | "TN" | "OM" | "QA" | "SD" | "SY"
        | "YE" | "BH" | "PS" | "IR" | "PK" | "AF" => encoding_rs::WINDOWS_1256,
        "VN" => encoding_rs::WINDOWS_1258,
        "TH" => encoding_rs::WINDOWS_874,
        "JP" => encoding_rs::SHIFT_JIS,
        "CN" | "SG" => encoding_rs::GBK,
        "TW" | "HK" | "MO" => encoding_rs::BIG5,
        "KR" => encoding_rs::EUC_KR,
        _ => encoding_rs::WINDOWS_1252,
    }
}
