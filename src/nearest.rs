//! Which known name a mistyped one is likely to mean.
//!
//! Owns the measure and the wording of the suggestion. It does not know what the names name. Invariant: a
//! suggestion is always one of the given names.

use crate::fault::{Code, Fault};

/// How alike two names must be (Jaro-Winkler, 0 to 1) before one is suggested for the other.
const ALIKE: f64 = 0.75;

/// How much less alike than the best one another suggestion may be.
const SPREAD: f64 = 0.1;

/// How many names are suggested at most, and up to how many are simply all listed.
const SHOWN: usize = 5;

/// The names most like `wanted`, best first, at most `SHOWN`; case does not count.
pub fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(f64, &str)> = names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let worst = scored.first().map_or(0.0, |(best, _)| best - SPREAD);
    scored.into_iter().take(SHOWN).take_while(|(score, _)| *score >= worst).map(|(_, name)| name).collect()
}

/// The fault for a list name that names none, with the names that could be meant.
///
/// `create_hint` is what to do when the name was right, for example `pass --create-list to create it`.
pub fn unknown_list(wanted: &str, names: &[String], create_hint: &str) -> Fault {
    let fault = Fault::new(Code::UnknownList, format!("there is no list '{wanted}'"));
    let near = nearest(wanted, names.iter().map(String::as_str));
    if names.is_empty() {
        fault.hint(format!("the database holds no list yet; {create_hint}"))
    } else if !near.is_empty() {
        fault.hint(format!("did you mean {}? If not, {create_hint}", quoted(&near, " or ")))
    } else if names.len() <= SHOWN {
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        fault.hint(format!("the lists here are {}; {create_hint}", quoted(&all, ", ")))
    } else {
        fault.hint(format!("'enlist lists' shows all {}; {create_hint}", names.len()))
    }
}

/// The fault for a profile name that names none, with the names that could be meant.
pub fn unknown_profile(wanted: &str, names: &[String]) -> Fault {
    let fault = Fault::new(Code::UnknownProfile, format!("there is no profile '{wanted}'"));
    let near = nearest(wanted, names.iter().map(String::as_str));
    if names.is_empty() {
        fault.hint("the database holds no profile yet; 'enlist profiles save NAME' makes one")
    } else if !near.is_empty() {
        fault.hint(format!("did you mean {}?", quoted(&near, " or ")))
    } else {
        fault
    }
}

/// Names in quotes, joined.
pub fn quoted(names: &[&str], between: &str) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_its_neighbour_and_a_foreign_one_finds_none() {
        assert_eq!(nearest("sprnig", ["autumn", "spring"]), ["spring"]);
        assert_eq!(nearest("PHONE_INVALID", ["phone_invalid"]), ["phone_invalid"]);
        assert!(nearest("zzz", ["autumn", "spring"]).is_empty());
    }

    #[test]
    fn an_unknown_list_names_its_neighbours_or_all_when_they_are_few() {
        let names = ["spring".to_owned(), "autumn".to_owned()];
        assert!(unknown_list("sprnig", &names, "create it").hint.contains("did you mean 'spring'"));
        assert!(unknown_list("x", &names, "create it").hint.contains("'spring', 'autumn'"));
        assert!(unknown_list("x", &[], "create it").hint.contains("no list yet"));
        assert!(unknown_profile("sprnig", &names).hint.contains("did you mean 'spring'"));
        assert!(unknown_profile("zzz", &names).hint.contains("'enlist profiles'"));
    }
}
