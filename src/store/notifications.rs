//! Notifications: claiming one, marking how it ended, reading and forgetting them.
//!
//! Owns the table. It does not know HTTP, nor what an answer means. Invariant: a notification is claimed before the
//! call and marked after it, both by compare-and-set on owner and fence, so that one process at a time has it; the
//! claim is durable before it is answered (rule 15).

use std::time::Duration;

use sqlx::FromRow;

use crate::clock::Timestamp;
use crate::destination::Endpoint;
use crate::job::{Fence, JobId};
use crate::notification::{Charge, Found, Judged, Receiver, Stage, Tried};
use crate::owner::Owner;
use crate::store::events::{NotificationEvent, announce_notification};
use crate::store::{Pool, Store, StoreError, now, on};

/// A notification that this process may deliver now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedNotification {
    /// The key under which the receiver sees it.
    pub key: String,
    /// The job that ended.
    pub job: JobId,
    /// Whom to tell.
    pub endpoint: Endpoint,
    /// What the receiver does with keys.
    pub receiver: Receiver,
    /// Where to ask whether it was told.
    pub lookup_url: Option<Endpoint>,
    /// The summary: the same bytes on every call.
    pub payload: String,
    /// What was counted before this claim; the call of a sender that was lost counts as an attempt.
    pub tried: Tried,
    /// How it was found.
    pub found: Found,
    id: i64,
    fence: Fence,
    owner: String,
}

/// What a call left to be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept<'a> {
    /// The beginning of the answer's body.
    pub response: Option<&'a str>,
    /// The answer's HTTP status.
    pub status: Option<u16>,
    /// What was in the way, without an address.
    pub trouble: Option<&'a str>,
}

/// A notification as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationRow {
    /// The key under which the receiver sees it.
    pub key: String,
    /// Whom it tells.
    pub endpoint: Endpoint,
    /// What the receiver does with keys.
    pub receiver: Receiver,
    /// Where it stands.
    pub stage: Stage,
    /// What was counted.
    pub tried: Tried,
    /// Not before then.
    pub not_before: Timestamp,
    /// Until when it is tried.
    pub give_up_at: Timestamp,
    /// The status of the last answer.
    pub last_status: Option<i64>,
    /// What was in the way the last time.
    pub last_error: Option<String>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When the receiver took it.
    pub sent_at: Option<Timestamp>,
    /// The database's time as this was read.
    pub now: Timestamp,
}

/// $1 now, $2 the job, if only its notifications are meant.
macro_rules! due {
    ($lock:literal) => {
        concat!(
            "SELECT id, state, give_up_at FROM notifications
             WHERE state IN ('pending', 'held', 'sending') AND ($2 IS NULL OR job_id = $2)
               AND ((state <> 'sending' AND (not_before <= $1 OR give_up_at <= $1))
                 OR (state = 'sending' AND lease_until < $1))
             ORDER BY not_before, id LIMIT 1",
            $lock
        )
    };
}

const DUE_SQLITE: &str = due!("");
const DUE_POSTGRES: &str = due!(" FOR NO KEY UPDATE SKIP LOCKED");

/// $3 when the lease ends, $4 calls that a lost sender may have made.
const CLAIM: &str = "UPDATE notifications
    SET state = 'sending', fence = fence + 1, owner = $2, lease_until = $3, attempts = attempts + $4
    WHERE id = $1
    RETURNING external_event_id, job_id, endpoint, receiver, lookup_url, payload, attempts, holds, fence";

const MARK: &str = "UPDATE notifications
    SET state = $4, attempts = attempts + $5, holds = holds + $6, not_before = $7, response = COALESCE($8, response),
        last_status = COALESCE($9, last_status), last_error = $10, sent_at = $11, finished_at = $12,
        owner = NULL, lease_until = NULL
    WHERE id = $1 AND state = 'sending' AND fence = $2 AND owner = $3";

const SENDING: &str = "SELECT id, fence, owner FROM notifications WHERE state = 'sending' ORDER BY id LIMIT 1000";

/// A lease that has ended: whoever comes next claims it as abandoned.
const FREE: &str = "UPDATE notifications SET lease_until = $4
    WHERE id = $1 AND state = 'sending' AND fence = $2 AND owner = $3 AND lease_until > $4";

const OF_JOB: &str = "SELECT external_event_id, endpoint, receiver, state, attempts, holds, not_before, give_up_at,
      last_status, last_error, created_at, sent_at
    FROM notifications WHERE job_id = $1 ORDER BY id";

const FORGET: &str = "DELETE FROM notifications WHERE id IN
    (SELECT id FROM notifications WHERE finished_at IS NOT NULL AND finished_at < $1 ORDER BY finished_at LIMIT $2)";

const FULL: &str = "PRAGMA synchronous = FULL";

#[derive(FromRow)]
struct Claimed {
    external_event_id: String,
    job_id: i64,
    endpoint: String,
    receiver: String,
    lookup_url: Option<String>,
    payload: String,
    attempts: i64,
    holds: i64,
    fence: i64,
}

#[derive(FromRow)]
struct Row {
    external_event_id: String,
    endpoint: String,
    receiver: String,
    state: String,
    attempts: i64,
    holds: i64,
    not_before: Timestamp,
    give_up_at: Timestamp,
    last_status: Option<i64>,
    last_error: Option<String>,
    created_at: Timestamp,
    sent_at: Option<Timestamp>,
}

impl Store {
    /// Claims the next notification that is due, of `job` alone or of any. `None`: nothing is due.
    ///
    /// A sender that dies after this leaves it to whoever comes when its lease has ended; the claim is durable, so a
    /// receiver without keys is not called by two.
    pub async fn claim_notification(
        &self,
        owner: &Owner,
        lease: Duration,
        job: Option<JobId>,
    ) -> Result<Option<ClaimedNotification>, StoreError> {
        let job = job.map(|job| job.0);
        let due = match &self.pool {
            // A look that takes no write lock, and then a commit that survives a power cut.
            Pool::Sqlite(db) => {
                let mut connection = db.acquire().await?;
                let now = now!(&self.pool, &mut *connection);
                let found: Option<(i64, String, Timestamp)> =
                    sqlx::query_as(DUE_SQLITE).bind(now).bind(job).fetch_optional(&mut *connection).await?;
                if found.is_none() {
                    return Ok(None);
                }
                DUE_SQLITE
            }
            Pool::Postgres(_) => DUE_POSTGRES,
        };
        self.durable_commits().await?;
        match self.try_claim_notification(due, owner, lease, job).await {
            // Somebody else was quicker, or a writer holds the file for long: the next look tells.
            Err(StoreError::Retry(_) | StoreError::Busy(_)) => Ok(None),
            outcome => outcome,
        }
    }

    async fn try_claim_notification(
        &self,
        due: &'static str,
        owner: &Owner,
        lease: Duration,
        job: Option<i64>,
    ) -> Result<Option<ClaimedNotification>, StoreError> {
        let owner = owner.to_text();
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let found: Option<(i64, String, Timestamp)> =
                sqlx::query_as(due).bind(now).bind(job).fetch_optional(&mut *tx).await?;
            let Some((id, state, give_up_at)) = found else { return Ok(None) };
            let abandoned = state == Stage::Sending.as_str();
            let rows: Vec<Claimed> = sqlx::query_as(CLAIM)
                .bind(id)
                .bind(&owner)
                .bind(now.plus(lease))
                .bind(i64::from(abandoned))
                .fetch_all(&mut *tx)
                .await?;
            let Some(row) = rows.into_iter().next() else { return Ok(None) };
            tx.commit().await?;
            let found = match (give_up_at <= now, abandoned) {
                (true, _) => Found::TooLate,
                (false, true) => Found::Abandoned,
                (false, false) => Found::Waiting,
            };
            Ok(Some(ClaimedNotification {
                job: JobId(row.job_id),
                endpoint: Endpoint::stored(row.endpoint),
                receiver: receiver(&row.receiver, &row.external_event_id)?,
                lookup_url: row.lookup_url.map(Endpoint::stored),
                payload: row.payload,
                tried: tried(row.attempts, row.holds),
                found,
                key: row.external_event_id,
                id,
                fence: Fence(row.fence),
                owner,
            }))
        })
    }

    /// Writes down how a call ended. `LeaseLost`: another process has the notification now.
    pub async fn mark_notification(
        &self,
        claimed: &ClaimedNotification,
        judged: Judged,
        kept: Kept<'_>,
    ) -> Result<(), StoreError> {
        if !Stage::Sending.may_become(judged.next) {
            return Err(StoreError::Corrupt(format!("a notification was to become {}", judged.next.as_str())));
        }
        self.durable_commits().await?;
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let marked = sqlx::query(MARK)
                .bind(claimed.id)
                .bind(claimed.fence.0)
                .bind(&claimed.owner)
                .bind(judged.next.as_str())
                .bind(i64::from(judged.charge == Charge::Attempt))
                .bind(i64::from(judged.charge == Charge::Hold))
                .bind(now.plus(judged.rest))
                .bind(kept.response)
                .bind(kept.status.map(i64::from))
                .bind(kept.trouble)
                .bind((judged.next == Stage::Sent).then_some(now))
                .bind(judged.next.is_over().then_some(now))
                .execute(&mut *tx)
                .await?;
            if marked.rows_affected() != 1 {
                return Err(StoreError::LeaseLost);
            }
            let (key, why) = (claimed.key.as_str(), kept.trouble.unwrap_or_default());
            let event = match judged.next {
                Stage::Failed => Some(NotificationEvent::Failed { key, why }),
                Stage::Unknown => Some(NotificationEvent::Unknown { key, why }),
                _ => None,
            };
            if let Some(event) = event {
                announce_notification!(&mut *tx, now, claimed.job, event);
            }
            tx.commit().await?;
            Ok(())
        })
    }

    /// Ends the leases of senders that are provably gone, so that nobody waits for them. Returns how many.
    pub async fn free_notifications(&self, is_gone: &(dyn Fn(&Owner) -> bool + Sync)) -> Result<u64, StoreError> {
        let held: Vec<(i64, i64, String)> = on!(&self.pool, |db| sqlx::query_as(SENDING).fetch_all(db).await?);
        let mut freed = 0;
        for (id, fence, owner) in held {
            if !is_gone(&Owner::from_text(&owner)) {
                continue;
            }
            freed += on!(&self.pool, |db, begin| {
                let mut tx = db.begin_with(begin).await?;
                let now = now!(&self.pool, &mut *tx);
                let ended = now.minus(Duration::from_millis(1));
                let free = sqlx::query(FREE).bind(id).bind(fence).bind(&owner).bind(ended);
                let rows = free.execute(&mut *tx).await?.rows_affected();
                tx.commit().await?;
                rows
            });
        }
        Ok(freed)
    }

    /// The notifications of a job, the oldest first.
    pub async fn notifications(&self, job: JobId) -> Result<Vec<NotificationRow>, StoreError> {
        let (now, rows): (Timestamp, Vec<Row>) = on!(&self.pool, |db| {
            let mut connection = db.acquire().await?;
            let now = now!(&self.pool, &mut *connection);
            (now, sqlx::query_as(OF_JOB).bind(job.0).fetch_all(&mut *connection).await?)
        });
        rows.into_iter()
            .map(|row| {
                let stage = Stage::from_word(&row.state).ok_or_else(|| corrupt(&row.external_event_id, "state"))?;
                Ok(NotificationRow {
                    endpoint: Endpoint::stored(row.endpoint),
                    receiver: receiver(&row.receiver, &row.external_event_id)?,
                    stage,
                    tried: tried(row.attempts, row.holds),
                    not_before: row.not_before,
                    give_up_at: row.give_up_at,
                    last_status: row.last_status,
                    last_error: row.last_error,
                    created_at: row.created_at,
                    sent_at: row.sent_at,
                    key: row.external_event_id,
                    now,
                })
            })
            .collect()
    }

    /// Forgets at most `limit` notifications that ended before `before`; the oldest go first. Returns how many.
    ///
    /// The job counts its ends itself, so a key never comes back.
    pub async fn forget_notifications(&self, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        Ok(on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let forget = sqlx::query(FORGET).bind(before).bind(i64::from(limit));
            let gone = forget.execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            gone
        }))
    }

    /// Differs: PostgreSQL's commits are durable by themselves. The connection stays so: whoever delivers has
    /// no parts to commit.
    async fn durable_commits(&self) -> Result<(), StoreError> {
        if let Pool::Sqlite(db) = &self.pool {
            sqlx::raw_sql(FULL).execute(db).await?;
        }
        Ok(())
    }
}

fn receiver(word: &str, key: &str) -> Result<Receiver, StoreError> {
    Receiver::from_word(word).ok_or_else(|| corrupt(key, "receiver"))
}

fn corrupt(key: &str, what: &str) -> StoreError {
    StoreError::Corrupt(format!("notification {key} has an impossible {what}"))
}

fn tried(attempts: i64, holds: i64) -> Tried {
    let count = |count: i64| u32::try_from(count).unwrap_or(u32::MAX);
    Tried { attempts: count(attempts), holds: count(holds) }
}
