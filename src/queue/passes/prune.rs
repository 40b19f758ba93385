//! Retention, as a pass: what finished jobs and passes left behind goes when it is old enough.
//!
//! Owns the time that one window may take and the ages of what nobody sets. It does not know how rows are removed.
//! Invariant: whatever is left when the time is over goes in the next window.

use std::time::Duration;

use serde_json::{Value, json};

use crate::clock::Timestamp;
use crate::queue::Pass;
use crate::store::{Retention, Store, StoreError};

/// About how long one run may take.
const BUDGET: Duration = Duration::from_secs(300);

const DAY: Duration = Duration::from_secs(86_400);

/// Runs of sweeps are many and say little.
const SWEEPS_KEPT: Duration = DAY;

/// Runs of other passes, and workers that are not there any more.
const TRACES_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// Rows of one transaction.
const AT_ONCE: u32 = 1_000;

/// Removes once.
pub(super) async fn run(store: &Store, retention: &Retention) -> Result<Value, StoreError> {
    let pruned = store.prune(retention, BUDGET).await?;
    let now = store.now().await?;
    let mut runs = 0;
    for pass in Pass::ALL {
        let kept = if *pass == Pass::Sweep { SWEEPS_KEPT } else { TRACES_KEPT };
        runs += store.forget_pass_runs(pass.as_str(), now.minus(kept)).await?;
    }
    let workers = store.forget_workers(now.minus(TRACES_KEPT)).await?;
    let (mut answers, mut notifications) = (0, 0);
    if let Some(age) = retention.jobs {
        // The answers of `once` are kept as long as the results of jobs.
        answers = store.forget_keys(age).await?;
        notifications = forget_notifications(store, now.minus(age)).await?;
    }
    Ok(json!({
        "jobs": pruned.jobs,
        "keys": pruned.keys,
        "rejects": pruned.rejects,
        "answers": answers,
        "notifications": notifications,
        "runs": runs,
        "workers": workers,
        "unfinished": pruned.unfinished,
    }))
}

/// Forgets notifications that ended before `before`, a thousand at a time.
async fn forget_notifications(store: &Store, before: Timestamp) -> Result<u64, StoreError> {
    let mut gone = 0;
    loop {
        let some = store.forget_notifications(before, AT_ONCE).await?;
        gone += some;
        if some < u64::from(AT_ONCE) {
            return Ok(gone);
        }
    }
}
