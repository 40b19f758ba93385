//! Running a job that a worker claimed.
//!
//! Owns opening the job's input again while its heart beats. It does not know queues. Invariant: the lease is
//! renewed from the claim on, also during the pass that takes the fingerprint; an input with another
//! fingerprint than the job's writes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::clock::Stopwatch;
use crate::fault::{Code, Fault};
use crate::import::entrance::Opened;
use crate::import::held::{Hand, Runner, span_of};
use crate::import::pulse::{PulseEnd, beat_while_held};
use crate::import::report::{Entry, Event, Expected, NewList, Report, Request, Wait};
use crate::import::tally::Tally;
use crate::import::{conclude, forward, opening, remove_sheet};
use crate::location::Location;
use crate::settings::{Settings, Wanted};
use crate::source::SpoolFolder;
use crate::stop::Stop;
use crate::store::{Claimed, JobRow, Session, Store, StoreError};

/// What every log line of a claimed job carries.
pub fn span(claimed: &Claimed) -> tracing::Span {
    span_of(&claimed.job, claimed.lease.fence, claimed.attempt)
}

/// Runs a claimed job to its end, or leaves it in the state that says what comes next.
///
/// `state_dir` is where the texts of workbooks are kept while the job runs. Killed at any point, the job's lease
/// ends, and whoever claims it next goes on from the last commit.
pub async fn run_claimed(
    store: &Store,
    claimed: &Claimed,
    state_dir: &Path,
    stop: &Stop,
    on_event: &(dyn Fn(Event) + Send + Sync),
) -> Report {
    let watch = Stopwatch::start();
    let job = &claimed.job;
    let request = request_of(job, claimed.lease.duration, state_dir.to_owned());
    let mut report = Report::new(&job.list_name);
    report.job = Some(job.id);
    report.settings = Some(job.payload.settings.clone());
    let (events, mut incoming) = unbounded_channel();
    let outcome = {
        let hand = Hand { store, request: &request, job, runner: Runner::Worker, stop, events: &events };
        let work = run(hand, claimed, watch, &events, &mut report);
        forward(work, &mut incoming, on_event).await
    };
    conclude(store, report, outcome, watch).await
}

async fn run(
    hand: Hand<'_>,
    claimed: &Claimed,
    since: Stopwatch,
    events: &UnboundedSender<Event>,
    report: &mut Report,
) -> Result<(), Fault> {
    let settings = &hand.job.payload.settings;
    let session = hand.store.session(claimed.lease.clone(), settings, hand.writers()).await;
    let session = Arc::new(session.map_err(StoreError::into_fault_midway)?);
    let opened = match open(hand, &session, since, events).await {
        Ok(opened) => opened,
        Err(fault) => {
            let fault = hand.leave(&session, unseen(fault, hand.job)).await;
            session.close().await;
            return Err(fault);
        }
    };
    report.warnings.extend(opened.survey.warnings.iter().cloned());
    let sheet = opened.survey.sheet_spool().map(PathBuf::from);
    // An answer tells that the lease is good from here on; without one the first look of the work finds out.
    let asked = Stopwatch::start();
    let renewed = if session.beat(&report.counts).await.is_ok() { asked } else { since };
    let outcome = hand.work(session, renewed, opened.survey, report).await;
    remove_sheet(sheet.as_deref());
    // Whoever runs the job next asks for its input again.
    if let Some(spool) = opened.spool {
        spool.discard();
    }
    outcome
}

/// Opens the input and takes its fingerprint while the heart beats.
async fn open(
    hand: Hand<'_>,
    session: &Arc<Session>,
    since: Stopwatch,
    events: &UnboundedSender<Event>,
) -> Result<Opened, Fault> {
    let job = hand.job;
    let spools = SpoolFolder::new(hand.request.state_dir.join("spool"), &hand.store.place(), &job.list_name);
    let opening = opening::open(hand.request, Some(job.clone()), spools, hand.stop, events);
    let tally = Arc::new(Tally::new(events.clone(), None));
    tally.resume(hand.store.committed(job.id).await.map_err(StoreError::into_fault_midway)?, None);
    let mut pulse = std::pin::pin!(beat_while_held(session.clone(), tally, hand.stop.clone(), since));
    let mut opening = std::pin::pin!(opening);
    let opened = tokio::select! {
        opened = &mut opening => opened,
        end = &mut pulse => match end {
            PulseEnd::Lost => return Err(Fault::new(Code::LeaseLost, "another process took this job over")),
            // Nobody knows who holds it. Reading harms nobody; the first heartbeat of the work will tell.
            PulseEnd::Unrenewed(_) => opening.await,
        },
    };
    opened.map(|(opened, _, _): (Opened, Settings, _)| opened)
}

/// Says where the file was missing: another worker may see it.
fn unseen(fault: Fault, job: &JobRow) -> Fault {
    if fault.code != Code::NotFound {
        return fault;
    }
    let source = &job.payload.source;
    if let Location::Address(_) = Location::of(Path::new(source)) {
        // An address means the same everywhere, and the file was there when the job was queued.
        return Fault::new(Code::FileChanged, format!("'{source}' is gone from its server"));
    }
    let owner = job.owner.as_deref().map(crate::owner::Owner::from_text);
    let here = owner.map_or_else(|| "this worker".to_owned(), |owner| owner.to_string());
    Fault::new(Code::NotFound, format!("{here} does not see the file '{source}'"))
        .hint("enqueue a path that every worker sees, or run the worker where the file is")
}

/// The request that a job amounts to: its settings are frozen, so the options say nothing.
fn request_of(job: &JobRow, lease: Duration, state_dir: PathBuf) -> Request {
    Request {
        input: Location::of(Path::new(&job.payload.source)),
        list: job.list_name.clone(),
        new_list: NewList::Refuse,
        wanted: Wanted::default(),
        batch_rows: None,
        writers: job.payload.limits.writers,
        max_rejects: job.payload.limits.max_rejects,
        expected: Expected::default(),
        max_changes: job.payload.limits.max_changes,
        duplicates: None,
        preview: 0,
        entry: Entry::Continue(job.id),
        wait: Wait::No,
        lease,
        state_dir,
        notify: None,
    }
}
