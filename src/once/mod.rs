//! A handler that may be called twice and does its work once: the words for it.
//!
//! Owns the key, the request's hash, the terms, the answers and the state machine of a key. It does not know
//! the table or the clock. Invariant: a key that is done or failed stays so until retention forgets it, and
//! answers only to the request that it was first claimed with.

mod key;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::Fence;

pub(crate) use key::{BEHIND_PREFIX, PREFIX};
pub use key::{BadKey, KEY_BYTES_MAX, OnceKey, RequestHash};
pub use state::{KeyState, Seen, TRANSITIONS, Told, after_failure, tell};

/// The longest result, in bytes of JSON.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// The longest error text that is kept, in characters.
const ERROR_CHARS_MAX: usize = 1_000;

/// Nobody is told to come back sooner.
pub(crate) const RETRY_MIN: Duration = Duration::from_secs(1);

/// Below this a lease would end before a heartbeat can be answered.
const LEASE_MIN: Duration = Duration::from_millis(200);

/// How long one attempt may be silent, and how many attempts there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// For how long a key is held without a heartbeat: so long others wait after a crash. At least 200 ms.
    pub lease: Duration,
    /// How many attempts may fail or die before the key has failed for good. At least 1.
    pub max_attempts: u32,
}

impl Default for Terms {
    /// A minute, five attempts.
    fn default() -> Self {
        Self { lease: Duration::from_secs(60), max_attempts: 5 }
    }
}

impl Terms {
    /// The same within what is allowed.
    pub(crate) fn bounded(self) -> Self {
        Self { lease: self.lease.max(LEASE_MIN), max_attempts: self.max_attempts.max(1) }
    }
}

/// What a handler holds while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The key; pass it on as the idempotency key of whatever the handler calls.
    pub key: OnceKey,
    /// Grows each time the key changes hands: a receiver that keeps the highest one it saw can refuse a
    /// handler that was overtaken.
    pub fence: Fence,
    /// Which attempt this is, from 1.
    pub number: u32,
}

/// Whether a handler that failed may run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The database wants the same transaction once more (rule 17).
    Conflict,
    /// Later it may work.
    Transient,
    /// It will never work.
    Permanent,
}

/// Why a handler failed. The text is stored and answered to every caller: no secret belongs into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerError {
    severity: Severity,
    text: String,
}

impl HandlerError {
    /// An error after which the handler may run again.
    pub fn transient(error: impl std::fmt::Display) -> Self {
        Self::new(Severity::Transient, error)
    }

    /// An error that running again does not mend.
    pub fn permanent(error: impl std::fmt::Display) -> Self {
        Self::new(Severity::Permanent, error)
    }

    /// An error of any severity. A text over 1,000 characters is cut; NUL becomes U+FFFD.
    pub fn new(severity: Severity, error: impl std::fmt::Display) -> Self {
        // PostgreSQL's jsonb cannot hold NUL.
        let plain = |c| if c == '\0' { '\u{FFFD}' } else { c };
        Self { severity, text: error.to_string().chars().take(ERROR_CHARS_MAX).map(plain).collect() }
    }

    /// Whether it may run again.
    pub fn severity(&self) -> Severity {
        self.severity
    }
}

impl std::fmt::Display for HandlerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for HandlerError {}

/// Why a key has failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The handler said so.
    Permanent,
    /// As many attempts as were allowed failed or died.
    Exhausted,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only `Done` says that the work is done"]
pub enum Once<T> {
    /// The work is done.
    Done {
        /// What the handler gave.
        value: T,
        /// Whether an earlier call did it.
        replayed: bool,
    },
    /// Another call is at it.
    Running {
        /// When to ask again: at least a second, or what is left of that call's lease.
        retry_after: Duration,
    },
    /// The handler failed in passing; the next call runs it again.
    Pending {
        /// What the handler said.
        error: String,
        /// When to ask again: longer after each attempt, with jitter.
        retry_after: Duration,
    },
    /// The key was first used for another request; nothing ran.
    KeyReused,
    /// It failed for good. Stored: later calls are told the same without running anything.
    Failed {
        /// What the handler said last, or that its process died.
        error: String,
        /// Why it does not run again.
        why: Why,
    },
    /// The key was taken from this call while its handler ran. The handler's result was thrown away, and
    /// nobody has finished the work yet.
    Lost {
        /// When to ask again.
        retry_after: Duration,
    },
}

/// Why a result cannot be kept: `None` when it can.
pub fn unkeepable(result: &Value) -> Option<String> {
    if holds_nul(result) {
        return Some("the handler's result holds a NUL character, which PostgreSQL cannot keep".to_owned());
    }
    let bytes = result.to_string().len();
    (bytes > RESULT_BYTES_MAX)
        .then(|| format!("the handler's result has {bytes} bytes of JSON, {RESULT_BYTES_MAX} are allowed"))
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(elements) => elements.iter().any(holds_nul),
        Value::Object(members) => members.iter().any(|(key, member)| key.contains('\0') || holds_nul(member)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
