//! Profiles: named import options.
//!
//! Owns the table `profiles`. It does not know what an option means. Invariant: a profile changes nothing of a
//! job; it is read when an import is asked for, and what it said is frozen with the job.

use std::collections::BTreeMap;

use serde_json::Value;
use sqlx::FromRow;
use sqlx::types::Json;

use crate::clock::Timestamp;
use crate::profile::ProfileName;
use crate::store::{Store, StoreError, now, on};

/// A profile as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileRow {
    /// Its name.
    pub name: String,
    /// Its options, as whichever program wrote them.
    pub settings: BTreeMap<String, Value>,
    /// When it was first saved.
    pub created_at: Timestamp,
    /// When it was last saved.
    pub updated_at: Timestamp,
}

/// What to do about a profile of that name that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// Leave it.
    Refuse,
    /// Put the new one in its place.
    Replace,
}

/// What became of a profile that was to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// There was none of that name.
    New,
    /// It took the place of another.
    Replaced,
    /// There is one of that name, and it stays.
    Exists,
}

#[derive(FromRow)]
struct Row {
    name: String,
    settings: Json<BTreeMap<String, Value>>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Row> for ProfileRow {
    fn from(row: Row) -> Self {
        Self { name: row.name, settings: row.settings.0, created_at: row.created_at, updated_at: row.updated_at }
    }
}

const ALL: &str = "SELECT name, settings, created_at, updated_at FROM profiles ORDER BY name";
const ONE: &str = "SELECT name, settings, created_at, updated_at FROM profiles WHERE name = $1";
const CREATE: &str = "INSERT INTO profiles (name, settings, created_at, updated_at) VALUES ($1, $2, $3, $3)
    ON CONFLICT (name) DO NOTHING";
const REPLACE: &str = "UPDATE profiles SET settings = $2, updated_at = $3 WHERE name = $1";
const DELETE: &str = "DELETE FROM profiles WHERE name = $1";

impl Store {
    /// Every profile, by name.
    pub async fn profiles(&self) -> Result<Vec<ProfileRow>, StoreError> {
        let rows: Vec<Row> = on!(&self.pool, |db| sqlx::query_as(ALL).fetch_all(db).await?);
        Ok(rows.into_iter().map(ProfileRow::from).collect())
    }

    /// The profile of that name.
    pub async fn profile(&self, name: &ProfileName) -> Result<Option<ProfileRow>, StoreError> {
        let row: Option<Row> = on!(&self.pool, |db| sqlx::query_as(ONE).bind(name.as_str()).fetch_optional(db).await?);
        Ok(row.map(ProfileRow::from))
    }

    /// Saves a profile, whole or not at all.
    pub async fn save_profile(
        &self,
        name: &ProfileName,
        settings: &BTreeMap<String, Value>,
        overwrite: Overwrite,
    ) -> Result<Saved, StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let write = |sql: &'static str| sqlx::query(sql).bind(name.as_str()).bind(Json(settings)).bind(now);
            let saved = if write(CREATE).execute(&mut *tx).await?.rows_affected() > 0 {
                Saved::New
            } else if overwrite == Overwrite::Replace {
                write(REPLACE).execute(&mut *tx).await?;
                Saved::Replaced
            } else {
                Saved::Exists
            };
            tx.commit().await?;
            Ok(saved)
        })
    }

    /// Deletes a profile; whether there was one.
    pub async fn delete_profile(&self, name: &ProfileName) -> Result<bool, StoreError> {
        let deleted = on!(&self.pool, |db| sqlx::query(DELETE).bind(name.as_str()).execute(db).await?.rows_affected());
        Ok(deleted > 0)
    }
}
