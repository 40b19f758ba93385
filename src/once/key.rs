//! What names a thing that happens once, and what tells its request from another.
//!
//! Owns the key and the request's hash. It does not know what becomes of a key. Invariant: equal requests have
//! equal hashes whatever the order of their members, and no key collides with a run key of an import.

use serde::Serialize;
use serde_json::Value;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 200;

/// What stands before a key in the table. Import run keys begin with hexadecimal digits, so no key of a
/// caller can name one of them.
pub(crate) const PREFIX: &str = "once:";

/// The first text behind every text that begins with `PREFIX`, byte by byte.
pub(crate) const BEHIND_PREFIX: &str = "once;";

/// The name of something that happens once: 1 to 200 bytes without control characters.
///
/// Make it of what the work is about (an order's number and a verb), never of time, chance or an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnceKey(String);

/// Why a text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadKey {
    /// It is empty.
    Empty,
    /// It has more than 200 bytes: this many.
    TooLong(usize),
    /// It holds a control character.
    ControlCharacter,
}

impl std::fmt::Display for BadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("the key is empty; name what should happen once"),
            Self::TooLong(bytes) => {
                write!(f, "the key has {bytes} bytes, {KEY_BYTES_MAX} are allowed; hash its longest part")
            }
            Self::ControlCharacter => f.write_str("the key holds a control character; leave it out"),
        }
    }
}

impl std::error::Error for BadKey {}

impl OnceKey {
    /// Reads a key as it is: nothing is trimmed or folded.
    pub fn parse(text: impl Into<String>) -> Result<Self, BadKey> {
        let text = text.into();
        match text.len() {
            0 => Err(BadKey::Empty),
            bytes if bytes > KEY_BYTES_MAX => Err(BadKey::TooLong(bytes)),
            _ if text.chars().any(char::is_control) => Err(BadKey::ControlCharacter),
            _ => Ok(Self(text)),
        }
    }

    /// The text as the caller wrote it: the same in every attempt.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text that is stored.
    pub(crate) fn stored(&self) -> String {
        format!("{PREFIX}{}", self.0)
    }
}

impl std::fmt::Display for OnceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// BLAKE3 of a request's canonical JSON, in hexadecimal: it tells a repetition from another request that
/// bears the same key by mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHash(String);

impl RequestHash {
    /// Hashes a request. The order of its keys does not matter; `1` and `1.0` are two requests.
    ///
    /// Errors where the request is no JSON, for example a map whose keys are no text.
    pub fn of(request: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        let mut json = String::new();
        write_canonical(&serde_json::to_value(request)?, &mut json);
        let mut hasher = blake3::Hasher::new_derive_key("enlist once request 1");
        hasher.update(json.as_bytes());
        Ok(Self(hasher.finalize().to_hex().to_string()))
    }

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// JSON without blanks and with sorted keys, whatever order `Value` keeps.
fn write_canonical(value: &Value, json: &mut String) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            json.push('{');
            for (n, (key, member)) in sorted.into_iter().enumerate() {
                if n > 0 {
                    json.push(',');
                }
                json.push_str(&Value::from(key.as_str()).to_string());
                json.push(':');
                write_canonical(member, json);
            }
            json.push('}');
        }
        Value::Array(elements) => {
            json.push('[');
            for (n, element) in elements.iter().enumerate() {
                if n > 0 {
                    json.push(',');
                }
                write_canonical(element, json);
            }
            json.push(']');
        }
        scalar => json.push_str(&scalar.to_string()),
    }
}
