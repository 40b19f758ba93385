//! What to do when an import is asked for, given the jobs that are there already.
//!
//! Owns the decision (rules 4, 9, 10 and 11), as a pure function over what the store found. It knows
//! neither the store nor the clock. Invariant: at most one unfinished job per list and fingerprint, and
//! nothing finished is imported again unless something came in between or a person asked.

use crate::job::{JobId, JobKey, State};

/// How to choose among earlier runs of the same import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Resume what is unfinished, replay what is finished, else begin.
    Auto,
    /// Begin a new generation, or join its unfinished one.
    Again,
    /// Go on with this job as it began.
    Continue(JobId),
}

/// How a running job is held, seen from here and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Its state is not `running`.
    Free,
    /// Its lease is good and its process is not provably gone.
    Live,
    /// Its lease has ended.
    Expired,
    /// Its process is provably gone.
    Dead,
}

/// A job that concerns the import asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its number.
    pub id: JobId,
    /// Its key.
    pub key: JobKey,
    /// Its generation under that key.
    pub generation: u32,
    /// Where it stands.
    pub state: State,
    /// How it is held.
    pub hold: Hold,
    /// Whether it read the same bytes.
    pub same_input: bool,
    /// Whether it came from the same path.
    pub same_source: bool,
    /// Whether it runs under this program's rules.
    pub same_rules: bool,
    /// For a finished job: nothing came into the list since, and its keys are whole.
    pub replayable: bool,
    /// Retention removed batch keys or refused rows of it, so it cannot go on.
    pub pruned: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Begin a new job; those named are superseded by it.
    Create {
        /// 1, or one more than the last under this key.
        generation: u32,
        /// Unfinished jobs that this one replaces.
        supersede: Vec<JobId>,
    },
    /// Claim a job that nobody holds and go on from its positions.
    Resume(JobId),
    /// Take a job from a holder that is gone, and go on from its positions.
    TakeOver(JobId),
    /// Answer from a finished job's stored result.
    Replay(JobId),
    /// Somebody else is at it.
    Held(JobId),
    /// A person holds it back.
    Paused(JobId),
    /// It was begun with other settings.
    SettingsChanged(JobId),
    /// `--continue` names a job of another input.
    OtherInput(JobId),
    /// `--continue` names a job that was replaced.
    Replaced(JobId),
    /// `--continue` names no job of this list.
    Unknown(JobId),
}

/// Decides. `known` holds every job of the list that read the same input or is unfinished and came
/// from the same source, and the job that `--continue` names; `key` is what was asked for.
pub fn decide(known: &[Known], key: &JobKey, entry: Entry) -> Decision {
    if let Entry::Continue(id) = entry {
        return match known.iter().find(|job| job.id == id) {
            None => Decision::Unknown(id),
            Some(job) if !job.same_input => Decision::OtherInput(id),
            Some(job) => match job.state {
                State::Superseded => Decision::Replaced(id),
                State::Done => Decision::Replay(id),
                _ => go_on(job, known),
            },
        };
    }
    if let Some(job) = known.iter().find(|job| job.same_input && job.state.is_unfinished()) {
        if job.key == *key {
            return go_on(job, known);
        }
        if entry == Entry::Again || !job.same_rules {
            return if job.hold == Hold::Live { Decision::Held(job.id) } else { create(known, key) };
        }
        return Decision::SettingsChanged(job.id);
    }
    let latest = known.iter().filter(|job| job.key == *key).max_by_key(|job| job.generation);
    match latest {
        Some(job) if entry == Entry::Auto && job.state == State::Done && job.replayable => Decision::Replay(job.id),
        Some(job) if entry == Entry::Auto && matches!(job.state, State::Failed | State::Cancelled) => go_on(job, known),
        _ => create(known, key),
    }
}

/// Goes on with a job that is not finished for good.
fn go_on(job: &Known, known: &[Known]) -> Decision {
    match (job.state, job.hold) {
        (State::Running, Hold::Live) => Decision::Held(job.id),
        // Other rules would read the second half of the file differently (rule 9).
        _ if !job.same_rules || job.pruned => create(known, &job.key),
        (State::Running, _) => Decision::TakeOver(job.id),
        (State::Paused, _) => Decision::Paused(job.id),
        _ => Decision::Resume(job.id),
    }
}

fn create(known: &[Known], key: &JobKey) -> Decision {
    let last = known.iter().filter(|job| job.key == *key).map(|job| job.generation).max().unwrap_or(0);
    let supersede = known
        .iter()
        // A live holder reads the content it began with; what it writes is older and yields (rule 13).
        .filter(|job| job.state.is_unfinished() && job.hold != Hold::Live && (job.same_input || job.same_source))
        .map(|job| job.id)
        .collect();
    Decision::Create { generation: last + 1, supersede }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> JobKey {
        JobKey::stored(text.to_owned())
    }

    fn job(id: i64, state: State, hold: Hold) -> Known {
        Known {
            id: JobId(id),
            key: key("k"),
            generation: 1,
            state,
            hold,
            same_input: true,
            same_source: true,
            same_rules: true,
            replayable: true,
            pruned: false,
        }
    }

    fn fresh(generation: u32, supersede: &[i64]) -> Decision {
        Decision::Create { generation, supersede: supersede.iter().map(|id| JobId(*id)).collect() }
    }

    #[test]
    fn the_same_import_resumes_replays_waits_or_begins() {
        let id = JobId(1);
        let table = [
            (job(1, State::Interrupted, Hold::Free), Decision::Resume(id)),
            (job(1, State::Queued, Hold::Free), Decision::Resume(id)),
            (job(1, State::Paused, Hold::Free), Decision::Paused(id)),
            (job(1, State::Running, Hold::Live), Decision::Held(id)),
            (job(1, State::Running, Hold::Expired), Decision::TakeOver(id)),
            (job(1, State::Running, Hold::Dead), Decision::TakeOver(id)),
            (job(1, State::Done, Hold::Free), Decision::Replay(id)),
            (Known { replayable: false, ..job(1, State::Done, Hold::Free) }, fresh(2, &[])),
            (job(1, State::Failed, Hold::Free), Decision::Resume(id)),
            (job(1, State::Cancelled, Hold::Free), Decision::Resume(id)),
            (job(1, State::Superseded, Hold::Free), fresh(2, &[])),
        ];
        for (known, decision) in table {
            assert_eq!(decide(std::slice::from_ref(&known), &key("k"), Entry::Auto), decision, "{known:?}");
        }
        assert_eq!(decide(&[], &key("k"), Entry::Auto), fresh(1, &[]));
    }

    #[test]
    fn again_begins_anew_but_joins_what_is_unfinished() {
        assert_eq!(decide(&[job(1, State::Done, Hold::Free)], &key("k"), Entry::Again), fresh(2, &[]));
        assert_eq!(decide(&[job(1, State::Failed, Hold::Free)], &key("k"), Entry::Again), fresh(2, &[]));
        let unfinished = Known { generation: 2, ..job(2, State::Interrupted, Hold::Free) };
        let known = [job(1, State::Done, Hold::Free), unfinished];
        assert_eq!(decide(&known, &key("k"), Entry::Again), Decision::Resume(JobId(2)));
    }

    #[test]
    fn other_settings_are_refused_until_a_person_decides() {
        let known = [job(1, State::Interrupted, Hold::Free)];
        assert_eq!(decide(&known, &key("other"), Entry::Auto), Decision::SettingsChanged(JobId(1)));
        assert_eq!(decide(&known, &key("other"), Entry::Again), fresh(1, &[1]));
        assert_eq!(decide(&known, &key("other"), Entry::Continue(JobId(1))), Decision::Resume(JobId(1)));
        let live = [job(1, State::Running, Hold::Live)];
        assert_eq!(decide(&live, &key("other"), Entry::Auto), Decision::SettingsChanged(JobId(1)));
        assert_eq!(decide(&live, &key("other"), Entry::Again), Decision::Held(JobId(1)));
    }

    #[test]
    fn other_rules_begin_anew_unless_somebody_is_at_it() {
        let old = Known { same_rules: false, ..job(1, State::Interrupted, Hold::Free) };
        assert_eq!(decide(std::slice::from_ref(&old), &key("k"), Entry::Auto), fresh(2, &[1]));
        let live = Known { state: State::Running, hold: Hold::Live, ..old.clone() };
        assert_eq!(decide(&[live], &key("k"), Entry::Auto), Decision::Held(JobId(1)));
        assert_eq!(decide(&[Known { key: key("older settings"), ..old }], &key("k"), Entry::Auto), fresh(1, &[1]));
    }

    #[test]
    fn other_content_at_the_path_supersedes_what_nobody_works_on() {
        let other = |id, state, hold| Known { same_input: false, key: key("other"), ..job(id, state, hold) };
        let known = [
            other(1, State::Interrupted, Hold::Free),
            other(2, State::Running, Hold::Dead),
            other(3, State::Running, Hold::Live),
            other(4, State::Done, Hold::Free),
        ];
        assert_eq!(decide(&known, &key("k"), Entry::Auto), fresh(1, &[1, 2]));
    }

    #[test]
    fn continue_takes_the_job_it_names_or_says_why_not() {
        let known = [
            job(1, State::Done, Hold::Free),
            Known { same_input: false, ..job(2, State::Interrupted, Hold::Free) },
            job(3, State::Superseded, Hold::Free),
            Known { pruned: true, ..job(4, State::Failed, Hold::Free) },
        ];
        let of = |id| decide(&known, &key("k"), Entry::Continue(JobId(id)));
        assert_eq!(of(1), Decision::Replay(JobId(1)));
        assert_eq!(of(2), Decision::OtherInput(JobId(2)));
        assert_eq!(of(3), Decision::Replaced(JobId(3)));
        assert_eq!(of(4), fresh(2, &[2]));
        assert_eq!(of(9), Decision::Unknown(JobId(9)));
    }
}
