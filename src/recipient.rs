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
    pub attributes: Vec<Option<String>>,
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
        for (mine, theirs) in self.attributes.iter_mut().zip(later.attributes) {
            if theirs.is_some() {
                *mine = theirs;
            }
        }
    }
}
