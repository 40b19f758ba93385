//! Lists.
//!
//! Owns the table `lists`. It does not know who may create one. Invariant: a name is one list, whatever
//! number of processes create it at once.

use sqlx::FromRow;

use crate::clock::Timestamp;
use crate::job::ListId;
use crate::list::ListName;
use crate::store::{Store, StoreError, now, on};

/// A list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRow {
    /// Its number.
    pub id: ListId,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// How many recipients it holds, counted now.
    pub recipients: u64,
    /// How many of them have opted out.
    pub opted_out: u64,
}

/// Whether something was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It was made now.
    New,
    /// It was there.
    Existing,
}

#[derive(FromRow)]
struct Row {
    id: i64,
    name: String,
    created_at: Timestamp,
    recipients: i64,
    opted_out: i64,
}

impl From<Row> for ListRow {
    fn from(row: Row) -> Self {
        Self {
            id: ListId(row.id),
            name: row.name,
            created_at: row.created_at,
            recipients: u64::try_from(row.recipients).unwrap_or(0),
            opted_out: u64::try_from(row.opted_out).unwrap_or(0),
        }
    }
}

const LISTS: &str = "SELECT l.id, l.name, l.created_at,
      (SELECT count(*) FROM recipients r WHERE r.list_id = l.id) AS recipients,
      (SELECT count(*) FROM recipients r WHERE r.list_id = l.id AND r.status = 'opted_out') AS opted_out
    FROM lists l
    ORDER BY l.name";

const FIND: &str = "SELECT l.id, l.name, l.created_at,
      (SELECT count(*) FROM recipients r WHERE r.list_id = l.id) AS recipients,
      (SELECT count(*) FROM recipients r WHERE r.list_id = l.id AND r.status = 'opted_out') AS opted_out
    FROM lists l
    WHERE l.name = $1";

const UP_TO: &str = "SELECT count(*) FROM (SELECT 1 FROM recipients WHERE list_id = $1 LIMIT $2) r";

const NAMES: &str = "SELECT name FROM lists ORDER BY name";
const ID: &str = "SELECT id FROM lists WHERE name = $1";
const CREATE: &str = "INSERT INTO lists (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";

impl Store {
    /// Every list, by name, with its recipients counted.
    pub async fn lists(&self) -> Result<Vec<ListRow>, StoreError> {
        let rows: Vec<Row> = on!(&self.pool, |db| sqlx::query_as(LISTS).fetch_all(db).await?);
        Ok(rows.into_iter().map(ListRow::from).collect())
    }

    /// The names of every list, without counting anything.
    pub async fn list_names(&self) -> Result<Vec<String>, StoreError> {
        Ok(on!(&self.pool, |db| sqlx::query_scalar(NAMES).fetch_all(db).await?))
    }

    /// The list of that name, with its recipients counted.
    pub async fn find_list(&self, name: &str) -> Result<Option<ListRow>, StoreError> {
        let row: Option<Row> = on!(&self.pool, |db| sqlx::query_as(FIND).bind(name).fetch_optional(db).await?);
        Ok(row.map(ListRow::from))
    }

    /// How many recipients a list holds, counted no further than `most`.
    pub async fn recipients_up_to(&self, list: ListId, most: u64) -> Result<u64, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let count: i64 = on!(&self.pool, |db| sqlx::query_scalar(UP_TO).bind(list.0).bind(most).fetch_one(db).await?);
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// The number of the list of that name, without counting anything.
    pub async fn list_id(&self, name: &str) -> Result<Option<ListId>, StoreError> {
        let id: Option<i64> = on!(&self.pool, |db| sqlx::query_scalar(ID).bind(name).fetch_optional(db).await?);
        Ok(id.map(ListId))
    }

    /// Creates a list, or finds the one that is there.
    pub async fn create_list(&self, name: &ListName) -> Result<(ListId, Created), StoreError> {
        let (id, made): (i64, u64) = on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let made = sqlx::query(CREATE).bind(name.as_str()).bind(now).execute(&mut *tx).await?.rows_affected();
            let id = sqlx::query_scalar(ID).bind(name.as_str()).fetch_one(&mut *tx).await?;
            tx.commit().await?;
            (id, made)
        });
        Ok((ListId(id), if made > 0 { Created::New } else { Created::Existing }))
    }
}
