//! Characters as a phone cell means them, whatever keyboard typed them.
//!
//! Owns the folding of digits, spaces, dashes, dots, quotes and full-width forms to ASCII. It does not
//! know what a number is. Invariant: folding never invents, drops or reorders a digit.

use std::borrow::Cow;

use crate::settings::is_invisible;

/// The zero of every decimal digit series of Unicode (general category Nd) outside ASCII, ascending; the
/// other nine digits of a series follow it.
const ZEROS: [u32; 65] = [
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50, 0xED0, 0xF20,
    0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0,
    0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10, 0x104A0, 0x10D30, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0,
    0x11450, 0x114D0, 0x11650, 0x116C0, 0x11730, 0x118E0, 0x11950, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0,
    0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
];

/// The ASCII digit that `c` means.
fn digit(c: char) -> Option<char> {
    let code = c as u32;
    let before = ZEROS.partition_point(|zero| *zero <= code);
    let zero = *ZEROS.get(before.checked_sub(1)?)?;
    char::from_digit(code - zero, 10)
}

/// The plain character that `c` means in a phone cell; `None` where it takes no room.
fn plain(c: char) -> Option<char> {
    if c.is_ascii() {
        return Some(c);
    }
    if is_invisible(c) || c == '\u{20E3}' {
        return None;
    }
    if let Some(digit) = digit(c) {
        return Some(digit);
    }
    Some(match c {
        '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
        // Blank Braille and the Hangul fillers are drawn as spaces though Unicode calls them letters.
        c if c.is_whitespace() || matches!(c, '\u{2800}' | '\u{3164}' | '\u{FFA0}' | '\u{115F}' | '\u{1160}') => ' ',
        '\u{2010}'..='\u{2015}'
        | '\u{2043}'
        | '\u{207B}'
        | '\u{208B}'
        | '\u{2212}'
        | '\u{2053}'
        | '\u{223C}'
        | '\u{02D7}'
        | '\u{058A}'
        | '\u{05BE}'
        | '\u{1806}'
        | '\u{2E3A}'
        | '\u{2E3B}'
        | '\u{2500}'
        | '\u{2501}'
        | '\u{2796}'
        | '\u{301C}'
        | '\u{3030}'
        | '\u{30FC}'
        | '\u{FE31}'
        | '\u{FE32}'
        | '\u{FE58}'
        | '\u{FE63}'
        | '\u{FF70}' => '-',
        '\u{B7}' | '\u{2022}' | '\u{2024}' | '\u{2027}' | '\u{2219}' | '\u{22C5}' | '\u{25CF}' | '\u{3002}'
        | '\u{30FB}' | '\u{FE52}' | '\u{FF61}' | '\u{FF65}' | '\u{06D4}' => '.',
        '\u{2044}' | '\u{2215}' | '\u{29F8}' => '/',
        '\u{207A}' | '\u{208A}' | '\u{2795}' | '\u{FB29}' | '\u{FE62}' => '+',
        '\u{066B}' | '\u{066C}' | '\u{060C}' | '\u{3001}' | '\u{FE50}' | '\u{FE51}' | '\u{FF64}' => ',',
        '\u{061B}' | '\u{037E}' | '\u{FE54}' => ';',
        '\u{2236}' | '\u{FE55}' | '\u{A789}' => ':',
        '\u{207D}' | '\u{208D}' | '\u{FE59}' | '\u{3010}' | '\u{3014}' => '(',
        '\u{207E}' | '\u{208E}' | '\u{FE5A}' | '\u{3011}' | '\u{3015}' => ')',
        '\u{2018}'..='\u{201B}'
        | '\u{2032}'
        | '\u{2035}'
        | '\u{B4}'
        | '\u{02B9}'
        | '\u{02BB}'..='\u{02BD}'
        | '\u{02C8}'
        | '\u{2039}'
        | '\u{203A}'
        | '\u{A78C}' => '\'',
        '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{2036}' | '\u{AB}' | '\u{BB}' | '\u{301D}'..='\u{301F}' => '"',
        // The full-width forms stand in the order of ASCII.
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(c as u32 - 0xFEE0).unwrap_or(c),
        c => c,
    })
}

/// The cell in plain characters: ASCII wherever the character has an ASCII meaning.
///
/// Borrows when the cell is ASCII already.
pub(super) fn fold(cell: &str) -> Cow<'_, str> {
    if cell.is_ascii() { Cow::Borrowed(cell) } else { Cow::Owned(cell.chars().filter_map(plain).collect()) }
}

/// A word for comparison: lower case, Turkish i's as one letter, accents off, other signs left out.
pub(super) fn word(text: &str) -> String {
    text.chars()
        .flat_map(|c| if matches!(c, 'İ' | 'ı') { 'i' } else { c }.to_lowercase())
        .filter_map(|c| match c {
            'ά' => Some('α'),
            'έ' => Some('ε'),
            'ή' => Some('η'),
            'ί' | 'ϊ' | 'ΐ' => Some('ι'),
            'ό' => Some('ο'),
            'ύ' | 'ϋ' | 'ΰ' => Some('υ'),
            'ώ' => Some('ω'),
            'ς' => Some('σ'),
            'ç' => Some('c'),
            'ğ' => Some('g'),
            'ö' => Some('o'),
            'ş' => Some('s'),
            'ü' => Some('u'),
            'é' | 'è' => Some('e'),
            'í' => Some('i'),
            'á' => Some('a'),
            'ó' => Some('o'),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zeros_are_ascending_and_each_series_has_ten_digits() {
        assert!(ZEROS.is_sorted_by(|a, b| a + 9 < *b));
        for zero in ZEROS {
            for n in 0..10 {
                let c = char::from_u32(zero + n).unwrap();
                assert_eq!(plain(c), char::from_digit(n, 10), "U+{:04X}", zero + n);
            }
        }
    }

    #[test]
    fn spaces_dashes_and_full_width_forms_become_ascii() {
        assert_eq!(fold("＋９０\u{202F}５３２－０\u{2212}٠۰०\u{200F}０"), "+90 532-0-0000");
        assert_eq!(fold("ＴＥＬ：（０）"), "TEL:(0)");
        assert_eq!(fold("5\u{FE0F}\u{20E3}3\u{FE0F}\u{20E3}"), "53");
    }

    #[test]
    fn words_compare_without_case_and_accents() {
        assert_eq!(word("ΤΗΛΈΦΩΝΟ"), word("τηλεφωνο"));
        assert_eq!(word("İSİM"), "isim");
        assert_eq!(word("Κινητός"), "κινητοσ");
    }
}
