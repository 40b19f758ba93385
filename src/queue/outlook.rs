//! Why a job is not running, in words.
//!
//! Owns the reasons and their order. It does not know how the facts are found. Invariant: there is always an
//! answer, and it names what a person can do or wait for.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::fault::Code;
use crate::job::State;
use crate::owner::Owner;
use crate::store::{JobRow, Outlook};

/// A worker that was not there for longer is not there.
const ABSENT: Duration = Duration::from_secs(20);

/// One reason. The codes are stable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// For scripts, for example `waiting_for_list`.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

/// Why `job` is where it is, the most telling reason first; never empty for a job that is not over.
pub fn reasons(job: &JobRow, outlook: &Outlook) -> Vec<Reason> {
    let one = |code, message| vec![Reason { code, message }];
    match job.state {
        State::Queued => queued(job, outlook),
        State::Running => one("held", held(job, outlook.now)),
        State::Paused => {
            one("paused", format!("a person holds it back; 'enlist jobs resume {}' lets it go on", job.id))
        }
        State::Interrupted => one("interrupted", "it was stopped; run the same import command again".to_owned()),
        State::Done | State::Failed | State::Cancelled | State::Superseded => Vec::new(),
    }
}

fn queued(job: &JobRow, outlook: &Outlook) -> Vec<Reason> {
    let mut found = Vec::new();
    let mut add = |code, message| found.push(Reason { code, message });
    let unseen = job.error.as_ref().filter(|error| error.code == Code::NotFound.as_str());
    if let Some(error) = unseen {
        add("file_unseen", format!("{}; workers look again until one sees it", error.message));
    }
    if job.run_at > outlook.now {
        let (code, what) = match (unseen, job.attempts) {
            (Some(_), _) => ("resting", "rests until"),
            (None, 0) => ("waiting_for_time", "waits for its time,"),
            (None, _) => ("resting", "rests after a failed attempt until"),
        };
        add(code, format!("{what} {}, in {}", job.run_at, short(job.run_at.since(outlook.now))));
    }
    if let Some((before, state)) = outlook.before {
        let word = if state == State::Running { "which is running" } else { "which came before it" };
        add("waiting_for_list", format!("waits for job {before} of the same list, {word}"));
    }
    let there = |seen: Timestamp, left: Option<Timestamp>| left.is_none() && outlook.now.since(seen) < ABSENT;
    if !outlook.workers.iter().any(|worker| there(worker.seen_at, worker.left_at)) {
        let since = outlook.workers.iter().map(|worker| worker.seen_at).max();
        add(
            "no_worker",
            match since {
                Some(since) => {
                    format!("no worker has looked at queue '{}' since {since}; start 'enlist work'", job.queue)
                }
                None => format!(
                    "no worker has ever looked at queue '{}'; start 'enlist work --queue {}'",
                    job.queue, job.queue
                ),
            },
        );
    }
    if found.is_empty() {
        found.push(Reason { code: "ready", message: "is ready; the next free worker takes it".to_owned() });
    }
    found
}

fn held(job: &JobRow, now: Timestamp) -> String {
    let owner = job.owner.as_deref().map_or_else(|| "nobody".to_owned(), |owner| Owner::from_text(owner).to_string());
    let heard = match job.beat_at {
        Some(beat) => format!("last heard of {} ago", short(now.since(beat))),
        None => "not heard of yet".to_owned(),
    };
    let lease = match job.lease_until {
        Some(until) if until >= now => format!("its lease ends in {}", short(until.since(now))),
        Some(until) => format!("its lease ended {} ago, and the next sweep takes it", short(now.since(until))),
        None => "without a lease".to_owned(),
    };
    format!("{owner} runs it, {heard}; {lease}")
}

/// `1.2 s`, `45 s`, `12 min`, `3 h`.
fn short(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", span.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (millis, text) in [(1_234, "1.2 s"), (45_000, "45 s"), (720_000, "12 min"), (10_800_000, "3 h")] {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }
}
