//! Options and profiles: one made of the other, and the command line laid over a profile.
//!
//! Owns the words that a profile keeps and which layer wins. It does not know where profiles are stored.
//! Invariant: what is kept is read back by the grammar of the command line, so a profile can say nothing that
//! an option cannot.

use std::collections::BTreeMap;

use clap::{Args, FromArgMatches};

use super::Options;
use crate::cli::values::Sign;
use crate::fault::{Code, Fault};
use crate::header::fold_header;
use crate::import::report::Budget;
use crate::profile::{Profile, Said};
use crate::settings::{ColumnRef, Field};

/// Options, and where those came from that were not on the command line: by the name of the setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Layered {
    /// The options of both layers.
    pub(crate) options: Options,
    /// The setting's name and what gave it.
    pub(crate) origins: BTreeMap<&'static str, String>,
}

impl Options {
    /// The options as a profile keeps them, in the words of the command line.
    pub(crate) fn to_profile(&self) -> Profile {
        let map = self.map.iter().map(|(field, column)| format!("{}={}", field.as_str(), column_word(column)));
        let set = self.set.iter().map(|(field, value)| format!("{field}={value}"));
        let once = [
            ("region", self.region.clone()),
            ("delimiter", self.delimiter.map(|sign| sign_word(Sign(Some(sign))))),
            ("quote", self.quote.map(sign_word)),
            ("escape", self.escape.map(sign_word)),
            ("encoding", self.encoding.clone()),
            ("sheet", self.sheet.clone()),
            ("no-header", self.no_header.map(|absent| absent.to_string())),
            ("skip-lines", self.skip_lines.map(|n| n.to_string())),
            ("short-rows", self.short_rows.map(enum_word)),
            ("type", self.phone_type.map(enum_word)),
            ("max-name-length", self.max_name_length.map(|n| n.to_string())),
            ("blank", self.blank.map(enum_word)),
            ("newer-by", self.newer_by.as_ref().map(column_word)),
            ("max-rejects", self.max_rejects.map(budget_word)),
            ("max-changes", self.max_changes.map(|percent| format!("{percent}%"))),
        ];
        let once = once.into_iter().filter_map(|(option, word)| Some((option.to_owned(), Said::Once(word?))));
        let often = [("map", map.collect::<Vec<_>>()), ("set", set.collect())];
        let often = often.into_iter().filter(|(_, words)| !words.is_empty());
        Profile(once.chain(often.map(|(option, words)| (option.to_owned(), Said::Often(words)))).collect())
    }

    /// Reads the options that a profile keeps. `name` is the profile's, for messages.
    ///
    /// # Errors
    /// `unreadable_profile` for an option or a word that this program does not know.
    pub(crate) fn of_profile(profile: &Profile, name: &str) -> Result<Self, Fault> {
        let grammar = Self::augment_args(clap::Command::new("profile").no_binary_name(true));
        let known = |option: &str| grammar.get_arguments().any(|argument| argument.get_long() == Some(option));
        let unreadable = |what: String| Fault::new(Code::UnreadableProfile, format!("the profile '{name}' {what}"));
        if let Some(option) = profile.0.keys().find(|option| !known(option)) {
            return Err(unreadable(format!("holds the option '{option}', which this program does not know")));
        }
        let line = profile
            .0
            .iter()
            .flat_map(|(option, said)| said.values().iter().map(move |value| format!("--{option}={value}")));
        let matches = grammar.clone().try_get_matches_from(line);
        matches.and_then(|matches| Self::from_arg_matches(&matches)).map_err(|error| {
            let text = error.render().to_string();
            let why = text.lines().next().unwrap_or_default();
            unreadable(format!("is not understood: {}", why.strip_prefix("error: ").unwrap_or(why)))
        })
    }

    /// These options over those of a profile: what is given here wins, field by field for `--map` and `--set`.
    pub(crate) fn over(&self, below: Self, name: &str) -> Layered {
        let origin = format!("profile '{name}'");
        let mut origins = BTreeMap::new();
        let mut from_below = |setting: &'static str| drop(origins.insert(setting, origin.clone()));
        let mut options = self.clone();
        /// Takes an option from below where it was not given, and notes it for the setting that it decides.
        macro_rules! lay {
            ($($field:ident => $setting:literal,)*) => {
                $(if options.$field.is_none() && below.$field.is_some() {
                    options.$field = below.$field;
                    from_below($setting);
                })*
            };
        }
        lay! {
            region => "region",
            delimiter => "delimiter",
            quote => "quote",
            escape => "escape",
            encoding => "encoding",
            sheet => "sheet",
            no_header => "header",
            skip_lines => "skip-lines",
            short_rows => "short-rows",
            phone_type => "type",
            max_name_length => "max-name-length",
            blank => "blank",
            newer_by => "newer-by",
            max_rejects => "max-rejects",
            max_changes => "max-changes",
        }
        for (field, column) in below.map {
            if self.map.iter().all(|(given, _)| *given != field) {
                from_below(match field {
                    Field::Phone => "map phone",
                    Field::Name => "map name",
                    Field::Region => "map region",
                });
                options.map.push((field, column));
            }
        }
        for (field, value) in below.set {
            if self.set.iter().all(|(given, _)| fold_header(given) != fold_header(&field)) {
                from_below("set");
                options.set.push((field, value));
            }
        }
        Layered { options, origins }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the words are small and copied")]
fn enum_word(word: impl clap::ValueEnum) -> String {
    word.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn column_word(column: &ColumnRef) -> String {
    match column {
        ColumnRef::Header(header) => header.clone(),
        ColumnRef::Number(n) => format!("#{n}"),
    }
}

fn sign_word(sign: Sign) -> String {
    match sign.0 {
        None => "none".to_owned(),
        Some(b'\t') => "tab".to_owned(),
        Some(byte) => char::from(byte).to_string(),
    }
}

fn budget_word(budget: Budget) -> String {
    match budget {
        Budget::Rows(n) => n.to_string(),
        Budget::Percent(percent) => format!("{percent}%"),
    }
}
