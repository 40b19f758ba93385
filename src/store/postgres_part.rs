//! A part's rows on PostgreSQL: arrays, one statement per wave.
//!
//! Owns the upsert in SQL. What it must do is stated in `recipient` and rules 12 and 13; SQLite's twin does
//! the same in Rust, and one suite holds both to it. Invariant: every row that conflicts is locked by the
//! upsert, changed or not, so what is counted afterwards is what stands.

use sqlx::PgConnection;

use crate::batch::Wave;
use crate::job::JobId;
use crate::reject::Reject;
use crate::settings::Blank;
use crate::store::StoreError;
use crate::store::commit::{PartSink, UpsertTarget, WaveCounts, attributes_json, copies_of, reject_place};
use crate::store::mended::{Mended, note_postgres};
use crate::store::session::{Merge, Versioned};

/// `updated_at = excluded.updated_at`: Citus wants nothing but IMMUTABLE functions in DO UPDATE SET.
const UPSERT_KEEP: &str = "WITH written AS (
      INSERT INTO recipients AS r
        (list_id, job_id, created_job_id, source_version, created_at, updated_at, phone, name, attributes)
      SELECT $1, $2, $2, t.version, now(), now(), t.phone, t.name, t.attributes::jsonb
      FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[]) AS t(phone, name, attributes, version)
      ON CONFLICT (list_id, phone) DO UPDATE
      SET name = COALESCE(excluded.name, r.name),
          attributes = r.attributes || excluded.attributes,
          source_version = COALESCE(excluded.source_version, r.source_version),
          job_id = excluded.job_id,
          updated_at = excluded.updated_at
      WHERE CASE WHEN excluded.source_version <> r.source_version THEN excluded.source_version > r.source_version
                 ELSE excluded.job_id >= COALESCE(r.job_id, 0) END
        AND (r.name, r.attributes, r.source_version) IS DISTINCT FROM
            (COALESCE(excluded.name, r.name), r.attributes || excluded.attributes,
             COALESCE(excluded.source_version, r.source_version))
      RETURNING (xmax = 0) AS fresh)
    SELECT count(*) FILTER (WHERE fresh), count(*) FROM written";

/// The same where empty cells clear: $7 are the keys that the file speaks about, $8 whether it names people.
const UPSERT_CLEAR: &str = "WITH written AS (
      INSERT INTO recipients AS r
        (list_id, job_id, created_job_id, source_version, created_at, updated_at, phone, name, attributes)
      SELECT $1, $2, $2, t.version, now(), now(), t.phone, t.name, t.attributes::jsonb
      FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[]) AS t(phone, name, attributes, version)
      ON CONFLICT (list_id, phone) DO UPDATE
      SET name = CASE WHEN $8 THEN excluded.name ELSE COALESCE(excluded.name, r.name) END,
          attributes = (r.attributes - $7::text[]) || excluded.attributes,
          source_version = COALESCE(excluded.source_version, r.source_version),
          job_id = excluded.job_id,
          updated_at = excluded.updated_at
      WHERE CASE WHEN excluded.source_version <> r.source_version THEN excluded.source_version > r.source_version
                 ELSE excluded.job_id >= COALESCE(r.job_id, 0) END
        AND (r.name, r.attributes, r.source_version) IS DISTINCT FROM
            (CASE WHEN $8 THEN excluded.name ELSE COALESCE(excluded.name, r.name) END,
             (r.attributes - $7::text[]) || excluded.attributes,
             COALESCE(excluded.source_version, r.source_version))
      RETURNING (xmax = 0) AS fresh)
    SELECT count(*) FILTER (WHERE fresh), count(*) FROM written";

/// Rows that were not written because what is stored is newer. Read after the upsert, whose locks hold.
const STALE: &str = "SELECT count(*)
    FROM unnest($3::text[], $4::bigint[]) AS t(phone, version)
    JOIN recipients r ON r.list_id = $1 AND r.phone = t.phone
    WHERE NOT CASE WHEN t.version <> r.source_version THEN t.version > r.source_version
                   ELSE $2 >= COALESCE(r.job_id, 0) END";

const NEWER_JOBS: &str = "SELECT EXISTS (SELECT 1 FROM jobs WHERE list_id = $1 AND id > $2)";

/// Confirms rows that were already as this job says, where an older job may still come by.
const CONFIRM: &str = "UPDATE recipients r SET job_id = $2
    FROM unnest($3::text[], $4::bigint[]) AS t(phone, version)
    WHERE r.list_id = $1 AND r.phone = t.phone AND COALESCE(r.job_id, 0) <= $5
      AND NOT COALESCE(t.version < r.source_version, false)";

const OPTED_OUT: &str =
    "SELECT phone FROM recipients WHERE list_id = $1 AND status = 'opted_out' AND phone = ANY($2) ORDER BY phone";

const REJECTS: &str = "INSERT INTO rejects (job_id, byte, line, column_name, reason, detail, raw)
    SELECT $1, t.byte, t.line, t.column_name, t.reason, t.detail, t.raw
    FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bytea[])
      AS t(byte, line, column_name, reason, detail, raw)";

/// Whether the job is still held under this fence and owner; the lock keeps it so until COMMIT.
pub(crate) const HOLDS: &str =
    "SELECT id FROM jobs WHERE id = $1 AND state = 'running' AND fence = $2 AND owner = $3 FOR SHARE";

impl PartSink for PgConnection {
    async fn upsert(&mut self, target: &UpsertTarget, merge: &Merge, wave: &Wave) -> Result<WaveCounts, StoreError> {
        let recipients = || wave.iter().map(|folded| &folded.recipient);
        let phones: Vec<&str> = recipients().map(|r| r.phone.as_str()).collect();
        let names: Vec<Option<&str>> = recipients().map(|r| r.name.as_deref().filter(|n| !n.is_empty())).collect();
        let attributes: Vec<String> = recipients().map(|r| attributes_json(&merge.json_keys, &r.attributes)).collect();
        let versions: Vec<Option<i64>> = recipients().map(|r| r.version).collect();
        let clears = !merge.cleared.is_empty() || merge.clears_name == Blank::Clear;
        let upsert = sqlx::query_as(if clears { UPSERT_CLEAR } else { UPSERT_KEEP })
            .bind(target.list)
            .bind(target.job)
            .bind(&phones)
            .bind(&names)
            .bind(&attributes)
            .bind(&versions);
        let upsert = if clears { upsert.bind(&merge.cleared).bind(merge.clears_name == Blank::Clear) } else { upsert };
        let (inserted, written): (i64, i64) = upsert.fetch_one(&mut *self).await?;
        let rest = as_count(wave.len()) - written;
        let mut stale = 0;
        if rest > 0 {
            let newer: bool = match merge.versioned {
                Versioned::Yes => true,
                Versioned::No => {
                    sqlx::query_scalar(NEWER_JOBS).bind(target.list).bind(target.job).fetch_one(&mut *self).await?
                }
            };
            if newer {
                stale = sqlx::query_scalar(STALE)
                    .bind(target.list)
                    .bind(target.job)
                    .bind(&phones)
                    .bind(&versions)
                    .fetch_one(&mut *self)
                    .await?;
            }
            if target.newest_open > 0 {
                sqlx::query(CONFIRM)
                    .bind(target.list)
                    .bind(target.job)
                    .bind(&phones)
                    .bind(&versions)
                    .bind(target.newest_open)
                    .execute(&mut *self)
                    .await?;
            }
        }
        let opted_out: Vec<String> =
            sqlx::query_scalar(OPTED_OUT).bind(target.list).bind(&phones).fetch_all(&mut *self).await?;
        Ok(WaveCounts {
            inserted: unsigned(inserted),
            updated: unsigned(written - inserted),
            unchanged: unsigned(rest - stale),
            stale: unsigned(stale),
            opted_out: copies_of(wave, &opted_out),
        })
    }

    async fn note_mended(&mut self, job: JobId, mended: &Mended) -> Result<(), StoreError> {
        note_postgres(self, job, mended).await
    }

    async fn insert_rejects(&mut self, job: JobId, rejects: &[Reject]) -> Result<(), StoreError> {
        let (bytes, lines): (Vec<i64>, Vec<i64>) = rejects.iter().map(reject_place).unzip();
        let columns: Vec<Option<&str>> = rejects.iter().map(|reject| reject.column.as_deref()).collect();
        let reasons: Vec<&str> = rejects.iter().map(|reject| reject.reason.code()).collect();
        let details: Vec<&str> = rejects.iter().map(|reject| reject.detail.as_str()).collect();
        let raws: Vec<&[u8]> = rejects.iter().map(|reject| reject.raw.as_slice()).collect();
        sqlx::query(REJECTS)
            .bind(job.0)
            .bind(bytes)
            .bind(lines)
            .bind(columns)
            .bind(reasons)
            .bind(details)
            .bind(raws)
            .execute(&mut *self)
            .await?;
        Ok(())
    }
}

fn as_count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
