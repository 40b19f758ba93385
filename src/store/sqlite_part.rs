//! A part's rows on SQLite: the old rows are read, merged in Rust and written, inside one write transaction.
//!
//! Owns the merge in Rust (rules 12 and 13); PostgreSQL's twin does the same in SQL, and one suite holds both
//! to it. Invariant: the transaction began IMMEDIATE, so nothing changes between reading and writing.

use std::collections::{BTreeMap, HashMap};

use sqlx::types::Json;
use sqlx::{FromRow, SqliteConnection};

use crate::batch::{Folded, Wave};
use crate::job::JobId;
use crate::recipient::Recipient;
use crate::reject::Reject;
use crate::settings::Blank;
use crate::store::commit::{PartSink, UpsertTarget, WaveCounts, attributes_json, push_json_string, reject_place};
use crate::store::mended::{Mended, note_sqlite};
use crate::store::session::Merge;
use crate::store::{StoreError, sqlite};

/// What is stored about one phone.
#[derive(FromRow)]
struct Stored {
    phone: String,
    name: Option<String>,
    attributes: Json<BTreeMap<String, String>>,
    source_version: Option<i64>,
    job_id: Option<i64>,
    status: String,
}

const ANY: &str = "SELECT EXISTS (SELECT 1 FROM recipients WHERE list_id = $1)";

const STORED: &str = "SELECT r.phone, r.name, r.attributes, r.source_version, r.job_id, r.status
    FROM json_each($2) j CROSS JOIN recipients r ON r.list_id = $1 AND r.phone = j.value";

/// Each element of $4 is `[phone, name, attributes, version]`.
const WRITE: &str = "INSERT INTO recipients
      (list_id, job_id, created_job_id, source_version, created_at, updated_at, phone, name, attributes)
    SELECT $1, $2, $2, j.value ->> 3, $3, $3, j.value ->> 0, j.value ->> 1, j.value ->> 2
    FROM json_each($4) j
    WHERE true
    ON CONFLICT (list_id, phone) DO UPDATE
    SET name = excluded.name,
        attributes = excluded.attributes,
        source_version = excluded.source_version,
        job_id = excluded.job_id,
        updated_at = excluded.updated_at";

const CONFIRM: &str = "UPDATE recipients SET job_id = $2
    WHERE list_id = $1 AND phone IN (SELECT value FROM json_each($3))";

/// Rows that are merged at a time: the old rows of so many are in memory at once.
const MERGED: usize = 4_000;

/// How much JSON goes into one statement, in bytes; SQLite holds several copies of it.
const JSON_MAX: usize = 1024 * 1024;

/// From this length on a refused row is bound as it is instead of written as JSON.
const LONG_RAW: usize = 4 * 1024;

const LONG_REJECT: &str = "INSERT INTO rejects (job_id, byte, line, column_name, reason, detail, raw)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

/// Each element of $2 is `[byte, line, column, reason, detail, raw in hexadecimal]`.
const REJECTS: &str = "INSERT INTO rejects (job_id, byte, line, column_name, reason, detail, raw)
    SELECT $1, j.value ->> 0, j.value ->> 1, j.value ->> 2, j.value ->> 3, j.value ->> 4, unhex(j.value ->> 5)
    FROM json_each($2) j";

/// Whether the job is still held under this fence and owner.
pub(crate) const HOLDS: &str = "SELECT id FROM jobs WHERE id = $1 AND state = 'running' AND fence = $2 AND owner = $3";

/// How a recipient meets what is stored about its phone.
enum Meeting {
    /// Something changes: the whole new row.
    Written { name: Option<String>, attributes: String, version: Option<i64> },
    /// It is as the row says.
    Unchanged,
    /// What is stored is newer.
    Stale,
}

impl PartSink for SqliteConnection {
    async fn upsert(&mut self, target: &UpsertTarget, merge: &Merge, wave: &Wave) -> Result<WaveCounts, StoreError> {
        let any: bool = sqlx::query_scalar(ANY).bind(target.list).fetch_one(&mut *self).await?;
        let known = if any { Known::Some } else { Known::None };
        let mut counts = WaveCounts::default();
        // A wave names each phone once, so its pieces do not meet.
        for piece in wave.chunks(MERGED) {
            merge_piece(self, target, merge, piece, known, &mut counts).await?;
        }
        Ok(counts)
    }

    async fn note_mended(&mut self, job: JobId, mended: &Mended) -> Result<(), StoreError> {
        note_sqlite(self, job, mended).await
    }

    async fn insert_rejects(&mut self, job: JobId, rejects: &[Reject]) -> Result<(), StoreError> {
        let mut rows = String::from("[");
        for reject in rejects {
            let (byte, line) = reject_place(reject);
            if reject.raw.len() >= LONG_RAW {
                sqlx::query(LONG_REJECT)
                    .bind(job.0)
                    .bind(byte)
                    .bind(line)
                    .bind(reject.column.as_deref())
                    .bind(reject.reason.code())
                    .bind(&reject.detail)
                    .bind(&reject.raw)
                    .execute(&mut *self)
                    .await?;
                continue;
            }
            open_row(&mut rows);
            rows.push_str(&format!("{byte},{line},"));
            push_optional(&mut rows, reject.column.as_deref());
            rows.push(',');
            push_json_string(&mut rows, reject.reason.code());
            rows.push(',');
            push_json_string(&mut rows, &reject.detail);
            rows.push_str(",\"");
            push_hex(&mut rows, &reject.raw);
            rows.push_str("\"]");
            if rows.len() >= JSON_MAX {
                insert_short_rejects(self, job, &mut rows).await?;
            }
        }
        insert_short_rejects(self, job, &mut rows).await
    }
}

/// Writes the rows that `rows` has gathered, and begins another array.
async fn insert_short_rejects(
    connection: &mut SqliteConnection,
    job: JobId,
    rows: &mut String,
) -> Result<(), StoreError> {
    if rows.len() > 1 {
        rows.push(']');
        let rows = std::mem::replace(rows, String::from("["));
        sqlx::query(REJECTS).bind(job.0).bind(rows).execute(connection).await?;
    }
    Ok(())
}

/// Whether the list held anybody before a wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Some,
    None,
}

/// Reads the old rows of a piece of a wave, merges and writes.
async fn merge_piece(
    connection: &mut SqliteConnection,
    target: &UpsertTarget,
    merge: &Merge,
    wave: &[Folded],
    known: Known,
    counts: &mut WaveCounts,
) -> Result<(), StoreError> {
    let mut stored: HashMap<String, Stored> = HashMap::new();
    if known == Known::Some {
        let phones = json_array(wave.iter().map(|folded| folded.recipient.phone.as_str()));
        let rows: Vec<Stored> =
            sqlx::query_as(STORED).bind(target.list).bind(phones).fetch_all(&mut *connection).await?;
        stored = rows.into_iter().map(|row| (row.phone.clone(), row)).collect();
    }
    let mut confirmed: Vec<&str> = Vec::new();
    let mut writes = String::from("[");
    for folded in wave {
        if writes.len() >= JSON_MAX {
            write_rows(connection, target, &mut writes).await?;
        }
        let recipient = &folded.recipient;
        let phone = recipient.phone.as_str();
        let Some(old) = stored.get(phone) else {
            counts.inserted += 1;
            let name = recipient.name.as_deref().filter(|name| !name.is_empty());
            let attributes = attributes_json(&merge.json_keys, &recipient.attributes);
            push_write(&mut writes, phone, name, &attributes, recipient.version);
            continue;
        };
        if old.status == "opted_out" {
            counts.opted_out += folded.copies;
        }
        match meet(old, recipient, target.job, merge) {
            Meeting::Written { name, attributes, version } => {
                counts.updated += 1;
                push_write(&mut writes, phone, name.as_deref(), &attributes, version);
            }
            Meeting::Unchanged => {
                counts.unchanged += 1;
                if target.newest_open > 0 && old.job_id.unwrap_or(0) <= target.newest_open {
                    confirmed.push(phone);
                }
            }
            Meeting::Stale => {
                counts.stale += 1;
                // An equal or newer version, stored by an older job, is confirmed by nobody.
            }
        }
    }
    write_rows(connection, target, &mut writes).await?;
    if !confirmed.is_empty() {
        let phones = json_array(confirmed.into_iter());
        sqlx::query(CONFIRM).bind(target.list).bind(target.job).bind(phones).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Writes the rows that `writes` has gathered, and begins another array.
async fn write_rows(
    connection: &mut SqliteConnection,
    target: &UpsertTarget,
    writes: &mut String,
) -> Result<(), StoreError> {
    if writes.len() > 1 {
        writes.push(']');
        let writes = std::mem::replace(writes, String::from("["));
        let now: i64 = sqlx::query_scalar(sqlite::NOW).fetch_one(&mut *connection).await?;
        sqlx::query(WRITE).bind(target.list).bind(target.job).bind(now).bind(writes).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Decides what a row does to what is stored, as `UPSERT_KEEP` and `UPSERT_CLEAR` do in SQL.
fn meet(old: &Stored, new: &Recipient, job: i64, merge: &Merge) -> Meeting {
    let applies = match (new.version, old.source_version) {
        (Some(new), Some(old)) if new != old => new > old,
        _ => job >= old.job_id.unwrap_or(0),
    };
    if !applies {
        return Meeting::Stale;
    }
    let stated = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    let name = match merge.clears_name {
        Blank::Clear => stated(&new.name),
        Blank::Keep => stated(&new.name).or_else(|| old.name.clone()),
    };
    let mut attributes = old.attributes.0.clone();
    for key in &merge.cleared {
        attributes.remove(key);
    }
    for (key, value) in merge.keys.iter().zip(&new.attributes) {
        if let Some(value) = stated(value) {
            attributes.insert(key.clone(), value);
        }
    }
    let version = new.version.or(old.source_version);
    if name == old.name && attributes == old.attributes.0 && version == old.source_version {
        return Meeting::Unchanged;
    }
    let json = serde_json::to_string(&attributes).unwrap_or_else(|_| "{}".to_owned());
    Meeting::Written { name, attributes: json, version }
}

fn push_write(writes: &mut String, phone: &str, name: Option<&str>, attributes: &str, version: Option<i64>) {
    open_row(writes);
    push_json_string(writes, phone);
    writes.push(',');
    push_optional(writes, name);
    writes.push(',');
    // The document is kept as text: as a JSON value it would be read and printed anew.
    push_json_string(writes, attributes);
    writes.push(',');
    match version {
        Some(version) => writes.push_str(&version.to_string()),
        None => writes.push_str("null"),
    }
    writes.push(']');
}

fn open_row(rows: &mut String) {
    if rows.len() > 1 {
        rows.push(',');
    }
    rows.push('[');
}

fn push_optional(json: &mut String, value: Option<&str>) {
    match value {
        Some(value) => push_json_string(json, value),
        None => json.push_str("null"),
    }
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.reserve(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

pub(crate) fn json_array<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut json = String::from("[");
    for value in values {
        if json.len() > 1 {
            json.push(',');
        }
        push_json_string(&mut json, value);
    }
    json.push(']');
    json
}
