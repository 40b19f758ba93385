//! What becomes of a queued job whose run ended with a fault.
//!
//! Owns the sorting of fault codes into transient and permanent. It does not know the store or the worker.
//! Invariant: a code decides, never a message; a run that nobody is to blame for is not charged.

use std::time::Duration;

use crate::backoff::JOB;
use crate::fault::{Code, Exit};
use crate::job::State;

/// What to do with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The worker stops: back to the queue at once, uncharged.
    Release,
    /// This worker does not see the file: back to the queue for another one, uncharged.
    HandBack,
    /// It may go better later: charged, after a pause.
    Retry,
    /// Running again does not mend it.
    Fail,
    /// A person ended it.
    Cancel,
    /// A person holds it back.
    Pause,
    /// Somebody else has it; nothing is to be written.
    Gone,
}

/// How to leave a job: the next state, whether the attempt is charged, and how long it rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Where it goes.
    pub next: State,
    /// Whether the attempt counts.
    pub charge: Charge,
    /// How long a queued job rests, by the database's clock.
    pub rest: Duration,
}

/// Whether an attempt counts against `max_attempts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charge {
    /// It does.
    Charged,
    /// It does not.
    Free,
}

/// How long a job rests that a worker could not see the file of.
const UNSEEN_REST: Duration = Duration::from_secs(15);

/// Sorts a fault.
pub fn verdict(code: Code) -> Verdict {
    match code {
        Code::Interrupted | Code::Terminated => Verdict::Release,
        // Another worker may see the file, or be able to ask for it.
        Code::NotFound | Code::RemoteNotBuilt => Verdict::HandBack,
        Code::Cancelled => Verdict::Cancel,
        Code::Paused => Verdict::Pause,
        Code::LeaseLost | Code::Superseded => Verdict::Gone,
        // The file is what it is: the same rows are refused the next time.
        Code::TooManyRejects | Code::TooManyChanges => Verdict::Fail,
        // A disk, a mount or a server may come back, a password or a primary may be put right.
        Code::UnreadableFile
        | Code::RemoteRefused
        | Code::DatabaseReadOnly
        | Code::DatabaseRefused
        | Code::UnwritableFile => Verdict::Retry,
        code => match code.exit() {
            Exit::Stopped | Exit::NotNow => Verdict::Retry,
            _ => Verdict::Fail,
        },
    }
}

/// How to leave a job of which `attempts` of `max_attempts` were charged before. `None`: it is not ours to
/// leave. `chance` in `0.0..1.0` is the jitter of the pause.
pub fn leaving(verdict: Verdict, attempts: u32, max_attempts: u32, chance: f64) -> Option<Leaving> {
    let free = |next, rest| Some(Leaving { next, charge: Charge::Free, rest });
    match verdict {
        Verdict::Release => free(State::Queued, Duration::ZERO),
        Verdict::HandBack => free(State::Queued, UNSEEN_REST),
        Verdict::Cancel => free(State::Cancelled, Duration::ZERO),
        Verdict::Pause => free(State::Paused, Duration::ZERO),
        Verdict::Gone => None,
        Verdict::Fail => Some(Leaving { next: State::Failed, charge: Charge::Charged, rest: Duration::ZERO }),
        Verdict::Retry => {
            let tried = attempts.saturating_add(1);
            let next = if tried >= max_attempts { State::Failed } else { State::Queued };
            let rest = if next == State::Queued { JOB.delay(tried, chance) } else { Duration::ZERO };
            Some(Leaving { next, charge: Charge::Charged, rest })
        }
    }
}

/// How a command, rather than a worker, leaves a job that waits in state `home` when it is unfinished:
/// `interrupted` for a direct job, `queued` for one that workers may run. Nothing is charged.
pub fn leaving_command(code: Code, home: State) -> Option<Leaving> {
    let next = match code {
        Code::LeaseLost => return None,
        Code::Cancelled => State::Cancelled,
        Code::Paused => State::Paused,
        code => match code.exit() {
            Exit::Failed | Exit::Usage => State::Failed,
            _ => home,
        },
    };
    Some(Leaving { next, charge: Charge::Free, rest: Duration::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_sorted_by_who_is_to_blame() {
        for (code, expected) in [
            (Code::Terminated, Verdict::Release),
            (Code::NotFound, Verdict::HandBack),
            (Code::RemoteNotBuilt, Verdict::HandBack),
            (Code::RemoteRefused, Verdict::Retry),
            (Code::RemoteUnreachable, Verdict::Retry),
            (Code::RemoteStopped, Verdict::Retry),
            (Code::DatabaseStopped, Verdict::Retry),
            (Code::DiskFull, Verdict::Retry),
            (Code::DatabaseBusy, Verdict::Retry),
            (Code::UnreadableFile, Verdict::Retry),
            (Code::FileChanged, Verdict::Fail),
            (Code::SettingsChanged, Verdict::Fail),
            (Code::TooManyRejects, Verdict::Fail),
            (Code::NoPhoneColumn, Verdict::Fail),
            (Code::Internal, Verdict::Fail),
            (Code::LeaseLost, Verdict::Gone),
            (Code::Cancelled, Verdict::Cancel),
        ] {
            assert_eq!(verdict(code), expected, "{}", code.as_str());
        }
    }

    #[test]
    fn every_way_of_leaving_is_an_edge_and_only_failures_are_charged() {
        let all = [
            Verdict::Release,
            Verdict::HandBack,
            Verdict::Retry,
            Verdict::Fail,
            Verdict::Cancel,
            Verdict::Pause,
            Verdict::Gone,
        ];
        for verdict in all {
            let Some(leaving) = leaving(verdict, 0, 5, 0.5) else {
                assert_eq!(verdict, Verdict::Gone);
                continue;
            };
            assert!(State::Running.may_become(leaving.next), "{verdict:?}");
            let charged = matches!(verdict, Verdict::Retry | Verdict::Fail);
            assert_eq!(leaving.charge == Charge::Charged, charged, "{verdict:?}");
        }
    }

    #[test]
    fn the_last_attempt_fails_and_those_before_rest_longer_each_time() {
        let rests: Vec<Duration> = (0..4)
            .map(|attempts| leaving(Verdict::Retry, attempts, 5, 1.0).unwrap())
            .inspect(|leaving| assert_eq!(leaving.next, State::Queued))
            .map(|leaving| leaving.rest)
            .collect();
        assert!(rests.is_sorted() && rests.first() < rests.last(), "{rests:?}");
        assert_eq!(leaving(Verdict::Retry, 4, 5, 1.0).unwrap().next, State::Failed);
    }
}
