//! `[alerts]` of the configuration, and the bell that a command rings.
//!
//! Owns the table's keys and where claims are kept. It does not know how alerts are sent. Invariant: a webhook's
//! URL, a mail server's password and a claim store's are never shown; a file that others may write defines no
//! command.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use crate::alert::{AlertKind, Change, Rules, Severity};
use crate::alerts::{Bell, Claims, SinkSettings, Sinks, deliver};
use crate::claims::RedisClaims;
use crate::cli::answer::Context;
use crate::cli::config::Origin;
use crate::cli::values;
use crate::fault::{Code, Fault};
use crate::import::report::Report;
use crate::nearest::nearest;
use crate::store::{DatabaseClaims, Scope, Store};

/// What `[alerts]` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertConfig {
    /// The receivers.
    pub(crate) sinks: SinkSettings,
    /// Severities and windows.
    pub(crate) rules: Rules,
    /// Where it stands.
    pub(crate) origin: Origin,
}

impl Default for AlertConfig {
    fn default() -> Self {
        Self { sinks: SinkSettings::default(), rules: Rules::default(), origin: Origin::Default }
    }
}

/// How long an import that has ended may take to tell somebody.
const IMPORT_PATIENCE: Duration = Duration::from_secs(5);

impl AlertConfig {
    /// Reads the table `[alerts]` of the file at `path`.
    pub(crate) fn parse(value: &toml::Value, path: &Path) -> Result<Self, Fault> {
        let mut config = Self { origin: Origin::File(path.to_owned()), ..Self::default() };
        let at = At { path, name: "alerts" };
        for (key, value) in at.table(value)? {
            match key.as_str() {
                "window" => config.rules.window = at.read(key, value, values::window)?,
                "webhook" => config.sinks.webhook = Some(at.text(key, value)?),
                "webhook_file" => config.sinks.webhook = Some(at.secret(key, value)?),
                "command" => config.sinks.command = Some(at.texts(key, value)?),
                "email" => config.email(value, path)?,
                "kinds" => config.kinds(value, path)?,
                _ => return Err(at.unknown(key, &["window", "webhook", "webhook_file", "command", "email", "kinds"])),
            }
        }
        Ok(config)
    }

    fn email(&mut self, value: &toml::Value, path: &Path) -> Result<(), Fault> {
        let at = At { path, name: "alerts.email" };
        for (key, value) in at.table(value)? {
            match key.as_str() {
                "smtp" => self.sinks.smtp = Some(at.text(key, value)?),
                "smtp_file" => self.sinks.smtp = Some(at.secret(key, value)?),
                "from" => self.sinks.from = Some(at.text(key, value)?),
                "to" => self.sinks.to = at.texts(key, value)?,
                _ => return Err(at.unknown(key, &["smtp", "smtp_file", "from", "to"])),
            }
        }
        Ok(())
    }

    fn kinds(&mut self, value: &toml::Value, path: &Path) -> Result<(), Fault> {
        let at = At { path, name: "alerts.kinds" };
        let words: Vec<&str> = AlertKind::ALL.iter().map(|kind| kind.as_str()).collect();
        for (word, value) in at.table(value)? {
            let kind = AlertKind::from_word(word).ok_or_else(|| at.unknown(word, &words))?;
            let mut change = Change::default();
            for (key, value) in at.table(value)? {
                match key.as_str() {
                    "severity" => change.severity = Some(at.read(key, value, severity)?),
                    "window" => change.window = Some(at.read(key, value, values::window)?),
                    "after" if kind == AlertKind::DatabaseUnreachable => {
                        self.rules.away = at.read(key, value, values::duration)?;
                    }
                    _ => return Err(at.unknown(key, &["severity", "window"])),
                }
            }
            self.rules.kinds.insert(kind, change);
        }
        Ok(())
    }
}

/// `p0`, `p1` or `p2`.
pub(crate) fn severity(text: &str) -> Result<Severity, String> {
    Severity::from_word(text).ok_or_else(|| format!("'{text}' is none of p0, p1, p2"))
}

/// A table of the file, for messages.
struct At<'a> {
    path: &'a Path,
    name: &'static str,
}

impl At<'_> {
    fn wrong(&self, key: &str, what: &str) -> Fault {
        Fault::new(Code::Config, format!("{key} of [{}] in '{}': {what}", self.name, self.path.display()))
    }

    fn table<'v>(&self, value: &'v toml::Value) -> Result<&'v toml::Table, Fault> {
        value.as_table().ok_or_else(|| self.wrong("the value", "a table is expected"))
    }

    fn text(&self, key: &str, value: &toml::Value) -> Result<String, Fault> {
        self.read(key, value, |text| Ok(text.to_owned()))
    }

    fn read<T>(&self, key: &str, value: &toml::Value, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Fault> {
        let text = value.as_str().ok_or_else(|| self.wrong(key, "a text in quotes is expected"))?;
        read(text).map_err(|why| self.wrong(key, &why))
    }

    fn texts(&self, key: &str, value: &toml::Value) -> Result<Vec<String>, Fault> {
        let texts =
            value.as_array().and_then(|array| array.iter().map(|text| text.as_str().map(str::to_owned)).collect());
        texts.ok_or_else(|| self.wrong(key, "a list of texts is expected, as in [\"a\", \"b\"]"))
    }

    /// The one line of a file, which lies relative to the configuration file.
    fn secret(&self, key: &str, value: &toml::Value) -> Result<String, Fault> {
        let file = self.path.parent().unwrap_or(Path::new("")).join(self.text(key, value)?);
        let text = std::fs::read_to_string(&file)
            .map_err(|error| self.wrong(key, &format!("'{}' cannot be read: {error}", file.display())))?;
        Ok(text.trim().to_owned())
    }

    fn unknown(&self, key: &str, known: &[&str]) -> Fault {
        let fault = self.wrong(key, "there is no such key");
        match nearest(key, known.iter().copied()).first() {
            Some(near) => fault.hint(format!("did you mean '{near}'?")),
            None => fault.hint(format!("the keys are {}", known.join(", "))),
        }
    }
}

/// Refuses a file that somebody else may write: its commands would run as this user.
pub(crate) fn refuse_others(metadata: &std::fs::Metadata, path: &Path) -> Result<(), Fault> {
    let owner = metadata.uid();
    let foreign = owner != 0 && owner != rustix::process::geteuid().as_raw();
    if foreign || metadata.permissions().mode() & 0o022 != 0 {
        let message = format!("'{}' defines a command to run, and others may write that file", path.display());
        return Err(Fault::new(Code::Config, message)
            .hint(format!("make it yours alone: chown and 'chmod go-w {}'", path.display())));
    }
    Ok(())
}

impl Context {
    /// The bell of this process; nothing is connected to yet.
    pub(crate) fn bell(&self) -> Result<Bell, Fault> {
        let alerts = &self.config.alerts;
        Ok(Bell::new(self.claims()?, Sinks::new(&alerts.sinks)?, alerts.rules.clone()))
    }

    /// The same for a command that says on standard error what happened: its alerts are no log lines.
    pub(crate) fn unlogged_bell(&self) -> Result<Bell, Fault> {
        let alerts = &self.config.alerts;
        Ok(Bell::new(self.claims()?, Sinks::new(&alerts.sinks)?.unlogged(), alerts.rules.clone()))
    }

    fn claims(&self) -> Result<Claims, Fault> {
        if let Some(url) = &self.given.claims_url {
            let named = |fault: Fault| Fault { message: format!("{} (from {})", fault.message, url.origin), ..fault };
            return Ok(Claims::Redis(RedisClaims::parse(&url.value).map_err(named)?));
        }
        Ok(match &self.database {
            Ok(choice) => Claims::Database(DatabaseClaims::new(choice.target.clone())),
            Err(fault) => Claims::Nowhere(fault.message.clone()),
        })
    }

    /// Names the claim store on standard error.
    pub(crate) fn note_claims(&self, bell: &Bell) {
        let [_, place, origin] = self.claims_told(bell);
        self.note(&format!("claims: {place} ({origin})"));
    }

    /// The row of `enlist config`.
    pub(crate) fn claims_row(&self) -> Result<[String; 3], Fault> {
        Ok(self.claims_told(&self.bell()?))
    }

    fn claims_told(&self, bell: &Bell) -> [String; 3] {
        let origin = match (&self.given.claims_url, &self.database) {
            (Some(url), _) => url.origin.to_string(),
            (None, Ok(choice)) => choice.origin.to_string(),
            (None, Err(_)) => Origin::Default.to_string(),
        };
        ["claims_url".to_owned(), bell.claims().place(), origin]
    }
}

/// Rings what an import's end wrote into the outbox, where somebody is to be told: the person who started it has
/// read it already. What cannot be rung in time is left to the workers.
pub(crate) async fn ring_of_job(store: &Store, bell: &Bell, report: &Report) {
    let away = report.error.as_ref().is_some_and(|fault| fault.code == Code::DatabaseStopped);
    let Some(job) = report.job.filter(|_| bell.sinks().reach_out() && !away) else { return };
    let outcome = tokio::time::timeout(IMPORT_PATIENCE, deliver(store, bell, Scope::Job(job), &|| true)).await;
    match outcome {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::info!(%error, "alerts of this import are left to the workers"),
        Err(_) => tracing::info!("receivers of alerts are slow; what is left is left to the workers"),
    }
    bell.claims().close().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AlertConfig, Fault> {
        let table: toml::Table = text.parse().unwrap();
        AlertConfig::parse(&table["alerts"], Path::new("/etc/enlist/enlist.toml"))
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(
            "[alerts]\nwindow = '1h'\nwebhook = 'https://h/x'\ncommand = ['/bin/page', '-x']\n\
             [alerts.email]\nsmtp = 'smtp://localhost'\nfrom = 'a@b'\nto = ['c@d']\n\
             [alerts.kinds.job_failed]\nseverity = 'p0'\nwindow = '5m'\n\
             [alerts.kinds.database_unreachable]\nafter = '10s'\n",
        )
        .unwrap();
        let rule = config.rules.of(AlertKind::JobFailed);
        assert_eq!((rule.severity, rule.window), (Severity::P0, Duration::from_secs(300)));
        assert_eq!(config.rules.of(AlertKind::ManyRejects).window, Duration::from_secs(3_600));
        assert_eq!(config.rules.away, Duration::from_secs(10));
        assert_eq!(config.sinks.command.as_deref(), Some(["/bin/page".to_owned(), "-x".to_owned()].as_slice()));
        assert_eq!((config.sinks.smtp.as_deref(), config.sinks.to.len()), (Some("smtp://localhost"), 1));
        assert!(!format!("{config:?}").contains("https://h/x"));
    }

    #[test]
    fn what_is_not_understood_names_its_neighbour_or_its_shape() {
        let hint = |text: &str| parse(text).unwrap_err().hint.into_owned();
        assert_eq!(hint("[alerts]\nwebhok = 'x'"), "did you mean 'webhook'?");
        assert_eq!(hint("[alerts.kinds.job_faild]\nwindow = '1h'"), "did you mean 'job_failed'?");
        for wrong in [
            "alerts = 1",
            "[alerts]\ncommand = 'page'",
            "[alerts]\nwindow = '1ms'",
            "[alerts.kinds.job_failed]\nseverity = 'p3'",
            "[alerts.kinds.job_failed]\nafter = '1s'",
            "[alerts]\nwebhook_file = '/nonexistent'",
        ] {
            assert_eq!(parse(wrong).unwrap_err().code, Code::Config, "{wrong}");
        }
    }
}
