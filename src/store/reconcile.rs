//! Reconciling: the number of recipients that a list's row states, and how many there are.
//!
//! Owns the counting of lists. It does not know when it is due. Invariant: nothing is locked while a list is
//! counted; the count is written by compare-and-set, and only while no job of the list may go on, because what
//! such a job has committed is added when it finishes.

use std::time::Duration;

use crate::clock::Stopwatch;
use crate::crash;
use crate::job::ListId;
use crate::store::{Store, StoreError, now, on};

/// A list whose row stated another number than there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The list.
    pub list: ListId,
    /// Its name.
    pub name: String,
    /// What its row stated.
    pub stated: i64,
    /// What was counted; the row states it now.
    pub counted: i64,
}

/// What a pass over the lists came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Lists that were counted.
    pub counted: u64,
    /// Lists that were left out, because a job of theirs is unfinished or ended meanwhile.
    pub busy: u64,
    /// Lists for which there was no time; they are first the next time.
    pub left: u64,
    /// What was put right.
    pub drifts: Vec<Drift>,
}

/// No job of the list that began may go on.
macro_rules! quiet {
    ($list:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM jobs j WHERE j.list_id = ",
            $list,
            " AND j.state NOT IN ('done', 'superseded') AND j.state IN ('queued', 'running', 'paused', 'interrupted')
               AND j.started_at IS NOT NULL)"
        )
    };
}

/// Lists of one pass; the next one takes the rest.
const LISTS_MOST: i64 = 1_000;

/// Least recently counted first.
const LISTS: &str = concat!(
    "SELECT l.id, l.name, l.recipient_count FROM lists l WHERE ",
    quiet!("l.id"),
    " ORDER BY CASE WHEN l.counted_at IS NULL THEN 0 ELSE 1 END, l.counted_at, l.id LIMIT $1"
);
const BUSY: &str = concat!("SELECT count(*) FROM lists l WHERE NOT ", quiet!("l.id"));

/// Recipients of one statement: a long one would keep SQLite's log from being emptied, and a sweep waiting.
const PAGE: i64 = 200_000;

const COUNT_FIRST: &str = "SELECT count(*), max(r.phone) FROM
    (SELECT phone FROM recipients WHERE list_id = $1 ORDER BY phone LIMIT $2) r";
const COUNT_NEXT: &str = "SELECT count(*), max(r.phone) FROM
    (SELECT phone FROM recipients WHERE list_id = $1 AND phone > $3 ORDER BY phone LIMIT $2) r";

/// $2 the count, $3 now, $4 what the row stated before.
const STATE: &str = concat!(
    "UPDATE lists SET recipient_count = $2, counted_at = $3 WHERE id = $1 AND recipient_count = $4 AND ",
    quiet!("$1")
);

impl Store {
    /// Counts lists, the least recently counted first, until `budget` is over; at least one, however large.
    pub async fn reconcile(&self, budget: Duration) -> Result<Reconciled, StoreError> {
        let watch = Stopwatch::start();
        let mut told = Reconciled::default();
        let busy: i64 = on!(&self.pool, |db| sqlx::query_scalar(BUSY).fetch_one(db).await?);
        told.busy = busy.unsigned_abs();
        let lists: Vec<(i64, String, i64)> =
            on!(&self.pool, |db| sqlx::query_as(LISTS).bind(LISTS_MOST).fetch_all(db).await?);
        for (n, (list, name, stated)) in lists.iter().enumerate() {
            if n > 0 && watch.worked() > budget {
                told.left = crate::run::count_of(lists.len() - n);
                break;
            }
            tracing::debug!(list = %name, "counting a list");
            let counted = self.count_recipients(*list).await?;
            crash::point("reconcile::counted");
            if !self.state_count(*list, *stated, counted).await? {
                told.busy += 1;
                continue;
            }
            told.counted += 1;
            if counted != *stated {
                told.drifts.push(Drift { list: ListId(*list), name: name.clone(), stated: *stated, counted });
            }
        }
        Ok(told)
    }

    async fn count_recipients(&self, list: i64) -> Result<i64, StoreError> {
        type Page = (i64, Option<String>);
        let (mut total, mut last): Page =
            on!(&self.pool, |db| sqlx::query_as(COUNT_FIRST).bind(list).bind(PAGE).fetch_one(db).await?);
        let mut page = total;
        while page == PAGE {
            let after = last.unwrap_or_default();
            let (more, end): Page = on!(&self.pool, |db| {
                sqlx::query_as(COUNT_NEXT).bind(list).bind(PAGE).bind(after).fetch_one(db).await?
            });
            total += more;
            (page, last) = (more, end);
        }
        Ok(total)
    }

    /// Writes a count. `false`: a job of the list began or ended meanwhile, so the count may hold half of it.
    async fn state_count(&self, list: i64, stated: i64, counted: i64) -> Result<bool, StoreError> {
        let changed = on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let changed = sqlx::query(STATE)
                .bind(list)
                .bind(counted)
                .bind(now)
                .bind(stated)
                .execute(&mut *tx)
                .await?
                .rows_affected();
            tx.commit().await?;
            changed
        });
        Ok(changed == 1)
    }
}
