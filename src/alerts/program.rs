//! Alerts to a program of the user's.
//!
//! Owns how it is started and what it gets. It does not know who may define one: that is the configuration's
//! business. Invariant: nothing of an alert is ever part of a command line or read by a shell; a program
//! that does not end in time is killed.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::alert::Alert;
use crate::alerts::sinks::program_name;
use crate::claim::SINK_DEADLINE;
use crate::fault::{Code, Fault};

/// A program and its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    words: Vec<String>,
}

impl Program {
    /// Takes a command line apart in words.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Fault> {
        if words.first().is_none_or(String::is_empty) {
            return Err(Fault::new(Code::Config, "the command of alerts is empty")
                .hint("write command = [\"/path/to/program\", \"argument\"] under [alerts]"));
        }
        Ok(Self { words: words.to_vec() })
    }

    /// Its name.
    pub(crate) fn name(&self) -> String {
        program_name(&self.words)
    }

    /// Runs it to its end: the alert is in its environment and, as JSON, on its standard input. It takes the alert
    /// by ending with 0. What it prints goes nowhere.
    pub(crate) async fn run(&self, alert: &Alert, body: &Value) -> Result<(), String> {
        let ran = tokio::time::timeout(SINK_DEADLINE, self.attempt(alert, body)).await;
        ran.unwrap_or_else(|_| Err("it did not end in time".to_owned()))
    }

    async fn attempt(&self, alert: &Alert, body: &Value) -> Result<(), String> {
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or("", String::as_str));
        command
            .args(words)
            .env("ENLIST_ALERT_KEY", alert.key.as_str())
            .env("ENLIST_ALERT_SEVERITY", alert.rule.severity.as_str())
            // A NUL cannot stand in a variable.
            .env("ENLIST_ALERT_MESSAGE", alert.message.replace('\0', " "))
            .env("ENLIST_ALERT_AT", text("at"))
            .env("ENLIST_ALERT_HOST", text("host"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // Whether it reads is its own business.
            let _ = stdin.write_all(format!("{body}\n").as_bytes()).await;
        }
        let status = child.wait().await.map_err(|error| format!("it cannot be waited for: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
    }
}
