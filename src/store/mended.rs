//! Which refused rows were mended: taken by a later import of their job's reject file.
//!
//! Owns the tables `reject_origins` and `reject_mends`. It does not know how a reject file is read. Invariant: a
//! refused row is mended in the transaction that stores it (rule 1), and one that was refused once more is mended
//! together with the row that it was before.

use sqlx::{PgConnection, SqliteConnection};

use crate::job::{JobId, ListId};
use crate::reject::RefusedAs;
use crate::store::admit::as_i64;
use crate::store::{Pool, Store, StoreError, on};

/// What a part of a reject file says about the refused rows of the job that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mended {
    /// That job.
    pub origin: JobId,
    /// Its refused rows that are taken now.
    pub taken: Vec<RefusedAs>,
    /// Those that are refused once more, with the line on which they stand in this input.
    pub refused_again: Vec<(u64, RefusedAs)>,
}

/// How many of a job's refused rows there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RejectsLeft {
    /// All of them.
    pub all: u64,
    /// Those that no later import of the reject file took.
    pub open: u64,
}

/// Whether the refused row `r` is the row `t` of a reject file; SQLite's is `[line, reason, column, detail, here]`.
macro_rules! is_row {
    (sqlite) => {
        "r.line = t.value ->> 0 AND r.reason = t.value ->> 1 AND COALESCE(r.column_name, '') = t.value ->> 2
         AND r.detail = t.value ->> 3"
    };
    (postgres) => {
        "r.line = t.line AND r.reason = t.reason AND COALESCE(r.column_name, '') = t.place AND r.detail = t.detail"
    };
}

/// The newest import into list $1 that refused each of these rows; $2 is how many they are.
const ORIGIN_SQLITE: &str = concat!(
    "SELECT j.id FROM jobs j
     WHERE j.kind = 'import' AND j.list_id = $1 AND $2 =
       (SELECT count(*) FROM json_each($3) t CROSS JOIN rejects r WHERE r.job_id = j.id AND ",
    is_row!(sqlite),
    ") ORDER BY j.id DESC LIMIT 1"
);
const ORIGIN_POSTGRES: &str = concat!(
    "SELECT j.id FROM jobs j
     WHERE j.kind = 'import' AND j.list_id = $1 AND $2 =
       (SELECT count(*)
        FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[]) AS t(line, reason, place, detail), rejects r
        WHERE r.job_id = j.id AND ",
    is_row!(postgres),
    ") ORDER BY j.id DESC LIMIT 1"
);

const LEFT: &str = "SELECT count(*), count(*) - count(m.line) FROM rejects r
    LEFT JOIN reject_mends m ON m.job_id = r.job_id AND m.line = r.line
    WHERE r.job_id = $1";

/// Remembers which refused rows of job $2 the refused rows of job $1 were.
const REFUSED_AGAIN_SQLITE: &str = concat!(
    "INSERT INTO reject_origins (job_id, line, origin_job_id, origin_line)
     SELECT $1, t.value ->> 4, r.job_id, r.line FROM json_each($3) t CROSS JOIN rejects r WHERE r.job_id = $2 AND ",
    is_row!(sqlite),
    " ON CONFLICT (job_id, line) DO NOTHING"
);
const REFUSED_AGAIN_POSTGRES: &str = concat!(
    "INSERT INTO reject_origins (job_id, line, origin_job_id, origin_line)
     SELECT $1, t.here, r.job_id, r.line
     FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[])
            AS t(line, reason, place, detail, here), rejects r
     WHERE r.job_id = $2 AND ",
    is_row!(postgres),
    " ON CONFLICT (job_id, line) DO NOTHING"
);

/// Completes a constant that mends these rows of job $2, and the rows that those were before. In one order, so that
/// two lanes that mend the same rows do not wait for each other in a circle.
macro_rules! taken {
    ($rows:literal, $engine:tt) => {
        concat!(
            "WITH RECURSIVE chain(job_id, line) AS (
               SELECT r.job_id, r.line FROM ",
            $rows,
            " WHERE r.job_id = $2 AND ",
            is_row!($engine),
            " UNION
               SELECT o.origin_job_id, o.origin_line
               FROM chain c JOIN reject_origins o ON o.job_id = c.job_id AND o.line = c.line)
             INSERT INTO reject_mends (job_id, line, mended_job_id)
             SELECT c.job_id, c.line, $1 FROM chain c WHERE true ORDER BY c.job_id, c.line
             ON CONFLICT (job_id, line) DO NOTHING"
        )
    };
}

const TAKEN_SQLITE: &str = taken!("json_each($3) t CROSS JOIN rejects r", sqlite);
const TAKEN_POSTGRES: &str = taken!(
    "unnest($3::bigint[], $4::text[], $5::text[], $6::text[]) AS t(line, reason, place, detail), rejects r",
    postgres
);

impl Store {
    /// The newest import into `list` that refused every one of `rows`; none for no rows.
    pub async fn refused_by(&self, list: ListId, rows: &[RefusedAs]) -> Result<Option<JobId>, StoreError> {
        if rows.is_empty() {
            return Ok(None);
        }
        let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        let found: Option<i64> = match &self.pool {
            Pool::Sqlite(db) => {
                let rows = json_rows(rows.iter().map(|row| (row, 0)));
                sqlx::query_scalar(ORIGIN_SQLITE).bind(list.0).bind(count).bind(rows).fetch_optional(db).await?
            }
            Pool::Postgres(db) => {
                let rows = Columns::of(&rows.iter());
                sqlx::query_scalar(ORIGIN_POSTGRES)
                    .bind(list.0)
                    .bind(count)
                    .bind(rows.lines)
                    .bind(rows.reasons)
                    .bind(rows.places)
                    .bind(rows.details)
                    .fetch_optional(db)
                    .await?
            }
        };
        Ok(found.map(JobId))
    }

    /// How many of a job's refused rows there are, and how many are still open.
    pub async fn rejects_left(&self, job: JobId) -> Result<RejectsLeft, StoreError> {
        let (all, open): (i64, i64) = on!(&self.pool, |db| sqlx::query_as(LEFT).bind(job.0).fetch_one(db).await?);
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        Ok(RejectsLeft { all: count(all), open: count(open) })
    }
}

/// Notes what a part of `job` says about refused rows, inside its transaction on PostgreSQL.
pub(crate) async fn note_postgres(
    connection: &mut PgConnection,
    job: JobId,
    mended: &Mended,
) -> Result<(), StoreError> {
    let again = Columns::of(&mended.refused_again.iter().map(|(_, row)| row));
    sqlx::query(REFUSED_AGAIN_POSTGRES)
        .bind(job.0)
        .bind(mended.origin.0)
        .bind(again.lines)
        .bind(again.reasons)
        .bind(again.places)
        .bind(again.details)
        .bind(mended.refused_again.iter().map(|(here, _)| as_i64(*here)).collect::<Vec<_>>())
        .execute(&mut *connection)
        .await?;
    let taken = Columns::of(&mended.taken.iter());
    sqlx::query(TAKEN_POSTGRES)
        .bind(job.0)
        .bind(mended.origin.0)
        .bind(taken.lines)
        .bind(taken.reasons)
        .bind(taken.places)
        .bind(taken.details)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

/// The same on SQLite.
pub(crate) async fn note_sqlite(
    connection: &mut SqliteConnection,
    job: JobId,
    mended: &Mended,
) -> Result<(), StoreError> {
    let again = json_rows(mended.refused_again.iter().map(|(here, row)| (row, *here)));
    sqlx::query(REFUSED_AGAIN_SQLITE).bind(job.0).bind(mended.origin.0).bind(again).execute(&mut *connection).await?;
    let taken = json_rows(mended.taken.iter().map(|row| (row, 0)));
    sqlx::query(TAKEN_SQLITE).bind(job.0).bind(mended.origin.0).bind(taken).execute(&mut *connection).await?;
    Ok(())
}

/// The rows of a reject file as arrays, one a column.
struct Columns {
    lines: Vec<i64>,
    reasons: Vec<String>,
    places: Vec<String>,
    details: Vec<String>,
}

impl Columns {
    fn of<'a>(rows: &(impl Iterator<Item = &'a RefusedAs> + Clone)) -> Self {
        let texts = |text: fn(&RefusedAs) -> &String| rows.clone().map(text).cloned().collect();
        Self {
            lines: rows.clone().map(|row| as_i64(row.line)).collect(),
            reasons: texts(|row| &row.reason),
            places: texts(|row| &row.column),
            details: texts(|row| &row.detail),
        }
    }
}

/// The same as one JSON array.
fn json_rows<'a>(rows: impl Iterator<Item = (&'a RefusedAs, u64)>) -> String {
    let row = |(row, here): (&RefusedAs, u64)| serde_json::json!([row.line, row.reason, row.column, row.detail, here]);
    serde_json::Value::from(rows.map(row).collect::<Vec<_>>()).to_string()
}
