//! Scheduled passes that have not run well for too long.
//!
//! Owns that this process tells it once. When a pass is overdue says `passes::health`, as for `doctor`. Invariant: a
//! pass that runs well again can be told of anew.

use serde_json::json;

use crate::alert::AlertKind;
use crate::queue::passes::{Health, Pass, PassHealth, PassTimes, health};
use crate::store::{Ringing, Store, StoreError};

/// How many workers are looked at.
const WORKERS_MOST: u32 = 1_000;

/// The passes that were told of and are still overdue.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    told: Vec<Pass>,
}

impl Overdue {
    /// Looks, and writes an alert into the outbox for each pass that became overdue.
    pub(crate) async fn look(&mut self, store: &Store, times: &PassTimes) -> Result<(), StoreError> {
        let (schedules, workers) = (store.schedules().await?, store.workers(WORKERS_MOST).await?);
        for pass in self.news(health(times, &schedules, &workers, store.now().await?)) {
            store.outbox(&ringing(&pass)).await?;
            self.told.push(pass.pass);
        }
        Ok(())
    }

    /// Those that became overdue; one that is not any more is forgotten.
    fn news(&mut self, passes: Vec<PassHealth>) -> Vec<PassHealth> {
        let late: Vec<PassHealth> = passes.into_iter().filter(|pass| pass.health == Health::Overdue).collect();
        self.told.retain(|told| late.iter().any(|pass| pass.pass == *told));
        late.into_iter().filter(|pass| !self.told.contains(&pass.pass)).collect()
    }
}

fn ringing(pass: &PassHealth) -> Ringing {
    let name = pass.pass.as_str();
    let ended = pass.last.as_ref().and_then(|run| run.finished_at).map(|ended| ended.to_string());
    let since = ended.as_ref().map_or_else(|| "ever".to_owned(), |ended| format!("since {ended}"));
    let why = pass.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    Ringing {
        kind: AlertKind::PassOverdue,
        subject: name.to_owned(),
        job: None,
        message: format!("the pass '{name}' has not run well {since}{why}"),
        details: json!({ "pass": name, "last_end": ended }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pass(health: Health) -> PassHealth {
        PassHealth { pass: Pass::Sweep, health, every: Duration::from_secs(10), skipped: 0, last: None, error: None }
    }

    #[test]
    fn a_pass_is_told_of_once_until_it_runs_well_again() {
        let mut overdue = Overdue::default();
        let mut told = |health| {
            let news = overdue.news(vec![pass(health)]);
            overdue.told.extend(news.iter().map(|pass| pass.pass));
            news.len()
        };
        assert_eq!([told(Health::Overdue), told(Health::Overdue)], [1, 0]);
        assert_eq!([told(Health::Ran), told(Health::Overdue)], [0, 1]);
        assert_eq!(ringing(&pass(Health::Overdue)).message, "the pass 'sweep' has not run well ever");
    }
}
