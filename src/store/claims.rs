//! Claims to ring an alert or to run a command in a window, in the database.
//!
//! Owns the table `alerts` and a small pool of its own, so that nobody waits behind an import. It does not know
//! what is done under a claim, nor the deadline: whoever asks drops the question. Invariant: a key is won by one
//! process, by the database's clock (rule 17); a hit that is held back is counted and never moves the end of
//! a window; only the winner, by the name it claimed under, marks or gives back.

use std::time::Duration;

use tokio::sync::Mutex;

use crate::claim::{CLAIM_DEADLINE, CLAIM_LEASE, ClaimKey, Claiming, Held, Phase, Term};
use crate::clock::Timestamp;
use crate::owner::Owner;
use crate::store::{Access, Options, Pool, Store, StoreError, Target, now, on};
use crate::window::start_of;

/// The database as a claim store. It is opened when it is first asked, and again until that succeeds.
#[derive(Debug)]
pub struct DatabaseClaims {
    target: Target,
    opened: Mutex<Option<Store>>,
}

/// $1 the key, $2 severity, $3 the window's length, $4 the state, $5 who, $6 the end of the claim, $7 the end of
/// the window, $8 when the row may go, $9 now. A row comes back when the key was free.
const CLAIM: &str = "INSERT INTO alerts (dedupe_key, severity, window_ms, state, claim_id, claim_until,
        suppress_until, forget_at, rings, first_at, last_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $4 = 'sent' THEN 1 ELSE 0 END, $9, $9)
    ON CONFLICT (dedupe_key) DO UPDATE SET severity = excluded.severity, window_ms = excluded.window_ms,
        state = excluded.state, claim_id = excluded.claim_id, claim_until = excluded.claim_until,
        suppress_until = excluded.suppress_until, forget_at = excluded.forget_at,
        rings = alerts.rings + excluded.rings, last_at = excluded.last_at
    WHERE (alerts.state = 'sent' AND alerts.suppress_until <= $9)
       OR (alerts.state = 'claimed' AND alerts.claim_until <= $9)
    RETURNING dedupe_key";

/// What was sent without asking is recorded whatever the row says.
const RECORD: &str = "INSERT INTO alerts (dedupe_key, severity, window_ms, state, claim_id, claim_until,
        suppress_until, forget_at, rings, first_at, last_at)
    VALUES ($1, $2, $3, 'sent', $4, NULL, $5, $6, 1, $7, $7)
    ON CONFLICT (dedupe_key) DO UPDATE SET severity = excluded.severity, window_ms = excluded.window_ms,
        state = 'sent', claim_id = excluded.claim_id, claim_until = NULL,
        suppress_until = excluded.suppress_until, forget_at = excluded.forget_at,
        rings = alerts.rings + 1, last_at = excluded.last_at";

const SUPPRESS: &str = "UPDATE alerts SET suppressed = suppressed + 1, last_at = $2 WHERE dedupe_key = $1
    RETURNING claim_id, state, COALESCE(claim_until, suppress_until)";

const MARK_SENT: &str = "UPDATE alerts SET state = 'sent', claim_until = NULL, suppress_until = $3, forget_at = $4,
        rings = rings + 1, last_at = $5
    WHERE dedupe_key = $1 AND claim_id = $2 AND state = 'claimed'";

const RELEASE: &str = "UPDATE alerts SET suppress_until = $3, claim_until = CASE WHEN state = 'claimed' THEN $3 END
    WHERE dedupe_key = $1 AND claim_id = $2";

/// A row is kept for twice its window, so that whoever looks can see what rang.
const FORGET_SQLITE: &str = "DELETE FROM alerts WHERE dedupe_key IN
    (SELECT dedupe_key FROM alerts WHERE forget_at <= $1 ORDER BY forget_at LIMIT 100)";
const FORGET_POSTGRES: &str = "DELETE FROM alerts WHERE dedupe_key IN
    (SELECT dedupe_key FROM alerts WHERE forget_at <= $1 ORDER BY forget_at LIMIT 100 FOR UPDATE SKIP LOCKED)";

impl DatabaseClaims {
    /// The claims in `target`; nothing is opened yet.
    pub fn new(target: Target) -> Self {
        Self { target, opened: Mutex::new(None) }
    }

    /// The database, without a password.
    pub fn place(&self) -> String {
        self.target.to_string()
    }

    /// Claims `key` for `owner`, whose name must be new. Never `Unavailable`: that is the error.
    pub async fn claim(&self, key: &ClaimKey, term: Term, owner: &Owner) -> Result<Claiming, StoreError> {
        let store = self.store().await?;
        let length = millis(term.window());
        let severity = match term {
            Term::Ring { severity, .. } => Some(severity.as_str()),
            Term::Window(_) => None,
        };
        on!(&store.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&store.pool, &mut *tx);
            let (phase, claimed_until, quiet_until) = match term {
                Term::Ring { window, .. } => (Phase::Claimed, Some(now.plus(CLAIM_LEASE)), now.plus(window)),
                Term::Window(window) => (Phase::Sent, None, start_of(now, window).plus(window)),
            };
            let won: Vec<String> = sqlx::query_scalar(CLAIM)
                .bind(key.as_str())
                .bind(severity)
                .bind(length)
                .bind(phase.as_str())
                .bind(owner.to_text())
                .bind(claimed_until)
                .bind(quiet_until)
                .bind(quiet_until.plus(term.window()))
                .bind(now)
                .fetch_all(&mut *tx)
                .await?;
            if !won.is_empty() {
                tx.commit().await?;
                return Ok(Claiming::New);
            }
            let held: Vec<(String, String, Timestamp)> =
                sqlx::query_as(SUPPRESS).bind(key.as_str()).bind(now).fetch_all(&mut *tx).await?;
            tx.commit().await?;
            let impossible = || StoreError::Corrupt("a claim is neither free nor held".to_owned());
            let (by, phase, until) = held.into_iter().next().ok_or_else(impossible)?;
            let phase = Phase::from_word(&phase).ok_or_else(impossible)?;
            Ok(Claiming::Held(Held { by: Owner::from_text(&by), phase, left: until.since(now) }))
        })
    }

    /// The alert of a claim was sent: the window begins now. `false`: the claim had passed to another.
    pub async fn mark_sent(&self, key: &ClaimKey, term: Term, owner: &Owner) -> Result<bool, StoreError> {
        let store = self.store().await?;
        let marked = on!(&store.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&store.pool, &mut *tx);
            let quiet_until = now.plus(term.window());
            let marked = sqlx::query(MARK_SENT)
                .bind(key.as_str())
                .bind(owner.to_text())
                .bind(quiet_until)
                .bind(quiet_until.plus(term.window()))
                .bind(now)
                .execute(&mut *tx)
                .await?
                .rows_affected();
            let forget = match &store.pool {
                Pool::Sqlite(_) => FORGET_SQLITE,
                Pool::Postgres(_) => FORGET_POSTGRES,
            };
            sqlx::query(forget).bind(now).execute(&mut *tx).await?;
            tx.commit().await?;
            marked
        });
        Ok(marked == 1)
    }

    /// Nothing came of a claim: the key is free again.
    pub async fn release(&self, key: &ClaimKey, owner: &Owner) -> Result<(), StoreError> {
        let store = self.store().await?;
        on!(&store.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&store.pool, &mut *tx);
            sqlx::query(RELEASE).bind(key.as_str()).bind(owner.to_text()).bind(now).execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }

    /// Something was sent without a claim: from now on its window counts for everybody.
    pub async fn record(&self, key: &ClaimKey, term: Term, owner: &Owner) -> Result<(), StoreError> {
        let store = self.store().await?;
        let severity = match term {
            Term::Ring { severity, .. } => Some(severity.as_str()),
            Term::Window(_) => None,
        };
        on!(&store.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&store.pool, &mut *tx);
            let quiet_until = now.plus(term.window());
            sqlx::query(RECORD)
                .bind(key.as_str())
                .bind(severity)
                .bind(millis(term.window()))
                .bind(owner.to_text())
                .bind(quiet_until)
                .bind(quiet_until.plus(term.window()))
                .bind(now)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        });
        Ok(())
    }

    /// Lets go of the connections; the next question opens new ones.
    pub async fn close(&self) {
        if let Some(store) = self.opened.lock().await.take() {
            store.close().await;
        }
    }

    async fn store(&self) -> Result<Store, StoreError> {
        let mut opened = self.opened.lock().await;
        if let Some(store) = &*opened {
            return Ok(store.clone());
        }
        let options = Options { max_connections: Some(2), connect_timeout: CLAIM_DEADLINE };
        let store = Store::open(&self.target, Access::Existing, &options).await?;
        *opened = Some(store.clone());
        Ok(store)
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX).max(1)
}
