//! `enlist work`: runs queued jobs, the sweeper and the scheduled passes.
//!
//! Owns the options of a worker and what it says at its end. It does not know how jobs are claimed. Invariant: a
//! signal ends it with 0 once every job in hand is handed back.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::cli::answer::{Context, Style, complain, object, print_line};
use crate::cli::text::counted;
use crate::cli::{notify, signals, values};
use crate::fault::{Exit, Fault};
use crate::job::QueueName;
use crate::queue::{Until, WorkReport, WorkRequest, work};
use crate::stop::Stop;
use crate::store::Access;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist work
  enlist work --queue night --queue default --concurrency 2
  enlist work --drain

Runs until it is stopped: SIGTERM or SIGINT let the batch in hand end, hand the jobs back uncharged
and end with 0; a second signal stops at once and loses nothing that was committed.")]
pub(crate) struct Args {
    /// A queue; may be repeated, the first is looked at first
    #[arg(long, value_name = "QUEUE", value_parser = values::queue, default_value = "default")]
    queue: Vec<QueueName>,
    /// How many jobs at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// End when nothing is ready, running or resting after a failure; 1 if a job failed
    #[arg(long)]
    drain: bool,
    /// How long this process may be silent before others take its jobs [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = values::lease)]
    lease: Option<Duration>,
    /// How long jobs in hand may take to stop after a signal
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "25s")]
    grace: Duration,
}

/// How long a holder may be silent when nobody says otherwise.
const LEASE: Duration = Duration::from_secs(30);

#[derive(Serialize)]
struct Body {
    claimed: u64,
    done: u64,
    failed: u64,
    retried: u64,
    unseen: u64,
    steered: u64,
    released: u64,
    lost: u64,
    abandoned: u64,
}

/// Runs the command; everything is said when it returns.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let caller = notify::caller(context)?;
    let bell = Arc::new(context.bell()?);
    let store = context.open(Access::Existing).await?;
    let state_dir = context.state_dir();
    let lease = args.lease.or(context.config.lease.as_ref().map(|valued| valued.value)).unwrap_or(LEASE);
    let request = WorkRequest {
        queues: args.queue.clone(),
        concurrency: args.concurrency,
        until: if args.drain { Until::Drained } else { Until::Stopped },
        lease,
        grace: args.grace,
        state_dir,
        times: context.config.pass_times(),
        caller,
        bell: bell.clone(),
    };
    let stop = Stop::new();
    signals::listen(stop.clone(), context.volume)?;
    let report = work(&store, &request, &stop).await?;
    bell.claims().close().await;
    store.close().await;
    let fault = report.fault(request.until);
    let exit = fault.as_ref().map_or(Exit::Done, |fault| fault.code.exit());
    context.note(&summary(&report));
    if let Some(fault) = &fault {
        complain(fault, context.paint);
    }
    if context.style == Style::Json {
        print_line(&object(exit, fault.as_ref(), &Body::of(&report))?)?;
    }
    Ok(exit)
}

impl Body {
    fn of(report: &WorkReport) -> Self {
        let WorkReport { claimed, done, failed, retried, unseen, steered, released, lost, abandoned } = *report;
        Self { claimed, done, failed, retried, unseen, steered, released, lost, abandoned }
    }
}

fn summary(report: &WorkReport) -> String {
    let parts = [
        (report.done, "done"),
        (report.failed, "failed"),
        (report.retried, "to be tried again"),
        (report.unseen, "whose file is not seen here"),
        (report.steered, "cancelled or paused"),
        (report.released, "handed back"),
        (report.lost, "taken over by another process"),
        (report.abandoned, "left to their leases"),
    ];
    let told: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let begun = counted(report.claimed, "job begun", "jobs begun");
    if told.is_empty() { format!("worker: {begun}") } else { format!("worker: {begun}: {}", told.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_happened_and_nothing_else() {
        assert_eq!(summary(&WorkReport::default()), "worker: 0 jobs begun");
        let report = WorkReport { claimed: 3, done: 2, released: 1, ..WorkReport::default() };
        assert_eq!(summary(&report), "worker: 3 jobs begun: 2 done, 1 handed back");
    }
}
