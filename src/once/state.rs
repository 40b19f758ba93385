//! Where a key stands and where it may go.
//!
//! Owns the state machine and the decisions over it. It does not know the table or the clock: what is left of
//! a lease is passed in. Invariant: a key that is done or failed has no edge that leads away.

use std::time::Duration;

use serde_json::Value;

use crate::once::{RETRY_MIN, RequestHash, Severity, Why};

/// Declares the states with the word each is stored under.
macro_rules! states {
    ($($(#[$doc:meta])* $variant:ident $word:literal;)*) => {
        /// Where a key stands. A key that was never used is not there at all.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum KeyState {
            $($(#[$doc])* $variant,)*
        }

        impl KeyState {
            /// Every state.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stored word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The state with this word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

states! {
    /// Held under a lease.
    Running "running";
    /// Given back; the next call runs the handler again.
    Pending "pending";
    /// Done, with its result.
    Done "done";
    /// Failed for good, with the error.
    Failed "failed";
}

/// Every edge of the state machine. The store's statements name the same source states.
pub const TRANSITIONS: &[(KeyState, KeyState)] = &[
    // The handler's result is kept.
    (KeyState::Running, KeyState::Done),
    // A permanent error, the last attempt allowed, or the last one died.
    (KeyState::Running, KeyState::Failed),
    // A transient error, or the sweeper found its lease ended: one attempt more is charged.
    (KeyState::Running, KeyState::Pending),
    // A call takes it over after its lease has ended: one attempt more is charged, the next fence.
    (KeyState::Running, KeyState::Running),
    // A call claims it.
    (KeyState::Pending, KeyState::Running),
    // A call allows fewer attempts than were already charged.
    (KeyState::Pending, KeyState::Failed),
];

impl KeyState {
    /// Whether `TRANSITIONS` has an edge from here to `next`.
    pub fn may_become(self, next: Self) -> bool {
        TRANSITIONS.contains(&(self, next))
    }
}

/// Where a key goes when its attempt `number` (from 1) fails.
pub fn after_failure(severity: Severity, number: u32, max_attempts: u32) -> (KeyState, Option<Why>) {
    match severity {
        Severity::Permanent => (KeyState::Failed, Some(Why::Permanent)),
        Severity::Transient | Severity::Conflict if number >= max_attempts => (KeyState::Failed, Some(Why::Exhausted)),
        Severity::Transient | Severity::Conflict => (KeyState::Pending, None),
    }
}

/// A key as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Where it stands.
    pub state: KeyState,
    /// The request it was first claimed with.
    pub request_hash: String,
    /// The handler's result when done, else the store's notes on it.
    pub result: Value,
    /// Who holds it, or held it last.
    pub owner: Option<String>,
    /// Attempts that failed or died.
    pub attempts: u32,
    /// What is left of its lease by the database's clock; `None` when it has ended or there is none.
    pub left: Option<Duration>,
}

/// What a call that could not claim a key is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is done: the stored result answers.
    Done,
    /// It failed for good.
    Failed,
    /// Another request bears the key.
    KeyReused,
    /// Somebody is at it; ask again after this long.
    Running(Duration),
    /// Nobody is at it: claim it.
    Free,
}

/// What to tell a call about a key.
pub fn tell(seen: Option<&Seen>, hash: &RequestHash) -> Told {
    let Some(seen) = seen else { return Told::Free };
    if seen.request_hash != hash.as_str() {
        return Told::KeyReused;
    }
    match (seen.state, seen.left) {
        (KeyState::Done, _) => Told::Done,
        (KeyState::Failed, _) => Told::Failed,
        (KeyState::Running, Some(left)) => Told::Running(left.max(RETRY_MIN)),
        (KeyState::Running, None) | (KeyState::Pending, _) => Told::Free,
    }
}
