//! Recipients, read out and opted in or out.
//!
//! Owns reading `recipients` by pages and their status. Writing them from a file is `commit`. Invariant:
//! an opt-out is an upsert, so it holds whether the recipient came before or comes later (rule 12).

use std::collections::BTreeMap;

use sqlx::FromRow;
use sqlx::types::Json;

use crate::job::ListId;
use crate::phone::Phone;
use crate::store::{Pool, Store, StoreError, now, on};

/// Whether a recipient may be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Yes.
    Active,
    /// No; an import never changes that.
    OptedOut,
}

impl Status {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::OptedOut => "opted_out",
        }
    }
}

/// A recipient as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// E.164.
    pub phone: String,
    /// The name, when one is known.
    pub name: Option<String>,
    /// Whether the person opted out.
    pub status: Status,
    /// Everything else that lists said.
    pub attributes: BTreeMap<String, String>,
    /// The version of the row that was last applied.
    pub source_version: Option<i64>,
}

/// What an opt-out or opt-in did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusChange {
    /// Recipients whose status changed.
    pub changed: u64,
    /// Recipients that were not known and are now.
    pub created: u64,
    /// Recipients that had that status.
    pub already: u64,
    /// Phones that are not on the list and had no opt-out to take back.
    pub unknown: Vec<Phone>,
}

#[derive(FromRow)]
pub(crate) struct MemberRow {
    phone: String,
    name: Option<String>,
    status: String,
    attributes: Json<BTreeMap<String, String>>,
    source_version: Option<i64>,
}

const PAGE: &str = "SELECT phone, name, status, attributes, source_version
    FROM recipients
    WHERE list_id = $1 AND phone > $2
    ORDER BY phone
    LIMIT $3";

pub(crate) const MEMBERS_OF_SQLITE: &str = "SELECT r.phone, r.name, r.status, r.attributes, r.source_version
    FROM json_each($2) j CROSS JOIN recipients r ON r.list_id = $1 AND r.phone = j.value";
pub(crate) const MEMBERS_OF_POSTGRES: &str = "SELECT phone, name, status, attributes, source_version
    FROM recipients WHERE list_id = $1 AND phone = ANY($2)";

const KEYS_SQLITE: &str = "SELECT DISTINCT j.key FROM recipients r, json_each(r.attributes) j
    WHERE r.list_id = $1 ORDER BY j.key";
const KEYS_POSTGRES: &str = r#"SELECT DISTINCT k.key COLLATE "C" AS key FROM recipients r, jsonb_object_keys(r.attributes) AS k(key)
    WHERE r.list_id = $1 ORDER BY key"#;

const STATUS: &str = "SELECT status FROM recipients WHERE list_id = $1 AND phone = $2";
const SET_STATUS: &str = "INSERT INTO recipients AS r (list_id, phone, status, attributes, created_at, updated_at)
    VALUES ($1, $2, $3, '{}', $4, $4)
    ON CONFLICT (list_id, phone) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at
    WHERE r.status <> excluded.status";

impl Store {
    /// The next recipients of a list by phone, after `after`; at most `limit`.
    pub async fn members_after(
        &self,
        list: ListId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Member>, StoreError> {
        let after = after.unwrap_or_default();
        let rows: Vec<MemberRow> = on!(&self.pool, |db| {
            sqlx::query_as(PAGE).bind(list.0).bind(after).bind(i64::from(limit)).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(Member::from).collect())
    }

    /// Every attribute key in use in a list, sorted by bytes. Reads the whole list.
    pub async fn member_keys(&self, list: ListId) -> Result<Vec<String>, StoreError> {
        let keys = match &self.pool {
            Pool::Sqlite(db) => sqlx::query_scalar(KEYS_SQLITE).bind(list.0).fetch_all(db).await?,
            Pool::Postgres(db) => sqlx::query_scalar(KEYS_POSTGRES).bind(list.0).fetch_all(db).await?,
        };
        Ok(keys)
    }

    /// Gives recipients a status, all or none. An unknown one is stored with an opt-out; an opt-in leaves it unknown.
    pub async fn set_status(&self, list: ListId, phones: &[Phone], status: Status) -> Result<StatusChange, StoreError> {
        // In one order, so that two that change the same people do not wait for each other in a circle.
        let mut phones: Vec<&Phone> = phones.iter().collect();
        phones.sort_unstable();
        phones.dedup();
        let mut change = StatusChange::default();
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            for phone in phones {
                let before: Option<String> =
                    sqlx::query_scalar(STATUS).bind(list.0).bind(phone.as_str()).fetch_optional(&mut *tx).await?;
                if before.is_none() && status == Status::Active {
                    change.unknown.push(phone.clone());
                    continue;
                }
                let written = sqlx::query(SET_STATUS)
                    .bind(list.0)
                    .bind(phone.as_str())
                    .bind(status.as_str())
                    .bind(now)
                    .execute(&mut *tx)
                    .await?
                    .rows_affected();
                match (written, before) {
                    (0, _) => change.already += 1,
                    (_, None) => change.created += 1,
                    (_, Some(_)) => change.changed += 1,
                }
            }
            tx.commit().await?;
        });
        Ok(change)
    }
}

impl From<MemberRow> for Member {
    fn from(row: MemberRow) -> Self {
        Self {
            phone: row.phone,
            name: row.name,
            status: if row.status == Status::OptedOut.as_str() { Status::OptedOut } else { Status::Active },
            attributes: row.attributes.0,
            source_version: row.source_version,
        }
    }
}
