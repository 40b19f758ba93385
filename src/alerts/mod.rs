//! Alerts that ring once, however many processes raise them.
//!
//! Owns the order claim, send, mark, and what happens when no claim can be had: the alert goes out. It does not
//! know where claims are kept nor who raises what. Invariant: an alert is held back only if another process has
//! the claim or this one rang it within its window; p0 is never held back.

mod claiming;
mod email;
mod hook;
mod memory;
mod outbox;
mod program;
mod sinks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::alert::{Alert, AlertKind, Rules, Severity};
use crate::claim::{ClaimKey, Claiming, Held, Term};
use crate::clock::{Timestamp, wall_clock};
use crate::crash;
use crate::holder;
use memory::Memory;

pub use claiming::Claims;
pub use outbox::{Delivered, deliver};
pub use sinks::{SinkSettings, Sinks};

/// What raises alerts in this process.
#[derive(Debug)]
pub struct Bell {
    claims: Claims,
    sinks: Sinks,
    rules: Rules,
    memory: Mutex<Memory>,
    tally: Tally,
}

/// What became of alerts in this process.
#[derive(Debug, Default)]
struct Tally {
    rung: AtomicU64,
    suppressed: AtomicU64,
    store_unavailable: AtomicU64,
}

/// Why an alert rang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No other rang it within its window.
    New,
    /// It is p0.
    P0,
    /// Nobody could say whether another rang it.
    StoreUnavailable,
}

impl Why {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::P0 => "p0",
            Self::StoreUnavailable => "store_unavailable",
        }
    }
}

/// The word for an alert that was held back.
pub const SUPPRESSED: &str = "suppressed";

/// What became of an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was sent.
    Rung(Why),
    /// Another process has it.
    HeldBack(Held),
    /// The store is away, and this process rang it before within its window.
    HeldBackHere,
}

/// No receiver took an alert; its claim was given back. Says who and why, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered(pub String);

impl Bell {
    /// A bell; nothing is connected to yet.
    pub fn new(claims: Claims, sinks: Sinks, rules: Rules) -> Self {
        Self { claims, sinks, rules, memory: Mutex::default(), tally: Tally::default() }
    }

    /// The rules by which it rings.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Where alerts go.
    pub fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// Where claims are kept.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Raises an alert of something that happened at `at`.
    ///
    /// A process that dies in here delays the alert by `CLAIM_LEASE`; one that dies after sending and before marking
    /// lets it ring once more after that.
    pub async fn ring(&self, alert: &Alert, at: Timestamp) -> Result<Outcome, Undelivered> {
        let key = ClaimKey::alert(&alert.key);
        let term = Term::Ring { severity: alert.rule.severity, window: alert.rule.window };
        let owner = holder::claim_owner();
        if alert.rule.severity == Severity::P0 {
            self.sinks.send(alert, at).await?;
            self.note(alert, Why::P0);
            self.claims.record(&key, term, &owner).await;
            return Ok(Outcome::Rung(Why::P0));
        }
        match self.claims.claim(&key, term, &owner).await {
            Claiming::New => {
                crash::point("alert::after_claim");
                if let Err(undelivered) = self.sinks.send(alert, at).await {
                    self.claims.release(&key, &owner).await;
                    return Err(undelivered);
                }
                self.note(alert, Why::New);
                self.claims.mark_sent(&key, term, &owner).await;
                Ok(Outcome::Rung(Why::New))
            }
            Claiming::Held(held) => {
                self.tally.suppressed.fetch_add(1, Ordering::Relaxed);
                Ok(Outcome::HeldBack(held))
            }
            Claiming::Unavailable(why) => {
                if self.memory().is_quiet(&alert.key, wall_clock()) {
                    self.tally.suppressed.fetch_add(1, Ordering::Relaxed);
                    return Ok(Outcome::HeldBackHere);
                }
                let place = self.claims.place();
                tracing::warn!(key = %alert.key, "claims cannot be asked ({place}: {why}); the alert goes out all the same");
                self.sinks.send(alert, at).await?;
                self.note(alert, Why::StoreUnavailable);
                self.claims.record(&key, term, &owner).await;
                Ok(Outcome::Rung(Why::StoreUnavailable))
            }
        }
    }

    /// Raises an alert of a built-in kind about `subject`, now, past the outbox.
    pub async fn ring_now(&self, kind: AlertKind, subject: &str, message: String, details: serde_json::Value) {
        let alert = Alert { key: kind.key(subject), rule: self.rules.of(kind), message, details };
        if let Err(Undelivered(why)) = self.ring(&alert, wall_clock()).await {
            tracing::error!(key = %alert.key, "an alert was not taken by anybody: {why}");
        }
    }

    /// How many alerts this process rang, held back, and rang because the store was away.
    pub fn tally(&self) -> (u64, u64, u64) {
        let Tally { rung, suppressed, store_unavailable } = &self.tally;
        (rung.load(Ordering::Relaxed), suppressed.load(Ordering::Relaxed), store_unavailable.load(Ordering::Relaxed))
    }

    fn note(&self, alert: &Alert, why: Why) {
        self.tally.rung.fetch_add(1, Ordering::Relaxed);
        if why == Why::StoreUnavailable {
            self.tally.store_unavailable.fetch_add(1, Ordering::Relaxed);
        }
        let now = wall_clock();
        self.memory().rang(&alert.key, now.plus(alert.rule.window), now);
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::alert::{AlertKey, Rule};

    fn alert(key: &str, severity: Severity, window: Duration) -> Alert {
        let rule = Rule { severity, window };
        Alert { key: AlertKey::parse(key).unwrap(), rule, message: "m".to_owned(), details: serde_json::Value::Null }
    }

    #[tokio::test]
    async fn while_claims_cannot_be_asked_a_process_rings_once_per_key_and_window_and_p0_always() {
        let bell = Bell::new(Claims::Nowhere("gone".to_owned()), Sinks::default(), Rules::default());
        let day = Duration::from_secs(24 * 3_600);
        let now = wall_clock();
        let rung = |why| Ok(Outcome::Rung(why));
        let p1 = alert("a", Severity::P1, day);
        assert_eq!(bell.ring(&p1, now).await, rung(Why::StoreUnavailable));
        assert_eq!(bell.ring(&p1, now).await, Ok(Outcome::HeldBackHere));
        assert_eq!(bell.ring(&alert("b", Severity::P2, day), now).await, rung(Why::StoreUnavailable));
        let brief = alert("c", Severity::P1, Duration::ZERO);
        for _ in 0..2 {
            assert_eq!(bell.ring(&brief, now).await, rung(Why::StoreUnavailable), "its window has ended");
            assert_eq!(bell.ring(&alert("a", Severity::P0, day), now).await, rung(Why::P0));
        }
        assert_eq!(bell.ring(&p1, now).await, Ok(Outcome::HeldBackHere));
        assert_eq!(bell.tally(), (6, 2, 4));
    }
}
