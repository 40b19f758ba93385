//! The sweep, as a pass: jobs go back from holders that died.
//!
//! Owns the grace and what is told of a sweep. It does not know how a job is taken. Invariant: a job that was taken
//! is told in the log, for somebody's process died or hangs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::holder;
use crate::store::{Store, StoreError};

/// How long a lease must have ended before a job is taken: a commit may be on its way.
const GRACE: Duration = Duration::from_secs(5);

/// Sweeps once.
pub(super) async fn run(store: &Store) -> Result<Value, StoreError> {
    let swept = store.sweep(GRACE, &holder::is_gone).await?;
    for job in &swept {
        tracing::warn!(
            job = job.job.0,
            state = %job.state,
            attempts = job.attempts,
            rescues = job.rescues,
            holder = %job.holder,
            "took a job from a holder that died or hangs"
        );
    }
    let keys = store.reset_dead_keys(GRACE).await?;
    Ok(json!({ "keys": keys.pending + keys.failed, "jobs": swept.iter().map(|job| job.job.0).collect::<Vec<_>>() }))
}
