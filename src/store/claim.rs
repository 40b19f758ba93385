//! Claiming: a worker takes the next job of a queue.
//!
//! Owns which job is next. It does not know when workers look. Invariant: of two workers that look at once
//! each gets another job or none, and jobs of one list run one at a time, in the order in which they came.

use std::time::Duration;

use crate::job::{Fence, JobId, QueueName};
use crate::owner::Owner;
use crate::store::attempt::OPEN_ATTEMPT;
use crate::store::job_row::{BY_ID, JobRow, Row};
use crate::store::session::Lease;
use crate::store::{Pool, Store, StoreError, now, on};

/// A job that was claimed.
#[derive(Debug)]
pub struct Claimed {
    /// The right to work on it.
    pub lease: Lease,
    /// The job as it stands now.
    pub job: JobRow,
    /// How often it was begun, this time included.
    pub attempt: u32,
}

/// A job of the list that runs, or one that came earlier and is due or rests after a failure, goes first. One that was
/// put off to a later time, that a person holds back, or whose file nobody sees keeps nobody waiting.
/// ($1 the queue, $2 now)
macro_rules! ready {
    ($lock:literal) => {
        concat!(
            "SELECT j.id FROM jobs j JOIN lists l ON l.id = j.list_id
             WHERE j.state = 'queued' AND j.queue = $1 AND j.run_at <= $2
               AND NOT EXISTS (SELECT 1 FROM jobs o
                 WHERE o.list_id = j.list_id AND o.state NOT IN ('done', 'superseded') AND o.id <> j.id
                   AND (o.state = 'running'
                     OR (o.state = 'queued' AND o.id < j.id AND (o.run_at <= $2
                       OR (o.attempts > 0 AND COALESCE(o.error ->> 'code', '') <> 'not_found')))))
             ORDER BY j.priority, j.run_at, j.id LIMIT 1",
            $lock
        )
    };
}

const READY_SQLITE: &str = ready!("");
/// The list is locked as well, so that a second look tells whether another of its jobs runs.
const READY_POSTGRES: &str = ready!(" FOR NO KEY UPDATE OF j, l SKIP LOCKED");

const CLAIM: &str = "UPDATE jobs
    SET state = 'running', fence = fence + 1, owner = $2, lease_until = $3, beat_at = $4,
        started_at = COALESCE(started_at, $4), cancel_requested_at = NULL, pause_requested_at = NULL
    WHERE id = $1 AND state = 'queued'
    RETURNING fence";

const OTHERS: &str = "SELECT count(*) FROM jobs o JOIN jobs me ON me.id = $1
    WHERE o.list_id = me.list_id AND o.state NOT IN ('done', 'superseded') AND o.state = 'running' AND o.id <> $1";

const ATTEMPTS: &str = "SELECT count(*) FROM job_attempts WHERE job_id = $1";

/// Jobs of a queue that are ready, running or resting after a failure; $2 is now.
const UNFINISHED: &str = "SELECT count(*) FROM jobs
    WHERE queue = $1 AND NOT direct AND state NOT IN ('done', 'superseded')
      AND (state = 'running' OR (state = 'queued' AND (run_at <= $2
        OR (attempts > 0 AND COALESCE(error ->> 'code', '') <> 'not_found'))))";

impl Store {
    /// How many jobs of these queues are ready, running or resting after a failure.
    pub async fn unfinished(&self, queues: &[QueueName]) -> Result<u64, StoreError> {
        let mut total = 0;
        for queue in queues {
            let count: i64 = on!(&self.pool, |db| {
                let mut connection = db.acquire().await?;
                let now = now!(&self.pool, &mut *connection);
                sqlx::query_scalar(UNFINISHED).bind(queue.as_str()).bind(now).fetch_one(&mut *connection).await?
            });
            total += u64::try_from(count).unwrap_or(0);
        }
        Ok(total)
    }

    /// Claims the next job of `queue` for `owner`. `None`: nothing is ready.
    ///
    /// After a crash in here nothing has happened, or the job is held by a process that is gone.
    pub async fn claim(
        &self,
        queue: &QueueName,
        owner: &Owner,
        lease: Duration,
    ) -> Result<Option<Claimed>, StoreError> {
        let text = owner.to_text();
        let ready = match &self.pool {
            // A look that takes no write lock: idle workers must not hold up those that write.
            Pool::Sqlite(db) => {
                let mut connection = db.acquire().await?;
                let now = now!(&self.pool, &mut *connection);
                let found: Option<i64> = sqlx::query_scalar(READY_SQLITE)
                    .bind(queue.as_str())
                    .bind(now)
                    .fetch_optional(&mut *connection)
                    .await?;
                if found.is_none() {
                    return Ok(None);
                }
                READY_SQLITE
            }
            Pool::Postgres(_) => READY_POSTGRES,
        };
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let found: Option<i64> =
                sqlx::query_scalar(ready).bind(queue.as_str()).bind(now).fetch_optional(&mut *tx).await?;
            let Some(id) = found else { return Ok(None) };
            let fences: Vec<i64> = sqlx::query_scalar(CLAIM)
                .bind(id)
                .bind(&text)
                .bind(now.plus(lease))
                .bind(now)
                .fetch_all(&mut *tx)
                .await?;
            let Some(fence) = fences.first().copied().map(Fence) else { return Ok(None) };
            // A statement of its own sees what was committed while the first one waited for its locks.
            let others: i64 = sqlx::query_scalar(OTHERS).bind(id).fetch_one(&mut *tx).await?;
            if others > 0 {
                return Ok(None);
            }
            sqlx::query(OPEN_ATTEMPT).bind(id).bind(fence.0).bind(&text).bind(now).execute(&mut *tx).await?;
            let attempts: i64 = sqlx::query_scalar(ATTEMPTS).bind(id).fetch_one(&mut *tx).await?;
            let row: Row = sqlx::query_as(BY_ID).bind(id).fetch_one(&mut *tx).await?;
            tx.commit().await?;
            Ok(Some(Claimed {
                lease: Lease::new(JobId(id), fence, &text, lease),
                job: JobRow::try_from(row)?,
                attempt: u32::try_from(attempts).unwrap_or(u32::MAX),
            }))
        })
    }
}
