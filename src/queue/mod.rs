//! Workers: running queued jobs, and the scheduled passes beside them.
//!
//! Owns the life of one worker process from its first look to its last release. It does not know command lines
//! or SQL; how one job runs is `import`. Invariant: a worker holds a job only under a lease, so one that dies,
//! hangs or is replaced costs the job nothing but time.

mod notifier;
mod outlook;
mod overdue;
mod passes;
mod ringing;
mod run;
mod scheduler;
mod service;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::alerts::Bell;
use crate::backoff::CONNECTION;
use crate::fault::{Code, Fault};
use crate::holder;
use crate::job::{JobId, QueueName};
use crate::notify::Caller;
use crate::queue::notifier::Goal;
use crate::queue::ringing::{Outages, Ringer};
use crate::queue::run::{Ended, run_one};
use crate::queue::waiting::{Hinted, stopped};
use crate::stop::Stop;
use crate::store::{Claimed, Store, StoreError};

pub use outlook::{Reason, reasons};
pub use passes::{Health, Pass, PassHealth, PassTimes, health, run_pass};

/// What a worker is asked to do.
#[derive(Debug, Clone)]
pub struct WorkRequest {
    /// From which queues, in the order in which they are looked at.
    pub queues: Vec<QueueName>,
    /// How many jobs at once. At least 1.
    pub concurrency: u16,
    /// When to end.
    pub until: Until,
    /// How long a holder may be silent. At least 1 s.
    pub lease: Duration,
    /// How long jobs in hand may take to stop after a signal.
    pub grace: Duration,
    /// Where the texts of workbooks are kept.
    pub state_dir: PathBuf,
    /// When the scheduled passes run.
    pub times: PassTimes,
    /// How receivers are told of the ends of jobs.
    pub caller: Caller,
    /// What rings.
    pub bell: Arc<Bell>,
}

/// When a worker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When a signal comes.
    Stopped,
    /// When nothing is ready, running or resting after a failure in its queues.
    Drained,
}

/// What a worker did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkReport {
    /// Jobs begun.
    pub claimed: u64,
    /// Jobs that ended done.
    pub done: u64,
    /// Jobs that failed for good.
    pub failed: u64,
    /// Attempts that failed and will be made again.
    pub retried: u64,
    /// Jobs whose file this worker did not see.
    pub unseen: u64,
    /// Jobs that a person cancelled or paused.
    pub steered: u64,
    /// Jobs handed back because the worker stopped.
    pub released: u64,
    /// Jobs that another process took over.
    pub lost: u64,
    /// Jobs still in hand when the grace was over; their leases end by themselves.
    pub abandoned: u64,
}

/// Between two looks where hints come.
const LOOK_HINTED: Duration = Duration::from_secs(1);

/// Between two looks where none come.
const LOOK_ALONE: Duration = Duration::from_millis(250);

/// How long a worker that drains waits for a database that is away.
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

/// How long the last words to the database may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// Works until it is stopped or there is nothing left.
///
/// A wish to stop ends the claiming; jobs in hand finish their batch and go back uncharged.
///
/// # Errors
/// A worker that drains gives up when the database is away for a minute.
pub async fn work(store: &Store, request: &WorkRequest, stop: &Stop) -> Result<WorkReport, Fault> {
    let owner = holder::claim_owner();
    tracing::info!(
        worker = %owner,
        queues = %join(&request.queues),
        concurrency = request.concurrency,
        "worker started"
    );
    let mut hinted = Hinted::start(store);
    let passes = scheduler::start(store, request, &owner);
    let notifier = notifier::start(store, &request.caller);
    let ringer = Ringer::start(store, &request.bell);
    let service = service::start();
    let mut worker =
        Worker { store, request, stop, hands: JoinSet::new(), stops: Vec::new(), report: WorkReport::default() };
    let mut outages = Outages::none(store, &request.bell);
    let outcome = worker.run(&mut hinted, &service, &mut outages).await;
    service.stopping();
    let drained = request.until == Until::Drained && outcome.is_ok() && stop.cause().is_none();
    let goal = if drained { Goal::Rest } else { Goal::Hands };
    let grace = request.grace;
    let rings = async { tokio::join!(ringer.end(goal, grace), outages.finish(grace)) };
    if drained {
        tokio::join!(worker.hand_back(), notifier.end(goal, grace));
        // Notifications that failed ring as well.
        rings.await;
    } else {
        tokio::join!(worker.hand_back(), notifier.end(goal, grace), rings);
    }
    passes.abort();
    if tokio::time::timeout(FAREWELL, store.worker_left(&owner)).await.is_err() {
        tracing::info!("the database was not told that this worker left");
    }
    let (rung, suppressed, store_unavailable) = request.bell.tally();
    tracing::info!(rung, suppressed, store_unavailable, "alerts of this worker");
    tracing::info!(worker = %owner, report = ?worker.report, "worker stopped");
    outcome.map(|()| worker.report)
}

struct Worker<'a> {
    store: &'a Store,
    request: &'a WorkRequest,
    stop: &'a Stop,
    hands: JoinSet<(JobId, Ended)>,
    stops: Vec<(JobId, Stop)>,
    report: WorkReport,
}

impl Worker<'_> {
    /// Claims and runs jobs until there is a reason to end.
    async fn run(
        &mut self,
        hinted: &mut Hinted,
        service: &service::Service,
        outages: &mut Outages,
    ) -> Result<(), Fault> {
        loop {
            if self.stop.cause().is_some() {
                return Ok(());
            }
            service.alive();
            let look = match self.look().await {
                Ok(Look::Drained) => return Ok(()),
                Ok(Look::Wait) => {
                    if outages.over() {
                        tracing::info!("the database is back");
                    }
                    if hinted.hears() { LOOK_HINTED } else { LOOK_ALONE }
                }
                Err(error) => {
                    let (since, failures) = outages.note(&error);
                    tracing::warn!(%error, failures, "the database does not answer");
                    if self.request.until == Until::Drained && since.worked() > DRAIN_PATIENCE {
                        return Err(error.into());
                    }
                    CONNECTION.delay(failures, fastrand::f64())
                }
            };
            // Many workers must not look at the same moment.
            let pause = look.mul_f64(0.8 + 0.4 * fastrand::f64());
            let free = self.hands.len() < usize::from(self.request.concurrency);
            tokio::select! {
                Some(joined) = self.hands.join_next() => self.note(joined.ok()),
                () = hinted.heard(), if free => {}
                () = tokio::time::sleep(pause) => {}
                () = stopped(self.stop) => {}
            }
        }
    }

    /// Fills the free hands.
    async fn look(&mut self) -> Result<Look, StoreError> {
        while self.hands.len() < usize::from(self.request.concurrency) && self.stop.cause().is_none() {
            let Some(claimed) = self.claim().await? else { break };
            self.begin(claimed);
        }
        if self.request.until == Until::Drained
            && self.hands.is_empty()
            && self.store.unfinished(&self.request.queues).await? == 0
        {
            return Ok(Look::Drained);
        }
        Ok(Look::Wait)
    }

    async fn claim(&self) -> Result<Option<Claimed>, StoreError> {
        for queue in &self.request.queues {
            let claimed = match self.store.claim(queue, &holder::claim_owner(), self.request.lease).await {
                // Somebody else was quicker, or a writer holds the file for long: the next look tells.
                Err(StoreError::Retry(_) | StoreError::Busy(_)) => None,
                outcome => outcome?,
            };
            if claimed.is_some() {
                return Ok(claimed);
            }
        }
        Ok(None)
    }

    fn begin(&mut self, claimed: Claimed) {
        self.report.claimed += 1;
        let (store, state_dir) = (self.store.clone(), self.request.state_dir.clone());
        let (job, stop) = (claimed.job.id, Stop::new());
        self.stops.push((job, stop.clone()));
        self.hands.spawn(async move { (job, run_one(&store, claimed, &state_dir, &stop).await) });
    }

    /// Counts how a job ended. `None`: its task panicked, which is a fault of ours; its lease ends by itself.
    fn note(&mut self, ended: Option<(JobId, Ended)>) {
        let Some((job, ended)) = ended else {
            tracing::error!("a job's task ended early; its lease will end by itself");
            self.report.abandoned += 1;
            return;
        };
        self.stops.retain(|(held, _)| *held != job);
        let count = match ended {
            Ended::Done => &mut self.report.done,
            Ended::Failed => &mut self.report.failed,
            Ended::Retried => &mut self.report.retried,
            Ended::Unseen => &mut self.report.unseen,
            Ended::Steered => &mut self.report.steered,
            Ended::Released => &mut self.report.released,
            Ended::Lost => &mut self.report.lost,
        };
        *count += 1;
    }

    /// Lets the jobs in hand finish their batch and go back, for as long as the grace lasts.
    async fn hand_back(&mut self) {
        let cause = self.stop.cause().unwrap_or(crate::stop::StopCause::Terminate);
        for (_, stop) in &self.stops {
            stop.request(cause);
        }
        let grace = self.request.grace;
        let all = async {
            while let Some(joined) = self.hands.join_next().await {
                let ended = joined.ok();
                self.stops.retain(|(job, _)| ended.as_ref().is_none_or(|(done, _)| done != job));
                self.note(ended);
            }
        };
        if tokio::time::timeout(grace, all).await.is_err() {
            let left: Vec<String> = self.stops.iter().map(|(job, _)| job.to_string()).collect();
            tracing::warn!(jobs = %left.join(","), "the grace is over; these jobs are left to their leases");
            self.report.abandoned += crate::run::count_of(left.len());
        }
    }
}

/// What a look at the queues found.
enum Look {
    /// There is something to wait for.
    Wait,
    /// There is nothing left.
    Drained,
}

/// The names of queues, for people.
fn join(queues: &[QueueName]) -> String {
    queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(",")
}

impl WorkReport {
    /// How the process ends: a worker that was asked to drain fails with its jobs.
    pub fn fault(&self, until: Until) -> Option<Fault> {
        if self.abandoned > 0 {
            let message = format!("{} jobs were still in hand when the grace was over", self.abandoned);
            return Some(Fault::new(Code::GraceOver, message));
        }
        match until {
            Until::Stopped => None,
            Until::Drained if self.failed > 0 => {
                Some(Fault::new(Code::JobsFailed, format!("{} of {} jobs failed", self.failed, self.claimed)))
            }
            Until::Drained if self.unseen > 0 => {
                Some(Fault::new(Code::UnseenFile, format!("{} times a file was not seen from here", self.unseen)))
            }
            Until::Drained => None,
        }
    }
}
