//! Alerts: what one is, how urgent, and for how long it rings only once.
//!
//! Owns the one rule that gives an alert its key, severity and window, whatever raised it and wherever claims
//! are kept. It sends nothing and asks no clock. Invariant: the key of an alert comes from its kind and subject,
//! never from time or chance, so every replica has the same one.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::fault::{Code, Fault};
use crate::run::Counts;

/// How urgent an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Somebody has to get up. Never held back: sent first, recorded after.
    P0,
    /// Somebody has to look today.
    P1,
    /// Somebody should know.
    P2,
}

impl Severity {
    /// Every severity, the most urgent first.
    pub const ALL: [Self; 3] = [Self::P0, Self::P1, Self::P2];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::P0 => "p0",
            Self::P1 => "p1",
            Self::P2 => "p2",
        }
    }

    /// The severity with this word, in either case.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.as_str().eq_ignore_ascii_case(word))
    }
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The longest key, in characters.
pub const KEY_CHARS_MAX: usize = 200;

/// By what alerts are the same: 1 to 200 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AlertKey(String);

impl AlertKey {
    /// Reads a key; white space around it does not belong to it.
    ///
    /// # Errors
    /// `bad_alert_key`
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        let length = text.chars().count();
        if length == 0 || length > KEY_CHARS_MAX || text.chars().any(char::is_control) {
            let message = format!("'{}' is no key", text.escape_debug().take(KEY_CHARS_MAX).collect::<String>());
            return Err(Fault::new(Code::BadAlertKey, message));
        }
        Ok(Self(text.to_owned()))
    }

    /// A key that was stored.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for AlertKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Declares what rings by itself: word, severity unless somebody says otherwise, what happened, what to do.
macro_rules! kinds {
    ($($variant:ident $word:literal $severity:ident $what:literal $remedy:literal;)*) => {
        /// What rings by itself.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum AlertKind {
            $(#[doc = $what] $variant,)*
        }

        impl AlertKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its word, which begins its keys and names it in the configuration.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// How urgent it is when nobody says otherwise.
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// What happened, one sentence without a dot.
            pub fn means(self) -> &'static str {
                match self { $(Self::$variant => $what,)* }
            }

            /// What to do, one sentence without a dot.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

kinds! {
    JobFailed "job_failed" P1
        "a job failed for good"
        "'enlist jobs show ID' tells why; when that is mended, 'enlist jobs retry ID' or the same import again";
    JobRescued "job_rescued" P1
        "a job was taken from dead or frozen processes three times or more"
        "look into those workers' logs, and for memory that ran out; 'enlist jobs show ID' names them";
    TooManyRejects "too_many_rejects" P2
        "an import was stopped by --max-rejects"
        "'enlist check' with the same options shows every reason; mend the file or allow more";
    ManyRejects "many_rejects" P2
        "more than a fifth of a finished import's rows were refused"
        "'enlist rejects ID' writes them out; often one column holds something else, or --region is missing";
    PassOverdue "pass_overdue" P1
        "a scheduled pass has not run well for three of its windows and five minutes"
        "'enlist pass NAME' runs it now and shows what is in its way";
    AuditFindings "audit_findings" P1
        "an audit found something that should not be"
        "'enlist audit' shows it, and what to do about it";
    NotificationUnknown "notification_unknown" P1
        "nobody knows whether a receiver took a notification, and it is not sent again"
        "ask the receiver for the key that 'enlist jobs show ID' shows";
    NotificationFailed "notification_failed" P2
        "a receiver refused a notification for good"
        "'enlist jobs show ID' tells its answer; check the address and the receiver";
    DatabaseUnreachable "database_unreachable" P0
        "a worker has not reached its database for a minute"
        "check the server and the network; the worker goes on by itself when it is back";
}

impl AlertKind {
    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// The key of an alert of this kind about `subject`; one that is too long is cut.
    pub fn key(self, subject: &str) -> AlertKey {
        let text = format!("{}/{subject}", self.as_str());
        AlertKey(text.chars().filter(|c| !c.is_control()).take(KEY_CHARS_MAX).collect())
    }
}

/// How urgent something is, and for how long it rings once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// How urgent.
    pub severity: Severity,
    /// For how long after a ring no other follows.
    pub window: Duration,
}

/// The window when nobody says otherwise.
pub const WINDOW: Duration = Duration::from_secs(24 * 3_600);

/// How long a worker's database may be away before that rings.
pub const AWAY: Duration = Duration::from_secs(60);

/// What the configuration changes about a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// Another severity.
    pub severity: Option<Severity>,
    /// Another window.
    pub window: Option<Duration>,
}

/// The rules of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The window of every alert that has none of its own.
    pub window: Duration,
    /// What the configuration says about single kinds.
    pub kinds: BTreeMap<AlertKind, Change>,
    /// How long a worker's database may be away before that rings.
    pub away: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { window: WINDOW, kinds: BTreeMap::new(), away: AWAY }
    }
}

impl Rules {
    /// The rule of a kind.
    pub fn of(&self, kind: AlertKind) -> Rule {
        let change = self.kinds.get(&kind).copied().unwrap_or_default();
        Rule {
            severity: change.severity.unwrap_or_else(|| kind.severity()),
            window: change.window.unwrap_or(self.window),
        }
    }

    /// The rule of an alert that somebody raises: what was said, else p1 and the usual window.
    pub fn by_hand(&self, said: Change) -> Rule {
        Rule { severity: said.severity.unwrap_or(Severity::P1), window: said.window.unwrap_or(self.window) }
    }
}

/// Something that somebody is to be told.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// By what it is the same as another.
    pub key: AlertKey,
    /// How urgent it is, and for how long it rings once.
    pub rule: Rule,
    /// For a person, one sentence. Holds no phone, name of a person or password.
    pub message: String,
    /// For a program.
    pub details: Value,
}

/// How often a job is taken from dead holders before somebody is told.
pub const RESCUES: i64 = 3;

/// Whether more than a fifth of the rows were refused.
pub fn has_many_rejects(counts: &Counts) -> bool {
    counts.rejected.saturating_mul(5) > counts.rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_1_to_200_characters_and_no_control_characters() {
        assert_eq!(AlertKey::parse(" disk full ").unwrap().as_str(), "disk full");
        assert!(AlertKey::parse(&"ş".repeat(200)).is_ok());
        for wrong in ["", "  ", "a\nb", "a\u{7}", &"x".repeat(201)] {
            assert_eq!(AlertKey::parse(wrong).unwrap_err().code, Code::BadAlertKey, "{wrong:?}");
        }
        assert!(AlertKind::PassOverdue.key(&format!("a\n{}", "x".repeat(300))).as_str().chars().count() == 200);
    }

    #[test]
    fn a_rule_is_the_kinds_unless_the_configuration_changes_it() {
        let minute = Duration::from_secs(60);
        let mut rules = Rules::default();
        assert_eq!(rules.of(AlertKind::JobFailed), Rule { severity: Severity::P1, window: WINDOW });
        rules.window = minute;
        rules.kinds.insert(AlertKind::ManyRejects, Change { severity: Some(Severity::P0), window: None });
        rules.kinds.insert(AlertKind::JobRescued, Change { severity: None, window: Some(2 * minute) });
        assert_eq!(rules.of(AlertKind::ManyRejects), Rule { severity: Severity::P0, window: minute });
        assert_eq!(rules.of(AlertKind::JobRescued), Rule { severity: Severity::P1, window: 2 * minute });
        assert_eq!(rules.by_hand(Change::default()), Rule { severity: Severity::P1, window: minute });
    }

    #[test]
    fn words_read_back() {
        for severity in Severity::ALL {
            assert_eq!(Severity::from_word(&severity.as_str().to_uppercase()), Some(severity));
        }
        for kind in AlertKind::ALL {
            assert_eq!(AlertKind::from_word(kind.as_str()), Some(*kind));
        }
        assert_eq!((Severity::from_word("p3"), AlertKind::from_word("jobfailed")), (None, None));
    }

    #[test]
    fn more_than_a_fifth_is_many() {
        let counts = |rows, rejected| Counts { rows, rejected, ..Counts::default() };
        assert!(!has_many_rejects(&counts(0, 0)) && !has_many_rejects(&counts(10, 2)));
        assert!(has_many_rejects(&counts(10, 3)) && has_many_rejects(&counts(1, 1)));
    }
}
