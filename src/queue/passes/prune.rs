//! Retention, as a pass: what finished jobs and passes left behind goes when it is old enough.
//!
//! Owns the time that one window may take and the ages of what nobody sets. It does not know how rows are removed.
//! Invariant: whatever is left when the time is over goes in the next window.

use std::time::Duration;

use serde_json::{Value, json};

use crate::queue::Pass;
use crate::store::{Retention, Store, StoreError};

/// About how long one run may take.
const BUDGET: Duration = Duration::from_secs(300);

const DAY: Duration = Duration::from_secs(86_400);

/// Runs of sweeps are many and say little.
const SWEEPS_KEPT: Duration = DAY;

/// Runs of other passes, and workers that are not there any more.
const TRACES_KEPT: Duration = Duration::from_secs(30 * 86_400);

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
    // Keys of `once` are forgotten here, as soon as the store can: `store.forget_keys`.
    Ok(json!({
        "jobs": pruned.jobs,
        "keys": pruned.keys,
        "rejects": pruned.rejects,
        "runs": runs,
        "workers": workers,
        "unfinished": pruned.unfinished,
    }))
}
