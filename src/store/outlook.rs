//! What stands between a job and its run.
//!
//! Owns the facts behind "why is it not running". It does not put them into words. Invariant: it only reads.

use crate::clock::Timestamp;
use crate::job::{JobId, State};
use crate::store::job_row::JobRow;
use crate::store::{Store, StoreError, WorkerRow, now, on};

/// The facts about one job, all of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The database's time.
    pub now: Timestamp,
    /// The job of the same list that goes first, and where it stands.
    pub before: Option<(JobId, State)>,
    /// Workers of its queue, the one that was there last first.
    pub workers: Vec<WorkerRow>,
}

/// The same condition as in `claim`; $3 is now.
const BEFORE: &str = "SELECT o.id, o.state FROM jobs o
    WHERE o.list_id = $1 AND o.state NOT IN ('done', 'superseded') AND o.id <> $2
      AND (o.state = 'running'
        OR (o.state = 'queued' AND o.id < $2 AND (o.run_at <= $3
          OR (o.attempts > 0 AND COALESCE(o.error ->> 'code', '') <> 'not_found'))))
    ORDER BY CASE WHEN o.state = 'running' THEN 0 ELSE 1 END, o.id LIMIT 1";

/// How many workers are looked at.
const WORKERS_MOST: u32 = 1_000;

impl Store {
    /// What stands between `job` and its run.
    pub async fn outlook(&self, job: &JobRow) -> Result<Outlook, StoreError> {
        let (now, before): (Timestamp, Option<(i64, String)>) = on!(&self.pool, |db| {
            let mut connection = db.acquire().await?;
            let now = now!(&self.pool, &mut *connection);
            let before = sqlx::query_as(BEFORE)
                .bind(job.list.0)
                .bind(job.id.0)
                .bind(now)
                .fetch_optional(&mut *connection)
                .await?;
            (now, before)
        });
        let before = before.and_then(|(id, word)| Some((JobId(id), State::from_word(&word)?)));
        let mut workers = self.workers(WORKERS_MOST).await?;
        workers.retain(|worker| worker.queues.split(',').any(|queue| queue == job.queue));
        Ok(Outlook { now, before, workers })
    }
}
