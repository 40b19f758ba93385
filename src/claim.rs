//! Claims: "I do this, for this long", won by exactly one of many processes that ask.
//!
//! Owns the words of a claim and its times. It does not know where claims are kept: in the database or in Redis,
//! under the same keys and terms. Invariant: an answer is one of three; a store that cannot be asked is never
//! taken for one that says no.

use std::time::Duration;

use crate::alert::{AlertKey, Severity};
use crate::owner::Owner;

/// Everything around one question to a claim store, connecting included: whoever asks does not wait longer.
pub const CLAIM_DEADLINE: Duration = Duration::from_millis(1_500);

/// How long whoever won an alert may take to send it. One that dies meanwhile delays the alert by so long.
pub const CLAIM_LEASE: Duration = Duration::from_secs(20);

/// How long all receivers of an alert may take together; shorter than the lease, or two could be sending.
pub const SINK_DEADLINE: Duration = Duration::from_secs(10);

const _: () = assert!(
    SINK_DEADLINE.as_millis() + 2 * CLAIM_DEADLINE.as_millis() < CLAIM_LEASE.as_millis(),
    "an alert must be sent and marked before its claim ends"
);

/// What is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClaimKey(String);

impl ClaimKey {
    /// The right to ring an alert.
    pub fn alert(key: &AlertKey) -> Self {
        Self(format!("alert/{key}"))
    }

    /// The right to run a command in a window of time.
    pub fn once(key: &AlertKey) -> Self {
        Self(format!("once/{key}"))
    }

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// For how long something is claimed, by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// For `CLAIM_LEASE`, to send an alert; once it is sent, for the window from then on.
    Ring {
        /// How urgent the alert is.
        severity: Severity,
        /// For how long no other is rung. At least 1 ms.
        window: Duration,
    },
    /// At once to the end of the window in which the store's clock stands; windows are aligned as `window` says.
    Window(Duration),
}

impl Term {
    /// The length of the window.
    pub fn window(self) -> Duration {
        match self {
            Self::Ring { window, .. } | Self::Window(window) => window,
        }
    }
}

/// How far the holder of a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It is sending, or died.
    Claimed,
    /// It is done; the rest of the window is quiet.
    Sent,
}

impl Phase {
    /// The word it is stored under.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Sent => "sent",
        }
    }

    /// The phase with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Claimed, Self::Sent].into_iter().find(|phase| phase.as_str() == word)
    }
}

/// Who has a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Who won it.
    pub by: Owner,
    /// How far that process is.
    pub phase: Phase,
    /// How long the claim still holds.
    pub left: Duration,
}

/// The answer of a claim store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claiming {
    /// It is won, under the name that was given.
    New,
    /// Another has it.
    Held(Held),
    /// Nobody knows: the store is down, refuses, is missing or does not answer in time. The text says which.
    Unavailable(String),
}
