//! The name of a list.
//!
//! Owns what a name may be. It does not know which lists exist. Invariant: two spellings of one name that
//! differ only in Unicode form or surrounding blanks are the same name.

use unicode_normalization::UnicodeNormalization;

use crate::fault::{Code, Fault};
use crate::settings::{is_invisible, trim};

/// The most characters of a name.
pub const LIST_NAME_MAX: usize = 200;

/// A name that people type: NFC, trimmed, 1 to `LIST_NAME_MAX` characters, no control characters.
///
/// # Errors
/// What is wrong with it, to be put behind what it names.
pub fn plain_name(text: &str) -> Result<String, String> {
    let name: String = trim(text).nfc().collect();
    let length = name.chars().count();
    if length == 0 {
        return Err("is empty".to_owned());
    }
    if length > LIST_NAME_MAX {
        return Err(format!("has {length} characters, at most {LIST_NAME_MAX} are possible"));
    }
    if name.chars().any(|c| c.is_control() || is_invisible(c)) {
        return Err("holds a control or invisible character".to_owned());
    }
    Ok(name)
}

/// A list's name: NFC, trimmed, 1 to 200 characters, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListName(String);

impl ListName {
    /// Reads a name. Anything else is the fault `bad_list_name`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let name = plain_name(text).map_err(|why| Fault::new(Code::BadListName, format!("the list name {why}")))?;
        Ok(Self(name))
    }

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_are_one_name() {
        let composed = ListName::parse("  Müşteri ").map(|n| n.as_str().to_owned());
        let decomposed = ListName::parse("Mu\u{308}s\u{327}teri").map(|n| n.as_str().to_owned());
        assert_eq!(composed.as_deref().ok(), Some("Müşteri"));
        assert_eq!(composed.ok(), decomposed.ok());
    }

    #[test]
    fn names_that_cannot_be_typed_back_are_refused() {
        for bad in ["", " \u{a0}", "a\nb", "a\0b", "a\u{200b}b", &"x".repeat(201)] {
            assert_eq!(ListName::parse(bad).map_err(|f| f.code).err(), Some(Code::BadListName), "{bad:?}");
        }
        assert!(ListName::parse(&"ş".repeat(200)).is_ok());
    }
}
