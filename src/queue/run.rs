//! One job in a worker's hand.
//!
//! Owns the log of a job's run: every line that is written while it runs carries its number, attempt, fence, key
//! and list. It does not know how rows are imported. Invariant: one line says that the job was received, one how
//! it ended.

use std::path::Path;

use tracing::Instrument;

use crate::crash;
use crate::import::report::{Event, Report};
use crate::import::{run_claimed, span};
use crate::job::State;
use crate::stop::Stop;
use crate::store::{Claimed, Store};
use crate::verdict::{Verdict, verdict};

/// How a job left a worker's hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    Failed,
    Retried,
    Unseen,
    Steered,
    Released,
    Lost,
}

/// Runs a claimed job.
pub(crate) async fn run_one(store: &Store, claimed: Claimed, state_dir: &Path, stop: &Stop) -> Ended {
    let job = &claimed.job;
    let span = span(&claimed);
    let run = async {
        tracing::info!(attempt = claimed.attempt, file = %job.payload.source, "job received");
        crash::point("work::after_claim");
        let report = run_claimed(store, &claimed, state_dir, stop, &tell).await;
        let ended = judge(&report);
        tell_end(&report, ended);
        ended
    };
    run.instrument(span).await
}

fn judge(report: &Report) -> Ended {
    let Some(fault) = &report.error else { return Ended::Done };
    match (verdict(fault.code), report.state) {
        (Verdict::Gone, _) => Ended::Lost,
        (Verdict::Release, _) => Ended::Released,
        (Verdict::HandBack, _) => Ended::Unseen,
        (Verdict::Cancel | Verdict::Pause, _) => Ended::Steered,
        (Verdict::Retry, Some(State::Failed)) | (Verdict::Fail, _) => Ended::Failed,
        (Verdict::Retry, _) => Ended::Retried,
    }
}

fn tell(event: Event) {
    match event {
        Event::Note(text) => tracing::info!("{text}"),
        Event::Surveyed { .. } | Event::Progress(_) => {}
    }
}

fn tell_end(report: &Report, ended: Ended) {
    let counts = report.counts;
    let millis = u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX);
    for warning in &report.warnings {
        tracing::info!(code = warning.code, "{}", warning.message);
    }
    match (&report.error, ended) {
        (None, _) => tracing::info!(
            rows = counts.rows,
            inserted = counts.inserted,
            updated = counts.updated,
            unchanged = counts.unchanged,
            rejected = counts.rejected,
            resumed_rows = report.resumed_rows,
            millis,
            "job done"
        ),
        (Some(fault), Ended::Failed) => {
            tracing::error!(code = fault.code.as_str(), rows = counts.rows, millis, "job failed: {}", fault.message);
        }
        (Some(fault), Ended::Retried) => {
            tracing::warn!(code = fault.code.as_str(), millis, "job goes back for another attempt: {}", fault.message);
        }
        (Some(fault), Ended::Unseen) => {
            tracing::warn!(code = fault.code.as_str(), "job handed back uncharged: {}", fault.message);
        }
        (Some(fault), _) => {
            tracing::info!(code = fault.code.as_str(), rows = counts.rows, millis, "job left: {}", fault.message);
        }
    }
}
