//! Reconciling, as a pass: what lists state about their size is put right.
//!
//! Owns the time that one window may take and what is told. It does not know how lists are counted. Invariant: a
//! drift is told in the log and kept with the run, so that its cause can be looked for.

use std::time::Duration;

use serde_json::{Value, json};

use crate::store::{Store, StoreError};

/// After so long no further list is begun; those that were left are first in the next window.
const BUDGET: Duration = Duration::from_secs(10);

/// Drifts that are kept with the run; the log has them all.
const TOLD: usize = 100;

/// Counts once.
pub(super) async fn run(store: &Store) -> Result<Value, StoreError> {
    let reconciled = store.reconcile(BUDGET).await?;
    for drift in &reconciled.drifts {
        tracing::info!(
            list = %drift.name,
            stated = drift.stated,
            counted = drift.counted,
            "the stated number of recipients was put right"
        );
    }
    let drifts: Vec<Value> = reconciled
        .drifts
        .iter()
        .take(TOLD)
        .map(|drift| json!({ "list": drift.name, "stated": drift.stated, "counted": drift.counted }))
        .collect();
    Ok(json!({
        "lists": reconciled.counted,
        "busy": reconciled.busy,
        "left": reconciled.left,
        "drifted": reconciled.drifts.len(),
        "drifts": drifts,
    }))
}
