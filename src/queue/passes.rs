//! The scheduled passes: what each does, and when it is due unless somebody says otherwise.
//!
//! Owns the list of passes. It does not know who claimed the window. Invariant: every pass can be run by hand at
//! any moment, twice at once, and killed anywhere; the next one makes up for it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::holder;
use crate::store::{Schedule, Store, StoreError};
use crate::window::CatchUp;

/// A pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Takes jobs from holders that died.
    Sweep,
}

/// When the passes run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassTimes {
    /// Between two sweeps.
    pub sweep: Duration,
}

impl Default for PassTimes {
    fn default() -> Self {
        Self { sweep: Duration::from_secs(10) }
    }
}

/// How long a lease must have ended before a job is taken: a commit may be on its way.
const SWEEP_GRACE: Duration = Duration::from_secs(5);

impl Pass {
    /// Every pass, in the order in which a worker looks at them.
    pub const ALL: &[Self] = &[Self::Sweep];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
        }
    }
}

impl PassTimes {
    /// When a pass is due; `None` where it is turned off.
    pub fn schedule(&self, pass: Pass) -> Option<Schedule> {
        let (every, catch_up) = match pass {
            Pass::Sweep => (self.sweep, CatchUp::Latest),
        };
        (!every.is_zero()).then(|| Schedule { name: pass.as_str().to_owned(), every, catch_up })
    }
}

/// Runs a pass once, now. The answer says what it found or removed.
pub async fn run_pass(store: &Store, pass: Pass, _times: &PassTimes) -> Result<Value, StoreError> {
    match pass {
        Pass::Sweep => {
            let swept = store.sweep(SWEEP_GRACE, &holder::is_gone).await?;
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
            Ok(json!({ "jobs": swept.iter().map(|job| job.job.0).collect::<Vec<_>>() }))
        }
    }
}
