//! Letting an import in: finding the jobs it concerns, deciding, and claiming, in one transaction.
//!
//! Owns the claim. The decision itself is `admission::decide`. Invariant: two processes that ask for the
//! same import at once are let in one after the other, so at most one gets it.

use std::time::Duration;

use sqlx::types::Json;

use crate::admission::{Decision, Entry, Hold, Known};
use crate::clock::Timestamp;
use crate::job::{Fence, Fingerprint, Grid, JobId, JobKey, ListId, State};
use crate::location::names_one_input;
use crate::owner::Owner;
use crate::settings::RULES_VERSION;
use crate::store::attempt::{CLOSE_ATTEMPTS, OPEN_ATTEMPT};
use crate::store::job_row::{BY_ID, JobRow, Payload, Row, jobs_where};
use crate::store::session::Lease;
use crate::store::{Pool, Store, StoreError, now, on};

/// An import that asks to be let in.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Into which list.
    pub list: ListId,
    /// What it is, by content.
    pub key: JobKey,
    /// Its input's digest.
    pub fingerprint: Fingerprint,
    /// What a new job would be told to do.
    pub payload: Payload,
    /// The lanes and batches of a new job.
    pub grid: Grid,
    /// Which of `--again` and `--continue` was given.
    pub entry: Entry,
    /// Who asks; new for every ask.
    pub owner: Owner,
    /// For how long it would hold the job without a heartbeat.
    pub lease: Duration,
}

/// The answer.
#[derive(Debug)]
pub enum Admission {
    /// The job is held now; `job` is as it stood before.
    Begun(Lease, Box<JobRow>),
    /// The job's holder is gone: end its sessions, then `take_over`.
    TakeOver(Box<JobRow>),
    /// Nothing to do: the stored result answers.
    Replay(Box<JobRow>),
    /// Somebody else is at it.
    Held(Box<JobRow>),
    /// A person holds it back.
    Paused(Box<JobRow>),
    /// It was begun with other settings.
    SettingsChanged(Box<JobRow>),
    /// `--continue` names a job of another input.
    OtherInput(Box<JobRow>),
    /// `--continue` names a job that was replaced.
    Replaced(Box<JobRow>),
    /// `--continue` names no job of this list.
    Unknown(JobId),
    /// It waits for a worker now; only `enqueue` answers so.
    Queued(Box<JobRow>),
    /// It waited for a worker already; only `enqueue` answers so.
    Waiting(Box<JobRow>),
}

/// Differs: SQLite's write transaction already excludes everybody.
const LOCK_LIST_SQLITE: &str = "SELECT id FROM lists WHERE id = $1";
const LOCK_LIST_POSTGRES: &str = "SELECT id FROM lists WHERE id = $1 FOR NO KEY UPDATE";

/// Each branch has an index of its own, so that a list with a million finished jobs asks no more than a new one.
pub(crate) const CONCERNED: &str = jobs_where!(
    "WHERE j.kind = 'import' AND j.list_id = $1 AND j.id IN (
       SELECT f.id FROM jobs f WHERE f.list_id = $1 AND f.fingerprint = $2
       UNION SELECT n.id FROM jobs n WHERE n.id = $4
       UNION SELECT s.id FROM jobs s WHERE s.list_id = $1 AND s.source = $3 AND s.source <> '-'
         AND s.state NOT IN ('done', 'superseded') AND s.state IN ('queued', 'running', 'paused', 'interrupted'))
     ORDER BY j.id"
);

/// Imports that wrote into the list after job $2 finished, whatever became of them. Where keys were removed, the sum
/// that is kept of them tells whether there were any.
pub(crate) const SINCE: &str = "SELECT count(*) FROM jobs o JOIN jobs me ON me.id = $2
    WHERE o.list_id = $1 AND o.id <> me.id
      AND ((o.state = 'done' AND o.finished_at >= me.finished_at)
        OR (o.state <> 'done' AND o.keys_pruned_at IS NOT NULL AND o.result IS NOT NULL
            AND o.finished_at >= me.finished_at)
        OR (o.state <> 'done' AND EXISTS
             (SELECT 1 FROM job_runs r WHERE r.job_id = o.id AND r.completed_at >= me.finished_at)))";

const CREATE: &str = "INSERT INTO jobs (kind, key, generation, direct, list_id, fingerprint, source, payload,
      rules_version, lanes, batch_rows, state, run_at, fence, owner, lease_until, created_at, started_at, beat_at)
    VALUES ('import', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'running', $11, 1, $12, $13, $11, $11, $11)
    RETURNING id";

pub(crate) const CREATE_LANE: &str = "INSERT INTO job_lanes (job_id, lane, byte, line) VALUES ($1, $2, $3, $4)";

/// What lost keys or rejects to retention cannot go on; `admission` begins anew, and this holds when it came in between.
const CLAIM: &str = "UPDATE jobs
    SET state = 'running', fence = fence + 1, owner = $2, lease_until = $3, started_at = COALESCE(started_at, $4),
        beat_at = $4, finished_at = NULL, error = NULL, cancel_requested_at = NULL, pause_requested_at = NULL
    WHERE id = $1 AND state IN ('queued', 'interrupted', 'failed', 'cancelled')
      AND keys_pruned_at IS NULL AND rejects_pruned_at IS NULL
    RETURNING fence";

pub(crate) const SUPERSEDE: &str = "UPDATE jobs
    SET state = 'superseded', owner = NULL, lease_until = NULL, finished_at = $3
    WHERE id = $1 AND fence = $2 AND state IN ('queued', 'running', 'paused', 'interrupted')";

/// Whoever asked to cancel meant the holder that is gone; running the import again means to go on.
const TAKE_OVER: &str = "UPDATE jobs
    SET fence = fence + 1, owner = $4, lease_until = $5, rescues = rescues + 1,
        attempts = attempts + CASE WHEN direct THEN 0 ELSE 1 END, cancel_requested_at = NULL
    WHERE id = $1 AND state = 'running' AND fence = $2 AND owner = $3
    RETURNING fence";

/// Locks the list, reads the jobs that an import concerns and decides: (now, jobs, decision).
macro_rules! weigh {
    ($store:expr, $ask:expr, $is_gone:expr, $tx:expr) => {{
        let (store, ask): (&Store, &Ask) = ($store, $ask);
        let _: Option<i64> = sqlx::query_scalar($crate::store::admit::list_lock(&store.pool))
            .bind(ask.list.0)
            .fetch_optional($tx)
            .await?;
        let now = now!(&store.pool, $tx);
        let named = if let $crate::admission::Entry::Continue(id) = ask.entry { Some(id.0) } else { None };
        // A source that does not name one input has no jobs of its own.
        let names_one = $crate::location::names_one_input(&ask.payload.source);
        let source = if names_one { ask.payload.source.as_str() } else { "-" };
        let rows: Vec<$crate::store::job_row::Row> = sqlx::query_as($crate::store::admit::CONCERNED)
            .bind(ask.list.0)
            .bind(&ask.fingerprint.0)
            .bind(source)
            .bind(named)
            .fetch_all($tx)
            .await?;
        let jobs: Vec<JobRow> = rows.into_iter().map(JobRow::try_from).collect::<Result<_, _>>()?;
        let mut known: Vec<$crate::admission::Known> = jobs.iter().map(|job| ask.sees(job, now, $is_gone)).collect();
        for job in known.iter_mut().filter(|job| job.state == State::Done) {
            let since: i64 =
                sqlx::query_scalar($crate::store::admit::SINCE).bind(ask.list.0).bind(job.id.0).fetch_one($tx).await?;
            job.replayable = since == 0;
        }
        let decision = $crate::admission::decide(&known, &ask.key, ask.entry);
        (now, jobs, decision)
    }};
}
pub(crate) use weigh;

/// Writes a job's lanes at the start of its data: the job, its ask, the transaction.
macro_rules! create_lanes {
    ($id:expr, $ask:expr, $tx:expr) => {{
        let start = $ask.payload.settings.data_start;
        for lane in 0..$ask.grid.lanes {
            sqlx::query($crate::store::admit::CREATE_LANE)
                .bind($id.0)
                .bind(i64::from(lane))
                .bind($crate::store::admit::as_i64(start.byte))
                .bind($crate::store::admit::as_i64(start.line))
                .execute($tx)
                .await?;
        }
    }};
}
pub(crate) use create_lanes;

/// Replaces unfinished jobs by a newer one.
macro_rules! supersede {
    ($jobs:expr, $ids:expr, $now:expr, $tx:expr) => {
        for job in $jobs.iter().filter(|job| $ids.contains(&job.id)) {
            let (id, fence) = (job.id.0, job.fence.0);
            sqlx::query($crate::store::admit::SUPERSEDE).bind(id).bind(fence).bind($now).execute($tx).await?;
            sqlx::query($crate::store::attempt::CLOSE_ATTEMPTS)
                .bind(id)
                .bind($now)
                .bind("superseded")
                .execute($tx)
                .await?;
        }
    };
}
pub(crate) use supersede;

impl Store {
    /// Asks to be let in. `is_gone` says whether a holder's process is provably gone.
    ///
    /// After a crash in here nothing has happened, or the job is held by a process that is gone.
    pub async fn admit(&self, ask: &Ask, is_gone: &(dyn Fn(&Owner) -> bool + Sync)) -> Result<Admission, StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let (now, jobs, decision) = weigh!(self, ask, is_gone, &mut *tx);
            let find = |id: JobId| {
                jobs.iter().find(|job| job.id == id).cloned().map(Box::new).ok_or(StoreError::UnknownJob(id))
            };
            let lease_until = now.plus(ask.lease);
            let owner = ask.owner.to_text();
            let admission = match decision {
                Decision::Create { generation, supersede } => {
                    supersede!(jobs, supersede, now, &mut *tx);
                    let ids: Vec<i64> = sqlx::query_scalar(CREATE)
                        .bind(ask.key.as_str())
                        .bind(i64::from(generation))
                        .bind(true)
                        .bind(ask.list.0)
                        .bind(&ask.fingerprint.0)
                        .bind(&ask.payload.source)
                        .bind(Json(&ask.payload))
                        .bind(RULES_VERSION)
                        .bind(i64::from(ask.grid.lanes))
                        .bind(i64::from(ask.grid.batch_rows))
                        .bind(now)
                        .bind(&owner)
                        .bind(lease_until)
                        .fetch_all(&mut *tx)
                        .await?;
                    let id = ids
                        .first()
                        .copied()
                        .map(JobId)
                        .ok_or_else(|| StoreError::Corrupt("no job was made".to_owned()))?;
                    create_lanes!(id, ask, &mut *tx);
                    let fence = Fence(1);
                    sqlx::query(OPEN_ATTEMPT).bind(id.0).bind(fence.0).bind(&owner).bind(now).execute(&mut *tx).await?;
                    let row: Row = sqlx::query_as(BY_ID).bind(id.0).fetch_one(&mut *tx).await?;
                    Admission::Begun(Lease::new(id, fence, &owner, ask.lease), Box::new(JobRow::try_from(row)?))
                }
                Decision::Resume(id) => {
                    let fences: Vec<i64> = sqlx::query_scalar(CLAIM)
                        .bind(id.0)
                        .bind(&owner)
                        .bind(lease_until)
                        .bind(now)
                        .fetch_all(&mut *tx)
                        .await?;
                    let job = find(id)?;
                    let Some(fence) = fences.first().copied().map(Fence) else {
                        return Err(StoreError::State { job: id, state: job.state, verb: "resumed" });
                    };
                    sqlx::query(OPEN_ATTEMPT).bind(id.0).bind(fence.0).bind(&owner).bind(now).execute(&mut *tx).await?;
                    Admission::Begun(Lease::new(id, fence, &owner, ask.lease), job)
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
            tx.commit().await?;
            Ok(admission)
        })
    }

    /// Takes a running job from the holder that `job` names. `None`: it changed hands in between.
    ///
    /// On PostgreSQL the former holder's sessions are ended first, and again while they hold the row: one
    /// that is frozen between its fence check and its COMMIT would block this for ever (rule 16).
    pub async fn take_over(&self, job: &JobRow, owner: &Owner, lease: Duration) -> Result<Option<Lease>, StoreError> {
        let mut tries = 0;
        loop {
            if let Pool::Postgres(db) = &self.pool {
                let ended = super::postgres::end_sessions(db, job.id, job.fence).await?;
                if ended > 0 {
                    tracing::info!(
                        job = job.id.0,
                        fence = job.fence.0,
                        sessions = ended,
                        "ended the former holder's sessions"
                    );
                }
            }
            match self.try_take_over(job, owner, lease).await {
                Err(StoreError::Retry(_)) if tries < 5 => tries += 1,
                outcome => return outcome,
            }
        }
    }

    async fn try_take_over(&self, job: &JobRow, owner: &Owner, lease: Duration) -> Result<Option<Lease>, StoreError> {
        let text = owner.to_text();
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let fences: Vec<i64> = sqlx::query_scalar(TAKE_OVER)
                .bind(job.id.0)
                .bind(job.fence.0)
                .bind(job.owner.as_deref())
                .bind(&text)
                .bind(now.plus(lease))
                .fetch_all(&mut *tx)
                .await?;
            let Some(fence) = fences.first().copied().map(Fence) else { return Ok(None) };
            sqlx::query(CLOSE_ATTEMPTS).bind(job.id.0).bind(now).bind("taken over").execute(&mut *tx).await?;
            sqlx::query(OPEN_ATTEMPT).bind(job.id.0).bind(fence.0).bind(&text).bind(now).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(Some(Lease::new(job.id, fence, &text, lease)))
        })
    }
}

/// The statement that lets one asker after the other to a list.
pub(crate) fn list_lock(pool: &Pool) -> &'static str {
    match pool {
        Pool::Sqlite(_) => LOCK_LIST_SQLITE,
        Pool::Postgres(_) => LOCK_LIST_POSTGRES,
    }
}

impl Ask {
    pub(crate) fn sees(&self, job: &JobRow, now: Timestamp, is_gone: &(dyn Fn(&Owner) -> bool + Sync)) -> Known {
        Known {
            id: job.id,
            key: job.key.clone(),
            generation: job.generation,
            state: job.state,
            hold: hold_of(job, now, is_gone),
            same_input: job.fingerprint == self.fingerprint,
            same_source: job.payload.source == self.payload.source && names_one_input(&self.payload.source),
            same_rules: job.rules_version == RULES_VERSION,
            replayable: false,
            pruned: job.is_pruned(),
        }
    }
}

/// How a job is held at `now`, by the database's clock.
pub(crate) fn hold_of(job: &JobRow, now: Timestamp, is_gone: &(dyn Fn(&Owner) -> bool + Sync)) -> Hold {
    match (job.state, &job.owner, job.lease_until) {
        (State::Running, Some(owner), Some(until)) => {
            if until < now {
                Hold::Expired
            } else if is_gone(&Owner::from_text(owner)) {
                Hold::Dead
            } else {
                Hold::Live
            }
        }
        _ => Hold::Free,
    }
}

/// Byte offsets and lines fit: a file of 2^63 bytes does not exist.
pub(crate) fn as_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
