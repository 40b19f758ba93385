//! Retention: removing what finished jobs left behind, once it is old enough.
//!
//! Owns what goes and in which order. It does not know when it is due. Invariant: a mark in the job's row comes
//! before the first row goes, and a marked job is never resumed (`admission`); every statement that removes
//! something checks in itself that the job is finished; keys are gone before their job is, or a later job of the
//! same content would find its keys taken.

use std::time::Duration;

use sqlx::types::Json;

use crate::clock::{Stopwatch, Timestamp};
use crate::crash;
use crate::job::JobId;
use crate::run::Counts;
use crate::store::{Pool, Store, StoreError, on};

/// How old something must be to be removed; `None` keeps it for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Batch keys of finished jobs, after the job finished.
    pub keys: Option<Duration>,
    /// Refused rows of finished jobs.
    pub rejects: Option<Duration>,
    /// Finished jobs themselves, with their results and whatever else they left.
    pub jobs: Option<Duration>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Batch keys.
    pub keys: u64,
    /// Refused rows.
    pub rejects: u64,
    /// Jobs.
    pub jobs: u64,
    /// Whether the time was over before everything that is due was gone.
    pub unfinished: bool,
}

/// Rows of one transaction: neither SQLite's writer nor a server's locks are held for long.
const BATCH: i64 = 1_000;

/// Jobs that are looked up at once.
const JOBS_PAGE: i64 = 200;

/// Between two batches, so that other writers of a SQLite file get their turn: as long as the batch took, within
/// these bounds.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));

/// How often a batch is tried that another session's lock stopped.
const TRIES: u32 = 5;

/// The states of a job that nobody works on.
macro_rules! finished {
    () => {
        "state IN ('done', 'failed', 'cancelled', 'superseded')"
    };
}

/// Jobs of which an earlier pass removed a part.
const BEGUN: &str =
    "SELECT id, keys_pruned_at, rejects_pruned_at FROM jobs WHERE pruning AND id > $1 ORDER BY id LIMIT $2";

/// Oldest first: as long as a job is there, those that wrote into its list later are.
const DUE_JOBS: &str = concat!(
    "SELECT id FROM jobs WHERE finished_at < $1 AND finished_at IS NOT NULL AND ",
    finished!(),
    " ORDER BY finished_at, id LIMIT $2"
);
const DUE_KEYS: &str = concat!(
    "SELECT id FROM jobs WHERE finished_at < $1 AND finished_at IS NOT NULL AND keys_pruned_at IS NULL AND ",
    finished!(),
    " ORDER BY finished_at, id LIMIT $2"
);
const DUE_REJECTS: &str = concat!(
    "SELECT id FROM jobs WHERE finished_at < $1 AND finished_at IS NOT NULL AND rejects_pruned_at IS NULL AND ",
    finished!(),
    " ORDER BY finished_at, id LIMIT $2"
);

/// $2 now, $3 it finished before then, $4 the sum of its keys: a job that is not done has no result yet.
const MARK_KEYS: &str = concat!(
    "UPDATE jobs SET keys_pruned_at = $2, pruning = TRUE, result = COALESCE(result, $4)
     WHERE id = $1 AND finished_at < $3 AND keys_pruned_at IS NULL AND ",
    finished!()
);
const MARK_REJECTS: &str = concat!(
    "UPDATE jobs SET rejects_pruned_at = $2, pruning = TRUE
     WHERE id = $1 AND finished_at < $3 AND rejects_pruned_at IS NULL AND ",
    finished!()
);
/// Another process may be removing the same rows and die of it: the mark goes when they are gone.
const UNMARK: &str = "UPDATE jobs SET pruning = FALSE WHERE id = $1 AND pruning
      AND (keys_pruned_at IS NULL OR NOT EXISTS (SELECT 1 FROM job_runs r WHERE r.job_id = $1))
      AND (rejects_pruned_at IS NULL OR NOT EXISTS (SELECT 1 FROM rejects r WHERE r.job_id = $1))";

/// The job is locked where the engine locks rows, so that nobody reopens it before the rows are gone.
macro_rules! delete {
    ($table:literal, $key:literal, $mark:literal, $lock:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE job_id = $1 AND ",
            $key,
            " IN (SELECT ",
            $key,
            " FROM ",
            $table,
            " WHERE job_id = $1 LIMIT $2) AND EXISTS (SELECT 1 FROM jobs WHERE id = $1 AND ",
            $mark,
            " IS NOT NULL AND ",
            finished!(),
            $lock,
            ")"
        )
    };
}

const DELETE_KEYS_SQLITE: &str = delete!("job_runs", "key", "keys_pruned_at", "");
const DELETE_KEYS_POSTGRES: &str = delete!("job_runs", "key", "keys_pruned_at", " FOR SHARE");
const DELETE_REJECTS_SQLITE: &str = delete!("rejects", "byte", "rejects_pruned_at", "");
const DELETE_REJECTS_POSTGRES: &str = delete!("rejects", "byte", "rejects_pruned_at", " FOR SHARE");

const DELETE_LANES: &str = "DELETE FROM job_lanes WHERE job_id = $1";
const DELETE_ATTEMPTS: &str = "DELETE FROM job_attempts WHERE job_id = $1";
const DELETE_JOB: &str = concat!(
    "DELETE FROM jobs WHERE id = $1 AND finished_at < $2 AND keys_pruned_at IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM job_runs r WHERE r.job_id = $1)
       AND NOT EXISTS (SELECT 1 FROM rejects r WHERE r.job_id = $1) AND ",
    finished!()
);

/// What a job may lose besides itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Keys,
    Rejects,
}

/// A job that is to be marked, if it finished before then.
#[derive(Debug, Clone, Copy)]
struct Mark {
    id: JobId,
    now: Timestamp,
    before: Timestamp,
}

/// Tries again what another session's lock stopped.
macro_rules! patiently {
    ($work:expr) => {{
        let mut tries = 1;
        loop {
            match $work.await {
                Err(StoreError::Retry(_) | StoreError::Busy(_)) if tries < TRIES => tries += 1,
                outcome => break outcome,
            }
        }
    }};
}

/// One run: what it has removed and how long it may go on.
struct Run<'a> {
    store: &'a Store,
    now: Timestamp,
    watch: Stopwatch,
    budget: Duration,
    pruned: Pruned,
}

impl Store {
    /// Removes what is old enough by the database's clock, for about as long as `budget` allows.
    ///
    /// Killed anywhere, the next run goes on; several at once do no more than one. Never touches a job that is not
    /// finished, nor one that is reopened while this runs.
    pub async fn prune(&self, retention: &Retention, budget: Duration) -> Result<Pruned, StoreError> {
        let now = self.now().await?;
        let mut run = Run { store: self, now, watch: Stopwatch::start(), budget, pruned: Pruned::default() };
        run.go_on().await?;
        if let Some(age) = retention.jobs {
            run.jobs(now.minus(age)).await?;
        }
        if let Some(age) = retention.keys {
            run.parts(Part::Keys, now.minus(age)).await?;
        }
        if let Some(age) = retention.rejects {
            run.parts(Part::Rejects, now.minus(age)).await?;
        }
        Ok(run.pruned)
    }
}

impl Run<'_> {
    /// Finishes what an earlier run began.
    async fn go_on(&mut self) -> Result<(), StoreError> {
        let mut after = 0_i64;
        loop {
            let page: Vec<(i64, Option<Timestamp>, Option<Timestamp>)> =
                on!(&self.store.pool, |db| sqlx::query_as(BEGUN).bind(after).bind(JOBS_PAGE).fetch_all(db).await?);
            let Some((last, ..)) = page.last() else { return Ok(()) };
            after = *last;
            for (id, keys, rejects) in page {
                let mut whole = true;
                if keys.is_some() {
                    whole &= self.remove(JobId(id), Part::Keys).await?;
                }
                if rejects.is_some() {
                    whole &= self.remove(JobId(id), Part::Rejects).await?;
                }
                if !whole {
                    return Ok(());
                }
                self.unmark(JobId(id)).await?;
            }
        }
    }

    /// Removes the keys, or the refused rows, of jobs that finished before `before`.
    async fn parts(&mut self, part: Part, before: Timestamp) -> Result<(), StoreError> {
        let due = if part == Part::Keys { DUE_KEYS } else { DUE_REJECTS };
        loop {
            let page = self.due(due, before).await?;
            if page.is_empty() {
                return Ok(());
            }
            for id in page {
                self.mark(id, part, before).await?;
                if !self.remove(id, part).await? {
                    return Ok(());
                }
                self.unmark(id).await?;
            }
        }
    }

    /// Removes jobs that finished before `before`, with everything of theirs.
    async fn jobs(&mut self, before: Timestamp) -> Result<(), StoreError> {
        loop {
            let page = self.due(DUE_JOBS, before).await?;
            if page.is_empty() {
                return Ok(());
            }
            let mut gone = 0_u64;
            for id in page {
                self.mark(id, Part::Keys, before).await?;
                self.mark(id, Part::Rejects, before).await?;
                if !(self.remove(id, Part::Keys).await? && self.remove(id, Part::Rejects).await?) {
                    return Ok(());
                }
                gone += patiently!(self.store.delete_job(id, before))?;
            }
            self.pruned.jobs += gone;
            // Somebody reopened all of them, which the next page would show once more.
            if gone == 0 {
                return Ok(());
            }
        }
    }

    async fn due(&self, sql: &'static str, before: Timestamp) -> Result<Vec<JobId>, StoreError> {
        let ids: Vec<i64> =
            on!(&self.store.pool, |db| { sqlx::query_scalar(sql).bind(before).bind(JOBS_PAGE).fetch_all(db).await? });
        Ok(ids.into_iter().map(JobId).collect())
    }

    /// Marks a job before the first of its rows goes; one that is marked already, or not finished, stays as it is.
    async fn mark(&self, id: JobId, part: Part, before: Timestamp) -> Result<(), StoreError> {
        let mark = Mark { id, now: self.now, before };
        match part {
            Part::Keys => {
                // Nobody adds to a finished job's keys, so their sum can be taken before.
                let sum = self.store.committed(id).await?;
                patiently!(self.store.mark_keys(mark, (sum != Counts::default()).then_some(sum)))
            }
            Part::Rejects => patiently!(self.store.mark_rejects(mark)),
        }
    }

    async fn unmark(&self, id: JobId) -> Result<(), StoreError> {
        patiently!(self.store.unmark(id))
    }

    /// Removes a marked job's rows batch by batch. `false`: the time is over and some may be left.
    async fn remove(&mut self, id: JobId, part: Part) -> Result<bool, StoreError> {
        loop {
            if self.watch.worked() > self.budget {
                self.pruned.unfinished = true;
                return Ok(false);
            }
            let took = Stopwatch::start();
            let gone = patiently!(self.store.remove_batch(id, part))?;
            match part {
                Part::Keys => self.pruned.keys += gone,
                Part::Rejects => self.pruned.rejects += gone,
            }
            if gone < BATCH.unsigned_abs() {
                return Ok(true);
            }
            crash::point("prune::after_batch");
            tokio::time::sleep(took.worked().clamp(PAUSE.0, PAUSE.1)).await;
        }
    }
}

impl Store {
    async fn mark_keys(&self, mark: Mark, sum: Option<Counts>) -> Result<(), StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let query = sqlx::query(MARK_KEYS).bind(mark.id.0).bind(mark.now).bind(mark.before);
            query.bind(sum.map(Json)).execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }

    async fn mark_rejects(&self, mark: Mark) -> Result<(), StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let query = sqlx::query(MARK_REJECTS).bind(mark.id.0).bind(mark.now).bind(mark.before);
            query.execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }

    async fn unmark(&self, id: JobId) -> Result<(), StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            sqlx::query(UNMARK).bind(id.0).execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }

    async fn remove_batch(&self, id: JobId, part: Part) -> Result<u64, StoreError> {
        let sql = match (part, &self.pool) {
            (Part::Keys, Pool::Sqlite(_)) => DELETE_KEYS_SQLITE,
            (Part::Keys, Pool::Postgres(_)) => DELETE_KEYS_POSTGRES,
            (Part::Rejects, Pool::Sqlite(_)) => DELETE_REJECTS_SQLITE,
            (Part::Rejects, Pool::Postgres(_)) => DELETE_REJECTS_POSTGRES,
        };
        Ok(on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let gone = sqlx::query(sql).bind(id.0).bind(BATCH).execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            gone
        }))
    }

    /// Removes an emptied job. Returns 0 where it was reopened in between; then nothing of it went.
    async fn delete_job(&self, id: JobId, before: Timestamp) -> Result<u64, StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            sqlx::query(DELETE_LANES).bind(id.0).execute(&mut *tx).await?;
            sqlx::query(DELETE_ATTEMPTS).bind(id.0).execute(&mut *tx).await?;
            let gone = sqlx::query(DELETE_JOB).bind(id.0).bind(before).execute(&mut *tx).await?.rows_affected();
            if gone == 1 {
                tx.commit().await?;
            }
            Ok(gone)
        })
    }
}
