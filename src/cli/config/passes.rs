//! The tables `[passes]` and `[retention]` of the configuration file.
//!
//! Owns their keys, bounds and defaults as they are shown. It does not know what the passes do. Invariant: what is
//! shown is what a worker goes by.

use std::time::Duration;

use crate::cli::config::Valued;
use crate::cli::config::entry::Entry;
use crate::cli::text::duration_word;
use crate::cli::values;
use crate::fault::Fault;
use crate::queue::{Pass, PassTimes};
use crate::store::Retention;

/// What the file says about passes; zero stands for `off`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PassConfig {
    sweep: Option<Valued<Duration>>,
    reconcile: Option<Valued<Duration>>,
    prune: Option<Valued<Duration>>,
    audit: Option<Valued<Duration>>,
    keys: Option<Valued<Duration>>,
    rejects: Option<Valued<Duration>>,
    jobs: Option<Valued<Duration>>,
}

/// The keys of `[retention]`; those of `[passes]` are the names of the passes.
const RETENTION: [&str; 3] = ["keys", "rejects", "jobs"];

/// The shortest window: workers look about once a second.
const WINDOW_LEAST: Duration = Duration::from_secs(1);

/// The shortest age: what is younger may still be looked at by whoever ran the job.
const AGE_LEAST: Duration = Duration::from_secs(3_600);

impl PassConfig {
    /// Reads `[passes]`.
    pub(crate) fn read_times(&mut self, table: &Entry<'_>) -> Result<(), Fault> {
        let keys: Vec<&str> = Pass::ALL.iter().map(|pass| pass.as_str()).collect();
        table.each(|entry, key| {
            let place = match Pass::ALL.iter().find(|pass| pass.as_str() == key) {
                Some(Pass::Sweep) => &mut self.sweep,
                Some(Pass::Reconcile) => &mut self.reconcile,
                Some(Pass::Prune) => &mut self.prune,
                Some(Pass::Audit) => &mut self.audit,
                None => return Err(entry.unknown(&keys)),
            };
            *place = Some(entry.text(|text| length(text, &["off"], WINDOW_LEAST))?);
            Ok(())
        })
    }

    /// Reads `[retention]`.
    pub(crate) fn read_retention(&mut self, table: &Entry<'_>) -> Result<(), Fault> {
        table.each(|entry, key| {
            let place = match key {
                "keys" => &mut self.keys,
                "rejects" => &mut self.rejects,
                "jobs" => &mut self.jobs,
                _ => return Err(entry.unknown(&RETENTION)),
            };
            *place = Some(entry.text(|text| length(text, &["off", "never"], AGE_LEAST))?);
            Ok(())
        })
    }

    /// What workers go by.
    pub(crate) fn times(&self) -> PassTimes {
        let usual = PassTimes::default();
        let said = |valued: &Option<Valued<Duration>>| valued.as_ref().map(|valued| valued.value);
        let age = |valued, usual| said(valued).map_or(usual, |age| (!age.is_zero()).then_some(age));
        PassTimes {
            sweep: said(&self.sweep).unwrap_or(usual.sweep),
            reconcile: said(&self.reconcile).unwrap_or(usual.reconcile),
            prune: said(&self.prune).unwrap_or(usual.prune),
            audit: said(&self.audit).unwrap_or(usual.audit),
            retention: Retention {
                keys: age(&self.keys, usual.retention.keys),
                rejects: age(&self.rejects, usual.retention.rejects),
                jobs: age(&self.jobs, usual.retention.jobs),
            },
        }
    }

    /// Setting, value and origin of each, as `config` shows them.
    pub(crate) fn rows(&self) -> Vec<[String; 3]> {
        let times = self.times();
        let Retention { keys, rejects, jobs } = times.retention;
        let never = Duration::ZERO;
        let all = [
            ("passes.sweep", &self.sweep, times.sweep),
            ("passes.reconcile", &self.reconcile, times.reconcile),
            ("passes.prune", &self.prune, times.prune),
            ("passes.audit", &self.audit, times.audit),
            ("retention.keys", &self.keys, keys.unwrap_or(never)),
            ("retention.rejects", &self.rejects, rejects.unwrap_or(never)),
            ("retention.jobs", &self.jobs, jobs.unwrap_or(never)),
        ];
        let row = |(name, said, value): (&str, &Option<Valued<Duration>>, Duration)| {
            let word = if value.is_zero() { "off".to_owned() } else { duration_word(value) };
            let origin = said.as_ref().map_or_else(|| "default".to_owned(), |said| said.origin.to_string());
            [name.to_owned(), word, origin]
        };
        all.into_iter().map(row).collect()
    }
}

/// A duration of at least `least`, or a word that turns it off.
fn length(text: &str, off: &[&str], least: Duration) -> Result<Duration, String> {
    if off.contains(&text) {
        return Ok(Duration::ZERO);
    }
    let length = values::duration(text).map_err(|why| format!("{why}, or {}", off.join(" or ")))?;
    if length < least {
        return Err(format!("'{text}' is too short; it is at least {}", duration_word(least)));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::cli::config::Config;
    use crate::fault::Code;

    use super::*;

    fn parse(text: &str) -> Result<PassTimes, Fault> {
        Config::parse(text, Path::new("/etc/enlist/enlist.toml")).map(|config| config.pass_times())
    }

    #[test]
    fn what_is_not_said_is_as_usual_and_off_turns_off() {
        let times =
            parse("[passes]\nreconcile = '5s'\naudit = 'off'\n[retention]\nkeys = '7d'\njobs = 'never'").unwrap();
        assert_eq!((times.reconcile, times.audit), (Duration::from_secs(5), Duration::ZERO));
        assert_eq!(times.sweep, PassTimes::default().sweep);
        assert_eq!(times.retention.keys, Some(Duration::from_secs(7 * 86_400)));
        assert_eq!((times.retention.rejects, times.retention.jobs), (PassTimes::default().retention.rejects, None));
        assert_eq!(parse("").unwrap(), PassTimes::default());
    }

    #[test]
    fn unknown_keys_and_impossible_lengths_are_refused() {
        let fault = parse("[passes]\nreconsile = '5s'").unwrap_err();
        assert_eq!((fault.code, fault.hint.as_ref()), (Code::Config, "did you mean 'reconcile'?"));
        assert!(fault.message.contains("'passes.reconsile'"), "{}", fault.message);
        for wrong in [
            "passes = 'off'",
            "[passes]\nsweep = 10",
            "[passes]\nsweep = '500ms'",
            "[passes]\nsweep = 'never'",
            "[retention]\nkeys = '1m'",
            "[retention]\nkey = '30d'",
        ] {
            assert_eq!(parse(wrong).unwrap_err().code, Code::Config, "{wrong}");
        }
    }

    #[test]
    fn each_setting_is_shown_with_its_origin() {
        let config = Config::parse("[retention]\nrejects = 'off'", Path::new("/etc/enlist/enlist.toml")).unwrap();
        let rows = config.passes.rows();
        let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap().clone();
        assert_eq!(row("retention.rejects")[1..], ["off", "/etc/enlist/enlist.toml"]);
        assert_eq!(row("retention.jobs")[1..], ["400d", "default"]);
        assert_eq!(row("passes.audit")[1..], ["24h", "default"]);
    }
}
