//! Jobs and their attempts, read out.
//!
//! Owns how a row of `jobs` reads. It changes nothing: that is `admit`, `session`, `finish` and `steer`.
//! Invariant: a row that cannot be read back is an error, never a default.

use serde::{Deserialize, Serialize};
use sqlx::FromRow;
use sqlx::types::Json;

use crate::clock::Timestamp;
use crate::destination::Destination;
use crate::job::{Fence, Fingerprint, Grid, JobId, JobKey, ListId, State};
use crate::limits::Limits;
use crate::run::Counts;
use crate::settings::Settings;
use crate::store::{Store, StoreError, on};

/// What a job was told to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// The input: its absolute path, or `-` for standard input.
    pub source: String,
    /// The input's size in bytes as it was read.
    pub bytes: u64,
    /// Everything that decides the outcome (rule 9).
    pub settings: Settings,
    /// What else a worker has to know.
    #[serde(default, skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
    /// Whom to tell how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<Destination>,
    /// The job whose refused rows the input brings back, when it is that job's reject file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mends: Option<JobId>,
}

/// Why a job stopped or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobError {
    /// A code of `fault::Code`.
    pub code: String,
    /// What was found.
    pub message: String,
}

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// Its number.
    pub id: JobId,
    /// What it is, by content.
    pub key: JobKey,
    /// Which run of that content it is, from 1.
    pub generation: u32,
    /// Its list.
    pub list: ListId,
    /// Its list's name.
    pub list_name: String,
    /// Its input's digest.
    pub fingerprint: Fingerprint,
    /// What to do.
    pub payload: Payload,
    /// The program's rules it runs under.
    pub rules_version: String,
    /// Its lanes and batches.
    pub grid: Grid,
    /// Where it stands.
    pub state: State,
    /// Whether a command runs it rather than a worker.
    pub direct: bool,
    /// Attempts that were charged.
    pub attempts: u32,
    /// How often it was taken from a holder that died.
    pub rescues: u32,
    /// Grows each time it changes hands.
    pub fence: Fence,
    /// Who holds it.
    pub owner: Option<String>,
    /// Until when, by the database's clock.
    pub lease_until: Option<Timestamp>,
    /// Its figures, once it is done, or once its run keys are removed.
    pub result: Option<Counts>,
    /// Why it stopped or failed.
    pub error: Option<JobError>,
    /// The queue it waits in.
    pub queue: String,
    /// Smaller numbers go first.
    pub priority: i64,
    /// Not before then, by the database's clock.
    pub run_at: Timestamp,
    /// How many attempts may be charged.
    pub max_attempts: u32,
    /// When its holder last renewed its lease.
    pub beat_at: Option<Timestamp>,
    /// How far its holder said it was.
    pub progress: Option<Counts>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was first begun.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// When a person asked to cancel it.
    pub cancel_requested_at: Option<Timestamp>,
    /// When retention began to remove its run keys; `result` holds their sum since.
    pub keys_pruned_at: Option<Timestamp>,
    /// When retention began to remove its refused rows.
    pub rejects_pruned_at: Option<Timestamp>,
}

/// One session of work on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRow {
    /// The fence it worked under.
    pub fence: Fence,
    /// Who worked.
    pub owner: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended, when it could say so.
    pub ended_at: Option<Timestamp>,
    /// How: `done`, `failed`, `interrupted`, `taken over`.
    pub outcome: Option<String>,
    /// Why, as `code: message`.
    pub error: Option<String>,
}

#[derive(FromRow)]
pub(crate) struct Row {
    id: i64,
    key: String,
    generation: i64,
    list_id: i64,
    list_name: Option<String>,
    fingerprint: String,
    payload: Json<Payload>,
    rules_version: String,
    lanes: i64,
    batch_rows: i64,
    state: String,
    direct: bool,
    attempts: i64,
    rescues: i64,
    fence: i64,
    owner: Option<String>,
    lease_until: Option<Timestamp>,
    result: Option<Json<Counts>>,
    error: Option<Json<JobError>>,
    queue: String,
    priority: i64,
    run_at: Timestamp,
    max_attempts: i64,
    beat_at: Option<Timestamp>,
    progress: Option<Json<Counts>>,
    created_at: Timestamp,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    cancel_requested_at: Option<Timestamp>,
    keys_pruned_at: Option<Timestamp>,
    rejects_pruned_at: Option<Timestamp>,
}

impl JobRow {
    /// Whether retention removed something that going on would need.
    pub fn is_pruned(&self) -> bool {
        self.keys_pruned_at.is_some() || self.rejects_pruned_at.is_some()
    }
}

impl TryFrom<Row> for JobRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let corrupt = |what: &str| StoreError::Corrupt(format!("job {} has an impossible {what}", row.id));
        Ok(Self {
            state: State::from_word(&row.state).ok_or_else(|| corrupt("state"))?,
            generation: u32::try_from(row.generation).map_err(|_| corrupt("generation"))?,
            grid: Grid {
                lanes: u16::try_from(row.lanes).map_err(|_| corrupt("number of lanes"))?,
                batch_rows: u32::try_from(row.batch_rows).map_err(|_| corrupt("batch size"))?,
            },
            attempts: u32::try_from(row.attempts).map_err(|_| corrupt("number of attempts"))?,
            rescues: u32::try_from(row.rescues).map_err(|_| corrupt("number of rescues"))?,
            id: JobId(row.id),
            key: JobKey::stored(row.key),
            list: ListId(row.list_id),
            list_name: row.list_name.unwrap_or_default(),
            fingerprint: Fingerprint(row.fingerprint),
            payload: row.payload.0,
            rules_version: row.rules_version,
            direct: row.direct,
            fence: Fence(row.fence),
            owner: row.owner,
            lease_until: row.lease_until,
            result: row.result.map(|json| json.0),
            error: row.error.map(|json| json.0),
            queue: row.queue,
            priority: row.priority,
            run_at: row.run_at,
            max_attempts: u32::try_from(row.max_attempts).map_err(|_| corrupt("number of attempts"))?,
            beat_at: row.beat_at,
            progress: row.progress.map(|json| json.0),
            created_at: row.created_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            cancel_requested_at: row.cancel_requested_at,
            keys_pruned_at: row.keys_pruned_at,
            rejects_pruned_at: row.rejects_pruned_at,
        })
    }
}

/// Completes a constant with the columns of a job: `jobs_where!("WHERE j.id = $1")`.
macro_rules! jobs_where {
    ($rest:literal) => {
        concat!(
            "SELECT j.id, j.key, j.generation, j.list_id, l.name AS list_name, j.fingerprint, j.payload,
               j.rules_version, j.lanes, j.batch_rows, j.state, j.direct, j.attempts, j.rescues, j.fence, j.owner,
               j.lease_until, j.result, j.error, j.created_at, j.started_at, j.finished_at, j.cancel_requested_at,
               j.keys_pruned_at, j.rejects_pruned_at, j.queue, j.priority, j.run_at, j.max_attempts, j.beat_at, j.progress
             FROM jobs j LEFT JOIN lists l ON l.id = j.list_id ",
            $rest
        )
    };
}
pub(crate) use jobs_where;

const NEWEST: &str = jobs_where!("WHERE ($1 IS NULL OR j.state = $1) ORDER BY j.id DESC LIMIT $2");
pub(crate) const BY_ID: &str = jobs_where!("WHERE j.id = $1");
const LAST: &str = "SELECT max(id) FROM jobs";

#[derive(FromRow)]
struct Attempt {
    fence: i64,
    owner: String,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    outcome: Option<String>,
    error: Option<String>,
}

const ATTEMPTS: &str = "SELECT fence, owner, started_at, ended_at, outcome, error
    FROM job_attempts WHERE job_id = $1 ORDER BY started_at, fence";

const RESULTS: &str =
    "SELECT result FROM job_runs WHERE job_id = $1 AND status = 'done' ORDER BY key LIMIT $2 OFFSET $3";

impl Store {
    /// The newest jobs first, in one state or in any.
    pub async fn jobs(&self, state: Option<State>, limit: u32) -> Result<Vec<JobRow>, StoreError> {
        let state = state.map(State::as_str);
        let rows: Vec<Row> =
            on!(&self.pool, |db| { sqlx::query_as(NEWEST).bind(state).bind(i64::from(limit)).fetch_all(db).await? });
        rows.into_iter().map(JobRow::try_from).collect()
    }

    /// The job of that number.
    pub async fn job(&self, id: JobId) -> Result<Option<JobRow>, StoreError> {
        let row: Option<Row> = on!(&self.pool, |db| sqlx::query_as(BY_ID).bind(id.0).fetch_optional(db).await?);
        row.map(JobRow::try_from).transpose()
    }

    /// The newest job's number.
    pub async fn last_job(&self) -> Result<Option<JobId>, StoreError> {
        let id: Option<i64> = on!(&self.pool, |db| sqlx::query_scalar(LAST).fetch_one(db).await?);
        Ok(id.map(JobId))
    }

    /// A job's sessions, in the order in which they began.
    pub async fn attempts(&self, id: JobId) -> Result<Vec<AttemptRow>, StoreError> {
        let rows: Vec<Attempt> = on!(&self.pool, |db| sqlx::query_as(ATTEMPTS).bind(id.0).fetch_all(db).await?);
        let read = |row: Attempt| AttemptRow {
            fence: Fence(row.fence),
            owner: row.owner,
            started_at: row.started_at,
            ended_at: row.ended_at,
            outcome: row.outcome,
            error: row.error,
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// What a job has committed so far: the sum of its run keys (rule 14).
    pub async fn committed(&self, id: JobId) -> Result<Counts, StoreError> {
        on!(&self.pool, |db| {
            let mut connection = db.acquire().await?;
            sum_results!(&mut *connection, id)
        })
    }
}

/// How many run keys are read at a time while they are summed.
pub(crate) const RESULTS_PAGE: i64 = 5_000;
pub(crate) const RESULTS_SQL: &str = RESULTS;

/// Sums the counters of a job's run keys on one connection, page by page.
macro_rules! sum_results {
    ($connection:expr, $id:expr) => {{
        let mut total = $crate::run::Counts::default();
        let mut offset = 0_i64;
        loop {
            let page: Vec<Option<sqlx::types::Json<$crate::run::Counts>>> =
                sqlx::query_scalar($crate::store::job_row::RESULTS_SQL)
                    .bind($id.0)
                    .bind($crate::store::job_row::RESULTS_PAGE)
                    .bind(offset)
                    .fetch_all($connection)
                    .await?;
            let full = i64::try_from(page.len()).unwrap_or(0) == $crate::store::job_row::RESULTS_PAGE;
            for counts in page.into_iter().flatten() {
                total += counts.0;
            }
            if !full {
                break Ok::<_, $crate::store::StoreError>(total);
            }
            offset += $crate::store::job_row::RESULTS_PAGE;
        }
    }};
}
pub(crate) use sum_results;
