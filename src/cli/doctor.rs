//! `enlist doctor`: facts about the database, how the passes run, and what is wrong.
//!
//! Owns the command. It does not know what can be wrong. Invariant: it changes nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::answer::Context;
use crate::cli::findings::{FindingBody, told};
use crate::cli::pass;
use crate::cli::text::{duration_word, pairs};
use crate::fault::{Exit, Fault};
use crate::owner::Owner;
use crate::queue::{Health, PassHealth, health};
use crate::store::{Access, Finding, PassRun};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist doctor
  enlist doctor --json

Exit status 3 when something was found.")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Body<'a> {
    facts: BTreeMap<&'a str, &'a str>,
    passes: Vec<PassBody<'a>>,
    findings: Vec<FindingBody<'a>>,
}

#[derive(Serialize)]
struct PassBody<'a> {
    pass: &'static str,
    health: &'static str,
    every_ms: u64,
    skipped: u64,
    last: Option<RunBody<'a>>,
    failed: Option<&'a str>,
}

#[derive(Serialize)]
struct RunBody<'a> {
    window: String,
    owner: String,
    started_at: String,
    finished_at: Option<String>,
    result: Option<&'a serde_json::Value>,
}

/// How many workers are looked at.
const WORKERS: u32 = 1_000;

/// Runs the command.
pub(crate) async fn run(context: &Context, _args: &Args) -> Result<Exit, Fault> {
    let store = context.open(Access::Existing).await?;
    let mut facts = vec![("enlist".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    facts.extend(store.facts().await?);
    let (schedules, workers) = (store.schedules().await?, store.workers(WORKERS).await?);
    let passes = health(&context.config.pass_times(), &schedules, &workers, store.now().await?);
    let mut findings = store.findings().await?;
    findings.extend(passes.iter().flat_map(PassHealth::findings));
    let exit = if findings.is_empty() { Exit::Done } else { Exit::Found };
    let body = Body {
        facts: facts.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        passes: passes.iter().map(PassBody::of).collect(),
        findings: FindingBody::all(&findings),
    };
    context.answer(exit, &body, &text(&facts, &passes, &findings))
}

impl<'a> PassBody<'a> {
    fn of(pass: &'a PassHealth) -> Self {
        Self {
            pass: pass.pass.as_str(),
            health: pass.health.as_str(),
            every_ms: u64::try_from(pass.every.as_millis()).unwrap_or(u64::MAX),
            skipped: pass.skipped,
            last: pass.last.as_ref().map(RunBody::of),
            failed: pass.error.as_deref(),
        }
    }
}

impl<'a> RunBody<'a> {
    fn of(run: &'a PassRun) -> Self {
        Self {
            window: run.window.to_string(),
            owner: Owner::from_text(&run.owner).to_string(),
            started_at: run.started_at.to_string(),
            finished_at: run.finished_at.map(|ended| ended.to_string()),
            result: run.result.as_ref(),
        }
    }
}

fn text(facts: &[(String, String)], passes: &[PassHealth], findings: &[Finding]) -> String {
    let passes = passes.iter().map(|pass| (format!("pass '{}'", pass.pass.as_str()), pass_text(pass)));
    let mut out = pairs(&facts.iter().cloned().chain(passes).collect::<Vec<_>>());
    out.push('\n');
    out.push_str(&told(findings));
    out
}

/// When a pass runs, when it last did, and what came of it.
fn pass_text(pass: &PassHealth) -> String {
    let every = format!("every {}", duration_word(pass.every));
    let ended = pass.last.as_ref().and_then(|run| Some((run.finished_at?, run.result.as_ref())));
    match (pass.health, ended) {
        (Health::Off, _) => "off".to_owned(),
        (Health::NoWorker, _) => format!("{every}, no worker has run yet"),
        (_, None) => format!("{every}, has not ended yet"),
        (_, Some((at, None))) => format!("{every}, last {at}"),
        (_, Some((at, Some(result)))) => format!("{every}, last {at}: {}", pass::told(result)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::clock::Timestamp;
    use crate::queue::Pass;

    use super::*;

    #[test]
    fn a_pass_says_when_it_ran_and_what_came_of_it() {
        let run = PassRun {
            window: Timestamp::from_millis(0),
            owner: String::new(),
            started_at: Timestamp::from_millis(0),
            finished_at: Some(Timestamp::from_millis(1_000)),
            result: Some(serde_json::json!({ "keys": 3, "jobs": [] })),
            error: None,
        };
        let pass = |health, last| PassHealth {
            pass: Pass::Prune,
            health,
            every: Duration::from_secs(3_600),
            skipped: 0,
            last,
            error: None,
        };
        assert_eq!(pass_text(&pass(Health::NoWorker, None)), "every 1h, no worker has run yet");
        assert_eq!(pass_text(&pass(Health::Waiting, None)), "every 1h, has not ended yet");
        let told = pass_text(&pass(Health::Ran, Some(run)));
        assert_eq!(told, "every 1h, last 1970-01-01T00:00:01Z: no jobs; keys 3");
        let facts = [("schema".to_owned(), "1".to_owned())];
        let all = text(&facts, &[pass(Health::Off, None)], &[]);
        assert_eq!(all, "schema        1\npass 'prune'  off\n\nnothing is wrong\n");
    }
}
