//! A notification: which states the telling of a job's end passes through, and what an answer makes of it.
//!
//! Owns the state machine and its decisions. It knows neither the table, nor HTTP, nor a clock. Invariant: each
//! change that the store makes is an edge of `TRANSITIONS`; a receiver that takes no key is never called again
//! after a call that it may have acted on.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::NOTIFICATION;

/// Declares an enum whose variants are stored under a word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident $word:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stored word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The one with this word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

words! {
    /// What a receiver does with the key of a notification.
    Receiver {
        /// It keeps the key and does nothing twice.
        Keys "keys";
        /// It takes no key, but tells at `lookup_url` whether it has seen one.
        Lookup "lookup";
        /// Neither: a second call would be a second event.
        None "none";
    }
}

words! {
    /// Where a notification stands.
    Stage {
        /// Waits for a sender.
        Pending "pending";
        /// The receiver asked to wait; nothing is charged.
        Held "held";
        /// A sender has it, under a lease.
        Sending "sending";
        /// The receiver took it.
        Sent "sent";
        /// The receiver refused it.
        Failed "failed";
        /// Nobody knows whether the receiver took it, and it is not sent again.
        Unknown "unknown";
    }
}

/// Every edge. The store's compare-and-set statements name the same source states.
pub const TRANSITIONS: &[(Stage, Stage)] = &[
    // A sender claims it.
    (Stage::Pending, Stage::Sending),
    // A sender claims it: the time that the receiver asked for is over.
    (Stage::Held, Stage::Sending),
    // Its sender's lease ended in between, so another one claims it; it may have been sent.
    (Stage::Sending, Stage::Sending),
    // The receiver took it, or tells that it had taken it before.
    (Stage::Sending, Stage::Sent),
    // 429 or 503: the receiver asks to wait.
    (Stage::Sending, Stage::Held),
    // 5xx, no answer, no connection: the same key again, later.
    (Stage::Sending, Stage::Pending),
    // Another 4xx, or a redirect that is not followed.
    (Stage::Sending, Stage::Failed),
    // Its time is over, or the receiver takes no key and may have taken it.
    (Stage::Sending, Stage::Unknown),
];

impl Stage {
    /// Whether nothing comes after it.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Sent | Self::Failed | Self::Unknown)
    }

    /// Whether `TRANSITIONS` has an edge from here to `next`.
    pub fn may_become(self, next: Self) -> bool {
        TRANSITIONS.contains(&(self, next))
    }
}

/// How long a notification is tried when nobody says otherwise: receivers commonly remember a key for 24 h.
pub const GIVE_UP: Duration = Duration::from_secs(20 * 60 * 60);

/// The longest that a receiver may ask to wait at once.
pub const HOLD_MOST: Duration = Duration::from_secs(60 * 60);

/// The shortest, so that `Retry-After: 0` is no busy loop.
const HOLD_LEAST: Duration = Duration::from_secs(1);

/// How a sender found the notification that it claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It waited.
    Waiting,
    /// A sender had it and died, or was silent for longer than its lease.
    Abandoned,
    /// The time in which its key is remembered is over.
    TooLate,
}

/// What to do with a notification that was claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Call the receiver.
    Send,
    /// Ask the receiver whether it has seen the key.
    LookUp,
    /// Call nobody: it ends as unknown.
    GiveUp,
}

/// What to do first. `attempts` are the calls charged before: some of them may have arrived.
pub fn first_step(receiver: Receiver, found: Found, attempts: u32) -> Step {
    match (found, receiver) {
        (Found::TooLate, _) | (Found::Abandoned, Receiver::None) => Step::GiveUp,
        (Found::Abandoned, Receiver::Lookup) => Step::LookUp,
        (Found::Waiting, Receiver::Lookup) if attempts > 0 => Step::LookUp,
        (Found::Abandoned, Receiver::Keys) | (Found::Waiting, _) => Step::Send,
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Answered {
        /// The HTTP status, 100 to 999.
        status: u16,
        /// How long the receiver asked to wait.
        retry_after: Option<Duration>,
    },
    /// The receiver was not reached: it saw nothing of the call.
    Unreached,
    /// The call may have arrived; no answer did.
    Unanswered,
}

/// What a call is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// One of the attempts.
    Attempt,
    /// One of the holds.
    Hold,
    /// Nothing.
    Free,
}

/// Where a notification goes after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// The next stage.
    pub next: Stage,
    /// What the call is counted as.
    pub charge: Charge,
    /// How long it rests, by the database's clock.
    pub rest: Duration,
}

/// Calls that were counted before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// As attempts.
    pub attempts: u32,
    /// As holds.
    pub holds: u32,
}

const SENT: Judged = Judged { next: Stage::Sent, charge: Charge::Free, rest: Duration::ZERO };
const FAILED: Judged = Judged { next: Stage::Failed, charge: Charge::Attempt, rest: Duration::ZERO };
const DOUBTFUL: Judged = Judged { next: Stage::Unknown, charge: Charge::Attempt, rest: Duration::ZERO };

/// Given up without a call.
pub const GIVEN_UP: Judged = Judged { next: Stage::Unknown, charge: Charge::Free, rest: Duration::ZERO };

/// What the receiver's answer makes of a notification. `chance` in `0.0..1.0` is the jitter of the pause.
///
/// 408, 409 and 425 count as 5xx: a receiver that takes keys answers 409 while it still works on the same key.
/// To a receiver without keys, only what certainly did nothing (429, or no connection) is said again.
pub fn judge(receiver: Receiver, outcome: Outcome, tried: Tried, chance: f64) -> Judged {
    let again = || Judged {
        next: Stage::Pending,
        charge: Charge::Attempt,
        rest: NOTIFICATION.delay(tried.attempts.saturating_add(1), chance),
    };
    match (outcome, receiver) {
        (Outcome::Answered { status: 200..=299, .. }, _) => SENT,
        (Outcome::Answered { status: 429, retry_after }, _) => hold(retry_after, tried, chance),
        (Outcome::Answered { status: 408 | 409 | 425 | 500.., .. } | Outcome::Unanswered, Receiver::None) => DOUBTFUL,
        (Outcome::Answered { status: 503, retry_after }, _) => hold(retry_after, tried, chance),
        (Outcome::Answered { status: 408 | 409 | 425 | 500.., .. }, _) => again(),
        (Outcome::Answered { .. }, _) => FAILED,
        (Outcome::Unreached | Outcome::Unanswered, _) => again(),
    }
}

/// What the answer to a look-up makes of a notification; `None`: it was not done, so send it.
pub fn judge_lookup(outcome: Outcome, tried: Tried, chance: f64) -> Option<Judged> {
    match outcome {
        Outcome::Answered { status: 200..=299, .. } => Some(SENT),
        Outcome::Answered { status: 404, .. } => None,
        Outcome::Answered { status: 429 | 503, retry_after } => Some(hold(retry_after, tried, chance)),
        // Nothing is known, and nothing was sent.
        Outcome::Answered { .. } | Outcome::Unreached | Outcome::Unanswered => {
            let rest = NOTIFICATION.delay(tried.attempts.saturating_add(1), chance);
            Some(Judged { next: Stage::Pending, charge: Charge::Attempt, rest })
        }
    }
}

fn hold(retry_after: Option<Duration>, tried: Tried, chance: f64) -> Judged {
    let rest = match retry_after {
        Some(asked) => asked.clamp(HOLD_LEAST, HOLD_MOST),
        None => NOTIFICATION.delay(tried.holds.saturating_add(1), chance),
    };
    Judged { next: Stage::Held, charge: Charge::Hold, rest }
}

/// The warning that a notification waits.
pub const WAITING_CODE: &str = "notification_waiting";
/// The warning that a receiver refused a notification.
pub const FAILED_CODE: &str = "notification_failed";
/// The warning that nobody knows what became of a notification.
pub const UNKNOWN_CODE: &str = "notification_unknown";
/// The warning that a notification crosses a network unencrypted.
pub const PLAIN_CODE: &str = "notify_plain_http";

/// The warnings: code, what it means, what to do.
pub const WARNINGS: &[(&str, &str, &str)] = &[
    (
        WAITING_CODE,
        "the end of the job was not told to the receiver yet",
        "nothing, if a worker runs: it goes on with the same key; 'enlist jobs show ID' tells how it stands",
    ),
    (
        FAILED_CODE,
        "the receiver refused the notification, so it is not sent again",
        "'enlist jobs show ID' tells the status; mend the receiver or the address, and tell it by hand",
    ),
    (
        UNKNOWN_CODE,
        "nobody knows whether the receiver took the notification, and it is not sent again",
        "look at the receiver for the key that 'enlist jobs show ID' tells",
    ),
    (
        PLAIN_CODE,
        "the address to notify begins with http://, so whoever is on the way can read and change what is sent",
        "use an https:// address, or check the signature at the receiver",
    ),
];

/// The key under which a receiver sees one end of a job: the same on every call, another for every end.
///
/// Made of content and of counting (rule 4): the job's key and generation, which of its ends it is, and how it
/// ended. Only letters, digits and dots.
pub fn event_id(job_key: &str, generation: u32, end: i64, state: &str) -> String {
    format!("{job_key}.{generation}.{end}.{state}")
}

#[cfg(test)]
mod tests;
