//! One person on a list, as one row of the input speaks of them.
//!
//! Owns the merged meaning of several rows about one phone. It does not know the table. Invariant: a
//! value that a row does not state (`None`) never changes one that is stated elsewhere.

use crate::phone::Phone;

/// What a row says about the person behind a phone.
///
/// A value is `None` where the row says nothing and `Some("")` where it says "empty" (only under
/// `--blank clear`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// The identity, E.164.
    pub phone: Phone,
    /// The name, white space folded.
    pub name: Option<String>,
    /// One value per attribute column of the job, in the order of `Settings::attribute_keys`.
    pub attributes: Values,
    /// The value of the `--newer-by` column: an integer, or milliseconds since 1970 for a date.
    pub version: Option<i64>,
}

impl Recipient {
    /// Lets a later row about the same phone speak: what it states replaces, the rest stays.
    ///
    /// Applying rows one by one to the table and folding them first give the same recipient.
    pub fn fold(&mut self, later: Self) {
        if later.name.is_some() {
            self.name = later.name;
        }
        if later.attributes.iter().any(|value| value.is_some()) {
            let both = later.attributes.iter().zip(self.attributes.iter());
            self.attributes = both.map(|(theirs, mine)| theirs.or(mine)).collect();
        }
    }
}

/// Values in their order, stated or not, in one piece of memory: a list holds millions of rows, and a piece for each
/// value would cost more than what it holds.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Values {
    /// Each value with `STATED` before it where there is one, and `END` after it.
    text: String,
}

const STATED: char = '+';

/// No value holds it: no database text does.
const END: char = '\0';

impl Values {
    /// None yet, and room for `bytes` bytes of values.
    pub fn with_capacity(values: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes + 2 * values) }
    }

    /// Adds one. A NUL in it is left out.
    pub fn push(&mut self, value: Option<&str>) {
        if let Some(value) = value {
            self.text.push(STATED);
            if memchr::memchr(0, value.as_bytes()).is_some() {
                self.text.extend(value.chars().filter(|character| *character != END));
            } else {
                self.text.push_str(value);
            }
        }
        self.text.push(END);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        self.text.split_terminator(END).map(|value| value.strip_prefix(STATED))
    }
}

impl<T: AsRef<str>> FromIterator<Option<T>> for Values {
    fn from_iter<I: IntoIterator<Item = Option<T>>>(values: I) -> Self {
        let mut all = Self::default();
        for value in values {
            all.push(value.as_ref().map(AsRef::as_ref));
        }
        all
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_put_in() {
        let given = [Some("a"), None, Some(""), Some("+"), Some("\u{1}ş"), None];
        let values: Values = given.into_iter().collect();
        assert_eq!(values.iter().collect::<Vec<_>>(), given);
        assert_eq!(Values::default().iter().count(), 0);
        let cut: Values = [Some("a\0b")].into_iter().collect();
        assert_eq!(cut.iter().collect::<Vec<_>>(), [Some("ab")]);
    }

    #[test]
    fn a_later_row_replaces_what_it_states_and_keeps_the_rest() {
        let row = |name: Option<&str>, values: [Option<&str>; 3]| Recipient {
            phone: Phone::stored("+905320000011".to_owned()),
            name: name.map(str::to_owned),
            attributes: values.into_iter().collect(),
            version: None,
        };
        let mut first = row(Some("A"), [Some("1"), Some("2"), None]);
        first.fold(row(None, [None, Some(""), Some("3")]));
        assert_eq!(first, row(Some("A"), [Some("1"), Some(""), Some("3")]));
        first.fold(row(Some("B"), [None, None, None]));
        assert_eq!(first, row(Some("B"), [Some("1"), Some(""), Some("3")]));
    }
}
