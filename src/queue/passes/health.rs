//! Whether the passes run: what `doctor` says about each.
//!
//! Owns when a pass counts as overdue, as a pure function over what the store tells. It does not know how that is
//! shown. Invariant: a pass is overdue only as long as a worker was there that could have run it; where nobody
//! works, the missing worker is what is to be told.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::owner::Owner;
use crate::queue::{Pass, PassTimes};
use crate::store::{Finding, PassRun, ScheduleRow, WorkerRow};

/// How a pass stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It is turned off here.
    Off,
    /// No worker has run yet.
    NoWorker,
    /// Workers are there, it has not ended yet, and its time is not over.
    Waiting,
    /// It ran when it should.
    Ran,
    /// It did not, though workers were there.
    Overdue,
}

impl Health {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::NoWorker => "no_worker",
            Self::Waiting => "waiting",
            Self::Ran => "ran",
            Self::Overdue => "overdue",
        }
    }
}

/// A pass, how it stands and how it last ran.
#[derive(Debug, Clone, PartialEq)]
pub struct PassHealth {
    /// The pass.
    pub pass: Pass,
    /// How it stands.
    pub health: Health,
    /// Its window: the workers', else this configuration's; zero where it is off.
    pub every: Duration,
    /// Windows that were passed over for good.
    pub skipped: u64,
    /// Its newest run that ended well.
    pub last: Option<PassRun>,
    /// Why a later run failed.
    pub error: Option<String>,
}

/// Windows that may go by.
const WINDOWS: u32 = 3;

/// And so long besides. A new schedule is due at once, so one that never ran has no more than this.
const GRACE: Duration = Duration::from_secs(60);

/// How each pass stands at `now`, by the database's clock.
pub fn health(times: &PassTimes, rows: &[ScheduleRow], workers: &[WorkerRow], now: Timestamp) -> Vec<PassHealth> {
    Pass::ALL.iter().map(|pass| one(*pass, times, rows, workers, now)).collect()
}

fn one(pass: Pass, times: &PassTimes, rows: &[ScheduleRow], workers: &[WorkerRow], now: Timestamp) -> PassHealth {
    let row = rows.iter().find(|row| row.schedule.name == pass.as_str());
    let planned = times.schedule(pass);
    let every =
        row.map_or_else(|| planned.as_ref().map_or(Duration::ZERO, |plan| plan.every), |row| row.schedule.every);
    let last = row.and_then(|row| row.last.clone());
    let later =
        row.and_then(|row| row.open.clone()).filter(|open| last.as_ref().is_none_or(|l| open.window > l.window));
    let ended = last.as_ref().and_then(|run| run.finished_at);
    let patience = every.saturating_mul(WINDOWS).saturating_add(GRACE);
    let allowed = if ended.is_some() { patience } else { GRACE };
    let busy = later.as_ref().is_some_and(|run| {
        run.finished_at.is_none() && now.since(run.started_at) <= patience && is_there(&run.owner, workers, now)
    });
    let overdue = !busy
        && ended.is_none_or(|ended| now.since(ended) > patience)
        && workers.iter().any(|worker| now.since(worker.seen_at) <= patience)
        && presence(workers, ended) > allowed;
    let health = match (planned, ended) {
        (None, _) => Health::Off,
        _ if overdue => Health::Overdue,
        (_, Some(_)) => Health::Ran,
        (_, None) if workers.is_empty() => Health::NoWorker,
        (_, None) => Health::Waiting,
    };
    PassHealth {
        pass,
        health,
        every: if health == Health::Off { Duration::ZERO } else { every },
        skipped: row.map_or(0, |row| row.skipped),
        last,
        error: later.and_then(|run| run.error),
    }
}

/// Whether the worker that runs a pass was seen lately. The claims of one process differ in their random part.
fn is_there(owner: &str, workers: &[WorkerRow], now: Timestamp) -> bool {
    let process = Owner::from_text(owner).process;
    let mut same = workers.iter().filter(|worker| Owner::from_text(&worker.owner).process == process);
    same.any(|worker| worker.left_at.is_none() && now.since(worker.seen_at) <= GRACE)
}

/// For how long at least one worker was there after `since`.
fn presence(workers: &[WorkerRow], since: Option<Timestamp>) -> Duration {
    let from = |worker: &WorkerRow| since.map_or(worker.started_at, |since| worker.started_at.max(since));
    let mut spans: Vec<(Timestamp, Timestamp)> =
        workers.iter().map(|worker| (from(worker), worker.seen_at)).filter(|(from, to)| from < to).collect();
    spans.sort_unstable();
    let mut total = Duration::ZERO;
    let mut covered: Option<Timestamp> = None;
    for (from, to) in spans {
        let from = covered.map_or(from, |covered| from.max(covered));
        total += to.since(from);
        covered = Some(covered.map_or(to, |covered| covered.max(to)));
    }
    total
}

impl PassHealth {
    /// What a person should do about it, if anything.
    pub fn findings(&self) -> Vec<Finding> {
        let name = self.pass.as_str();
        let mut found = Vec::new();
        if self.health == Health::Overdue {
            let ended = self.last.as_ref().and_then(|run| run.finished_at);
            let since =
                ended.map_or_else(|| "has never ended well".to_owned(), |ended| format!("last ended at {ended}"));
            let why = self.error.as_ref().map(|error| format!("; the last run failed: {error}")).unwrap_or_default();
            found.push(Finding {
                code: "pass_overdue",
                subject: format!("pass '{name}'"),
                message: format!("it {since}, though workers were there{why}"),
                hint: format!("look at the workers' log; 'enlist pass {name}' runs it once, now"),
            });
        }
        let audited = self.last.as_ref().and_then(|run| run.result.as_ref()).filter(|_| self.pass == Pass::Audit);
        if let Some(count) = audited.and_then(|result| result["findings"].as_u64()).filter(|count| *count > 0) {
            found.push(Finding {
                code: "audit_found",
                subject: format!("pass '{name}'"),
                message: format!("it found what should be impossible, {count} times"),
                hint: "'enlist audit' looks again and tells what".to_owned(),
            });
        }
        found
    }
}

#[cfg(test)]
mod tests;
