//! The scheduled passes: which there are, and when each is due unless somebody says otherwise.
//!
//! Owns the list of passes; what each does stands in a file of its own. It does not know who claimed the window.
//! Invariant: every pass can be run by hand at any moment, twice at once, and killed anywhere; the next one makes
//! up for it.

mod audit;
mod health;
mod prune;
mod reconcile;
mod sweep;

use std::time::Duration;

use serde_json::Value;

use crate::store::{Retention, Schedule, Store, StoreError};
use crate::window::CatchUp;

pub use health::{Health, PassHealth, health};

/// A pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Takes jobs from holders that died.
    Sweep,
    /// Puts the stated number of recipients of each list right.
    Reconcile,
    /// Removes what finished jobs left behind long ago.
    Prune,
    /// Looks for what should be impossible.
    Audit,
}

/// When the passes run, and how old must be what they remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassTimes {
    /// Between two sweeps; like the others, zero turns it off.
    pub sweep: Duration,
    /// Between two counts of the lists.
    pub reconcile: Duration,
    /// Between two removals.
    pub prune: Duration,
    /// Between two audits.
    pub audit: Duration,
    /// How long things are kept.
    pub retention: Retention,
}

/// A day.
const DAY: Duration = Duration::from_secs(86_400);

impl Default for PassTimes {
    fn default() -> Self {
        Self {
            sweep: Duration::from_secs(10),
            reconcile: Duration::from_secs(120),
            prune: Duration::from_secs(3_600),
            audit: DAY,
            retention: Retention { keys: Some(30 * DAY), rejects: Some(90 * DAY), jobs: Some(400 * DAY) },
        }
    }
}

impl Pass {
    /// Every pass, in the order in which they are named.
    pub const ALL: &[Self] = &[Self::Sweep, Self::Reconcile, Self::Prune, Self::Audit];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Reconcile => "reconcile",
            Self::Prune => "prune",
            Self::Audit => "audit",
        }
    }
}

impl PassTimes {
    /// When a pass is due; `None` where it is turned off. Each looks at everything there is, so one that runs late
    /// makes up for all that were missed.
    pub fn schedule(&self, pass: Pass) -> Option<Schedule> {
        let every = match pass {
            Pass::Sweep => self.sweep,
            Pass::Reconcile => self.reconcile,
            Pass::Prune => self.prune,
            Pass::Audit => self.audit,
        };
        (!every.is_zero()).then(|| Schedule { name: pass.as_str().to_owned(), every, catch_up: CatchUp::Latest })
    }
}

/// Runs a pass once, now. The answer is a flat object that says what it found or removed.
pub async fn run_pass(store: &Store, pass: Pass, times: &PassTimes) -> Result<Value, StoreError> {
    match pass {
        Pass::Sweep => sweep::run(store).await,
        Pass::Reconcile => reconcile::run(store).await,
        Pass::Prune => prune::run(store, &times.retention).await,
        Pass::Audit => audit::run(store).await,
    }
}
