//! `enlist doctor`: facts about the database, and what is wrong with it.
//!
//! Owns the command. It does not know what can be wrong. Invariant: it changes nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::answer::Context;
use crate::cli::text::pairs;
use crate::fault::{Exit, Fault};
use crate::store::{Access, Finding};

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
    findings: Vec<FindingBody<'a>>,
}

#[derive(Serialize)]
struct FindingBody<'a> {
    code: &'static str,
    subject: &'a str,
    message: &'a str,
    hint: &'a str,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, _args: &Args) -> Result<Exit, Fault> {
    let store = context.open(Access::Existing).await?;
    let mut facts = vec![("enlist".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    facts.extend(store.facts().await?);
    let findings = store.findings().await?;
    let exit = if findings.is_empty() { Exit::Done } else { Exit::Found };
    let body = Body {
        facts: facts.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        findings: findings
            .iter()
            .map(|finding| FindingBody {
                code: finding.code,
                subject: &finding.subject,
                message: &finding.message,
                hint: &finding.hint,
            })
            .collect(),
    };
    context.answer(exit, &body, &text(&facts, &findings))
}

fn text(facts: &[(String, String)], findings: &[Finding]) -> String {
    let mut out = pairs(facts);
    out.push('\n');
    if findings.is_empty() {
        out.push_str("nothing is wrong\n");
    }
    for finding in findings {
        out.push_str(&format!("{} ({}): {}\n  {}\n", finding.subject, finding.code, finding.message, finding.hint));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_say_what_and_what_to_do() {
        let facts = [("schema".to_owned(), "1".to_owned())];
        assert!(text(&facts, &[]).ends_with("nothing is wrong\n"));
        let finding = Finding {
            code: "stuck_job",
            subject: "job 7".to_owned(),
            message: "its lease expired".to_owned(),
            hint: "run it again".to_owned(),
        };
        assert_eq!(text(&facts, &[finding]), "schema  1\n\njob 7 (stuck_job): its lease expired\n  run it again\n");
    }
}
