//! Which workers there are.
//!
//! Owns the table of processes that run queued jobs. It does not know what they do. Invariant: it is for
//! people and for "why does it not run"; no decision about a job rests on it.

use sqlx::FromRow;

use crate::clock::Timestamp;
use crate::job::QueueName;
use crate::owner::Owner;
use crate::store::{Store, StoreError, now, on};

/// A process that runs queued jobs, or did.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct WorkerRow {
    /// Who.
    pub owner: String,
    /// Its queues, joined by commas.
    pub queues: String,
    /// How many jobs it runs at once.
    pub concurrency: i64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was last there.
    pub seen_at: Timestamp,
    /// When it ended properly.
    pub left_at: Option<Timestamp>,
}

const SEEN: &str = "INSERT INTO workers (owner, queues, concurrency, started_at, seen_at) VALUES ($1, $2, $3, $4, $4)
    ON CONFLICT (owner) DO UPDATE SET seen_at = excluded.seen_at";

const LEFT: &str = "UPDATE workers SET left_at = $2, seen_at = $2 WHERE owner = $1";

/// The newest of a queue are kept: they tell since when nobody is there.
const FORGET: &str = "DELETE FROM workers WHERE seen_at < $1 AND owner NOT IN
    (SELECT owner FROM workers ORDER BY seen_at DESC LIMIT 10)";

const WORKERS: &str = "SELECT owner, queues, concurrency, started_at, seen_at, left_at
    FROM workers ORDER BY seen_at DESC LIMIT $1";

impl Store {
    /// Notes that a worker is there.
    pub async fn worker_seen(&self, owner: &Owner, queues: &[QueueName], concurrency: u16) -> Result<(), StoreError> {
        let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            sqlx::query(SEEN)
                .bind(owner.to_text())
                .bind(names.join(","))
                .bind(i64::from(concurrency))
                .bind(now)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        });
        Ok(())
    }

    /// Notes that a worker ended properly.
    pub async fn worker_left(&self, owner: &Owner) -> Result<(), StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            sqlx::query(LEFT).bind(owner.to_text()).bind(now).execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }

    /// The workers that were there last, the newest first.
    pub async fn workers(&self, limit: u32) -> Result<Vec<WorkerRow>, StoreError> {
        Ok(on!(&self.pool, |db| sqlx::query_as(WORKERS).bind(i64::from(limit)).fetch_all(db).await?))
    }

    /// Forgets workers that were last there before `before`, all but the newest.
    pub async fn forget_workers(&self, before: Timestamp) -> Result<u64, StoreError> {
        Ok(on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let gone = sqlx::query(FORGET).bind(before).execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            gone
        }))
    }

    /// What time it is for the database (rule 17).
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(on!(&self.pool, |db| now!(&self.pool, db)))
    }
}
