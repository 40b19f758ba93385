//! A job in hand: what happens between the claim and the release.
//!
//! Owns working under a lease and giving it up properly. It does not know how the lease was won. Invariant:
//! whatever happens, the job is left in a state that says what comes next, or its lease ends by itself.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use crate::clock::Stopwatch;
use crate::fault::{Code, Fault};
use crate::import::FAREWELL_PATIENCE;
use crate::import::course;
use crate::import::pass::Work;
use crate::import::preflight;
use crate::import::report::{Event, Report, Request, Warning};
use crate::import::tally::Tally;
use crate::job::{Fence, State};
use crate::source::Survey;
use crate::stop::Stop;
use crate::store::{JobError, JobRow, Lease, Session, Store, StoreError};
use crate::verdict::{Leaving, leaving, leaving_command, verdict};

/// Who works on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The command `import`: what stops it is nobody's failure.
    Command,
    /// A worker: failures are charged.
    Worker,
}

/// What every log line of a job carries.
pub(crate) fn span_of(job: &JobRow, fence: Fence, attempt: u32) -> tracing::Span {
    let (key, list) = (job.key.as_str(), job.list_name.as_str());
    tracing::info_span!("job", job = job.id.0, attempt, fence = fence.0, key, list)
}

/// A job that was claimed, and what to do it with.
#[derive(Clone, Copy)]
pub(crate) struct Hand<'a> {
    pub(crate) store: &'a Store,
    pub(crate) request: &'a Request,
    /// The job as it was claimed.
    pub(crate) job: &'a JobRow,
    pub(crate) runner: Runner,
    pub(crate) stop: &'a Stop,
    pub(crate) events: &'a UnboundedSender<Event>,
}

impl Hand<'_> {
    /// How many lanes write at once.
    pub(crate) fn writers(&self) -> u16 {
        let lanes = self.job.grid.lanes;
        self.store.writers_up_to(self.request.writers.unwrap_or(lanes)).clamp(1, lanes)
    }

    /// Works under a lease, and gives it up properly whatever happens.
    pub(crate) async fn hold(&self, lease: Lease, survey: Survey, report: &mut Report) -> Result<(), Fault> {
        let claimed = Stopwatch::start();
        let session = self.store.session(lease, &self.job.payload.settings, self.writers()).await;
        let session = session.map_err(StoreError::into_fault_midway)?;
        self.work(Arc::new(session), claimed, survey, report).await
    }

    /// The same in a session that is open already; its lease was last renewed when `renewed` began.
    pub(crate) async fn work(
        &self,
        session: Arc<Session>,
        renewed: Stopwatch,
        survey: Survey,
        report: &mut Report,
    ) -> Result<(), Fault> {
        let Self { store, request, job, stop, events, .. } = *self;
        let tally = Arc::new(Tally::new(events.clone(), survey.text_bytes));
        let before = session.committed().await.map_err(StoreError::into_fault_midway)?;
        let lanes = session.lanes().await.map_err(StoreError::into_fault_midway)?;
        let slowest = lanes.values().min().copied().filter(|at| at.byte > job.payload.settings.data_start.byte);
        tally.resume(before, slowest.map(|at| at.line));
        report.resumed_rows = before.rows;
        report.counts = before;

        if slowest.is_none() && before.rows == 0 {
            let settings = &job.payload.settings;
            let checked = preflight::check(store, job.list, request, &survey, settings).await;
            if let (Err(fault), true) = (&checked, store.is_scratch()) {
                // Whoever only looks is told that it would stop, and what it would find all the same.
                report
                    .warnings
                    .push(Warning::new(fault.code.as_str(), format!("the import would stop: {}", fault.message)));
            } else if let Err(fault) = checked {
                let fault = self.leave(&session, fault.midway()).await;
                session.close().await;
                return Err(fault);
            }
        }
        let mut work = Work {
            session,
            tally: tally.clone(),
            survey,
            settings: job.payload.settings.clone(),
            grid: job.grid,
            key: job.key.clone(),
            generation: job.generation,
            writers: self.writers(),
            mends: job.payload.mends,
            budget: request.max_rejects,
            stop: stop.clone(),
        };
        let outcome = course::to_the_end(store, &mut work, renewed).await;
        report.counts = tally.counts();
        report.this_run_rows = report.counts.rows.saturating_sub(before.rows);
        let outcome = match outcome {
            Ok(counts) => {
                report.counts = counts;
                report.this_run_rows = counts.rows.saturating_sub(before.rows);
                Ok(())
            }
            Err(fault) => Err(self.leave(&work.session, fault.midway()).await),
        };
        work.session.close().await;
        outcome
    }

    /// Gives the job up in the state that the fault leaves it in. Returns the fault to report.
    pub(crate) async fn leave(&self, session: &Session, fault: Fault) -> Fault {
        let Some(leaving) = self.leaving(fault.code) else { return superseded_or_lost(session, fault).await };
        let error = match fault.code {
            Code::Interrupted | Code::Terminated | Code::Paused => None,
            code => Some(JobError { code: code.as_str().to_owned(), message: fault.message.clone() }),
        };
        match tokio::time::timeout(FAREWELL_PATIENCE, session.leave(leaving, error.as_ref())).await {
            Ok(Ok(())) => fault,
            Ok(Err(StoreError::LeaseLost)) => superseded_or_lost(session, fault).await,
            // The lease ends by itself; the next run takes the job over at once, because this process is gone.
            // A disk that is full has no room for the hand-back either, and the fault says so already.
            Ok(Err(StoreError::DiskFull(_))) if fault.code == Code::DiskFull => fault,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the job could not be handed back");
                fault
            }
            Err(_) => fault,
        }
    }

    fn leaving(&self, code: Code) -> Option<Leaving> {
        let job = self.job;
        match self.runner {
            Runner::Command => leaving_command(code, if job.direct { State::Interrupted } else { State::Queued }),
            Runner::Worker => leaving(verdict(code), job.attempts, job.max_attempts, fastrand::f64()),
        }
    }
}

async fn superseded_or_lost(session: &Session, fault: Fault) -> Fault {
    match session.state().await {
        Ok(Some(State::Superseded)) => Fault::new(
            Code::Superseded,
            "a newer import of this file name replaced this one; nothing more was written here",
        ),
        _ => fault,
    }
}
