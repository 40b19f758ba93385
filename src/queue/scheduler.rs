//! The scheduler: each pass once per window, whatever the number of workers.
//!
//! Owns when this process looks for due windows. It does not know what passes do. Invariant: no leader: every
//! worker tries, the database lets one have a window; after the database was away the sweep waits two
//! heartbeats, so that owners renew their leases first.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::clock::Stopwatch;
use crate::job::QueueName;
use crate::owner::Owner;
use crate::queue::WorkRequest;
use crate::queue::overdue::Overdue;
use crate::queue::passes::{Pass, PassTimes, run_pass};
use crate::store::{Access, Options, Store, StoreError};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Between two signs of life of this worker.
const SEEN: Duration = Duration::from_secs(5);

/// Two heartbeats of the longest interval that holders use.
const TWO_BEATS: Duration = Duration::from_secs(4);

/// What the scheduler of one worker goes by.
struct Scheduler {
    owner: Owner,
    queues: Vec<QueueName>,
    concurrency: u16,
    times: PassTimes,
    /// Since when the database has answered without a break.
    answering: Stopwatch,
    seen: Option<Stopwatch>,
    known: Vec<Pass>,
    overdue: Overdue,
}

/// Starts looking; ends with the process or when it is aborted.
pub(crate) fn start(store: &Store, request: &WorkRequest, owner: &Owner) -> JoinHandle<()> {
    let mut scheduler = Scheduler {
        owner: owner.clone(),
        queues: request.queues.clone(),
        concurrency: request.concurrency,
        times: request.times.clone(),
        answering: Stopwatch::start(),
        seen: None,
        known: Vec::new(),
        overdue: Overdue::default(),
    };
    let target = store.target().clone();
    tokio::spawn(async move {
        let mut own: Option<Store> = None;
        loop {
            // Connections of its own: a long pass must not stand between a job and its heartbeat.
            let outcome = match &own {
                Some(store) => scheduler.look(store).await,
                None => match Store::open(&target, Access::Existing, &Options::default()).await {
                    Ok(store) => {
                        let outcome = scheduler.look(&store).await;
                        own = Some(store);
                        outcome
                    }
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = outcome {
                tracing::info!(%error, "the scheduled passes wait for the database");
                scheduler.answering = Stopwatch::start();
            }
            tokio::time::sleep(LOOK.mul_f64(0.7 + 0.6 * fastrand::f64())).await;
        }
    })
}

impl Scheduler {
    async fn look(&mut self, store: &Store) -> Result<(), StoreError> {
        let known: Vec<&str> = self.known.iter().map(|pass| pass.as_str()).collect();
        self.overdue.look(store, &known).await?;
        if self.seen.is_none_or(|seen| seen.worked() >= SEEN) {
            store.worker_seen(&self.owner, &self.queues, self.concurrency).await?;
            self.seen = Some(Stopwatch::start());
        }
        for pass in Pass::ALL.iter().copied() {
            let Some(schedule) = self.times.schedule(pass) else { continue };
            if !self.known.contains(&pass) {
                store.ensure_schedule(&schedule).await?;
                self.known.push(pass);
            }
            if pass == Pass::Sweep && self.answering.worked() < TWO_BEATS {
                continue;
            }
            let claimed = store.claim_windows(&schedule, &self.owner).await?;
            if claimed.skipped > 0 {
                tracing::info!(
                    pass = pass.as_str(),
                    windows = claimed.skipped,
                    "windows went by while nobody was there"
                );
            }
            for window in claimed.starts {
                let outcome = run_pass(store, pass, &self.times).await;
                let noted = match &outcome {
                    Ok(found) => Ok(found),
                    Err(error) => {
                        tracing::warn!(pass = pass.as_str(), %error, "the pass failed");
                        Err(error.to_string())
                    }
                };
                store.end_pass(pass.as_str(), window, &self.owner, noted.as_deref().map_err(String::as_str)).await?;
                outcome?;
            }
        }
        Ok(())
    }
}
