//! The sweep: taking jobs from holders that died or hang.
//!
//! Owns what becomes of a job whose lease has ended. It does not know when sweeps are due. Invariant: a job is
//! taken only while its lease is still ended in the very statement that takes it, its old sessions are ended
//! before (rule 16), and its fence grows, so that its former holder writes nothing more.

use std::time::Duration;

use sqlx::types::Json;

use crate::backoff::JOB;
use crate::clock::Timestamp;
use crate::fault::Code;
use crate::job::{Fence, JobId, State};
use crate::owner::Owner;
use crate::store::attempt::CLOSE_ATTEMPTS;
use crate::store::events::{JobEvent, announce};
use crate::store::hints::ring;
use crate::store::job_row::JobError;
use crate::store::{Pool, Store, StoreError, now, on, postgres};

/// A job that was taken from its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// The job.
    pub job: JobId,
    /// Where it stands now.
    pub state: State,
    /// Attempts that are charged now.
    pub attempts: u32,
    /// How often it was taken from a holder that died.
    pub rescues: u32,
    /// Who held it.
    pub holder: String,
}

/// How long a direct job's ended lease is left alone besides the grace: its own process waits so long for a
/// database that went away, and renews an ended lease that nobody took.
const DIRECT_REST: Duration = Duration::from_secs(120);

/// After every lease: 2262.
const NO_MATTER_WHEN: Timestamp = Timestamp::from_millis(9_223_372_036_854);

/// Candidates of one sweep; the next one takes the rest.
const RUNNING: &str = "SELECT id, fence, owner, lease_until, direct, attempts, rescues, queue FROM jobs
    WHERE state = 'running' ORDER BY lease_until, id LIMIT 1000";

/// $4 a lease that ended before then counts as ended, $5 now, $6 when a queued job may run again, $7 the error.
const SWEEP: &str = "UPDATE jobs
    SET state = CASE WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
                     WHEN pause_requested_at IS NOT NULL THEN 'paused'
                     WHEN direct THEN 'interrupted'
                     WHEN attempts + 1 >= max_attempts THEN 'failed'
                     ELSE 'queued' END,
        finished_at = CASE WHEN cancel_requested_at IS NOT NULL
                             OR (pause_requested_at IS NULL AND NOT direct AND attempts + 1 >= max_attempts)
                           THEN $5 ELSE finished_at END,
        fence = fence + 1, rescues = rescues + 1, attempts = attempts + CASE WHEN direct THEN 0 ELSE 1 END,
        run_at = CASE WHEN direct THEN run_at ELSE $6 END, error = $7, owner = NULL, lease_until = NULL,
        cancel_requested_at = NULL, pause_requested_at = NULL
    WHERE id = $1 AND state = 'running' AND fence = $2 AND owner = $3 AND lease_until < $4
    RETURNING state, attempts, rescues";

type Candidate = (i64, i64, String, Timestamp, bool, i64, i64, String);

impl Store {
    /// Takes every job whose lease ended more than `grace` ago, or whose holder is provably gone.
    ///
    /// A queued job goes back to its queue after a pause, or fails once its attempts are spent; a direct one waits
    /// for its command. A job that another session holds locked is left to the next sweep.
    pub async fn sweep(
        &self,
        grace: Duration,
        is_gone: &(dyn Fn(&Owner) -> bool + Sync),
    ) -> Result<Vec<Swept>, StoreError> {
        let (now, running): (Timestamp, Vec<Candidate>) = on!(&self.pool, |db| {
            let mut connection = db.acquire().await?;
            let now = now!(&self.pool, &mut *connection);
            (now, sqlx::query_as(RUNNING).fetch_all(&mut *connection).await?)
        });
        let mut swept = Vec::new();
        for candidate in running {
            let rest = if candidate.4 { grace + DIRECT_REST } else { grace };
            let gone = is_gone(&Owner::from_text(&candidate.2));
            if !gone && candidate.3.plus(rest) >= now {
                continue;
            }
            if let Pool::Postgres(db) = &self.pool {
                postgres::end_sessions(db, JobId(candidate.0), Fence(candidate.1)).await?;
            }
            match self.take(&candidate, gone.then_some(()), rest).await {
                Ok(taken) => swept.extend(taken),
                Err(StoreError::Retry(error)) => {
                    tracing::info!(job = candidate.0, %error, "somebody holds the job locked; left to the next sweep");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }

    async fn take(&self, candidate: &Candidate, gone: Option<()>, rest: Duration) -> Result<Option<Swept>, StoreError> {
        let (id, fence, holder, _, _, _, rescues, queue) = candidate;
        let error = died(&Owner::from_text(holder));
        let tries = u32::try_from(*rescues).unwrap_or(u32::MAX).saturating_add(1);
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            // Whoever is provably gone renews nothing, so its lease need not have ended.
            let ended = if gone.is_some() { NO_MATTER_WHEN } else { now.minus(rest) };
            let taken: Vec<(String, i64, i64)> = sqlx::query_as(SWEEP)
                .bind(id)
                .bind(fence)
                .bind(holder)
                .bind(ended)
                .bind(now)
                .bind(now.plus(JOB.delay(tries, fastrand::f64())))
                .bind(Json(&error))
                .fetch_all(&mut *tx)
                .await?;
            let Some((word, attempts, rescues)) = taken.into_iter().next() else { return Ok(None) };
            sqlx::query(CLOSE_ATTEMPTS).bind(id).bind(now).bind("rescued").execute(&mut *tx).await?;
            announce!(&mut *tx, now, JobId(*id), JobEvent::Rescued(rescues));
            match State::from_word(&word) {
                Some(State::Failed) => announce!(&mut *tx, now, JobId(*id), JobEvent::Failed(&error)),
                Some(State::Cancelled) => announce!(&mut *tx, now, JobId(*id), JobEvent::Cancelled),
                _ => {}
            }
            ring!(&self.pool, queue.as_str(), &mut *tx);
            tx.commit().await?;
            Ok(Some(Swept {
                job: JobId(*id),
                state: State::from_word(&word)
                    .ok_or_else(|| StoreError::Corrupt(format!("job {id} was swept into '{word}'")))?,
                attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
                rescues: u32::try_from(rescues).unwrap_or(u32::MAX),
                holder: Owner::from_text(holder).to_string(),
            }))
        })
    }
}

fn died(holder: &Owner) -> JobError {
    JobError {
        code: Code::HolderDied.as_str().to_owned(),
        message: format!("{holder}, which ran it, died or was not heard of for longer than its lease"),
    }
}
