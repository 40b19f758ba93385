//! `Timestamp` as a value of both engines.
//!
//! Owns the encoding: `timestamptz` on PostgreSQL (microseconds since 2000-01-01, the binary format of its
//! protocol), INTEGER milliseconds since 1970 on SQLite. Invariant: a value reads back to the millisecond.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Postgres, Sqlite, Type};

use crate::clock::Timestamp;

/// Milliseconds from 1970-01-01 to 2000-01-01.
const POSTGRES_EPOCH_MS: i64 = 946_684_800_000;

impl Type<Postgres> for Timestamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl Encode<'_, Postgres> for Timestamp {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros = self.millis().saturating_sub(POSTGRES_EPOCH_MS).saturating_mul(1000);
        <i64 as Encode<'_, Postgres>>::encode_by_ref(&micros, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for Timestamp {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let micros = <i64 as Decode<'r, Postgres>>::decode(value)?;
                Ok(Self::from_millis(micros.div_euclid(1000).saturating_add(POSTGRES_EPOCH_MS)))
            }
            PgValueFormat::Text => Err("a timestamp came as text, which only unprepared statements do".into()),
        }
    }
}

impl Type<Sqlite> for Timestamp {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }

    fn compatible(ty: &SqliteTypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(ty)
    }
}

impl Encode<'_, Sqlite> for Timestamp {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<'_, Sqlite>>::encode_by_ref(&self.millis(), buffer)
    }
}

impl<'r> Decode<'r, Sqlite> for Timestamp {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        <i64 as Decode<'r, Sqlite>>::decode(value).map(Self::from_millis)
    }
}
