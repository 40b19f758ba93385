//! Sending the notifications that are due, beside the jobs.
//!
//! Owns when this process looks for them and how many it has in hand. How one is delivered is `delivery`'s.
//! Invariant: no leader: every worker looks, the database lets one have a notification; a receiver that hangs keeps
//! no job waiting.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::delivery::{InHand, claim, deliver};
use crate::holder;
use crate::notification::Stage;
use crate::notify::Caller;
use crate::store::{Access, Options, Store, StoreError, Target};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// Notifications in hand at once: one receiver that hangs must not keep the others from theirs.
const HANDS: usize = 4;

/// How long a worker that drains goes on sending what is due.
const FLUSH: Duration = Duration::from_secs(10);

/// What is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Whatever becomes due.
    Everything,
    /// What is due now, then the end.
    Rest,
    /// What is in hand, then the end.
    Hands,
}

/// The sender of one worker.
pub(crate) struct Notifier {
    goal: watch::Sender<Goal>,
    task: JoinHandle<()>,
}

/// Starts sending.
pub(crate) fn start(store: &Store, caller: &Caller) -> Notifier {
    let (goal, goals) = watch::channel(Goal::Everything);
    let (target, caller) = (store.target().clone(), caller.clone());
    Notifier { goal, task: tokio::spawn(async move { send(&target, &caller, goals).await }) }
}

impl Notifier {
    /// Ends with what `goal` asks for: what is due is begun for `FLUSH` at most, and what is in hand has `grace`.
    pub(crate) async fn end(mut self, goal: Goal, grace: Duration) {
        self.goal.send_replace(goal);
        if goal == Goal::Rest && tokio::time::timeout(FLUSH, &mut self.task).await.is_ok() {
            return;
        }
        self.goal.send_replace(Goal::Hands);
        if tokio::time::timeout(grace, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::warn!("the grace is over; notifications in hand are left to their leases");
        }
    }
}

async fn send(target: &Target, caller: &Caller, mut goals: watch::Receiver<Goal>) {
    // Connections of its own: a receiver that hangs must not stand between a job and its heartbeat.
    let options = Options { max_connections: Some(2), ..Options::default() };
    let mut own: Option<Store> = None;
    let mut hands: JoinSet<Option<Stage>> = JoinSet::new();
    loop {
        let goal = *goals.borrow_and_update();
        let found = match (&own, goal) {
            (_, Goal::Hands) => Ok(Vec::new()),
            (Some(store), _) => look(store, caller, HANDS - hands.len()).await,
            (None, _) => match Store::open(target, Access::Existing, &options).await {
                Ok(store) => {
                    let found = look(&store, caller, HANDS - hands.len()).await;
                    own = Some(store);
                    found
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = &found {
            tracing::info!(%error, "the notifications wait for the database");
        }
        let found = found.unwrap_or_default();
        let idle = found.is_empty();
        if let Some(store) = &own {
            for hand in found {
                let (store, caller) = (store.clone(), caller.clone());
                hands.spawn(async move { deliver(&store, &caller, hand).await });
            }
        }
        if goal != Goal::Everything && idle && hands.is_empty() {
            return;
        }
        let pause = LOOK.mul_f64(0.7 + 0.6 * fastrand::f64());
        tokio::select! {
            Some(_) = hands.join_next() => {}
            () = tokio::time::sleep(pause) => {}
            Ok(()) = goals.changed() => {}
        }
    }
}

/// Claims what is due, at most `free`.
async fn look(store: &Store, caller: &Caller, free: usize) -> Result<Vec<InHand>, StoreError> {
    let mut found = Vec::new();
    if free == HANDS {
        store.free_notifications(&holder::is_gone).await?;
    }
    while found.len() < free {
        match claim(store, caller, None).await {
            Ok(Some(hand)) => found.push(hand),
            Ok(None) => break,
            // What was claimed is delivered all the same.
            Err(error) if found.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(found)
}
