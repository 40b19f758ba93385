//! New recipients into PostgreSQL by COPY, in its binary format.
//!
//! Owns the bytes (postgresql.org/docs/current/sql-copy.html, "Binary Format"). It does not know whether the rows are
//! new: the primary key does. Invariant: all rows are written or none, and after a refusal the transaction goes on.

use sqlx::{Connection, PgConnection};

use crate::batch::Folded;
use crate::store::StoreError;
use crate::store::commit::{UpsertTarget, push_attributes};
use crate::store::session::Merge;

const COPY: &str = "COPY recipients
      (list_id, job_id, created_job_id, source_version, created_at, updated_at, phone, name, attributes)
    FROM STDIN (FORMAT binary)";

const FIELDS: i16 = 9;

/// Signature, flags, and the length of a header extension that is not there.
const HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// What stands where another row's number of fields would.
const TRAILER: i16 = -1;

/// What stands where the length of a field would.
const NULL: i32 = -1;

/// The only version of jsonb's binary format: a byte, and the document as text.
const JSONB_VERSION: u8 = 1;

/// The transaction's time as COPY takes it: microseconds since 2000.
const NOW: &str = "SELECT CAST(EXTRACT(EPOCH FROM now() - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000 AS bigint)";

/// Copies recipients in, sorted by phone and each phone once. Whether it did: not where one is known to the list, and
/// then nothing of it is visible; what was written until then is dead rows.
pub(crate) async fn copy<'a>(
    connection: &mut PgConnection,
    target: &UpsertTarget<'_>,
    merge: &Merge,
    rows: impl Iterator<Item = &'a Folded>,
) -> Result<bool, StoreError> {
    let now: i64 = sqlx::query_scalar(NOW).fetch_one(&mut *connection).await?;
    let bytes = encode(target, merge, rows, now);
    let mut savepoint = connection.begin().await?;
    let mut copy = savepoint.copy_in_raw(COPY).await?;
    copy.send(bytes.as_slice()).await?;
    match copy.finish().await {
        Ok(_) => {
            savepoint.commit().await?;
            Ok(true)
        }
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            savepoint.rollback().await?;
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn encode<'a>(target: &UpsertTarget<'_>, merge: &Merge, rows: impl Iterator<Item = &'a Folded>, now: i64) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    let mut json = String::new();
    for Folded { recipient, .. } in rows {
        bytes.extend(FIELDS.to_be_bytes());
        for number in [Some(target.list), Some(target.job), Some(target.job), recipient.version, Some(now), Some(now)] {
            match number {
                Some(number) => push_field(&mut bytes, &number.to_be_bytes()),
                None => bytes.extend(NULL.to_be_bytes()),
            }
        }
        push_field(&mut bytes, recipient.phone.as_str().as_bytes());
        match recipient.name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => push_field(&mut bytes, name.as_bytes()),
            None => bytes.extend(NULL.to_be_bytes()),
        }
        json.clear();
        push_attributes(&mut json, &merge.json_keys, &recipient.attributes);
        bytes.extend(length(json.len() + 1));
        bytes.push(JSONB_VERSION);
        bytes.extend(json.as_bytes());
    }
    bytes.extend(TRAILER.to_be_bytes());
    bytes
}

fn push_field(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend(length(value.len()));
    bytes.extend(value);
}

/// A batch holds 8 MiB of input at most, so no field comes near what 31 bits hold.
fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes()
}
