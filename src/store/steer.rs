//! Steering jobs: cancel, pause, resume, retry.
//!
//! Owns the changes that a person asks for. A running job is only asked; its holder answers at the next
//! batch's end. Invariant: each change is an edge of `job::TRANSITIONS`, made by compare-and-set.

use crate::admission::Hold;
use crate::job::{JobId, State};
use crate::owner::Owner;
use crate::store::admit::hold_of;
use crate::store::attempt::CLOSE_ATTEMPTS;
use crate::store::events::{JobEvent, announce};
use crate::store::hints::ring;
use crate::store::job_row::JobRow;
use crate::store::{Pool, Store, StoreError, now, on, postgres};

const CANCEL: &str = "UPDATE jobs SET state = 'cancelled', finished_at = $2
    WHERE id = $1 AND state IN ('queued', 'paused', 'interrupted')";
const ASK_CANCEL: &str = "UPDATE jobs SET cancel_requested_at = $2 WHERE id = $1 AND state = 'running'";

const PAUSE: &str = "UPDATE jobs SET state = 'paused' WHERE id = $1 AND state IN ('queued', 'interrupted')";
const ASK_PAUSE: &str = "UPDATE jobs SET pause_requested_at = $2 WHERE id = $1 AND state = 'running'";

const RESUME: &str = "UPDATE jobs SET state = CASE WHEN direct THEN 'interrupted' ELSE 'queued' END
    WHERE id = $1 AND state = 'paused'";

/// A direct job has no worker: it waits for its command, which reopens it.
const RETRY: &str = "UPDATE jobs SET state = 'queued', run_at = $2, attempts = 0, finished_at = NULL
    WHERE id = $1 AND state IN ('failed', 'cancelled') AND NOT direct
      AND keys_pruned_at IS NULL AND rejects_pruned_at IS NULL";

const STATE_OF: &str = "SELECT state FROM jobs WHERE id = $1";

const RESCUE: &str = "UPDATE jobs
    SET state = CASE WHEN direct THEN 'interrupted' ELSE 'queued' END, owner = NULL, lease_until = NULL,
        fence = fence + 1, rescues = rescues + 1, attempts = attempts + CASE WHEN direct THEN 0 ELSE 1 END
    WHERE id = $1 AND state = 'running' AND fence = $2 AND owner = $3";

impl Store {
    /// Takes a running job from a holder that is gone, so that nobody waits for that holder to answer.
    ///
    /// `is_gone` says whether a holder's process is provably gone; an expired lease counts as well. Returns
    /// whether the job was rescued: it is `interrupted` then, or `queued` if workers do it.
    pub async fn rescue_job(&self, id: JobId, is_gone: &(dyn Fn(&Owner) -> bool + Sync)) -> Result<bool, StoreError> {
        let Some(job) = self.job(id).await? else { return Err(StoreError::UnknownJob(id)) };
        let now = on!(&self.pool, |db| now!(&self.pool, db));
        if !matches!(hold_of(&job, now, is_gone), Hold::Expired | Hold::Dead) {
            return Ok(false);
        }
        if let Pool::Postgres(db) = &self.pool {
            postgres::end_sessions(db, job.id, job.fence).await?;
        }
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let rescue = sqlx::query(RESCUE).bind(id.0).bind(job.fence.0).bind(job.owner.as_deref());
            let rescued = rescue.execute(&mut *tx).await?.rows_affected() == 1;
            if rescued {
                sqlx::query(CLOSE_ATTEMPTS).bind(id.0).bind(now).bind("rescued").execute(&mut *tx).await?;
            }
            tx.commit().await?;
            Ok(rescued)
        })
    }

    /// Cancels a job; a running one is asked to stop at the next batch's end.
    pub async fn cancel_job(&self, id: JobId) -> Result<JobRow, StoreError> {
        self.steer(id, &[CANCEL, ASK_CANCEL], "cancelled").await
    }

    /// Holds a job back; a running one is asked to stop at the next batch's end.
    pub async fn pause_job(&self, id: JobId) -> Result<JobRow, StoreError> {
        self.steer(id, &[PAUSE, ASK_PAUSE], "paused").await
    }

    /// Lets a paused job go on.
    pub async fn resume_job(&self, id: JobId) -> Result<JobRow, StoreError> {
        self.steer(id, &[RESUME], "resumed").await
    }

    /// Gives a failed or cancelled job back to the workers.
    pub async fn retry_job(&self, id: JobId) -> Result<JobRow, StoreError> {
        self.steer(id, &[RETRY], "retried by a worker").await
    }

    /// Tries the statements in turn until one changes the job.
    async fn steer(&self, id: JobId, statements: &[&'static str], verb: &'static str) -> Result<JobRow, StoreError> {
        self.job(id).await?.ok_or(StoreError::UnknownJob(id))?;
        let changed = on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let mut changed = 0;
            for statement in statements {
                if changed == 0 {
                    // A statement that needs no time ignores $2, which PostgreSQL would refuse to bind.
                    let query = sqlx::query(*statement).bind(id.0);
                    let query = if statement.contains("$2") { query.bind(now) } else { query };
                    changed = query.execute(&mut *tx).await?.rows_affected();
                }
            }
            if changed > 0 {
                if statements.contains(&CANCEL) {
                    let state: Option<String> =
                        sqlx::query_scalar(STATE_OF).bind(id.0).fetch_optional(&mut *tx).await?;
                    if state.as_deref() == Some(State::Cancelled.as_str()) {
                        announce!(&mut *tx, now, id, JobEvent::Cancelled);
                    }
                }
                ring!(&self.pool, "", &mut *tx);
            }
            tx.commit().await?;
            changed
        });
        let after = self.job(id).await?.ok_or(StoreError::UnknownJob(id))?;
        if changed == 0 {
            return Err(StoreError::State { job: id, state: after.state, verb });
        }
        Ok(after)
    }
}
