//! Ringing what the outbox holds.
//!
//! Owns the order take, ring, mark. It does not know when that is due. Invariant: a row is done only when its
//! alert rang or another rang it; a row whose alert another process is just sending comes back when that claim
//! has ended, so a sender that dies swallows nothing.

use std::time::Duration;

use crate::alert::{Alert, AlertKind};
use crate::alerts::{Bell, Outcome, SUPPRESSED, Undelivered};
use crate::backoff::Backoff;
use crate::claim::{CLAIM_LEASE, Phase};
use crate::holder;
use crate::store::{OutboxRow, Scope, Store, StoreError};

/// What one look at the outbox came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Alerts that rang.
    pub rung: u64,
    /// Alerts that somebody rang before.
    pub suppressed: u64,
    /// Alerts that are tried again later.
    pub put_back: u64,
}

/// Between tries of an alert that no receiver takes.
const UNTAKEN: Backoff = Backoff { first: Duration::from_secs(5), most: Duration::from_secs(300) };

/// Rings what is due, one after the other, until nothing is or `go_on` says no.
///
/// # Errors
/// Those of the store; a row in hand comes back when its lease ends.
pub async fn deliver(
    store: &Store,
    bell: &Bell,
    scope: Scope,
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Delivered, StoreError> {
    let mut total = Delivered::default();
    while go_on() {
        let owner = holder::claim_owner();
        // As long as the claim: asking, sending and marking fit into it.
        let Some(row) = store.take_alert(scope, &owner, CLAIM_LEASE).await? else { return Ok(total) };
        match ring(bell, &row).await {
            Next::Done(outcome) => {
                store.alert_delivered(&row, &owner, outcome).await?;
                if outcome == SUPPRESSED {
                    total.suppressed += 1;
                } else {
                    total.rung += 1;
                }
            }
            Next::Later(rest, why) => {
                store.alert_put_back(&row, &owner, rest, &why).await?;
                total.put_back += 1;
            }
        }
    }
    Ok(total)
}

/// What becomes of a row.
enum Next {
    /// It is done, with this word.
    Done(&'static str),
    /// It is tried again.
    Later(Duration, String),
}

async fn ring(bell: &Bell, row: &OutboxRow) -> Next {
    // A newer program's alert is rung as one of no kind in particular, rather than not at all.
    let rule = bell.rules().of(row.kind.unwrap_or(AlertKind::JobFailed));
    let alert = Alert { key: row.key.clone(), rule, message: row.message.clone(), details: row.details.clone() };
    match bell.ring(&alert, row.created_at).await {
        Ok(Outcome::Rung(why)) => Next::Done(why.as_str()),
        Ok(Outcome::HeldBackHere) => Next::Done(SUPPRESSED),
        Ok(Outcome::HeldBack(held)) if held.phase == Phase::Sent => Next::Done(SUPPRESSED),
        Ok(Outcome::HeldBack(held)) => {
            Next::Later(held.left + Duration::from_millis(100), format!("{} is sending it", held.by))
        }
        Err(Undelivered(why)) => {
            tracing::warn!(key = %alert.key, attempts = row.attempts, "an alert was not taken by anybody: {why}");
            Next::Later(UNTAKEN.delay(row.attempts, fastrand::f64()), why)
        }
    }
}
