//! `enlist once`: runs a command on the one process that is first in a window of time.
//!
//! Owns the command's options, the start of the other program and its exit status. It does not know where claims
//! are kept. Invariant: at most one process runs the command in a window, as long as the claim store can be
//! asked; the claim holds for the whole window, however soon the command ends.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use crate::alert::AlertKey;
use crate::alerts::{Bell, SUPPRESSED, Why};
use crate::claim::{ClaimKey, Claiming, Term};
use crate::cli::alert::key;
use crate::cli::answer::{Context, Style};
use crate::cli::output::say;
use crate::cli::text::roughly;
use crate::cli::values;
use crate::fault::{Code, Exit, Fault};
use crate::holder;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist once nightly-report --window 24h -- /usr/local/bin/report --send
  enlist once refresh --window 2m --fail closed -- psql -c 'REFRESH MATERIALIZED VIEW sums'

For what every replica starts at about the same time: one of them runs the command, the others say who
does and end with 0. Windows are aligned to 1970-01-01 UTC by the clock of the claim store, so a start just
before and one just after a window's begin are two. The exit status is the command's.")]
pub(crate) struct Args {
    /// What is run, on every replica the same: 1 to 200 characters
    #[arg(value_name = "KEY", value_parser = key)]
    key: AlertKey,
    /// The length of a window
    #[arg(long, value_name = "DURATION", value_parser = values::window)]
    window: Duration,
    /// When the claim store cannot be asked: run all the same (open), or not (closed)
    #[arg(long, value_name = "HOW", value_enum, default_value_t, hide_possible_values = true)]
    fail: Fail,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Fail {
    /// Run the command.
    #[default]
    Open,
    /// Do not.
    Closed,
}

#[derive(Serialize)]
struct Body<'a> {
    ran: bool,
    why: &'a str,
    key: &'a str,
    held_by: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let bell = context.bell()?;
    context.note_claims(&bell);
    let (claim, owner) = (ClaimKey::once(&args.key), holder::claim_owner());
    let why = match bell.claims().claim(&claim, Term::Window(args.window), &owner).await {
        Claiming::New => Why::New,
        Claiming::Held(held) => {
            bell.claims().close().await;
            context.note(&format!(
                "skipped: {} runs '{}' in this window, which ends in {}",
                held.by,
                args.key,
                roughly(held.left)
            ));
            let body = Body { ran: false, why: SUPPRESSED, key: args.key.as_str(), held_by: Some(held.by.to_string()) };
            return context.answer(Exit::Done, &body, "");
        }
        Claiming::Unavailable(why) if args.fail == Fail::Closed => {
            let message =
                format!("claims cannot be asked ({}: {why}), so the command does not run", bell.claims().place());
            return Err(Fault::new(Code::ClaimsUnavailable, message));
        }
        Claiming::Unavailable(why) => {
            let place = bell.claims().place();
            say(&format!("warning: claims cannot be asked ({place}: {why}); the command runs all the same"));
            Why::StoreUnavailable
        }
    };
    bell.claims().close().await;
    let ran = match context.style {
        Style::Text => Err(become_command(&args.command)),
        Style::Json => run_beside(&args.command).await,
    };
    match ran {
        Ok(exit) => {
            let body = Body { ran: true, why: why.as_str(), key: args.key.as_str(), held_by: None };
            context.answer(exit, &body, "")
        }
        Err(error) => {
            give_back(&bell, why, &claim, &owner).await;
            let name = args.command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            Err(Fault::new(Code::CommandNotStarted, format!("'{name}' cannot be started: {error}")))
        }
    }
}

/// Another process may be able to start what this one could not.
async fn give_back(bell: &Bell, why: Why, claim: &ClaimKey, owner: &crate::owner::Owner) {
    if why == Why::New {
        bell.claims().release(claim, owner).await;
        bell.claims().close().await;
    }
}

/// Replaces this process, so that signals, standard streams and exit status are the command's own. Returns only
/// when that fails.
fn become_command(words: &[OsString]) -> std::io::Error {
    let mut words = words.iter();
    std::process::Command::new(words.next().cloned().unwrap_or_default()).args(words).exec()
}

/// Runs the command as a child: standard output belongs to the answer, so what the command prints goes to
/// standard error. Signals that ask this process to end are handed on.
async fn run_beside(words: &[OsString]) -> std::io::Result<Exit> {
    let mut hangups = signal(SignalKind::hangup())?;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut quits = signal(SignalKind::quit())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut words = words.iter();
    let mut child = tokio::process::Command::new(words.next().cloned().unwrap_or_default())
        .args(words)
        .stdout(Stdio::from(std::io::stderr()))
        .spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let status = loop {
        let number = tokio::select! {
            status = child.wait() => break status?,
            Some(()) = hangups.recv() => Signal::HUP,
            Some(()) = interrupts.recv() => Signal::INT,
            Some(()) = quits.recv() => Signal::QUIT,
            Some(()) = terminations.recv() => Signal::TERM,
        };
        if let Some(pid) = pid {
            // One that has just ended needs no signal any more.
            let _ = kill_process(pid, number);
        }
    };
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number)).unwrap_or(1);
    Ok(match u8::try_from(code).unwrap_or(1) {
        0 => Exit::Done,
        code => Exit::Passed(code),
    })
}
