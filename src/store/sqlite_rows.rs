//! Recipients into SQLite, many by one statement.
//!
//! Owns the texts of the statements: one parameter for each value, and the same few numbers of rows again and again, so
//! that a connection prepares each text once. It does not know how rows are merged. Invariant: a statement writes all of
//! its rows or none.

use std::collections::HashSet;
use std::sync::LazyLock;

use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Sqlite, SqliteConnection};

use crate::store::StoreError;
use crate::store::admit::as_i64;
use crate::store::commit::UpsertTarget;

/// How many rows a statement writes, largest first. SQLite takes 32,766 parameters; beyond a few hundred rows a
/// statement gets no cheaper by the row.
const SIZES: [usize; 4] = [512, 64, 8, 1];

/// The parameters of one row, in the order of `Written`.
const ROW: &str = "(?,?,?,?)";

const PER_ROW: usize = 4;

/// The same behind the row's place among its fellows.
const PLACED_ROW: &str = "(?,?,?,?,?)";

const PER_PLACED_ROW: usize = 5;

const COLUMNS: &str = "INSERT INTO recipients
      (list_id, job_id, created_job_id, source_version, created_at, updated_at, phone, name, attributes)";

/// `WHERE true`: without it the grammar takes `ON` for that of a join (sqlite.org/lang_upsert.html, 2.2).
const REPLACE: &str = "WHERE true
    ON CONFLICT (list_id, phone) DO UPDATE
    SET name = excluded.name,
        attributes = excluded.attributes,
        source_version = excluded.source_version,
        job_id = excluded.job_id,
        updated_at = excluded.updated_at";

static INSERT: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| SIZES.map(|rows| statement(rows, "")));
static UPSERT: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| SIZES.map(|rows| statement(rows, REPLACE)));

static SAME: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| SIZES.map(same_statement));

/// The places of the rows that stand in the table as they are, and would not be changed by this job.
fn same_statement(rows: usize) -> String {
    let values = vec![PLACED_ROW; rows].join(",");
    let (list, job) = (rows * PER_PLACED_ROW + 1, rows * PER_PLACED_ROW + 2);
    format!(
        "WITH v (place, phone, name, attributes, version) AS (VALUES {values})
    SELECT group_concat(v.place) FROM v CROSS JOIN recipients r ON r.list_id = ?{list} AND r.phone = v.phone
    WHERE r.status = 'active' AND r.name IS v.name AND r.attributes = v.attributes AND r.source_version IS v.version
      AND COALESCE(r.job_id, 0) <= ?{job}"
    )
}

/// Numbered parameters come after those of the rows: list, job, time.
fn statement(rows: usize, conflict: &str) -> String {
    let values = vec![ROW; rows].join(",");
    let (list, job, now) = (rows * PER_ROW + 1, rows * PER_ROW + 2, rows * PER_ROW + 3);
    format!(
        "WITH v (phone, name, attributes, version) AS (VALUES {values})
    {COLUMNS}
    SELECT ?{list}, ?{job}, ?{job}, v.version, ?{now}, ?{now}, v.phone, v.name, v.attributes FROM v {conflict}"
    )
}

/// A recipient as it is to stand in the table.
#[derive(Debug)]
pub(crate) struct Written<'a> {
    pub(crate) phone: &'a str,
    pub(crate) name: Option<&'a str>,
    /// JSON with sorted keys.
    pub(crate) attributes: String,
    pub(crate) version: Option<i64>,
}

/// What to do where a phone of the list is stored already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Write nothing of the statement.
    Refuse,
    /// Replace what is stored.
    Replace,
}

/// How many of `rows` rows the next statement takes.
pub(crate) fn statement_rows(rows: usize) -> usize {
    SIZES.into_iter().find(|size| *size <= rows).unwrap_or(0)
}

/// A statement with its rows, ready to be run.
pub(crate) struct Statement {
    query: Query<'static, Sqlite, SqliteArguments>,
    conflict: Conflict,
}

impl Statement {
    /// A statement for rows, as many as `statement_rows` says. `now` is in milliseconds since 1970.
    pub(crate) fn new<'a>(
        target: &UpsertTarget<'_>,
        now: i64,
        rows: impl ExactSizeIterator<Item = Written<'a>>,
        conflict: Conflict,
    ) -> Result<Self, StoreError> {
        let texts: &'static [String; SIZES.len()] = match conflict {
            Conflict::Refuse => &INSERT,
            Conflict::Replace => &UPSERT,
        };
        let mut query = sqlx::query(text(texts, rows.len())?);
        for row in rows {
            query = query.bind(row.phone).bind(row.name).bind(row.attributes).bind(row.version);
        }
        Ok(Self { query: query.bind(target.list).bind(target.job).bind(now), conflict })
    }

    /// Whether it wrote its rows: not where one of them is stored already and that is to be refused.
    pub(crate) async fn run(self, connection: &mut SqliteConnection) -> Result<bool, StoreError> {
        match self.query.execute(connection).await {
            Ok(_) => Ok(true),
            Err(sqlx::Error::Database(error)) if self.conflict == Conflict::Refuse && error.is_unique_violation() => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The places of those rows, as many as `statement_rows` says, that say exactly what is stored about an active
/// recipient whom no later job wrote.
pub(crate) async fn same<'a>(
    connection: &mut SqliteConnection,
    target: &UpsertTarget<'_>,
    rows: impl ExactSizeIterator<Item = Written<'a>>,
) -> Result<HashSet<usize>, StoreError> {
    let texts: &'static [String; SIZES.len()] = &SAME;
    let mut query = sqlx::query_scalar(text(texts, rows.len())?);
    for (place, row) in rows.enumerate() {
        query = query.bind(as_i64(place as u64)).bind(row.phone).bind(row.name).bind(row.attributes).bind(row.version);
    }
    let places: Option<String> = query.bind(target.list).bind(target.job).fetch_one(connection).await?;
    let places = places.unwrap_or_default();
    let read = places.split(',').filter(|place| !place.is_empty()).map(str::parse);
    read.collect::<Result<_, _>>().map_err(|_| StoreError::Corrupt(format!("'{places}' are no places")))
}

fn text(texts: &'static [String; SIZES.len()], rows: usize) -> Result<&'static str, StoreError> {
    let text = SIZES.iter().position(|size| *size == rows).and_then(|at| texts.get(at));
    text.map(String::as_str).ok_or_else(|| StoreError::Corrupt(format!("there is no statement for {rows} rows")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_rows_is_taken_by_a_few_statements() {
        for rows in 0..2_000 {
            let (mut left, mut statements) = (rows, 0);
            while left > 0 {
                left -= statement_rows(left);
                statements += 1;
            }
            assert!(statements <= rows / 512 + 7 + 7 + 7, "{rows} rows take {statements} statements");
        }
    }

    #[test]
    fn no_statement_has_more_parameters_than_sqlite_takes() {
        assert!(SIZES.into_iter().all(|rows| rows * PER_PLACED_ROW + 3 <= 32_766));
    }
}
