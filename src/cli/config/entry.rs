//! One key of the configuration file and the shapes that its value may have.
//!
//! Owns how a value is read and how a wrong one is refused. It does not know the keys. Invariant: every value
//! remembers the file that it came from.

use std::path::Path;

use crate::cli::config::{Origin, Valued};
use crate::fault::{Code, Fault};
use crate::nearest::nearest;

/// One key of the file with its value.
pub(crate) struct Entry<'a> {
    /// Where the file is.
    pub(crate) path: &'a Path,
    /// The key, with its table's name before it.
    pub(crate) key: &'a str,
    /// What it is set to.
    pub(crate) value: &'a toml::Value,
}

impl Entry<'_> {
    /// A value that stands in the file.
    pub(crate) fn valued<T>(&self, value: T) -> Valued<T> {
        Valued::new(value, Origin::File(self.path.to_owned()))
    }

    /// The fault of a value that cannot be.
    pub(crate) fn wrong(&self, what: &str) -> Fault {
        Fault::new(Code::Config, format!("{} in '{}': {what}", self.key, self.path.display()))
    }

    /// A text that `read` understands.
    pub(crate) fn text<T>(&self, read: impl Fn(&str) -> Result<T, String>) -> Result<Valued<T>, Fault> {
        let text = self.value.as_str().ok_or_else(|| self.wrong("a text in quotes is expected"))?;
        read(text).map(|value| self.valued(value)).map_err(|why| self.wrong(&why))
    }

    /// One of the words of an enum.
    pub(crate) fn word<T: clap::ValueEnum>(&self) -> Result<Valued<T>, Fault> {
        self.text(|text| {
            T::from_str(text, false).map_err(|_| {
                let words = T::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value);
                let words: Vec<_> = words.map(|word| word.get_name().to_owned()).collect();
                format!("'{text}' is none of {}", words.join(", "))
            })
        })
    }

    /// A whole number within bounds.
    pub(crate) fn number<T: TryFrom<i64> + Copy + PartialOrd + std::fmt::Display>(
        &self,
        min: T,
        max: T,
    ) -> Result<Valued<T>, Fault> {
        let number = self.value.as_integer().and_then(|n| T::try_from(n).ok()).filter(|n| *n >= min && *n <= max);
        number
            .map(|n| self.valued(n))
            .ok_or_else(|| self.wrong(&format!("a whole number from {min} to {max} is expected")))
    }

    /// `true` or `false`.
    pub(crate) fn switch(&self) -> Result<Valued<bool>, Fault> {
        self.value.as_bool().map(|on| self.valued(on)).ok_or_else(|| self.wrong("true or false is expected"))
    }

    /// The fault of a key that is none of `keys`; those of a table are given without its name.
    pub(crate) fn unknown(&self, keys: &[&str]) -> Fault {
        let own = self.key.rsplit('.').next().unwrap_or(self.key);
        let hint = match nearest(own, keys.iter().copied()).first() {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("the keys are {}", keys.join(", ")),
        };
        Fault::new(Code::Config, format!("'{}' has an unknown key '{}'", self.path.display(), self.key)).hint(hint)
    }

    /// Reads the keys of a table one after the other, each with its name.
    pub(crate) fn each(&self, mut read: impl FnMut(&Entry<'_>, &str) -> Result<(), Fault>) -> Result<(), Fault> {
        let table = self.value.as_table().ok_or_else(|| self.wrong("a table is expected"))?;
        for (name, value) in table {
            let key = format!("{}.{name}", self.key);
            read(&Entry { path: self.path, key: &key, value }, name)?;
        }
        Ok(())
    }
}
