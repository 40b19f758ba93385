//! Windows of scheduled passes: each is claimed by one process.
//!
//! Owns the tables of schedules and their runs. It does not know what a pass does. Invariant: a window is claimed
//! by moving the schedule's high-water mark forward by compare-and-set, in the database that the pass works on;
//! no leader is needed, and pruning old runs lets no window come back.

use std::time::Duration;

use sqlx::FromRow;
use sqlx::types::Json;

use crate::clock::Timestamp;
use crate::owner::Owner;
use crate::store::{Store, StoreError, now, on};
use crate::window::{CatchUp, Due, due, start_of};

/// When a pass is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The pass.
    pub name: String,
    /// The length of a window.
    pub every: Duration,
    /// What to do about windows that went by.
    pub catch_up: CatchUp,
}

/// A schedule as it is stored, and how it last ran.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleRow {
    /// When it is to run.
    pub schedule: Schedule,
    /// The start of the last window that was dealt with.
    pub high_water: Timestamp,
    /// Windows that were passed over.
    pub skipped: u64,
    /// Its newest run that ended well.
    pub last: Option<PassRun>,
    /// The newest run that began and has not ended, or ended badly.
    pub open: Option<PassRun>,
}

/// One run of a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct PassRun {
    /// The window's start.
    pub window: Timestamp,
    /// Who ran it.
    pub owner: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What it found or removed.
    pub result: Option<serde_json::Value>,
    /// Why it failed.
    pub error: Option<String>,
}

/// The windows of a schedule that this process claimed, the oldest first, and the database's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedWindows {
    /// Their starts.
    pub starts: Vec<Timestamp>,
    /// Windows that were passed over now.
    pub skipped: u64,
}

/// A new schedule is due at once; one whose length changed keeps its mark.
const ENSURE: &str = "INSERT INTO schedules (name, every_ms, catch_up, high_water) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name) DO UPDATE SET every_ms = excluded.every_ms, catch_up = excluded.catch_up
    WHERE schedules.every_ms <> excluded.every_ms OR schedules.catch_up <> excluded.catch_up";

const MARK: &str = "SELECT high_water FROM schedules WHERE name = $1 AND enabled = $2";

/// $2 the mark that was read, $3 the new one.
const ADVANCE: &str = "UPDATE schedules SET high_water = $3, skipped = skipped + $4
    WHERE name = $1 AND high_water = $2 AND high_water < $3";

const BEGIN_RUN: &str = "INSERT INTO schedule_runs (name, window_start, owner, started_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name, window_start) DO NOTHING";

const END_RUN: &str = "UPDATE schedule_runs SET finished_at = $4, result = $5, error = $6
    WHERE name = $1 AND window_start = $2 AND owner = $3";

const SCHEDULES: &str = "SELECT name, every_ms, catch_up, high_water, skipped FROM schedules ORDER BY name";

const LAST: &str = "SELECT window_start, owner, started_at, finished_at, result, error FROM schedule_runs
    WHERE name = $1 AND finished_at IS NOT NULL AND error IS NULL ORDER BY window_start DESC LIMIT 1";

const OPEN: &str = "SELECT window_start, owner, started_at, finished_at, result, error FROM schedule_runs
    WHERE name = $1 AND (finished_at IS NULL OR error IS NOT NULL) ORDER BY window_start DESC LIMIT 1";

/// Runs that began before $2, all but the newest that ended well.
const FORGET: &str = "DELETE FROM schedule_runs WHERE name = $1 AND started_at < $2 AND window_start <>
    COALESCE((SELECT max(window_start) FROM schedule_runs
              WHERE name = $1 AND finished_at IS NOT NULL AND error IS NULL), $2)";

#[derive(FromRow)]
struct Row {
    window_start: Timestamp,
    owner: String,
    started_at: Timestamp,
    finished_at: Option<Timestamp>,
    result: Option<Json<serde_json::Value>>,
    error: Option<String>,
}

impl From<Row> for PassRun {
    fn from(row: Row) -> Self {
        Self {
            window: row.window_start,
            owner: row.owner,
            started_at: row.started_at,
            finished_at: row.finished_at,
            result: row.result.map(|json| json.0),
            error: row.error,
        }
    }
}

impl Store {
    /// Makes a schedule known, or changes its length and policy.
    pub async fn ensure_schedule(&self, schedule: &Schedule) -> Result<(), StoreError> {
        let every = i64::try_from(schedule.every.as_millis()).unwrap_or(i64::MAX).max(1);
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let before = start_of(now, schedule.every).minus(schedule.every);
            sqlx::query(ENSURE)
                .bind(&schedule.name)
                .bind(every)
                .bind(schedule.catch_up.as_str())
                .bind(before)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        });
        Ok(())
    }

    /// Claims the windows of a schedule that are due now, by the database's clock.
    ///
    /// Of any number of processes that ask, one gets a window. A process that dies after this has taken its
    /// windows with it: a pass must be such that the next window makes up for it.
    pub async fn claim_windows(&self, schedule: &Schedule, owner: &Owner) -> Result<ClaimedWindows, StoreError> {
        let none = ClaimedWindows { starts: Vec::new(), skipped: 0 };
        // A look first: most of the time nothing is due, and nothing is to be locked.
        let (now, mark) = self.mark(&schedule.name).await?;
        let Some(mark) = mark else { return Ok(none) };
        let Due { starts, skipped, passed } = due(mark, now, schedule.every, schedule.catch_up);
        let Some(new_mark) = starts.last().copied().or(passed) else { return Ok(none) };
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let advanced = sqlx::query(ADVANCE)
                .bind(&schedule.name)
                .bind(mark)
                .bind(new_mark)
                .bind(i64::try_from(skipped).unwrap_or(i64::MAX))
                .execute(&mut *tx)
                .await?;
            if advanced.rows_affected() != 1 {
                return Ok(none);
            }
            for start in &starts {
                sqlx::query(BEGIN_RUN)
                    .bind(&schedule.name)
                    .bind(*start)
                    .bind(owner.to_text())
                    .bind(now)
                    .execute(&mut *tx)
                    .await?;
            }
            tx.commit().await?;
        });
        Ok(ClaimedWindows { starts, skipped })
    }

    async fn mark(&self, name: &str) -> Result<(Timestamp, Option<Timestamp>), StoreError> {
        on!(&self.pool, |db| {
            let mut connection = db.acquire().await?;
            let now = now!(&self.pool, &mut *connection);
            let mark = sqlx::query_scalar(MARK).bind(name).bind(true).fetch_optional(&mut *connection).await?;
            Ok((now, mark))
        })
    }

    /// Notes how a run of a pass ended: what it found or removed, or why it failed.
    pub async fn end_pass(
        &self,
        name: &str,
        window: Timestamp,
        owner: &Owner,
        outcome: Result<&serde_json::Value, &str>,
    ) -> Result<(), StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            sqlx::query(END_RUN)
                .bind(name)
                .bind(window)
                .bind(owner.to_text())
                .bind(now)
                .bind(outcome.ok().map(Json))
                .bind(outcome.err())
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        });
        Ok(())
    }

    /// Every schedule and how it last ran, by name.
    pub async fn schedules(&self) -> Result<Vec<ScheduleRow>, StoreError> {
        type Stored = (String, i64, String, Timestamp, i64);
        let rows: Vec<Stored> = on!(&self.pool, |db| sqlx::query_as(SCHEDULES).fetch_all(db).await?);
        let mut found = Vec::new();
        for (name, every, catch_up, high_water, skipped) in rows {
            let (last, open): (Option<Row>, Option<Row>) = on!(&self.pool, |db| {
                let last = sqlx::query_as(LAST).bind(&name).fetch_optional(db).await?;
                (last, sqlx::query_as(OPEN).bind(&name).fetch_optional(db).await?)
            });
            let catch_up = CatchUp::from_word(&catch_up)
                .ok_or_else(|| StoreError::Corrupt(format!("schedule '{name}' has an impossible policy")))?;
            let every = Duration::from_millis(u64::try_from(every).unwrap_or(1));
            found.push(ScheduleRow {
                schedule: Schedule { name, every, catch_up },
                high_water,
                skipped: u64::try_from(skipped).unwrap_or(0),
                last: last.map(PassRun::from),
                open: open.map(PassRun::from),
            });
        }
        Ok(found)
    }

    /// Forgets runs of a pass that began before `before`; the newest that ended well is kept.
    pub async fn forget_pass_runs(&self, name: &str, before: Timestamp) -> Result<u64, StoreError> {
        Ok(on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let gone = sqlx::query(FORGET).bind(name).bind(before).execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            gone
        }))
    }
}
