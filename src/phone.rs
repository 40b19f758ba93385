//! Phone numbers: cleaning, judging, the canonical form.

/// A valid phone number in E.164 form (`+905320000011`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Phone(String);

impl Phone {
    /// A phone that was stored earlier and is E.164 by that.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The E.164 text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
