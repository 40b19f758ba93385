//! `enlist alert`: tells somebody, once per window.
//!
//! Owns the command's options and answer. It does not know who rings. Invariant: when claims cannot be asked, the
//! alert goes out.

use std::time::Duration;

use serde::Serialize;

use crate::alert::{Alert, AlertKey, Change, Severity};
use crate::alerts::{Outcome, SUPPRESSED, Undelivered};
use crate::cli::alerting;
use crate::cli::answer::Context;
use crate::cli::text::roughly;
use crate::cli::values;
use crate::clock::wall_clock;
use crate::fault::{Code, Exit, Fault};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist alert backup-failed --message 'the backup of db3 failed'
  enlist alert disk-full --message 'db3: 2 % left' --severity p0
  enlist alert feed-late --message 'no file since 6:00' --window 4h --claims-url redis://cache:6379

However many processes raise an alert, it rings once per window: each key has its own, which begins
when it rings. p0 always rings. Where alerts go is said under [alerts] in enlist.toml.")]
pub(crate) struct Args {
    /// By what it is the same alert, on every replica: 1 to 200 characters
    #[arg(value_name = "KEY", value_parser = key)]
    key: AlertKey,
    /// What is told
    #[arg(long, value_name = "TEXT")]
    message: String,
    /// How urgent: p0 (always rings), p1 or p2 [default: p1]
    #[arg(long, value_name = "P", value_parser = alerting::severity)]
    severity: Option<Severity>,
    /// For how long after a ring no other follows [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = values::window)]
    window: Option<Duration>,
}

/// A key of an alert or of `once`.
pub(crate) fn key(text: &str) -> Result<AlertKey, String> {
    AlertKey::parse(text).map_err(|fault| format!("{}; {}", fault.message, Code::BadAlertKey.means()))
}

#[derive(Serialize)]
struct Body<'a> {
    rung: bool,
    why: &'a str,
    key: &'a str,
    severity: &'a str,
    held_by: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let bell = context.bell()?;
    context.note_claims(&bell);
    let rule = bell.rules().by_hand(Change { severity: args.severity, window: args.window });
    let alert = Alert { key: args.key.clone(), rule, message: args.message.clone(), details: serde_json::Value::Null };
    let outcome = bell.ring(&alert, wall_clock()).await;
    bell.claims().close().await;
    let outcome = outcome.map_err(|Undelivered(why)| Fault::new(Code::AlertUndelivered, why))?;
    let mut body =
        Body { rung: false, why: SUPPRESSED, key: alert.key.as_str(), severity: rule.severity.as_str(), held_by: None };
    let text = match outcome {
        Outcome::Rung(why) => {
            (body.rung, body.why) = (true, why.as_str());
            format!("rung ({}): {}\n", why.as_str(), bell.sinks().told())
        }
        Outcome::HeldBack(held) => {
            body.held_by = Some(held.by.to_string());
            format!("held back: {} has it, for another {}\n", held.by, roughly(held.left))
        }
        Outcome::HeldBackHere => "held back: this process rang it\n".to_owned(),
    };
    context.answer(Exit::Done, &body, &text)
}
