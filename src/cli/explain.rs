//! `enlist explain`: what a reason or an error code means and what to do about it.
//!
//! Owns the command. It does not know what the codes mean: the words do. Invariant: every code that enlist
//! can answer with is explained.

use serde::Serialize;

use crate::alert::AlertKind;
use crate::cli::answer::Context;
use crate::cli::text::{Align, table};
use crate::fault::{Code, Exit, Fault};
use crate::nearest::{nearest, quoted};
use crate::notification::WARNINGS;
use crate::reject::Reason;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist explain phone_invalid
  enlist explain")]
pub(crate) struct Args {
    /// The code; without one all are listed
    code: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
struct Explained {
    code: &'static str,
    kind: &'static str,
    means: &'static str,
    remedy: &'static str,
    exit: Option<u8>,
}

#[derive(Serialize)]
struct Body<'a> {
    codes: &'a [Explained],
}

/// Runs the command.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let found = match &args.code {
        Some(code) => explained(code)?,
        None => all(),
    };
    let text = if args.code.is_some() { paragraphs(&found) } else { overview(&found) };
    context.answer(Exit::Done, &Body { codes: &found }, &text)
}

fn all() -> Vec<Explained> {
    let reasons = Reason::ALL.iter().map(|reason| Explained {
        code: reason.code(),
        kind: "reason",
        means: reason.means(),
        remedy: reason.remedy(),
        exit: None,
    });
    let errors = Code::ALL.iter().map(|code| Explained {
        code: code.as_str(),
        kind: "error",
        means: code.means(),
        remedy: code.remedy(),
        exit: Some(code.exit().code()),
    });
    let warnings =
        WARNINGS.iter().map(|(code, means, remedy)| Explained { code, kind: "warning", means, remedy, exit: None });
    let alerts = AlertKind::ALL.iter().map(|kind| Explained {
        code: kind.as_str(),
        kind: "alert",
        means: kind.means(),
        remedy: kind.remedy(),
        exit: None,
    });
    reasons.chain(errors).chain(warnings).chain(alerts).collect()
}

fn explained(wanted: &str) -> Result<Vec<Explained>, Fault> {
    let wanted = wanted.trim().to_lowercase().replace('-', "_");
    let all = all();
    let found: Vec<Explained> = all.iter().filter(|one| one.code == wanted).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let near = nearest(&wanted, all.iter().map(|one| one.code));
    let fault = Fault::new(Code::Usage, format!("there is no code '{wanted}'"));
    Err(match near.get(..near.len().min(2)).unwrap_or_default() {
        [] => fault.hint("'enlist explain' lists them all"),
        near => fault.hint(format!("did you mean {}?", quoted(near, " or "))),
    })
}

fn paragraphs(found: &[Explained]) -> String {
    let one = |one: &Explained| {
        let kind = match (one.kind, one.exit) {
            (_, Some(exit)) => format!("error, exit status {exit}"),
            (kind @ ("warning" | "alert"), None) => kind.to_owned(),
            (_, None) => "reason for a refused row".to_owned(),
        };
        format!("{} ({kind})\n  {}.\n  What to do: {}.\n", one.code, one.means, one.remedy)
    };
    found.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn overview(found: &[Explained]) -> String {
    let rows = |kind: &str| -> Vec<Vec<String>> {
        let of_kind = found.iter().filter(|one| one.kind == kind);
        of_kind.map(|one| vec![one.code.to_owned(), one.means.to_owned()]).collect()
    };
    let part = |title: &str, kind: &str| table(&[(title, Align::Left), ("MEANS", Align::Left)], &rows(kind));
    let parts = [("REASON", "reason"), ("ERROR", "error"), ("WARNING", "warning"), ("ALERT", "alert")];
    parts.map(|(title, kind)| part(title, kind)).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_explained_as_what_it_is() {
        assert_eq!(explained("phone-invalid").unwrap()[0].kind, "reason");
        assert_eq!(explained("unknown_list").unwrap()[0].exit, Some(2));
        let both: Vec<_> = explained("bad_encoding").unwrap().iter().map(|one| one.kind).collect();
        assert_eq!(both, ["reason", "error"]);
        assert!(paragraphs(&explained("notification_unknown").unwrap()).contains("(warning)"));
        assert!(paragraphs(&explained("job_rescued").unwrap()).contains("(alert)"));
        assert!(paragraphs(&explained("bad_encoding").unwrap()).contains("What to do"));
    }

    #[test]
    fn a_mistyped_code_finds_its_neighbour() {
        assert!(explained("phone_invald").unwrap_err().hint.contains("'phone_invalid'"));
        assert!(explained("qqq").unwrap_err().hint.contains("lists them all"));
    }
}
