//! A profile: import options under a name, in the words of the command line.
//!
//! Owns the name and the document that is stored. It does not know which options there are: their grammar is the
//! command line's. Invariant: a document that is not made of options and their words is never half understood.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fault::{Code, Fault};
use crate::list::plain_name;

/// A profile's name: NFC, trimmed, 1 to 200 characters, no control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName(String);

impl ProfileName {
    /// Reads a name. Anything else is the fault `bad_profile_name`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let name =
            plain_name(text).map_err(|why| Fault::new(Code::BadProfileName, format!("the profile name {why}")))?;
        Ok(Self(name))
    }

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What was said about one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// One value.
    Once(String),
    /// A value each time the option was given.
    Often(Vec<String>),
}

impl Said {
    /// The values.
    pub fn values(&self) -> &[String] {
        match self {
            Self::Once(value) => std::slice::from_ref(value),
            Self::Often(values) => values,
        }
    }
}

/// Options by their names without dashes, each with the words that the command line takes for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile(pub BTreeMap<String, Said>);

impl Profile {
    /// The document, keys sorted: a text for an option, a list of texts for one that is given several times.
    pub fn to_document(&self) -> BTreeMap<String, Value> {
        let value = |said: &Said| match said {
            Said::Once(value) => Value::from(value.as_str()),
            Said::Often(values) => Value::from(values.clone()),
        };
        self.0.iter().map(|(option, said)| (option.clone(), value(said))).collect()
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The option whose value is neither a text nor a list of texts, as another program may have written it.
    pub fn from_document(document: &BTreeMap<String, Value>) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let said = |value: &Value| match value {
            Value::Array(values) => values.iter().map(text).collect::<Option<Vec<_>>>().map(Said::Often),
            value => text(value).map(Said::Once),
        };
        let read = |(option, value): (&String, &Value)| match said(value) {
            Some(said) => Ok((option.clone(), said)),
            None => Err(option.clone()),
        };
        document.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_back_as_it_was_and_has_its_keys_in_order() {
        let profile = Profile(BTreeMap::from([
            ("region".to_owned(), Said::Once("TR".to_owned())),
            ("map".to_owned(), Said::Often(vec!["phone=#2".to_owned(), "name=Ad".to_owned()])),
        ]));
        let document = profile.to_document();
        let json = serde_json::to_string(&document).unwrap();
        assert_eq!(json, r#"{"map":["phone=#2","name=Ad"],"region":"TR"}"#);
        assert_eq!(Profile::from_document(&document), Ok(profile));
    }

    #[test]
    fn a_value_of_another_shape_names_its_option() {
        for value in [Value::from(7), Value::Null, serde_json::json!({"a": 1}), serde_json::json!(["a", 1])] {
            let document = BTreeMap::from([("later".to_owned(), value)]);
            assert_eq!(Profile::from_document(&document), Err("later".to_owned()));
        }
    }

    #[test]
    fn spellings_of_one_name_are_one_name() {
        let name = |text| ProfileName::parse(text).map(|name| name.as_str().to_owned()).map_err(|fault| fault.code);
        assert_eq!(name(" Mu\u{308}steri "), Ok("Müsteri".to_owned()));
        for bad in ["", " ", "a\nb", &"x".repeat(201)] {
            assert_eq!(name(bad), Err(Code::BadProfileName), "{bad:?}");
        }
    }
}
