//! Committing one part: rows, rejects, run key and checkpoint in one transaction.
//!
//! Owns the order of the statements (rules 1 to 3). It does not know how rows are upserted; each engine has
//! a file for that. Invariant: there is no way to write rows without their checkpoint or the reverse.

use sqlx::types::Json;

use crate::batch::{Folded, Wave};
use crate::crash;
use crate::job::JobId;
use crate::position::Range;
use crate::recipient::Values;
use crate::reject::Reject;
use crate::run::{Counts, RunKey};
use crate::store::admit::as_i64;
use crate::store::approach::Course;
use crate::store::mended::Mended;
use crate::store::session::{Merge, Session, position_pair};
use crate::store::{Pool, StoreError, now, postgres, postgres_part, sqlite, sqlite_part};

/// One lane's share of one or more batches, ready to be written.
#[derive(Debug)]
pub struct PartWrite {
    /// Its name.
    pub key: RunKey,
    /// Its lane.
    pub lane: u16,
    /// What it covers.
    pub range: Range,
    /// Recipients, each phone once per wave, sorted; waves are applied in order.
    pub waves: Vec<Wave>,
    /// Refused rows.
    pub rejects: Vec<Reject>,
    /// What it says about rows that an earlier job refused, when the input is that job's reject file.
    pub mended: Option<Mended>,
    /// What is known before writing: rows, duplicates, rejected, blank.
    pub counts: Counts,
}

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The figures that were committed.
    pub counts: Counts,
}

/// How the recipients of one wave ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WaveCounts {
    pub(crate) inserted: u64,
    pub(crate) updated: u64,
    pub(crate) unchanged: u64,
    pub(crate) stale: u64,
    pub(crate) opted_out: u64,
}

/// Where a part's rows go: one connection inside its transaction.
pub(crate) trait PartSink {
    /// Upserts one wave (rules 12 and 13).
    async fn upsert(&mut self, target: &UpsertTarget<'_>, merge: &Merge, wave: &Wave)
    -> Result<WaveCounts, StoreError>;
    /// Stores refused rows.
    async fn insert_rejects(&mut self, job: JobId, rejects: &[Reject]) -> Result<(), StoreError>;
    /// Notes which rows that were refused earlier are taken, and which are refused once more.
    async fn note_mended(&mut self, job: JobId, mended: &Mended) -> Result<(), StoreError>;
}

/// Into which list, on behalf of which job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpsertTarget<'a> {
    pub(crate) list: i64,
    pub(crate) job: i64,
    /// The newest older job of the list that may still go on; 0 when there is none.
    ///
    /// A row that this job confirms without changing it must carry this job's number all the same as long as
    /// such a job exists, or that older job would overwrite it later (rule 13).
    pub(crate) newest_open: i64,
    /// Which way into the table has paid so far.
    pub(crate) course: &'a Course,
}

const MOVE_LANE: &str = "UPDATE job_lanes SET byte = $4, line = $5 WHERE job_id = $1 AND lane = $2 AND byte = $3";

const TAKE_KEY: &str = "INSERT INTO job_runs (key, status, job_id, owner, fence, created_at, completed_at)
    VALUES ($1, 'done', $2, $3, $4, $5, $5)
    ON CONFLICT (key) DO NOTHING";

const KEEP_RESULT: &str = "UPDATE job_runs SET result = $2 WHERE key = $1";

const LIST_AND_OPEN: &str = "SELECT j.list_id,
      COALESCE((SELECT max(o.id) FROM jobs o
                WHERE o.list_id = j.list_id AND o.id < j.id AND o.state NOT IN ('done', 'superseded')), 0)
    FROM jobs j WHERE j.id = $1";

/// Expands the transaction for one engine.
macro_rules! commit_part {
    ($session:expr, $pool:expr, $db:expr, $begin:expr, $holds:expr, $part:expr) => {{
        let (session, part): (&Session, &PartWrite) = ($session, $part);
        let lease = &session.lease;
        let mut tx = $db.begin_with($begin).await?;
        let (from, _) = position_pair(part.range.from);
        let (to, line) = position_pair(part.range.to);
        let moved = sqlx::query(MOVE_LANE)
            .bind(lease.job.0)
            .bind(i64::from(part.lane))
            .bind(from)
            .bind(to)
            .bind(line)
            .execute(&mut *tx)
            .await?;
        if moved.rows_affected() != 1 {
            return Err(StoreError::PositionMoved);
        }
        let now = now!($pool, &mut *tx);
        let taken = sqlx::query(TAKE_KEY)
            .bind(part.key.as_str())
            .bind(lease.job.0)
            .bind(&lease.owner)
            .bind(lease.fence.0)
            .bind(now)
            .execute(&mut *tx)
            .await?;
        if taken.rows_affected() != 1 {
            return Err(StoreError::PositionMoved);
        }
        let mut counts = part.counts;
        if !part.waves.is_empty() {
            let (list, newest_open): (i64, i64) =
                sqlx::query_as(LIST_AND_OPEN).bind(lease.job.0).fetch_one(&mut *tx).await?;
            let target = UpsertTarget { list, job: lease.job.0, newest_open, course: &session.course };
            for wave in &part.waves {
                counts.apply((*tx).upsert(&target, &session.merge, wave).await?);
            }
        }
        if !part.rejects.is_empty() {
            (*tx).insert_rejects(lease.job, &part.rejects).await?;
        }
        if let Some(mended) = &part.mended {
            (*tx).note_mended(lease.job, mended).await?;
        }
        if !counts.adds_up() {
            return Err(StoreError::Corrupt(format!(
                "the counts of '{}' do not add up: {counts:?}",
                part.key.as_str()
            )));
        }
        sqlx::query(KEEP_RESULT).bind(part.key.as_str()).bind(Json(&counts)).execute(&mut *tx).await?;
        let held: Option<i64> = sqlx::query_scalar($holds)
            .bind(lease.job.0)
            .bind(lease.fence.0)
            .bind(&lease.owner)
            .fetch_optional(&mut *tx)
            .await?;
        if held.is_none() {
            return Err(StoreError::LeaseLost);
        }
        crash::point("import::before_commit");
        tx.commit().await?;
        crash::point("import::after_commit");
        Ok(Written { counts })
    }};
}

impl WaveCounts {
    /// Adds what became of other rows.
    pub(crate) fn add(&mut self, other: Self) {
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.unchanged += other.unchanged;
        self.stale += other.stale;
        self.opted_out += other.opted_out;
    }
}

impl Counts {
    fn apply(&mut self, wave: WaveCounts) {
        self.inserted += wave.inserted;
        self.updated += wave.updated;
        self.unchanged += wave.unchanged;
        self.stale += wave.stale;
        self.opted_out += wave.opted_out;
    }
}

impl Session {
    /// Commits a part, whole or not at all.
    ///
    /// `PositionMoved`: the lane stands elsewhere, or the key is taken; read the positions again. `LeaseLost`:
    /// somebody else holds the job; write nothing more. After `Gone` or `Silent` it is unknown whether it was committed:
    /// the positions tell. The commit may be relaxed (rule 15): a crashed server may lose it whole.
    pub async fn commit(&self, part: &PartWrite) -> Result<Written, StoreError> {
        match &self.pool {
            Pool::Sqlite(db) => {
                self.seed(part).await?;
                commit_part!(self, &self.pool, db, sqlite::BEGIN, sqlite_part::HOLDS, part)
            }
            Pool::Postgres(db) => {
                self.answered(async {
                    commit_part!(self, &self.pool, db, postgres::BEGIN_PART, postgres_part::HOLDS, part)
                })
                .await
            }
        }
    }
}

/// The attributes that a recipient states, as JSON text with sorted keys; empty ones are left out.
pub(crate) fn attributes_json(json_keys: &[String], values: &Values) -> String {
    let mut json = String::with_capacity(16 + json_keys.len() * 32);
    push_attributes(&mut json, json_keys, values);
    json
}

/// Appends the same.
pub(crate) fn push_attributes(json: &mut String, json_keys: &[String], values: &Values) {
    json.push('{');
    let mut first = true;
    for (key, value) in json_keys.iter().zip(values.iter()) {
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        if !std::mem::take(&mut first) {
            json.push(',');
        }
        json.push_str(key);
        json.push(':');
        push_json_string(json, value);
    }
    json.push('}');
}

/// Appends a JSON string, escaped as RFC 8259 demands.
pub(crate) fn push_json_string(json: &mut String, value: &str) {
    if value.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        json.push('"');
        json.push_str(value);
        json.push('"');
    } else {
        json.push_str(&serde_json::Value::from(value).to_string());
    }
}

/// How many rows of the input `rows`, sorted by phone, stand for one of `phones`.
pub(crate) fn copies_of(rows: &[&Folded], phones: &[String]) -> u64 {
    let find = |phone: &String| rows.binary_search_by(|folded| folded.recipient.phone.as_str().cmp(phone.as_str()));
    phones.iter().filter_map(|phone| find(phone).ok()).filter_map(|place| rows.get(place)).map(|row| row.copies).sum()
}

/// Reject columns for one statement.
pub(crate) fn reject_place(reject: &Reject) -> (i64, i64) {
    (as_i64(reject.at.byte), as_i64(reject.at.line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_json_with_empty_ones_left_out() {
        let keys: Vec<String> = ["\"a\\\"b\"", "\"c\"", "\"d\""].map(str::to_owned).to_vec();
        let values = [Some("x\"y\n"), Some(""), Some("ş")].into_iter().collect();
        assert_eq!(attributes_json(&keys, &values), r#"{"a\"b":"x\"y\n","d":"ş"}"#);
        assert_eq!(attributes_json(&keys, &[None::<&str>; 3].into_iter().collect()), "{}");
    }
}
