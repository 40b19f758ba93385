//! Ending a session: done, interrupted, failed, cancelled or paused.
//!
//! Owns the last transaction of a holder. It does not know why it stops. Invariant: a job is done only when
//! every lane stands at the end of the input and its counts add up; these commits are synchronous (rule 15).

use sqlx::types::Json;

use crate::crash;
use crate::job::State;
use crate::position::Position;
use crate::run::Counts;
use crate::store::admit::as_i64;
use crate::store::attempt::{ATTEMPT_OUTCOME, CLOSE_ATTEMPT};
use crate::store::events::{JobEvent, announce};
use crate::store::hints::ring;
use crate::store::job_row::{JobError, sum_results};
use crate::store::session::Session;
use crate::store::{Pool, StoreError, now, on};
use crate::verdict::{Charge, Leaving};

/// Lanes that do not stand at the end.
const BEHIND: &str = "SELECT count(*) FROM job_lanes WHERE job_id = $1 AND byte <> $2";

const DONE: &str = "UPDATE jobs
    SET state = 'done', owner = NULL, lease_until = NULL, result = $4, error = NULL, finished_at = $5, progress = $4
    WHERE id = $1 AND state = 'running' AND fence = $2 AND owner = $3
    RETURNING queue";

const COUNT_LIST: &str = "UPDATE lists SET recipient_count = recipient_count + $2
    WHERE id = (SELECT list_id FROM jobs WHERE id = $1)";

/// $4 the next state, $5 the error, $6 when it ended, if that state is final, $7 what is charged, $8 when a queued job
/// may run again, $9 how the fence grows: a released job must not be taken for one that is still held.
const LEAVE: &str = "UPDATE jobs
    SET state = $4, owner = NULL, lease_until = NULL, error = $5, finished_at = $6, attempts = attempts + $7,
        run_at = COALESCE($8, run_at), fence = fence + $9, cancel_requested_at = NULL, pause_requested_at = NULL
    WHERE id = $1 AND state = 'running' AND fence = $2 AND owner = $3
    RETURNING queue";

const FULL: &str = "PRAGMA synchronous = FULL";
const NORMAL: &str = "PRAGMA synchronous = NORMAL";

impl Session {
    /// Finishes the job: every lane must stand at `end`, and the counts become its result.
    ///
    /// `PositionMoved`: some lane does not stand there (a crashed server lost confirmed parts). After `Gone`
    /// or `Silent` ask for a heartbeat: where the job is not held any more, ask `was_finished`.
    pub async fn finish(&self, end: Position) -> Result<Counts, StoreError> {
        // What was committed under NORMAL becomes durable with this commit.
        self.sqlite_durability(FULL).await?;
        let outcome = self.answered(self.try_finish(end)).await;
        self.sqlite_durability(NORMAL).await?;
        outcome
    }

    async fn try_finish(&self, end: Position) -> Result<Counts, StoreError> {
        let lease = &self.lease;
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let behind: i64 =
                sqlx::query_scalar(BEHIND).bind(lease.job.0).bind(as_i64(end.byte)).fetch_one(&mut *tx).await?;
            if behind > 0 {
                return Err(StoreError::PositionMoved);
            }
            let counts = sum_results!(&mut *tx, lease.job)?;
            if !counts.adds_up() {
                return Err(StoreError::Corrupt(format!("the counts of job {} do not add up: {counts:?}", lease.job)));
            }
            let now = now!(&self.pool, &mut *tx);
            let done: Vec<String> = sqlx::query_scalar(DONE)
                .bind(lease.job.0)
                .bind(lease.fence.0)
                .bind(&lease.owner)
                .bind(Json(&counts))
                .bind(now)
                .fetch_all(&mut *tx)
                .await?;
            let Some(queue) = done.first() else { return Err(StoreError::LeaseLost) };
            sqlx::query(COUNT_LIST).bind(lease.job.0).bind(as_i64(counts.inserted)).execute(&mut *tx).await?;
            sqlx::query(CLOSE_ATTEMPT)
                .bind(lease.job.0)
                .bind(lease.fence.0)
                .bind(&lease.owner)
                .bind(now)
                .bind(State::Done.as_str())
                .bind(None::<&str>)
                .execute(&mut *tx)
                .await?;
            announce!(&mut *tx, now, lease.job, JobEvent::Done(&counts));
            // The next job of the list may begin.
            ring!(&self.pool, queue.as_str(), &mut *tx);
            crash::point("import::before_finish");
            tx.commit().await?;
            Ok(counts)
        })
    }

    /// Whether this very session finished the job, asked after its COMMIT went unanswered.
    pub async fn was_finished(&self) -> Result<bool, StoreError> {
        let lease = &self.lease;
        let asked = async {
            let outcome: Option<Option<String>> = on!(&self.pool, |db| {
                sqlx::query_scalar(ATTEMPT_OUTCOME)
                    .bind(lease.job.0)
                    .bind(lease.fence.0)
                    .bind(&lease.owner)
                    .fetch_optional(db)
                    .await?
            });
            Ok(outcome)
        };
        let outcome = self.answered(asked).await?;
        Ok(outcome.flatten().as_deref() == Some(State::Done.as_str()))
    }

    /// Gives the job up in another state than done. `LeaseLost` when it is not held any more.
    pub async fn leave(&self, leaving: Leaving, error: Option<&JobError>) -> Result<(), StoreError> {
        let lease = &self.lease;
        let next = leaving.next;
        if !State::Running.may_become(next) {
            return Err(StoreError::State { job: lease.job, state: State::Running, verb: "left like that" });
        }
        let requeued = next == State::Queued;
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let left: Vec<String> = sqlx::query_scalar(LEAVE)
                .bind(lease.job.0)
                .bind(lease.fence.0)
                .bind(&lease.owner)
                .bind(next.as_str())
                .bind(error.map(Json))
                .bind((!next.is_unfinished()).then_some(now))
                .bind(i64::from(leaving.charge == Charge::Charged))
                .bind(requeued.then(|| now.plus(leaving.rest)))
                .bind(i64::from(requeued))
                .fetch_all(&mut *tx)
                .await?;
            let Some(queue) = left.first() else { return Err(StoreError::LeaseLost) };
            sqlx::query(CLOSE_ATTEMPT)
                .bind(lease.job.0)
                .bind(lease.fence.0)
                .bind(&lease.owner)
                .bind(now)
                .bind(next.as_str())
                .bind(error.map(|error| format!("{}: {}", error.code, error.message)))
                .execute(&mut *tx)
                .await?;
            match (next, error) {
                (State::Failed, Some(error)) => announce!(&mut *tx, now, lease.job, JobEvent::Failed(error)),
                (State::Interrupted, Some(error)) => announce!(&mut *tx, now, lease.job, JobEvent::Stopped(error)),
                (State::Cancelled, _) => announce!(&mut *tx, now, lease.job, JobEvent::Cancelled),
                _ => {}
            }
            ring!(&self.pool, queue.as_str(), &mut *tx);
            tx.commit().await?;
            Ok(())
        })
    }

    /// Differs: PostgreSQL's commits are durable unless a part relaxes its own.
    async fn sqlite_durability(&self, pragma: &'static str) -> Result<(), StoreError> {
        if let Pool::Sqlite(db) = &self.pool {
            sqlx::raw_sql(pragma).execute(db).await?;
        }
        Ok(())
    }
}
