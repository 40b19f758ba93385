//! Scheduled passes that have not run well for too long.
//!
//! Owns how late is too late, and that this process tells it once. It does not know what passes do. Invariant: a
//! pass that runs well again can be told of anew.

use std::time::Duration;

use serde_json::json;

use crate::alert::AlertKind;
use crate::clock::{Stopwatch, Timestamp};
use crate::store::{Ringing, ScheduleRow, Store, StoreError};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(30);

/// A pass may be so much late besides three of its windows.
const PATIENCE: Duration = Duration::from_secs(300);

/// What one process knows of late passes.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    looked: Option<Stopwatch>,
    /// The database's time of the first look: a pass without any run is measured from here.
    began: Option<Timestamp>,
    told: Vec<String>,
}

impl Overdue {
    /// Looks now and then, and writes an alert into the outbox for each of `passes` that became overdue.
    pub(crate) async fn look(&mut self, store: &Store, passes: &[&str]) -> Result<(), StoreError> {
        if self.looked.is_some_and(|looked| looked.worked() < LOOK) {
            return Ok(());
        }
        self.looked = Some(Stopwatch::start());
        let now = store.now().await?;
        let began = *self.began.get_or_insert(now);
        for row in store.schedules().await? {
            let name = &row.schedule.name;
            let late = passes.contains(&name.as_str()) && is_overdue(&row, began, now);
            let told = self.told.contains(name);
            if late && !told {
                store.outbox(&ringing(&row, now)).await?;
                self.told.push(name.clone());
            } else if !late && told {
                self.told.retain(|other| other != name);
            }
        }
        Ok(())
    }
}

fn is_overdue(row: &ScheduleRow, began: Timestamp, now: Timestamp) -> bool {
    let ended = row.last.as_ref().and_then(|last| last.finished_at);
    // Nobody was there before this process began: that is not the pass's fault.
    let since = ended.map_or(began, |ended| ended.max(began));
    now.since(since) > row.schedule.every.saturating_mul(3).saturating_add(PATIENCE)
}

fn ringing(row: &ScheduleRow, now: Timestamp) -> Ringing {
    let name = &row.schedule.name;
    let last = row.last.as_ref().and_then(|last| last.finished_at);
    let since = last.map_or_else(|| "ever".to_owned(), |last| format!("for {} min", now.since(last).as_secs() / 60));
    let why = row.open.as_ref().map_or("nobody has run it", |open| match &open.error {
        Some(error) => error,
        None => "it began and has not ended",
    });
    Ringing {
        kind: AlertKind::PassOverdue,
        subject: name.clone(),
        job: None,
        message: format!("the pass '{name}' has not run well {since}: {why}"),
        details: json!({ "pass": name, "last_end": last.map(|last| last.to_string()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{PassRun, Schedule};
    use crate::window::CatchUp;

    fn row(ended: Option<Timestamp>) -> ScheduleRow {
        let run = |at: Timestamp| PassRun {
            window: at,
            owner: String::new(),
            started_at: at,
            finished_at: Some(at),
            result: None,
            error: None,
        };
        let schedule = Schedule { name: "sweep".to_owned(), every: Duration::from_secs(60), catch_up: CatchUp::Latest };
        ScheduleRow { schedule, high_water: Timestamp::from_millis(0), skipped: 0, last: ended.map(run), open: None }
    }

    #[test]
    fn a_pass_is_overdue_after_three_windows_and_five_minutes_of_a_worker_being_there() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        assert!(!is_overdue(&row(Some(at(1_000))), at(0), at(1_000 + 480)));
        assert!(is_overdue(&row(Some(at(1_000))), at(0), at(1_000 + 481)));
        assert!(!is_overdue(&row(Some(at(0))), at(90_000), at(90_001)), "nobody was there all day");
        assert!(is_overdue(&row(Some(at(0))), at(90_000), at(90_481)));
        assert!(!is_overdue(&row(None), at(0), at(480)) && is_overdue(&row(None), at(0), at(481)));
        let told = ringing(&row(Some(at(0))), at(600));
        assert_eq!(told.message, "the pass 'sweep' has not run well for 10 min: nobody has run it");
    }
}
