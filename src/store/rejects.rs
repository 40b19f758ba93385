//! Refused rows, read out.
//!
//! Owns reading `rejects`; they are written by `commit` in the transaction of their part. Invariant: a
//! row is refused once per job, whatever number of runs it took.

use sqlx::FromRow;

use crate::job::JobId;
use crate::position::Position;
use crate::reject::{Reason, ReasonCount, Reject};
use crate::store::{Store, StoreError, on};

#[derive(FromRow)]
struct Row {
    byte: i64,
    line: i64,
    column_name: Option<String>,
    reason: String,
    detail: String,
    raw: Vec<u8>,
}

const PAGE: &str = "SELECT byte, line, column_name, reason, detail, raw
    FROM rejects
    WHERE job_id = $1 AND byte > $2
    ORDER BY byte
    LIMIT $3";

#[derive(FromRow)]
struct CountRow {
    reason: String,
    occurrences: i64,
    first_line: i64,
    first_detail: String,
}

const COUNTS: &str = "SELECT c.reason, c.occurrences, r.line AS first_line, r.detail AS first_detail
    FROM (SELECT reason, count(*) AS occurrences, min(byte) AS first_byte
          FROM rejects WHERE job_id = $1 GROUP BY reason) c
    JOIN rejects r ON r.job_id = $1 AND r.byte = c.first_byte
    ORDER BY c.occurrences DESC, c.reason";

impl Store {
    /// The next refused rows of a job in file order, after the one that starts at `after_byte`; at most
    /// `limit`. A row may be up to 1 MiB long.
    pub async fn rejects_after(
        &self,
        job: JobId,
        after_byte: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Reject>, StoreError> {
        let after = after_byte.map_or(-1, |byte| i64::try_from(byte).unwrap_or(i64::MAX));
        let rows: Vec<Row> = on!(&self.pool, |db| {
            sqlx::query_as(PAGE).bind(job.0).bind(after).bind(i64::from(limit)).fetch_all(db).await?
        });
        rows.into_iter().map(Reject::try_from).collect()
    }

    /// The reasons of a job's refused rows, most frequent first.
    pub async fn reason_counts(&self, job: JobId) -> Result<Vec<ReasonCount>, StoreError> {
        let rows: Vec<CountRow> = on!(&self.pool, |db| sqlx::query_as(COUNTS).bind(job.0).fetch_all(db).await?);
        rows.into_iter()
            .map(|row| {
                Ok(ReasonCount {
                    reason: reason(&row.reason)?,
                    rows: u64::try_from(row.occurrences).unwrap_or(0),
                    first_line: u64::try_from(row.first_line).unwrap_or(0),
                    first_detail: row.first_detail,
                })
            })
            .collect()
    }
}

fn reason(code: &str) -> Result<Reason, StoreError> {
    Reason::from_code(code).ok_or_else(|| StoreError::Corrupt(format!("the store holds the unknown reason '{code}'")))
}

impl TryFrom<Row> for Reject {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            at: Position { byte: u64::try_from(row.byte).unwrap_or(0), line: u64::try_from(row.line).unwrap_or(0) },
            column: row.column_name,
            reason: reason(&row.reason)?,
            detail: row.detail,
            raw: row.raw,
        })
    }
}
