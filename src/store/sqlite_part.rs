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
use crate::run::count_of;
use crate::settings::Blank;
use crate::store::commit::{PartSink, UpsertTarget, WaveCounts, attributes_json, push_json_string, reject_place};
use crate::store::mended::{Mended, note_sqlite};
use crate::store::session::Merge;
use crate::store::sqlite_rows::{self, Conflict, Statement, Written, statement_rows};
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

const STORED: &str = "SELECT r.phone, r.name, r.attributes, r.source_version, r.job_id, r.status
    FROM json_each($2) j CROSS JOIN recipients r ON r.list_id = $1 AND r.phone = j.value";

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
enum Meeting<'a> {
    /// Something changes: the whole new row.
    Written(Written<'a>),
    /// It is as the row says.
    Unchanged,
    /// What is stored is newer.
    Stale,
}

impl PartSink for SqliteConnection {
    async fn upsert(
        &mut self,
        target: &UpsertTarget<'_>,
        merge: &Merge,
        wave: &Wave,
    ) -> Result<WaveCounts, StoreError> {
        let now: i64 = sqlx::query_scalar(sqlite::NOW).fetch_one(&mut *self).await?;
        let mut counts = WaveCounts::default();
        // Into a new list everybody is new: nothing needs to be read as long as nobody is met. The next statement is
        // made while SQLite, on a thread of its own, is busy with this one.
        let mut rest = wave.as_slice();
        let prepare = |rest: &[Folded]| {
            let rows = rest.get(..statement_rows(rest.len())).unwrap_or_default();
            let written = rows.iter().map(|folded| new_row(&folded.recipient, merge));
            let statement = Statement::new(target, now, written, Conflict::Refuse)?;
            Ok::<_, StoreError>((statement, rows.len()))
        };
        let mut next = if rest.is_empty() { None } else { Some(prepare(rest)?) };
        while let Some((statement, rows)) = next.take() {
            let behind = rest.get(rows..).unwrap_or_default();
            let (taken, following) = tokio::join!(biased; statement.run(self), async {
                if behind.is_empty() { Ok(None) } else { prepare(behind).map(Some) }
            });
            if !taken? {
                break;
            }
            counts.inserted += count_of(rows);
            rest = behind;
            next = following?;
        }
        // A wave names each phone once, so its pieces do not meet.
        let mut look = Look::first(target);
        for piece in rest.chunks(MERGED) {
            let left = match look {
                Look::Same => without_same(self, target, merge, piece, &mut counts).await?,
                Look::All => piece.iter().collect(),
            };
            look = look.after(piece.len(), left.len());
            merge_piece(self, target, merge, &left, now, &mut counts).await?;
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

/// A recipient whom nobody knows yet.
fn new_row<'a>(recipient: &'a Recipient, merge: &Merge) -> Written<'a> {
    Written {
        phone: recipient.phone.as_str(),
        name: recipient.name.as_deref().filter(|name| !name.is_empty()),
        attributes: attributes_json(&merge.json_keys, &recipient.attributes),
        version: recipient.version,
    }
}

/// Whether rows that say exactly what is stored, nearly all of a rerun, are told by SQLite itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Same,
    All,
}

impl Look {
    /// While an older job may still go on, each row that is met must be told one by one (rule 13).
    fn first(target: &UpsertTarget<'_>) -> Self {
        if target.newest_open > 0 { Self::All } else { Self::Same }
    }

    /// It costs as much as reading a row costs, and pays when a fifth of them need not be read.
    fn after(self, rows: usize, left: usize) -> Self {
        if left * 5 > rows * 4 { Self::All } else { self }
    }
}

/// Counts the rows of a piece that say exactly what is stored; the others.
async fn without_same<'a>(
    connection: &mut SqliteConnection,
    target: &UpsertTarget<'_>,
    merge: &Merge,
    piece: &'a [Folded],
    counts: &mut WaveCounts,
) -> Result<Vec<&'a Folded>, StoreError> {
    let mut left = Vec::new();
    let mut rest = piece;
    while let Some((rows, behind)) = rest.split_at_checked(statement_rows(rest.len()))
        && !rows.is_empty()
    {
        let written = rows.iter().map(|folded| new_row(&folded.recipient, merge));
        let same = sqlite_rows::same(connection, target, written).await?;
        left.extend(rows.iter().enumerate().filter(|(place, _)| !same.contains(place)).map(|(_, folded)| folded));
        counts.unchanged += count_of(same.len());
        rest = behind;
    }
    Ok(left)
}

/// Reads the old rows of a piece of a wave, merges and writes.
async fn merge_piece(
    connection: &mut SqliteConnection,
    target: &UpsertTarget<'_>,
    merge: &Merge,
    wave: &[&Folded],
    now: i64,
    counts: &mut WaveCounts,
) -> Result<(), StoreError> {
    if wave.is_empty() {
        return Ok(());
    }
    let phones = json_array(wave.iter().map(|folded| folded.recipient.phone.as_str()));
    let rows: Vec<Stored> = sqlx::query_as(STORED).bind(target.list).bind(phones).fetch_all(&mut *connection).await?;
    let stored: HashMap<&str, &Stored> = rows.iter().map(|row| (row.phone.as_str(), row)).collect();
    let mut confirmed: Vec<&str> = Vec::new();
    let mut writes: Vec<Written<'_>> = Vec::new();
    for folded in wave {
        let recipient = &folded.recipient;
        let phone = recipient.phone.as_str();
        let Some(old) = stored.get(phone) else {
            counts.inserted += 1;
            writes.push(new_row(recipient, merge));
            continue;
        };
        if old.status == "opted_out" {
            counts.opted_out += folded.copies;
        }
        match meet(old, recipient, target.job, merge) {
            Meeting::Written(row) => {
                counts.updated += 1;
                writes.push(row);
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
    while !writes.is_empty() {
        let rows = writes.split_off(writes.len() - statement_rows(writes.len()));
        Statement::new(target, now, rows.into_iter(), Conflict::Replace)?.run(connection).await?;
    }
    if !confirmed.is_empty() {
        let phones = json_array(confirmed.into_iter());
        sqlx::query(CONFIRM).bind(target.list).bind(target.job).bind(phones).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Decides what a row does to what is stored, as `UPSERT_KEEP` and `UPSERT_CLEAR` do in SQL.
fn meet<'a>(old: &'a Stored, new: &'a Recipient, job: i64, merge: &Merge) -> Meeting<'a> {
    let applies = match (new.version, old.source_version) {
        (Some(new), Some(old)) if new != old => new > old,
        _ => job >= old.job_id.unwrap_or(0),
    };
    if !applies {
        return Meeting::Stale;
    }
    let stated = new.name.as_deref().filter(|name| !name.is_empty());
    let name = match merge.clears_name {
        Blank::Clear => stated,
        Blank::Keep => stated.or(old.name.as_deref()),
    };
    let mut attributes = old.attributes.0.clone();
    for key in &merge.cleared {
        attributes.remove(key);
    }
    for (key, value) in merge.keys.iter().zip(new.attributes.iter()) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            attributes.insert(key.clone(), value.to_owned());
        }
    }
    let version = new.version.or(old.source_version);
    if name == old.name.as_deref() && attributes == old.attributes.0 && version == old.source_version {
        return Meeting::Unchanged;
    }
    let attributes = serde_json::to_string(&attributes).unwrap_or_else(|_| "{}".to_owned());
    Meeting::Written(Written { phone: new.phone.as_str(), name, attributes, version })
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
