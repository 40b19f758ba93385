//! Giving an import to the workers.
//!
//! Owns how a job gets into the queue. The decision is `admission::decide`, as for an import that runs at once;
//! who runs it is `claim`. Invariant: one unfinished job per list and input, so that the same import given
//! twice is one job.

use sqlx::types::Json;

use crate::admission::Decision;
use crate::clock::Timestamp;
use crate::job::{JobId, QueueName, State};
use crate::owner::Owner;
use crate::settings::RULES_VERSION;
use crate::store::admit::{Admission, Ask, create_lanes, supersede, weigh};
use crate::store::hints::ring;
use crate::store::job_row::{BY_ID, JobRow, Row};
use crate::store::notice::retell;
use crate::store::{Store, StoreError, now, on};

/// How a job is to be run by the workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTerms {
    /// In which queue.
    pub queue: QueueName,
    /// Smaller numbers go first; 0 is usual.
    pub priority: i64,
    /// Not before then, by the database's clock; nothing means at once.
    pub run_at: Option<Timestamp>,
    /// How many attempts may be charged. At least 1.
    pub max_attempts: u32,
}

const CREATE: &str = "INSERT INTO jobs (kind, key, generation, direct, list_id, fingerprint, source, payload,
      rules_version, lanes, batch_rows, state, queue, priority, run_at, max_attempts, fence, created_at)
    VALUES ('import', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'queued', $11, $12, $13, $14, 0, $15)
    RETURNING id";

/// A job that stopped is run by the workers from now on; its lanes say from where.
const HAND_OVER: &str = "UPDATE jobs
    SET state = 'queued', direct = $2, queue = $3, priority = $4, run_at = $5, max_attempts = $6, attempts = 0,
        finished_at = NULL, error = NULL, cancel_requested_at = NULL, pause_requested_at = NULL
    WHERE id = $1 AND state IN ('interrupted', 'failed', 'cancelled')
      AND keys_pruned_at IS NULL AND rejects_pruned_at IS NULL";

impl Store {
    /// Puts an import into a queue, or says which job it is already.
    ///
    /// `Queued`: it waits for a worker now. `Waiting`, `Held`, `Paused`: so it did before. `Replay`: it is done.
    /// `TakeOver`: its holder is gone; rescue it and ask again. The owner and the lease of `ask` are not used.
    pub async fn enqueue(
        &self,
        ask: &Ask,
        terms: &QueueTerms,
        is_gone: &(dyn Fn(&Owner) -> bool + Sync),
    ) -> Result<Admission, StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let (now, jobs, decision) = weigh!(self, ask, is_gone, &mut *tx);
            let find = |id: JobId| {
                jobs.iter().find(|job| job.id == id).cloned().map(Box::new).ok_or(StoreError::UnknownJob(id))
            };
            let run_at = terms.run_at.map_or(now, |at| at.max(now));
            let admission = match decision {
                Decision::Create { generation, supersede } => {
                    supersede!(jobs, supersede, now, &mut *tx);
                    let ids: Vec<i64> = sqlx::query_scalar(CREATE)
                        .bind(ask.key.as_str())
                        .bind(i64::from(generation))
                        .bind(false)
                        .bind(ask.list.0)
                        .bind(&ask.fingerprint.0)
                        .bind(&ask.payload.source)
                        .bind(Json(&ask.payload))
                        .bind(RULES_VERSION)
                        .bind(i64::from(ask.grid.lanes))
                        .bind(i64::from(ask.grid.batch_rows))
                        .bind(terms.queue.as_str())
                        .bind(terms.priority)
                        .bind(run_at)
                        .bind(i64::from(terms.max_attempts))
                        .bind(now)
                        .fetch_all(&mut *tx)
                        .await?;
                    let id = ids
                        .first()
                        .copied()
                        .map(JobId)
                        .ok_or_else(|| StoreError::Corrupt("no job was made".to_owned()))?;
                    create_lanes!(id, ask, &mut *tx);
                    let row: Row = sqlx::query_as(BY_ID).bind(id.0).fetch_one(&mut *tx).await?;
                    Admission::Queued(Box::new(JobRow::try_from(row)?))
                }
                Decision::Resume(id) if find(id)?.state == State::Queued => {
                    let row = find(id)?;
                    retell!(&row, ask, &mut *tx);
                    Admission::Waiting(row)
                }
                Decision::Resume(id) => {
                    let handed = sqlx::query(HAND_OVER)
                        .bind(id.0)
                        .bind(false)
                        .bind(terms.queue.as_str())
                        .bind(terms.priority)
                        .bind(run_at)
                        .bind(i64::from(terms.max_attempts));
                    if handed.execute(&mut *tx).await?.rows_affected() != 1 {
                        return Err(StoreError::State { job: id, state: find(id)?.state, verb: "queued" });
                    }
                    retell!(&*find(id)?, ask, &mut *tx);
                    let row: Row = sqlx::query_as(BY_ID).bind(id.0).fetch_one(&mut *tx).await?;
                    Admission::Queued(Box::new(JobRow::try_from(row)?))
                }
                Decision::TakeOver(id) => Admission::TakeOver(find(id)?),
                Decision::Replay(id) => Admission::Replay(find(id)?),
                Decision::Held(id) => Admission::Held(find(id)?),
                Decision::Paused(id) => Admission::Paused(find(id)?),
                Decision::SettingsChanged(id) => Admission::SettingsChanged(find(id)?),
                Decision::OtherInput(id) => Admission::OtherInput(find(id)?),
                Decision::Replaced(id) => Admission::Replaced(find(id)?),
                Decision::Unknown(id) => Admission::Unknown(id),
            };
            if matches!(admission, Admission::Queued(_)) {
                ring!(&self.pool, terms.queue.as_str(), &mut *tx);
            }
            tx.commit().await?;
            Ok(admission)
        })
    }
}
