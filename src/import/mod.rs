//! The sentence of the product: read a file, commit its rows with their checkpoint, say what became of it.
//!
//! Owns the life of one import from request to report. It does not know command lines, queues or SQL.
//! Invariant: it can be killed at every instruction; what it reports was committed.

mod claimed;
mod course;
mod duplicates;
mod enqueue;
mod entrance;
mod expect;
mod feed;
mod held;
mod intake;
mod lane;
mod mending;
mod opening;
mod pass;
pub mod plan;
mod preflight;
mod pulse;
mod reader;
pub mod report;
pub mod rows;
mod tally;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::Instrument;

use crate::clock::Stopwatch;
use crate::fault::{Code, Exit, Fault, REGION_HINT};
use crate::import::entrance::Entered;
use crate::import::held::{Hand, Runner, span_of};
use crate::import::report::{Event, REJECTS_REMOVED, Report, Request, Warning};
use crate::list::ListName;
use crate::location::Location;
use crate::mapping::check_constants;
use crate::phone::PhoneRules;
use crate::settings::Wanted;
use crate::source::{Spool, SpoolFolder, Survey, check_address, check_encoding};
use crate::stop::Stop;
use crate::store::{Created, JobRow, Store, StoreError};

pub use claimed::{run_claimed, span};
pub use enqueue::{Enqueued, Standing, enqueue};

pub use entrance::batch_rows;
pub use reader::PLAIN_PHONES;

/// How long a process that stops may take to tell a database that may be away, or to ask it for the report.
pub(crate) const FAREWELL_PATIENCE: Duration = Duration::from_secs(5);

/// Imports. The answer is always a report; `Report::error` says why it did not end.
///
/// Holds a lease while it runs and checks it in every transaction, so a process that was frozen past it
/// writes nothing. `stop` ends it after the batch in hand. Killed at any point, the same request goes on from
/// the last commit. Needs a multi-threaded runtime.
pub async fn import(store: &Store, request: &Request, stop: &Stop, on_event: &(dyn Fn(Event) + Send + Sync)) -> Report {
    let mut report = Report::new(&request.list);
    let watch = Stopwatch::start();
    let (events, mut incoming) = unbounded_channel();
    let outcome = {
        let work = run(store, request, stop, &events, &mut report);
        forward(work, &mut incoming, on_event).await
    };
    conclude(store, report, outcome, watch).await
}

/// Completes the report on work that ended with `outcome` and began with `watch`.
async fn conclude(store: &Store, mut report: Report, outcome: Result<(), Fault>, watch: Stopwatch) -> Report {
    if let Err(fault) = outcome {
        report.error = Some(fault);
    }
    if report.error.as_ref().is_some_and(|fault| fault.code == Code::DatabaseStopped) {
        // What cannot be asked stays untold.
        let _ = tokio::time::timeout(FAREWELL_PATIENCE, describe(store, &mut report)).await;
    } else {
        describe(store, &mut report).await;
    }
    report.elapsed = watch.worked();
    report
}

/// Hands events on while `work` runs, and those that are left afterwards.
async fn forward<T>(
    work: impl Future<Output = T>,
    incoming: &mut UnboundedReceiver<Event>,
    on_event: &(dyn Fn(Event) + Send + Sync),
) -> T {
    let mut work = std::pin::pin!(work);
    let outcome = loop {
        tokio::select! {
            outcome = &mut work => break outcome,
            Some(event) = incoming.recv() => on_event(event),
        }
    };
    while let Ok(event) = incoming.try_recv() {
        on_event(event);
    }
    outcome
}

/// Refuses what can be seen to be wrong in a request alone, before a file or a database is touched.
///
/// # Errors
/// `bad_list_name`, `usage` for an address, `remote_not_built`, and what `check_wanted` refuses.
pub fn check(request: &Request) -> Result<(), Fault> {
    ListName::parse(&request.list)?;
    if let Location::Address(address) = &request.input {
        check_address(address)?;
    }
    check_wanted(&request.wanted)
}

/// Refuses options that no file could make right.
///
/// # Errors
/// `usage` for a region or a character set that does not exist, and for constants that say nothing.
pub fn check_wanted(wanted: &Wanted) -> Result<(), Fault> {
    PhoneRules::new(wanted.region.as_deref(), wanted.phone_type)
        .map_err(|why| Fault::new(Code::Usage, why).hint(REGION_HINT))?;
    check_constants(&wanted.set)?;
    wanted.encoding.as_deref().map_or(Ok(()), check_encoding)
}

async fn run(
    store: &Store,
    request: &Request,
    stop: &Stop,
    events: &UnboundedSender<Event>,
    report: &mut Report,
) -> Result<(), Fault> {
    let name = ListName::parse(&request.list)?;
    name.as_str().clone_into(&mut report.list);
    entrance::check_list(store, &name, request.new_list).await?;
    let continued = entrance::continued(store, request.entry).await?;

    let spools = SpoolFolder::new(request.state_dir.join("spool"), &store.place(), name.as_str());
    let (mut opened, settings, preview) = opening::open(request, continued, spools, stop, events).await?;
    report.preview = preview;
    report.settings = Some(settings.clone());
    report.warnings.extend(opened.survey.warnings.iter().cloned());

    let (list, created) = entrance::enter_list(store, &name, request.new_list).await?;
    report.list_created = created == Created::New;
    let grid = entrance::new_grid(store.engine(), request);
    let mends = mending::origin(store, list, &opened.survey, &settings).await?;
    let mut ask = entrance::new_ask(list, &opened, settings, mends, grid, request);
    let (lease, job) = match entrance::enter(store, request, &mut ask, stop, events).await? {
        Entered::Begun(lease, job) => (lease, job),
        Entered::Replay(job) => {
            replay(report, &job);
            let listed = list_duplicates(request, opened.survey.clone(), &job, report, stop).await;
            if let Some(spool) = opened.spool {
                spool.discard();
            }
            remove_sheet(opened.survey.sheet_spool());
            return listed;
        }
    };
    report.job = Some(job.id);
    if let Some(to) = request.notify.as_ref().filter(|to| job.payload.notify.as_ref() != Some(to)) {
        store.redirect_notifications(&lease, &job.payload, to).await.map_err(StoreError::into_fault_midway)?;
    }
    report.settings = Some(job.payload.settings.clone());
    report.warnings.extend(entrance::grid_warnings(request, job.grid));

    // Whatever happens from here on, the job needs its input until it is done.
    let mut spool = opened.spool.take();
    spool.iter_mut().for_each(Spool::keep);
    let sheet = opened.survey.sheet_spool().map(PathBuf::from);
    let input = opened.survey.clone();
    let hand = Hand { store, request, job: &job, runner: Runner::Command, stop, events };
    let attempt = store.attempts(job.id).await.map_or(0, |attempts| u32::try_from(attempts.len()).unwrap_or(u32::MAX));
    let span = span_of(&job, lease.fence, attempt);
    let outcome = hand.hold(lease, opened.survey, report).instrument(span).await;
    // Before the copy of the input goes. Whatever comes of it, the job is done.
    let listed = match &outcome {
        Ok(()) => list_duplicates(request, input, &job, report, stop).await,
        Err(_) => Ok(()),
    };
    match &outcome {
        Ok(()) => {
            if let Some(spool) = spool {
                spool.discard();
            }
            remove_sheet(sheet.as_deref());
        }
        // A failed job that is run again makes the text of its sheet again, and asks a server again; standard
        // input is gone.
        Err(fault) if fault.code.exit() == Exit::Failed => {
            remove_sheet(sheet.as_deref());
            if let (Some(spool), true) = (spool, intake::can_be_had_again(&opened.source)) {
                spool.discard();
            }
        }
        Err(_) => {}
    }
    outcome.and(listed)
}

/// Tells the folded rows of a job that is done, where somebody wants to know.
async fn list_duplicates(
    request: &Request,
    survey: Survey,
    job: &JobRow,
    report: &Report,
    stop: &Stop,
) -> Result<(), Fault> {
    let Some(to) = &request.duplicates else { return Ok(()) };
    duplicates::list(survey, job, report.counts.duplicates, to, stop).await
}

/// A finished job's stored answer.
fn replay(report: &mut Report, job: &JobRow) {
    report.job = Some(job.id);
    report.replayed = true;
    report.settings = Some(job.payload.settings.clone());
    report.counts = job.result.unwrap_or_default();
    report.resumed_rows = report.counts.rows;
}

/// Removes the text of a sheet; another import of the same workbook may have done it already.
pub(crate) fn remove_sheet(sheet: Option<&Path>) {
    if let Some(path) = sheet
        && let Err(error) = std::fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "the text of the sheet stays behind");
    }
}

/// Completes a report with what the store says about the job.
async fn describe(store: &Store, report: &mut Report) {
    let Some(id) = report.job else { return };
    if let Ok(Some(job)) = store.job(id).await {
        report.state = Some(job.state);
        if let Some(result) = job.result {
            report.counts = result;
        }
        if let Some(at) = job.rejects_pruned_at.filter(|_| report.counts.rejected > 0) {
            let message = format!("the refused rows themselves were removed at {at}, as retention says");
            report.warnings.push(Warning::new(REJECTS_REMOVED, message));
        }
    }
    if let Ok(attempts) = store.attempts(id).await {
        report.attempt = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
    }
    if let Ok(reasons) = store.reason_counts(id).await {
        report.reasons = reasons;
    }
    if report.error.is_none() && report.counts.rows == 0 {
        report.warnings.push(Warning::new("no_rows", "the file holds a header and no rows"));
    }
    if report.error.is_none() && report.counts.rows > 0 && report.counts.stored() + report.counts.stale == 0 {
        report.warnings.push(Warning::new("nothing_stored", "every row was refused, so nothing was stored"));
    }
}
