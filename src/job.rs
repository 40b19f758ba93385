//! A job: what should be done, who holds it, and which states it may pass through.
//!
//! Owns ids, keys, owners and the state machine. It does not know the table or the clock. Invariant:
//! every change of state that the store makes is an edge of `TRANSITIONS`.

use serde::{Deserialize, Serialize};

use crate::fault::{Code, Fault};
use crate::settings::Settings;

/// Declares an id: a database number that cannot be mixed up with another kind of id.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// The number of a job; grows with the time of creation and never comes back.
    JobId
}
id! {
    /// The number of a list.
    ListId
}
id! {
    /// Grows each time a job changes hands.
    Fence
}

/// BLAKE3 of the input's bytes, in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

impl Fingerprint {
    /// The first characters: enough for a person to compare.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

/// What a job is, by content (rule 4): list, input and the settings that change the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobKey(String);

impl JobKey {
    /// The key of importing `fingerprint` into `list` under `settings`.
    pub fn import(list: ListId, fingerprint: &Fingerprint, settings: &Settings) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("enlist import job key 1");
        hasher.update(&list.0.to_le_bytes());
        hasher.update(fingerprint.0.as_bytes());
        hasher.update(settings.digest().as_bytes());
        Self(hasher.finalize().to_hex().get(..32).unwrap_or_default().to_owned())
    }

    /// A key read back from the store.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Declares the states with the word each is stored under.
macro_rules! states {
    ($($(#[$doc:meta])* $variant:ident $word:literal;)*) => {
        /// Where a job stands.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum State {
            $($(#[$doc])* $variant,)*
        }

        impl State {
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
    /// Waits for a worker.
    Queued "queued";
    /// Held by an owner under a lease.
    Running "running";
    /// Kept from running by a person.
    Paused "paused";
    /// A direct job that stopped before its end and waits for the same command.
    Interrupted "interrupted";
    /// Finished; its result is kept.
    Done "done";
    /// Ended by an error that running again does not mend.
    Failed "failed";
    /// Ended by a person.
    Cancelled "cancelled";
    /// Replaced by a job with other content or other rules.
    Superseded "superseded";
}

impl State {
    /// Whether work on it may still go on by itself.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Queued | Self::Running | Self::Paused | Self::Interrupted)
    }

    /// Whether `TRANSITIONS` has an edge from here to `next`.
    pub fn may_become(self, next: Self) -> bool {
        TRANSITIONS.contains(&(self, next))
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Every edge of the state machine. The store's compare-and-set statements name the same source states.
pub const TRANSITIONS: &[(State, State)] = &[
    // A worker, or the import command itself, claims it.
    (State::Queued, State::Running),
    // A person holds it back before it ran.
    (State::Queued, State::Paused),
    // A person ends it before it ran.
    (State::Queued, State::Cancelled),
    // The file at its path changed, or the program's rules did.
    (State::Queued, State::Superseded),
    // Its every lane stands at the end of the input.
    (State::Running, State::Done),
    // An error that running again does not mend.
    (State::Running, State::Failed),
    // Handed back on shutdown, after a transient error, or swept.
    (State::Running, State::Queued),
    // A direct job was stopped by a signal or from inside.
    (State::Running, State::Interrupted),
    // A direct job is taken over from a dead holder: same state, next fence.
    (State::Running, State::Running),
    // A cancel request was seen at a batch's end, or by the sweeper.
    (State::Running, State::Cancelled),
    // A pause request was seen at a batch's end.
    (State::Running, State::Paused),
    // Its holder is dead and the file or the program's rules changed since.
    (State::Running, State::Superseded),
    // A person lets it go on.
    (State::Paused, State::Queued),
    // A person lets a direct job go on: it waits for its command.
    (State::Paused, State::Interrupted),
    // A person ends it.
    (State::Paused, State::Cancelled),
    // The file at its path changed, or the program's rules did.
    (State::Paused, State::Superseded),
    // The same command runs again.
    (State::Interrupted, State::Running),
    // The same import is given to the workers.
    (State::Interrupted, State::Queued),
    // A person holds it back.
    (State::Interrupted, State::Paused),
    // A person ends it.
    (State::Interrupted, State::Cancelled),
    // The file at its path changed, or the program's rules did.
    (State::Interrupted, State::Superseded),
    // It is run again: by a person for a worker, or directly.
    (State::Failed, State::Queued),
    // The same import command reopens it.
    (State::Failed, State::Running),
    // A person lets it be run again by a worker.
    (State::Cancelled, State::Queued),
    // The same import command reopens it.
    (State::Cancelled, State::Running),
];

/// The most characters of a queue's name.
pub const QUEUE_NAME_MAX: usize = 100;

/// A queue's name: 1 to `QUEUE_NAME_MAX` ASCII letters, digits, dots, dashes or underscores.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueName(String);

impl QueueName {
    /// Reads a name. Anything else is the fault `bad_queue_name`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if text.is_empty() || text.len() > QUEUE_NAME_MAX || !text.chars().all(plain) {
            return Err(Fault::new(Code::BadQueueName, format!("'{text}' is no name of a queue")));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text that is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for QueueName {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl std::fmt::Display for QueueName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of ordered streams into which a job's rows are split; settled when it is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Streams, 1 to `LANES_MAX`.
    pub lanes: u16,
    /// Records of a batch; a batch also ends at `BATCH_BYTES_MAX`.
    pub batch_rows: u32,
}

/// The most lanes that a job may have.
pub const LANES_MAX: u16 = 64;

/// A batch ends when it holds this many bytes of decoded text, whatever its rows.
pub const BATCH_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The lane that the rows of `phone` go through, of `lanes`: FNV-1a (64 bit) of its text, folded.
///
/// Part of `RULES_VERSION`: a job must split the same way on every machine and in every version.
pub fn lane_of(phone: &str, lanes: u16) -> u16 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in phone.bytes() {
        hash ^= u64::from(byte);
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The low bits of FNV mix poorly; the high half is folded in.
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    u16::try_from(folded % u64::from(lanes.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lane_of_a_phone_never_changes() {
        assert_eq!(lane_of("+905320000011", 1), 0);
        let lanes: Vec<u16> =
            ["+905320000011", "+905320000012", "+306900000012"].iter().map(|p| lane_of(p, 4)).collect();
        assert_eq!(lanes, [lane_of("+905320000011", 4), lane_of("+905320000012", 4), lane_of("+306900000012", 4)]);
        assert!(lanes.iter().all(|lane| *lane < 4));
    }

    #[test]
    fn ended_jobs_only_leave_by_being_run_again() {
        for from in State::ALL {
            assert_eq!(State::from_word(from.as_str()), Some(*from));
            for to in State::ALL {
                let allowed = from.may_become(*to);
                if matches!(from, State::Done | State::Superseded) {
                    assert!(!allowed, "{from} is final");
                }
                if matches!(from, State::Failed | State::Cancelled) {
                    assert_eq!(allowed, matches!(to, State::Queued | State::Running), "{from} → {to}");
                }
                if *to == State::Done {
                    assert_eq!(allowed, *from == State::Running, "{from} → {to}");
                }
                if *to == State::Superseded {
                    assert_eq!(allowed, from.is_unfinished(), "{from} → {to}");
                }
            }
        }
    }
}
