//! Ringing from a worker: what the outbox holds, and a database that is away.
//!
//! Owns when this process looks at the outbox, and its last look before it ends. It does not know what rings.
//! Invariant: an outage rings once per process; what a worker's own jobs left to be rung is rung before it ends,
//! unless receivers hang.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::alert::AlertKind;
use crate::alerts::{Bell, deliver};
use crate::clock::Stopwatch;
use crate::queue::notifier::Goal;
use crate::store::{Access, Options, Scope, Store, StoreError, Target};

/// Between two looks at the outbox.
const LOOK: Duration = Duration::from_secs(1);

/// How long a worker that drains goes on ringing what is due.
const FLUSH: Duration = Duration::from_secs(10);

/// The task that rings what the outbox holds.
pub(crate) struct Ringer {
    goal: watch::Sender<Goal>,
    task: JoinHandle<()>,
}

impl Ringer {
    /// Starts looking.
    pub(crate) fn start(store: &Store, bell: &Arc<Bell>) -> Self {
        let (goal, mut goals) = watch::channel(Goal::Everything);
        let (target, bell) = (store.target().clone(), bell.clone());
        let task = tokio::spawn(async move {
            let mut own: Option<Store> = None;
            loop {
                let goal = *goals.borrow_and_update();
                if goal == Goal::Hands {
                    return;
                }
                if let Err(error) = look(&mut own, &target, &bell, &goals).await {
                    tracing::info!(%error, "alerts in the outbox wait for the database");
                    own = None;
                }
                if goal == Goal::Rest {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK.mul_f64(0.7 + 0.6 * fastrand::f64())) => {}
                    _ = goals.changed() => {}
                }
            }
        });
        Self { goal, task }
    }

    /// Ends with what `goal` asks for: what is due is rung for `FLUSH` at most; the alert that is being sent has
    /// `grace`, because cut off it might ring twice.
    pub(crate) async fn end(mut self, goal: Goal, grace: Duration) {
        self.goal.send_replace(goal);
        if goal == Goal::Rest && tokio::time::timeout(FLUSH, &mut self.task).await.is_ok() {
            return;
        }
        self.goal.send_replace(Goal::Hands);
        if tokio::time::timeout(grace, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the grace is over; the alert that is being sent is left to its claim");
        }
    }
}

/// Connections of its own: receivers that are slow must not hold up anything else.
async fn look(
    own: &mut Option<Store>,
    target: &Target,
    bell: &Bell,
    goals: &watch::Receiver<Goal>,
) -> Result<(), StoreError> {
    let store = match own {
        Some(store) => store,
        None => {
            let options = Options { max_connections: Some(2), ..Options::default() };
            own.insert(Store::open(target, Access::Existing, &options).await?)
        }
    };
    let delivered = deliver(store, bell, Scope::All, &|| *goals.borrow() != Goal::Hands).await?;
    if delivered.put_back > 0 {
        tracing::info!(?delivered, "alerts are tried again later");
    }
    Ok(())
}

/// The outages of a worker's database.
pub(crate) struct Outages {
    bell: Arc<Bell>,
    place: String,
    away: Option<Away>,
    ringing: JoinSet<()>,
}

/// One outage.
struct Away {
    since: Stopwatch,
    failures: u32,
    rang: bool,
}

impl Outages {
    /// None so far.
    pub(crate) fn none(store: &Store, bell: &Arc<Bell>) -> Self {
        Self { bell: bell.clone(), place: store.place(), away: None, ringing: JoinSet::new() }
    }

    /// The database answered. Whether it had been away.
    pub(crate) fn over(&mut self) -> bool {
        self.away.take().is_some()
    }

    /// The database did not answer: since when, and how often by now. Rings once per outage.
    pub(crate) fn note(&mut self, error: &StoreError) -> (Stopwatch, u32) {
        let away = self.away.get_or_insert_with(|| Away { since: Stopwatch::start(), failures: 0, rang: false });
        away.failures += 1;
        let gone = away.since.worked();
        if !away.rang && gone >= self.bell.rules().away {
            away.rang = true;
            let message = format!("a worker has not reached its database for {} s: {error}", gone.as_secs());
            let (bell, place) = (self.bell.clone(), self.place.clone());
            let details = json!({ "database": place, "seconds": gone.as_secs() });
            self.ringing.spawn(async move {
                bell.ring_now(AlertKind::DatabaseUnreachable, &place, message, details).await;
            });
        }
        (away.since, away.failures)
    }

    /// Waits for what is being sent, as long as the grace lasts.
    pub(crate) async fn finish(mut self, grace: Duration) {
        let all = async { while self.ringing.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(grace, all).await;
    }
}
