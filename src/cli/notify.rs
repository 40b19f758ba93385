//! `[notify]` of the configuration file, `--notify`, and the secret.
//!
//! Owns their keys, their checks and which of them wins. It does not know how a receiver is called. Invariant: an
//! address is never quoted, and a secret is read where it is needed and goes nowhere else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::answer::Context;
use crate::cli::config::{Config, Entry, Origin, Valued, Variables};
use crate::cli::values;
use crate::destination::{Destination, Endpoint, Privacy};
use crate::fault::{Code, Fault, Warning};
use crate::notification::{GIVE_UP, PLAIN_CODE, Receiver};
use crate::notify::{Caller, Secret, TIMEOUT};

/// The secret, and a file that holds it.
const SECRET: &str = "ENLIST_NOTIFY_SECRET";
const SECRET_FILE: &str = "ENLIST_NOTIFY_SECRET_FILE";

/// The keys of `[notify]`.
const KEYS: [&str; 6] = ["url", "receiver", "lookup_url", "secret_file", "give_up", "timeout"];

/// The longest that a call may take.
const TIMEOUT_MOST: Duration = Duration::from_secs(60);

/// What `[notify]` says; `None` where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NotifyConfig {
    /// `url`: told of every import that says nothing else.
    pub(crate) url: Option<Valued<Endpoint>>,
    /// `receiver`.
    pub(crate) receiver: Option<Valued<Receiver>>,
    /// `lookup_url`.
    pub(crate) lookup_url: Option<Valued<Endpoint>>,
    /// `secret_file`; relative to the configuration file's folder.
    pub(crate) secret_file: Option<Valued<PathBuf>>,
    /// `give_up`.
    pub(crate) give_up: Option<Valued<Duration>>,
    /// `timeout`.
    pub(crate) timeout: Option<Valued<Duration>>,
}

impl NotifyConfig {
    /// Reads the table `[notify]`.
    pub(crate) fn parse(entry: &Entry<'_>) -> Result<Self, Fault> {
        let mut found = Self::default();
        entry.each(|entry, name| {
            match name {
                "url" => found.url = Some(entry.text(Endpoint::parse)?),
                "receiver" => found.receiver = Some(entry.text(receiver)?),
                "lookup_url" => found.lookup_url = Some(entry.text(Endpoint::parse)?),
                "secret_file" => {
                    let folder = entry.path.parent().unwrap_or(Path::new(""));
                    found.secret_file = Some(entry.text(|text| Ok(folder.join(text)))?);
                }
                "give_up" => found.give_up = Some(entry.text(give_up)?),
                "timeout" => found.timeout = Some(entry.text(timeout)?),
                _ => return Err(entry.unknown(&KEYS)),
            }
            Ok(())
        })?;
        let asks = found.receiver.as_ref().is_some_and(|receiver| receiver.value == Receiver::Lookup);
        match (asks, &found.lookup_url) {
            (true, None) => Err(entry.wrong("receiver = \"lookup\" needs a lookup_url")),
            (false, Some(_)) => Err(entry.wrong("lookup_url means something for receiver = \"lookup\" only")),
            _ => Ok(found),
        }
    }
}

fn receiver(text: &str) -> Result<Receiver, String> {
    let words: Vec<_> = Receiver::ALL.iter().map(|receiver| receiver.as_str()).collect();
    Receiver::from_word(text).ok_or_else(|| format!("'{text}' is none of {}", words.join(", ")))
}

fn give_up(text: &str) -> Result<Duration, String> {
    match values::duration(text)? {
        short if short < Duration::from_secs(1) => Err(format!("'{text}' is too short; it is tried for at least 1s")),
        duration => Ok(duration),
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    let duration = values::duration(text)?;
    if (Duration::from_millis(100)..=TIMEOUT_MOST).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("'{text}' is no time for a call; it may take 100ms to 60s"))
    }
}

/// Whom to tell of an import: what `--notify` says, else the configuration. `none` is nobody.
pub(crate) fn destination(flag: Option<&str>, config: &Config) -> Result<Option<Destination>, Fault> {
    let config = &config.notify;
    let url = match flag {
        Some("none") => return Ok(None),
        Some(text) => {
            let wrong = |why| Fault::new(Code::Usage, format!("--notify: {why}"));
            Some(Endpoint::parse(text).map_err(|why| wrong(why).hint("write for example https://example.com/hook"))?)
        }
        None => config.url.as_ref().map(|valued| valued.value.clone()),
    };
    Ok(url.map(|url| Destination {
        url,
        receiver: config.receiver.as_ref().map_or(Receiver::Keys, |valued| valued.value),
        lookup_url: config.lookup_url.as_ref().map(|valued| valued.value.clone()),
        give_up_secs: config.give_up.as_ref().map_or(GIVE_UP, |valued| valued.value).as_secs(),
    }))
}

/// What to know about an address that crosses a network unencrypted.
pub(crate) fn plain_warning(destination: Option<&Destination>) -> Option<Warning> {
    let url = &destination?.url;
    (url.privacy() == Privacy::Plain)
        .then(|| Warning::new(PLAIN_CODE, format!("{url} is told unencrypted; use https:// where you can")))
}

/// How receivers are called, with the secret from the environment or a file.
pub(crate) fn caller(context: &Context) -> Result<Caller, Fault> {
    let config = &context.config.notify;
    let timeout = config.timeout.as_ref().map_or(TIMEOUT, |valued| valued.value);
    Ok(Caller::new(secret(&context.variables, config)?, timeout))
}

fn secret(variables: &Variables, config: &NotifyConfig) -> Result<Option<Secret>, Fault> {
    let (path, origin) = match (variables.get(SECRET), variables.get(SECRET_FILE), &config.secret_file) {
        (Some(_), Some(_), _) => {
            let message = format!("both {SECRET} and {SECRET_FILE} are set");
            return Err(Fault::new(Code::Config, message).hint("unset one of them"));
        }
        (Some(text), None, _) => return Ok(Secret::new(std::os::unix::ffi::OsStrExt::as_bytes(text.as_os_str()))),
        (None, Some(path), _) => (PathBuf::from(path), Origin::Variable(SECRET_FILE)),
        (None, None, Some(valued)) => (valued.value.clone(), valued.origin.clone()),
        (None, None, None) => return Ok(None),
    };
    let wrong = |what: String| {
        Fault::new(Code::Config, format!("the secret file '{}' (from {origin}) {what}", path.display()))
            .hint("write the secret into it, readable by this user alone")
    };
    let bytes = std::fs::read(&path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    // A file that was meant to sign and holds nothing would send unsigned.
    Secret::new(&bytes).map(Some).ok_or_else(|| wrong("is empty".to_owned()))
}

/// The rows of `enlist config`: setting, value, origin.
pub(crate) fn rows(variables: &Variables, config: &NotifyConfig) -> Vec<[String; 3]> {
    let secret = [SECRET, SECRET_FILE].into_iter().find(|name| variables.get(name).is_some());
    let signed = match (secret, &config.secret_file) {
        (Some(name), _) => ["set".to_owned(), name.to_owned()],
        (None, Some(valued)) => ["set".to_owned(), valued.origin.to_string()],
        (None, None) => ["none".to_owned(), Origin::Default.to_string()],
    };
    let [signed, origin] = signed;
    let receiver = config.receiver.as_ref().map(|valued| (valued.value.as_str().to_owned(), valued.origin.to_string()));
    let url = config.url.as_ref().map(|valued| (valued.value.to_string(), valued.origin.to_string()));
    let or = |found: Option<(String, String)>, default: &str| {
        found.unwrap_or_else(|| (default.to_owned(), Origin::Default.to_string()))
    };
    let (url, receiver) = (or(url, "none"), or(receiver, Receiver::Keys.as_str()));
    vec![
        ["notify.url".to_owned(), url.0, url.1],
        ["notify.receiver".to_owned(), receiver.0, receiver.1],
        ["notify.secret".to_owned(), signed, origin],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<NotifyConfig, Fault> {
        Config::parse(text, Path::new("/etc/enlist/enlist.toml")).map(|config| config.notify)
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(
            "[notify]\nurl = 'https://example.com/x'\nreceiver = 'lookup'\nlookup_url = 'https://example.com/seen'\n\
             secret_file = 'secret'\ngive_up = '2h'\ntimeout = '3s'\n",
        )
        .unwrap();
        assert_eq!(config.secret_file.unwrap().value, Path::new("/etc/enlist/secret"));
        assert_eq!(config.timeout.unwrap().value, Duration::from_secs(3));
        assert_eq!(config.give_up.unwrap().value, Duration::from_secs(7_200));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_without_quoting_an_address() {
        for wrong in [
            "notify = 'https://gizli'",
            "[notify]\nurl = 'https://a:gizli@example.com'",
            "[notify]\nreceiver = 'lookup'",
            "[notify]\nlookup_url = 'https://example.com/gizli'",
            "[notify]\nreceiver = 'maybe'",
            "[notify]\ntimeout = '2m'",
            "[notify]\nsecret = 'gizli'",
        ] {
            let fault = parse(wrong).unwrap_err();
            assert_eq!(fault.code, Code::Config, "{wrong}");
            assert!(!format!("{} {}", fault.message, fault.hint).contains("gizli"), "{fault}");
        }
    }

    #[test]
    fn an_option_wins_over_the_file_and_none_is_nobody() {
        let text = "[notify]\nurl = 'https://example.com/x'\nreceiver = 'none'\n";
        let config = Config::parse(text, Path::new("/etc/enlist/enlist.toml")).unwrap();
        let told = |flag| destination(flag, &config).unwrap().map(|destination| destination.url.secret().to_owned());
        assert_eq!(told(None).as_deref(), Some("https://example.com/x"));
        assert_eq!(told(Some("https://other.example/y")).as_deref(), Some("https://other.example/y"));
        assert_eq!(told(Some("none")), None);
        let fault = destination(Some("https://u:gizli@h/"), &config).unwrap_err();
        assert!(fault.code == Code::Usage && !fault.message.contains("gizli"), "{fault}");
    }

    #[test]
    fn a_secret_comes_from_the_variable_or_a_file_that_holds_one() {
        let none = NotifyConfig::default();
        assert_eq!(secret(&Variables::default(), &none).unwrap(), None);
        assert!(secret(&Variables::from([(SECRET, "s")]), &none).unwrap().is_some());
        assert!(secret(&Variables::from([(SECRET, "s"), (SECRET_FILE, "f")]), &none).is_err());
        assert!(secret(&Variables::from([(SECRET_FILE, "/dev/null")]), &none).is_err());
    }
}
