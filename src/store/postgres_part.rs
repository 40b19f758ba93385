//! A part's rows on PostgreSQL: arrays, one statement per wave.
//!
//! Owns the upsert in SQL, and the look at who is there before it (see `approach`). What it must do is stated in
//! `recipient` and rules 12 and 13; SQLite's twin does the same in Rust, and one suite holds both to it. Invariant:
//! as long as an older job of the list may still go on, every row that conflicts is locked, changed or not; otherwise a
//! row that is left alone is as this job says at the moment of the look, and whoever changes it later comes later.

use sqlx::{FromRow, PgConnection};

use crate::batch::{Folded, Wave};
use crate::job::JobId;
use crate::reject::Reject;
use crate::run::count_of;
use crate::settings::Blank;
use crate::store::StoreError;
use crate::store::approach::Approach;
use crate::store::commit::{PartSink, UpsertTarget, WaveCounts, attributes_json, copies_of, reject_place};
use crate::store::mended::{Mended, note_postgres};
use crate::store::postgres_copy::copy;
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

/// Who of the rows is new, and who would be changed, by places from 1 on; of the rest, how many are stale.
///
/// `LIMIT` keeps the planner from reading the whole list instead of looking each phone up. A row that says all of what
/// is stored, the usual one of a rerun, is told without building what it would make of it.
const COMPARE_KEEP: &str = "WITH said AS MATERIALIZED (
      SELECT t.place, t.phone, t.name, t.attributes::jsonb AS attributes, t.version
      FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[])
        WITH ORDINALITY AS t(phone, name, attributes, version, place)),
    met AS MATERIALIZED (
      SELECT s.place, r.status,
        CASE WHEN r.status IS NULL THEN 'new'
             WHEN NOT CASE WHEN s.version <> r.source_version THEN s.version > r.source_version
                           ELSE $2 >= COALESCE(r.job_id, 0) END THEN 'stale'
             WHEN (r.name, r.attributes, r.source_version) IS NOT DISTINCT FROM (s.name, s.attributes, s.version)
               THEN 'unchanged'
             WHEN (r.name, r.attributes, r.source_version) IS DISTINCT FROM
                  (COALESCE(s.name, r.name), r.attributes || s.attributes,
                   COALESCE(s.version, r.source_version)) THEN 'changed'
             ELSE 'unchanged' END AS meeting
      FROM said s LEFT JOIN LATERAL (
        SELECT o.status, o.source_version, o.job_id, o.name, o.attributes
        FROM recipients o WHERE o.list_id = $1 AND o.phone = s.phone LIMIT 1) r ON true)
    SELECT COALESCE(array_agg(place) FILTER (WHERE meeting = 'new'), '{}') AS new,
      COALESCE(array_agg(place) FILTER (WHERE meeting = 'changed'), '{}') AS changed,
      count(*) FILTER (WHERE meeting = 'stale') AS stale,
      COALESCE(array_agg(place) FILTER (WHERE status = 'opted_out' AND meeting <> 'changed'), '{}') AS opted_out
    FROM met";

/// The same where empty cells clear; $7 and $8 as in `UPSERT_CLEAR`.
const COMPARE_CLEAR: &str = "WITH said AS MATERIALIZED (
      SELECT t.place, t.phone, t.name, t.attributes::jsonb AS attributes, t.version
      FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[])
        WITH ORDINALITY AS t(phone, name, attributes, version, place)),
    met AS MATERIALIZED (
      SELECT s.place, r.status,
        CASE WHEN r.status IS NULL THEN 'new'
             WHEN NOT CASE WHEN s.version <> r.source_version THEN s.version > r.source_version
                           ELSE $2 >= COALESCE(r.job_id, 0) END THEN 'stale'
             WHEN (r.name, r.attributes, r.source_version) IS NOT DISTINCT FROM (s.name, s.attributes, s.version)
               THEN 'unchanged'
             WHEN (r.name, r.attributes, r.source_version) IS DISTINCT FROM
                  (CASE WHEN $8 THEN s.name ELSE COALESCE(s.name, r.name) END,
                   (r.attributes - $7::text[]) || s.attributes,
                   COALESCE(s.version, r.source_version)) THEN 'changed'
             ELSE 'unchanged' END AS meeting
      FROM said s LEFT JOIN LATERAL (
        SELECT o.status, o.source_version, o.job_id, o.name, o.attributes
        FROM recipients o WHERE o.list_id = $1 AND o.phone = s.phone LIMIT 1) r ON true)
    SELECT COALESCE(array_agg(place) FILTER (WHERE meeting = 'new'), '{}') AS new,
      COALESCE(array_agg(place) FILTER (WHERE meeting = 'changed'), '{}') AS changed,
      count(*) FILTER (WHERE meeting = 'stale') AS stale,
      COALESCE(array_agg(place) FILTER (WHERE status = 'opted_out' AND meeting <> 'changed'), '{}') AS opted_out
    FROM met";

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
    async fn upsert(
        &mut self,
        target: &UpsertTarget<'_>,
        merge: &Merge,
        wave: &Wave,
    ) -> Result<WaveCounts, StoreError> {
        let approach = match target.course.approach() {
            // An older job may still come by: then each row that is met must be locked and told (rule 13).
            Approach::Compare if target.newest_open > 0 => Approach::Upsert,
            approach => approach,
        };
        let counts = match approach {
            Approach::Copy if copy(self, target, merge, wave.iter()).await? => {
                WaveCounts { inserted: count_of(wave.len()), ..WaveCounts::default() }
            }
            Approach::Compare => compare(self, target, merge, wave).await?,
            Approach::Copy | Approach::Upsert => upsert(self, target, merge, &all(wave)).await?,
        };
        target.course.learn(approach, counts);
        Ok(counts)
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

/// Rows as the parameters of a statement.
struct Arrays<'a> {
    phones: Vec<&'a str>,
    names: Vec<Option<&'a str>>,
    attributes: Vec<String>,
    versions: Vec<Option<i64>>,
}

impl<'a> Arrays<'a> {
    fn of(rows: &[&'a Folded], merge: &Merge) -> Self {
        let recipients = || rows.iter().map(|folded| &folded.recipient);
        Self {
            phones: recipients().map(|r| r.phone.as_str()).collect(),
            names: recipients().map(|r| r.name.as_deref().filter(|name| !name.is_empty())).collect(),
            attributes: recipients().map(|r| attributes_json(&merge.json_keys, &r.attributes)).collect(),
            versions: recipients().map(|r| r.version).collect(),
        }
    }
}

fn all(wave: &Wave) -> Vec<&Folded> {
    wave.iter().collect()
}

fn clears(merge: &Merge) -> bool {
    !merge.cleared.is_empty() || merge.clears_name == Blank::Clear
}

/// What `COMPARE_KEEP` and `COMPARE_CLEAR` answer: places count from 1.
#[derive(FromRow)]
struct Compared {
    new: Vec<i64>,
    changed: Vec<i64>,
    stale: i64,
    opted_out: Vec<i64>,
}

/// Looks at who is there, and writes what is new or changes something.
async fn compare(
    connection: &mut PgConnection,
    target: &UpsertTarget<'_>,
    merge: &Merge,
    wave: &Wave,
) -> Result<WaveCounts, StoreError> {
    let arrays = Arrays::of(&all(wave), merge);
    let query = sqlx::query_as(if clears(merge) { COMPARE_CLEAR } else { COMPARE_KEEP })
        .bind(target.list)
        .bind(target.job)
        .bind(&arrays.phones)
        .bind(&arrays.names)
        .bind(&arrays.attributes)
        .bind(&arrays.versions);
    let query = if clears(merge) { query.bind(&merge.cleared).bind(merge.clears_name == Blank::Clear) } else { query };
    let found: Compared = query.fetch_one(&mut *connection).await?;
    drop(arrays);

    let (new, changed) = (at(wave, found.new), at(wave, found.changed));
    let left = wave.len().saturating_sub(new.len() + changed.len());
    let mut counts = WaveCounts {
        unchanged: count_of(left).saturating_sub(unsigned(found.stale)),
        stale: unsigned(found.stale),
        opted_out: at(wave, found.opted_out).iter().map(|folded| folded.copies).sum(),
        ..WaveCounts::default()
    };
    if !new.is_empty() {
        if copy(connection, target, merge, new.iter().copied()).await? {
            counts.inserted += count_of(new.len());
        } else {
            // Somebody else was faster.
            counts.add(upsert(connection, target, merge, &new).await?);
        }
    }
    if !changed.is_empty() {
        counts.add(upsert(connection, target, merge, &changed).await?);
    }
    Ok(counts)
}

/// The rows at these places, in the order of the wave.
fn at(wave: &Wave, mut places: Vec<i64>) -> Vec<&Folded> {
    places.sort_unstable();
    places.into_iter().filter_map(|place| wave.get(usize::try_from(place - 1).ok()?)).collect()
}

/// Writes rows, whoever is there; sorted by phone and each phone once.
async fn upsert(
    connection: &mut PgConnection,
    target: &UpsertTarget<'_>,
    merge: &Merge,
    rows: &[&Folded],
) -> Result<WaveCounts, StoreError> {
    let Arrays { phones, names, attributes, versions } = Arrays::of(rows, merge);
    let upsert = sqlx::query_as(if clears(merge) { UPSERT_CLEAR } else { UPSERT_KEEP })
        .bind(target.list)
        .bind(target.job)
        .bind(&phones)
        .bind(&names)
        .bind(&attributes)
        .bind(&versions);
    let upsert =
        if clears(merge) { upsert.bind(&merge.cleared).bind(merge.clears_name == Blank::Clear) } else { upsert };
    let (inserted, written): (i64, i64) = upsert.fetch_one(&mut *connection).await?;
    let rest = as_count(rows.len()) - written;
    let mut stale = 0;
    if rest > 0 {
        let newer: bool = match merge.versioned {
            Versioned::Yes => true,
            Versioned::No => {
                sqlx::query_scalar(NEWER_JOBS).bind(target.list).bind(target.job).fetch_one(&mut *connection).await?
            }
        };
        if newer {
            stale = sqlx::query_scalar(STALE)
                .bind(target.list)
                .bind(target.job)
                .bind(&phones)
                .bind(&versions)
                .fetch_one(&mut *connection)
                .await?;
        }
        if target.newest_open > 0 {
            sqlx::query(CONFIRM)
                .bind(target.list)
                .bind(target.job)
                .bind(&phones)
                .bind(&versions)
                .bind(target.newest_open)
                .execute(&mut *connection)
                .await?;
        }
    }
    let opted_out: Vec<String> =
        sqlx::query_scalar(OPTED_OUT).bind(target.list).bind(&phones).fetch_all(&mut *connection).await?;
    Ok(WaveCounts {
        inserted: unsigned(inserted),
        updated: unsigned(written - inserted),
        unchanged: unsigned(rest - stale),
        stale: unsigned(stale),
        opted_out: copies_of(rows, &opted_out),
    })
}

fn as_count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
