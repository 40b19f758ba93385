//! Where alerts go: log line, webhook, e-mail, a command.
//!
//! Owns the list of receivers, the deadline for all of them together, and the object that each gets. It does not
//! know claims. Invariant: an alert counts as sent when one receiver outside this process took it (the log line
//! counts where there is no other); what a receiver says about an error never shows a secret.

use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::alert::{Alert, Severity};
use crate::alerts::Undelivered;
use crate::alerts::email::{Email, EmailSettings};
use crate::alerts::hook::Webhook;
use crate::alerts::program::Program;
use crate::claim::SINK_DEADLINE;
use crate::clock::Timestamp;
use crate::fault::Fault;
use crate::holder;

/// The receivers as somebody wrote them down.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SinkSettings {
    /// A URL that takes JSON by POST. A secret.
    pub webhook: Option<String>,
    /// A program and its arguments.
    pub command: Option<Vec<String>>,
    /// The mail server's URL, which may hold a password.
    pub smtp: Option<String>,
    /// From whom mails are.
    pub from: Option<String>,
    /// To whom.
    pub to: Vec<String>,
}

impl std::fmt::Debug for SinkSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SinkSettings").finish_non_exhaustive()
    }
}

/// The receivers.
#[derive(Debug, Clone, Default)]
pub struct Sinks {
    outside: Vec<Sink>,
    line: Line,
}

/// Whether an alert is a log line as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Line {
    /// It is.
    #[default]
    Written,
    /// It is not: whoever reads this log has read what it says.
    Left,
}

#[derive(Debug, Clone)]
enum Sink {
    Webhook(Webhook),
    Email(Box<Email>),
    Program(Program),
}

impl Sinks {
    /// Understands what was written down.
    ///
    /// # Errors
    /// `config`, without a secret in its message.
    pub fn new(settings: &SinkSettings) -> Result<Self, Fault> {
        let mut outside = Vec::new();
        if let Some(url) = &settings.webhook {
            outside.push(Sink::Webhook(Webhook::parse(url)?));
        }
        let mail = EmailSettings { smtp: settings.smtp.as_deref(), from: settings.from.as_deref(), to: &settings.to };
        if let Some(email) = Email::parse(&mail)? {
            outside.push(Sink::Email(Box::new(email)));
        }
        if let Some(words) = &settings.command {
            outside.push(Sink::Program(Program::parse(words)?));
        }
        Ok(Self { outside, line: Line::Written })
    }

    /// The same without the log line, for a command that told its user itself.
    #[must_use]
    pub fn unlogged(self) -> Self {
        Self { line: Line::Left, ..self }
    }

    /// Whether there is a receiver besides the log.
    pub fn reach_out(&self) -> bool {
        !self.outside.is_empty()
    }

    /// The receivers in a few words, without secrets.
    pub fn told(&self) -> String {
        let names: Vec<String> = self.outside.iter().map(Sink::name).collect();
        if names.is_empty() { "log".to_owned() } else { format!("log, {}", names.join(", ")) }
    }

    /// Sends to all of them at once.
    pub(crate) async fn send(&self, alert: &Alert, at: Timestamp) -> Result<(), Undelivered> {
        if self.line == Line::Written {
            log(alert);
        }
        let body = body(alert, at);
        let mut sending = JoinSet::new();
        for sink in self.outside.clone() {
            let (alert, body) = (alert.clone(), body.clone());
            sending.spawn(async move { (sink.name(), sink.send(&alert, &body).await) });
        }
        let (mut taken, mut refusals) = (0, Vec::new());
        // Each keeps to the deadline by itself; the one around them all is for what does not.
        let all = async {
            while let Some(sent) = sending.join_next().await {
                match sent {
                    Ok((_, Ok(()))) => taken += 1,
                    Ok((name, Err(why))) => refusals.push(format!("{name}: {why}")),
                    Err(_) => refusals.push("a receiver's task ended early".to_owned()),
                }
            }
        };
        if tokio::time::timeout(SINK_DEADLINE, all).await.is_err() {
            refusals.push("not all of them answered in time".to_owned());
        }
        let why = refusals.join("; ");
        if taken == 0 && self.reach_out() {
            return Err(Undelivered(why));
        }
        if !refusals.is_empty() {
            tracing::warn!(key = %alert.key, "an alert was not taken by all of its receivers: {why}");
        }
        Ok(())
    }
}

impl Sink {
    fn name(&self) -> String {
        match self {
            Self::Webhook(webhook) => format!("webhook at {}", webhook.host()),
            Self::Email(email) => format!("e-mail by {}", email.host()),
            Self::Program(program) => format!("command {}", program.name()),
        }
    }

    async fn send(&self, alert: &Alert, body: &Value) -> Result<(), String> {
        match self {
            Self::Webhook(webhook) => webhook.send(body).await,
            Self::Email(email) => email.send(alert, body).await,
            Self::Program(program) => program.run(alert, body).await,
        }
    }
}

/// The log as a receiver.
fn log(alert: &Alert) {
    let (key, severity, details) = (alert.key.as_str(), alert.rule.severity.as_str(), &alert.details);
    match alert.rule.severity {
        Severity::P0 | Severity::P1 => tracing::error!(target: "alert", key, severity, %details, "{}", alert.message),
        Severity::P2 => tracing::warn!(target: "alert", key, severity, %details, "{}", alert.message),
    }
}

/// What receivers get; `text` is what Slack and its kin show.
fn body(alert: &Alert, at: Timestamp) -> Value {
    json!({
        "text": format!("[{}] {}", alert.rule.severity, alert.message),
        "key": alert.key.as_str(),
        "severity": alert.rule.severity.as_str(),
        "message": alert.message,
        "at": at.to_string(),
        "host": holder::claim_owner().process.host,
        "details": alert.details,
    })
}

/// The program of a command line, for a message.
pub(crate) fn program_name(words: &[String]) -> String {
    let path = words.first().map(PathBuf::from).unwrap_or_default();
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
