//! The scheduler: each pass once per window, whatever the number of workers.
//!
//! Owns when this process looks for due windows. It does not know what passes do. Invariant: no leader: every
//! worker tries, the database lets one have a window; a pass that takes long holds up no other; after the database
//! was away the sweep waits two heartbeats, so that owners renew their leases first.

use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};

use crate::clock::Stopwatch;
use crate::job::QueueName;
use crate::owner::Owner;
use crate::queue::WorkRequest;
use crate::queue::overdue::Overdue;
use crate::queue::passes::{Pass, PassTimes, run_pass};
use crate::store::{Access, Options, Schedule, Store, StoreError};

/// Between two looks, at least; long windows are looked at less often.
const LOOK: Duration = Duration::from_secs(1);

/// Between two looks, at most.
const LOOK_MOST: Duration = Duration::from_secs(30);

/// Between two signs of life of this worker.
const SEEN: Duration = Duration::from_secs(5);

/// Two heartbeats of the longest interval that holders use.
const TWO_BEATS: Duration = Duration::from_secs(4);

/// Starts looking; ends with the process or when it is aborted.
pub(crate) fn start(store: &Store, request: &WorkRequest, owner: &Owner) -> JoinHandle<()> {
    let target = store.target().clone();
    let (owner, times) = (owner.clone(), request.times.clone());
    let (queues, concurrency) = (request.queues.clone(), request.concurrency);
    tokio::spawn(async move {
        // Connections of its own: a long pass must not stand between a job and its heartbeat.
        let store = loop {
            match Store::open(&target, Access::Existing, &Options::default()).await {
                Ok(store) => break store,
                Err(error) => tracing::info!(%error, "the scheduled passes wait for the database"),
            }
            pause(LOOK).await;
        };
        let mut lines = JoinSet::new();
        for pass in Pass::ALL.iter().copied() {
            let Some(schedule) = times.schedule(pass) else { continue };
            let (store, owner, times) = (store.clone(), owner.clone(), times.clone());
            let line = Line { store, owner, pass, schedule, times, answering: Stopwatch::start(), is_known: false };
            lines.spawn(line.follow());
        }
        lines.spawn(watch_passes(store.clone(), times));
        lines.spawn(show_life(store, owner, queues, concurrency));
        // Dropped with this task, which ends every line with it.
        while lines.join_next().await.is_some() {}
    })
}

/// Many workers must not look at the same moment.
async fn pause(length: Duration) {
    tokio::time::sleep(length.mul_f64(0.7 + 0.6 * fastrand::f64())).await;
}

/// Notes again and again that this worker is there.
async fn show_life(store: Store, owner: Owner, queues: Vec<QueueName>, concurrency: u16) {
    loop {
        let rest = match store.worker_seen(&owner, &queues, concurrency).await {
            Ok(()) => SEEN,
            Err(error) => {
                tracing::info!(%error, "the scheduled passes wait for the database");
                LOOK
            }
        };
        pause(rest).await;
    }
}

/// Tells, once, of each pass that becomes overdue.
async fn watch_passes(store: Store, times: PassTimes) {
    let mut overdue = Overdue::default();
    loop {
        pause(LOOK_MOST).await;
        if let Err(error) = overdue.look(&store, &times).await {
            tracing::debug!(%error, "nobody knows whether a pass is overdue");
        }
    }
}

/// One pass, looked at again and again.
struct Line {
    store: Store,
    owner: Owner,
    pass: Pass,
    schedule: Schedule,
    times: PassTimes,
    /// Since when the database has answered without a break.
    answering: Stopwatch,
    /// Whether the database knows the schedule.
    is_known: bool,
}

impl Line {
    async fn follow(mut self) {
        let rest = (self.schedule.every / 20).clamp(LOOK, LOOK_MOST);
        loop {
            if let Err(error) = self.look().await {
                tracing::debug!(pass = self.pass.as_str(), %error, "looked in vain");
                self.answering = Stopwatch::start();
            }
            pause(rest).await;
        }
    }

    async fn look(&mut self) -> Result<(), StoreError> {
        if !self.is_known {
            self.store.ensure_schedule(&self.schedule).await?;
            self.is_known = true;
        }
        if self.pass == Pass::Sweep && self.answering.worked() < TWO_BEATS {
            // A look all the same, so that a break is noticed.
            return self.store.now().await.map(drop);
        }
        let pass = self.pass.as_str();
        let claimed = self.store.claim_windows(&self.schedule, &self.owner).await?;
        if claimed.skipped > 0 {
            tracing::info!(pass, windows = claimed.skipped, "windows went by while nobody was there");
        }
        for window in claimed.starts {
            let outcome = run_pass(&self.store, self.pass, &self.times).await;
            let noted = match &outcome {
                Ok(found) => {
                    tracing::debug!(pass, %window, %found, "the pass ran");
                    Ok(found)
                }
                Err(error) => {
                    tracing::warn!(pass, %error, "the pass failed");
                    Err(error.to_string())
                }
            };
            self.store.end_pass(pass, window, &self.owner, noted.as_deref().map_err(String::as_str)).await?;
            outcome?;
        }
        Ok(())
    }
}
