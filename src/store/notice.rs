//! Writing down that a job's end is to be told, in the transaction that ends it.
//!
//! Owns the summary that is sent and the row's first stage. It sends nothing. Invariant: each end of a job has one
//! key, whatever is repeated; the bytes of a summary are settled here and never change.

use serde::Serialize;
use sqlx::types::Json;

use crate::clock::Timestamp;
use crate::destination::Destination;
use crate::notification::event_id;
use crate::run::Counts;
use crate::store::job_row::{JobError, JobRow, Payload};
use crate::store::session::Lease;
use crate::store::{Store, StoreError, on};

/// Counts an end of a job that somebody is to be told of; no row: nobody is.
pub(crate) const COUNT_END: &str = "UPDATE jobs SET ends = ends + 1
    WHERE id = $1 AND payload -> 'notify' IS NOT NULL RETURNING ends";

/// $2 what a job is told from now on; only who is told may differ.
pub(crate) const RETELL: &str = "UPDATE jobs SET payload = $2 WHERE id = $1";

const RETELL_HELD: &str =
    "UPDATE jobs SET payload = $2 WHERE id = $1 AND state = 'running' AND fence = $3 AND owner = $4";

impl Store {
    /// Lets a job that is held under `lease` tell its end to whom it was asked for last.
    ///
    /// `LeaseLost`: it is not held any more.
    pub async fn redirect_notifications(
        &self,
        lease: &Lease,
        payload: &Payload,
        to: &Destination,
    ) -> Result<(), StoreError> {
        let payload = Payload { notify: Some(to.clone()), ..payload.clone() };
        let held = on!(&self.pool, |db| {
            sqlx::query(RETELL_HELD)
                .bind(lease.job.0)
                .bind(Json(&payload))
                .bind(lease.fence.0)
                .bind(&lease.owner)
                .execute(db)
                .await?
                .rows_affected()
        });
        if held == 1 { Ok(()) } else { Err(StoreError::LeaseLost) }
    }
}

/// Lets a job that is not held tell its end to whom it was asked for last: `retell!(row, ask, transaction)`.
macro_rules! retell {
    ($row:expr, $ask:expr, $tx:expr) => {{
        let row: &$crate::store::JobRow = $row;
        let ask: &$crate::store::Ask = $ask;
        if ask.payload.notify.is_some() && ask.payload.notify != row.payload.notify {
            let payload = $crate::store::Payload { notify: ask.payload.notify.clone(), ..row.payload.clone() };
            sqlx::query($crate::store::notice::RETELL)
                .bind(row.id.0)
                .bind(sqlx::types::Json(&payload))
                .execute($tx)
                .await?;
        }
    }};
}
pub(crate) use retell;

/// The reasons of a job's refused rows with their number and the first line, the most frequent first.
pub(crate) const REASONS: &str = "SELECT reason, count(*) AS occurrences, min(line) FROM rejects
    WHERE job_id = $1 GROUP BY reason ORDER BY occurrences DESC, reason";

/// The key is there already only if a counter was set back, and then the end it names was told.
pub(crate) const INSERT: &str = "INSERT INTO notifications (external_event_id, job_id, endpoint, receiver, lookup_url,
      payload, state, not_before, give_up_at, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, 'pending', $7, $8, $7)
    ON CONFLICT (external_event_id) DO NOTHING";

/// The version of the summary; fields are only ever added.
const SCHEMA: u8 = 1;

/// What a receiver is told.
#[derive(Debug, Serialize)]
struct Summary<'a> {
    schema: u8,
    key: &'a str,
    job: i64,
    job_key: &'a str,
    generation: u32,
    /// Which of the job's ends it is, from 1.
    end: i64,
    list: &'a str,
    state: &'a str,
    counts: Counts,
    reasons: Vec<Reason<'a>>,
    error: Option<&'a JobError>,
    created_at: String,
    started_at: Option<String>,
    finished_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct Reason<'a> {
    reason: &'a str,
    rows: i64,
    first_line: i64,
}

/// The key of a job's `end`, and what is told of it as JSON.
pub(crate) fn summary(job: &JobRow, end: i64, counts: Counts, reasons: &[(String, i64, i64)]) -> (String, String) {
    let state = job.state.as_str();
    let key = event_id(job.key.as_str(), job.generation, end, state);
    let when = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let summary = Summary {
        schema: SCHEMA,
        key: &key,
        job: job.id.0,
        job_key: job.key.as_str(),
        generation: job.generation,
        end,
        list: &job.list_name,
        state,
        counts,
        reasons: reasons
            .iter()
            .map(|(reason, rows, first_line)| Reason { reason, rows: *rows, first_line: *first_line })
            .collect(),
        error: job.error.as_ref(),
        created_at: job.created_at.to_string(),
        started_at: when(job.started_at),
        finished_at: when(job.finished_at),
    };
    // Cannot fail: the type holds only strings and numbers.
    #[expect(clippy::expect_used, reason = "serialising plain data cannot fail")]
    let json = serde_json::to_string(&summary).expect("a summary is plain data");
    (key, json)
}

/// Writes the notification of a job's end, where somebody is to be told: `note_end!(connection, now, job)`.
macro_rules! note_end {
    ($connection:expr, $now:expr, $job:expr) => {{
        let ends: Vec<i64> =
            sqlx::query_scalar($crate::store::notice::COUNT_END).bind($job.0).fetch_all($connection).await?;
        if let Some(end) = ends.first().copied() {
            let row: $crate::store::job_row::Row =
                sqlx::query_as($crate::store::job_row::BY_ID).bind($job.0).fetch_one($connection).await?;
            let row = $crate::store::JobRow::try_from(row)?;
            let counts = match row.result {
                Some(counts) => counts,
                None => $crate::store::job_row::sum_results!($connection, $job)?,
            };
            let reasons: Vec<(String, i64, i64)> =
                sqlx::query_as($crate::store::notice::REASONS).bind($job.0).fetch_all($connection).await?;
            if let Some(to) = &row.payload.notify {
                let (key, body) = $crate::store::notice::summary(&row, end, counts, &reasons);
                sqlx::query($crate::store::notice::INSERT)
                    .bind(key)
                    .bind($job.0)
                    .bind(to.url.secret())
                    .bind(to.receiver.as_str())
                    .bind(to.lookup_url.as_ref().map($crate::destination::Endpoint::secret))
                    .bind(body)
                    .bind($now)
                    .bind($now.plus(to.give_up()))
                    .execute($connection)
                    .await?;
            }
        }
    }};
}
pub(crate) use note_end;
