//! Headers as they are compared.
//!
//! Owns which spellings of a header are one header. It does not know what a header means. Invariant: folding
//! what was folded changes nothing.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::settings::is_invisible;

/// A header for comparison: case, accents, dashes, underscores, punctuation, white space and invisible
/// marks off; İ, I, ı and i are one letter, and so are σ and ς.
///
/// A header of punctuation only folds to itself in lower case. Folding twice changes nothing.
pub fn fold_header(header: &str) -> String {
    let plain: String = header
        .nfkd()
        .flat_map(|c| if c == 'ı' { 'i' } else { c }.to_lowercase())
        .nfkd()
        .filter(|c| !is_combining_mark(*c) && !is_invisible(*c))
        .map(|c| match c {
            'ı' => 'i',
            'ς' => 'σ',
            c => c,
        })
        .collect();
    let word: String = plain.chars().filter(|c| c.is_alphanumeric()).collect();
    if word.is_empty() { plain.chars().filter(|c| !c.is_whitespace()).collect() } else { word }
}
