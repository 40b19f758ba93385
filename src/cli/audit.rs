//! `enlist audit`: looks for what should be impossible.
//!
//! Owns the command. It does not know what is looked for. Invariant: it changes nothing, and "nothing is wrong" is
//! said only when everything was looked at.

use serde::Serialize;

use crate::cli::answer::{Context, Style, complain, object, print, print_line};
use crate::cli::findings::{FindingBody, told};
use crate::cli::text::counted;
use crate::fault::{Code, Exit, Fault};
use crate::store::{Access, Audit, AuditScope};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist audit
  enlist audit --json

Looks at all finished jobs and recipients; the workers do the same once a day for jobs of the last two
days. Exit status 3 when something was found, 1 when it could not look at everything.")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Body<'a> {
    jobs: u64,
    recipients: u64,
    findings: Vec<FindingBody<'a>>,
    untold: u64,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, _args: &Args) -> Result<Exit, Fault> {
    let mut audit = Audit::default();
    let fault = look(context, &mut audit).await.err();
    let exit = match &fault {
        Some(fault) => fault.code.exit(),
        None if audit.is_clean() => Exit::Done,
        None => Exit::Found,
    };
    if context.style == Style::Json {
        let Audit { jobs, recipients, findings, untold } = &audit;
        let findings = FindingBody::all(findings);
        let body = Body { jobs: *jobs, recipients: *recipients, findings, untold: *untold };
        print_line(&object(exit, fault.as_ref(), &body)?)?;
    } else if fault.is_none() || !audit.is_clean() {
        print(&text(&audit))?;
    }
    if let Some(fault) = &fault {
        complain(fault, context.paint);
    }
    Ok(exit)
}

async fn look(context: &Context, audit: &mut Audit) -> Result<(), Fault> {
    let opened = context.open(Access::Existing).await;
    // A wrong command line or database stays what it is.
    let store = opened.map_err(|fault| if fault.code.exit() == Exit::Usage { fault } else { not_looked(&fault) })?;
    let outcome = store.audit(AuditScope::Everything, audit).await;
    store.close().await;
    outcome.map_err(|error| not_looked(&error.into()))
}

/// Whatever kept it from looking is told as one thing: a script must not take it for "nothing found".
fn not_looked(fault: &Fault) -> Fault {
    let hint = fault.hint.clone();
    Fault::new(Code::NotAudited, format!("{}: {}", fault.code.as_str(), fault.message)).hint(hint)
}

fn text(audit: &Audit) -> String {
    let mut out = told(&audit.findings);
    if audit.untold > 0 {
        out.push_str(&format!("and {}\n", counted(audit.untold, "finding more", "findings more")));
    }
    let jobs = counted(audit.jobs, "finished job", "finished jobs");
    out.push_str(&format!("looked at {jobs} and {}\n", counted(audit.recipients, "recipient", "recipients")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kept_it_from_looking_is_a_failure() {
        let away = not_looked(&Fault::new(Code::DatabaseUnreachable, "no answer").hint("start it"));
        assert_eq!((away.code.exit(), away.message.as_str()), (Exit::Failed, "database_unreachable: no answer"));
        assert_eq!(away.hint, "start it");
    }

    #[test]
    fn the_text_says_what_was_looked_at() {
        let audit = Audit { jobs: 1, recipients: 2_000, ..Audit::default() };
        assert_eq!(text(&audit), "nothing is wrong\nlooked at 1 finished job and 2,000 recipients\n");
    }
}
