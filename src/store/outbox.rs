//! Alerts that are still to be rung.
//!
//! Owns the table `alert_outbox`: a row is written in the transaction of its event, so an alert is neither lost
//! nor told of what did not happen. It sends nothing, and who may ring is decided by the claims when a row is
//! delivered. Invariant: a row is in one process's hand at a time, under a lease; one whose holder died
//! comes back.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::FromRow;
use sqlx::types::Json;

use crate::alert::{AlertKey, AlertKind, RESCUES, has_many_rejects};
use crate::clock::Timestamp;
use crate::fault::Code;
use crate::job::JobId;
use crate::owner::Owner;
use crate::store::events::{JobEvent, NotificationEvent};
use crate::store::{Pool, Store, StoreError, now, on};

/// An alert as its event tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ringing {
    /// What happened.
    pub kind: AlertKind,
    /// To whom or what; the key is made of both.
    pub subject: String,
    /// The job it happened to.
    pub job: Option<JobId>,
    /// For a person.
    pub message: String,
    /// For a program.
    pub details: Value,
}

/// A row in this process's hand.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// Its number.
    pub id: i64,
    /// What happened; `None` for a kind that only a newer program knows.
    pub kind: Option<AlertKind>,
    /// By what it is the same as another.
    pub key: AlertKey,
    /// For a person.
    pub message: String,
    /// For a program.
    pub details: Value,
    /// When it happened.
    pub created_at: Timestamp,
    /// How often it was in a hand, this time included.
    pub attempts: u32,
}

/// Which rows are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All that are due.
    All,
    /// Those of one job.
    Job(JobId),
}

/// Delivered or not, a row goes after so long: nobody wants to be called for what is a week old.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// What an event's alert says about its job.
pub(crate) const ABOUT: &str = "SELECT l.name, j.source FROM jobs j LEFT JOIN lists l ON l.id = j.list_id
    WHERE j.id = $1";

pub(crate) const PUT: &str =
    "INSERT INTO alert_outbox (kind, dedupe_key, job_id, message, details, not_before, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $6)";

/// Rows from before $1.
pub(crate) const FORGET: &str = "DELETE FROM alert_outbox WHERE created_at < $1";

const DUE: &str = "SELECT count(*) FROM alert_outbox
    WHERE delivered_at IS NULL AND not_before <= $1 AND (lease_until IS NULL OR lease_until <= $1)
      AND ($2 IS NULL OR job_id = $2)";

/// $1 now, $2 the job or NULL, $3 who, $4 the end of the lease.
const TAKE_SQLITE: &str = "UPDATE alert_outbox SET owner = $3, lease_until = $4, attempts = attempts + 1
    WHERE id IN (SELECT id FROM alert_outbox
        WHERE delivered_at IS NULL AND not_before <= $1 AND (lease_until IS NULL OR lease_until <= $1)
          AND ($2 IS NULL OR job_id = $2)
        ORDER BY id LIMIT 1)
    RETURNING id, kind, dedupe_key, message, details, created_at, attempts";
const TAKE_POSTGRES: &str = "UPDATE alert_outbox SET owner = $3, lease_until = $4, attempts = attempts + 1
    WHERE id IN (SELECT id FROM alert_outbox
        WHERE delivered_at IS NULL AND not_before <= $1 AND (lease_until IS NULL OR lease_until <= $1)
          AND ($2 IS NULL OR job_id = $2)
        ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, kind, dedupe_key, message, details, created_at, attempts";

const DELIVERED: &str = "UPDATE alert_outbox SET delivered_at = $3, outcome = $4, owner = NULL, lease_until = NULL,
        error = NULL
    WHERE id = $1 AND owner = $2 AND delivered_at IS NULL";

const PUT_BACK: &str = "UPDATE alert_outbox SET not_before = $3, error = $4, owner = NULL, lease_until = NULL
    WHERE id = $1 AND owner = $2 AND delivered_at IS NULL";

/// The alert that follows from an event, if one does. `list` and `source` say which import it was.
pub(crate) fn ringing_of(job: JobId, event: JobEvent<'_>, list: &str, source: &str) -> Option<Ringing> {
    let import = format!("the import of '{source}' into '{list}'");
    let (kind, message, mut details) = match event {
        JobEvent::Done(counts) if has_many_rejects(counts) => (
            AlertKind::ManyRejects,
            format!("job {job}: {import} is done, but {} of {} rows were refused", counts.rejected, counts.rows),
            json!({ "rows": counts.rows, "rejected": counts.rejected }),
        ),
        JobEvent::Failed(error) | JobEvent::Stopped(error) if error.code == Code::TooManyRejects.as_str() => (
            AlertKind::TooManyRejects,
            format!("job {job}: {import} was stopped: {}", error.message),
            json!({ "code": error.code }),
        ),
        JobEvent::Failed(error) => (
            AlertKind::JobFailed,
            format!("job {job}: {import} failed: {} ({})", error.message, error.code),
            json!({ "code": error.code }),
        ),
        JobEvent::Rescued(times) if times >= RESCUES => (
            AlertKind::JobRescued,
            format!("job {job}: {import} was taken from dead or frozen processes {times} times"),
            json!({ "rescues": times }),
        ),
        JobEvent::Done(_) | JobEvent::Stopped(_) | JobEvent::Cancelled | JobEvent::Rescued(_) => return None,
    };
    details["job"] = json!(job.0);
    details["list"] = json!(list);
    Some(Ringing { kind, subject: job.to_string(), job: Some(job), message, details })
}

/// The alert that follows from the bad end of a job's notification.
pub(crate) fn ringing_of_notification(job: JobId, event: NotificationEvent<'_>) -> Ringing {
    let (kind, key, message) = match event {
        NotificationEvent::Failed { key, why } => {
            let message = format!("job {job}: the receiver of its notification refused it: {why}");
            (AlertKind::NotificationFailed, key, message)
        }
        NotificationEvent::Unknown { key, why } => {
            let message = format!("job {job}: nobody knows whether its notification was taken: {why}");
            (AlertKind::NotificationUnknown, key, message)
        }
    };
    Ringing {
        kind,
        subject: key.to_owned(),
        job: Some(job),
        message,
        details: json!({ "job": job.0, "notification": key }),
    }
}

/// Writes an alert in a transaction: `ring_from!(connection, now, &ringing)`.
macro_rules! ring_from {
    ($connection:expr, $now:expr, $ringing:expr) => {{
        let ringing: &$crate::store::Ringing = $ringing;
        sqlx::query($crate::store::outbox::PUT)
            .bind(ringing.kind.as_str())
            .bind(ringing.kind.key(&ringing.subject).as_str().to_owned())
            .bind(ringing.job.map(|job| job.0))
            .bind(ringing.message.clone())
            .bind(sqlx::types::Json(ringing.details.clone()))
            .bind($now)
            .execute($connection)
            .await?;
        sqlx::query($crate::store::outbox::FORGET)
            .bind($crate::store::outbox::forgotten_before($now))
            .execute($connection)
            .await?;
    }};
}
pub(crate) use ring_from;

/// Writes the alert that follows from an event of a job: `ring_event!(connection, now, job, event)`.
macro_rules! ring_event {
    ($connection:expr, $now:expr, $job:expr, $event:expr) => {
        if $crate::store::outbox::ringing_of($job, $event, "", "").is_some() {
            let about: Option<(Option<String>, String)> =
                sqlx::query_as($crate::store::outbox::ABOUT).bind($job.0).fetch_optional($connection).await?;
            let (list, source) = about.unwrap_or_default();
            let list = list.unwrap_or_default();
            if let Some(ringing) = $crate::store::outbox::ringing_of($job, $event, &list, &source) {
                $crate::store::outbox::ring_from!($connection, $now, &ringing);
            }
        }
    };
}
pub(crate) use ring_event;

/// Rows from before this moment go.
pub(crate) fn forgotten_before(now: Timestamp) -> Timestamp {
    now.minus(KEPT)
}

#[derive(FromRow)]
struct Row {
    id: i64,
    kind: String,
    dedupe_key: String,
    message: String,
    details: Json<Value>,
    created_at: Timestamp,
    attempts: i64,
}

impl Store {
    /// Writes an alert that follows from no transaction of the caller's.
    pub async fn outbox(&self, ringing: &Ringing) -> Result<(), StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            ring_from!(&mut *tx, now, ringing);
            tx.commit().await?;
        });
        Ok(())
    }

    /// Takes the oldest alert that is due into this process's hand for `lease`.
    ///
    /// `owner` must be a new name each time: only under it a row is marked or put back.
    pub async fn take_alert(
        &self,
        scope: Scope,
        owner: &Owner,
        lease: Duration,
    ) -> Result<Option<OutboxRow>, StoreError> {
        let job = match scope {
            Scope::All => None,
            Scope::Job(job) => Some(job.0),
        };
        let take = match &self.pool {
            Pool::Sqlite(_) => TAKE_SQLITE,
            Pool::Postgres(_) => TAKE_POSTGRES,
        };
        let rows: Vec<Row> = on!(&self.pool, |db, begin| {
            // A look first: most of the time nothing is due, and nothing is to be locked.
            let mut connection = db.acquire().await?;
            let now = now!(&self.pool, &mut *connection);
            let due: i64 = sqlx::query_scalar(DUE).bind(now).bind(job).fetch_one(&mut *connection).await?;
            drop(connection);
            if due == 0 {
                return Ok(None);
            }
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let rows = sqlx::query_as(take)
                .bind(now)
                .bind(job)
                .bind(owner.to_text())
                .bind(now.plus(lease))
                .fetch_all(&mut *tx)
                .await?;
            tx.commit().await?;
            rows
        });
        let read = |row: Row| OutboxRow {
            id: row.id,
            kind: AlertKind::from_word(&row.kind),
            key: AlertKey::stored(row.dedupe_key),
            message: row.message,
            details: row.details.0,
            created_at: row.created_at,
            attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
        };
        Ok(rows.into_iter().next().map(read))
    }

    /// An alert was rung, or was not to be: it is done, with this word for how.
    pub async fn alert_delivered(&self, row: &OutboxRow, owner: &Owner, outcome: &str) -> Result<(), StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            sqlx::query(DELIVERED).bind(row.id).bind(owner.to_text()).bind(now).bind(outcome).execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }

    /// An alert could not be rung: it is tried again after `rest`.
    pub async fn alert_put_back(
        &self,
        row: &OutboxRow,
        owner: &Owner,
        rest: Duration,
        why: &str,
    ) -> Result<(), StoreError> {
        on!(&self.pool, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.pool, &mut *tx);
            let put_back = sqlx::query(PUT_BACK).bind(row.id).bind(owner.to_text()).bind(now.plus(rest)).bind(why);
            put_back.execute(&mut *tx).await?;
            tx.commit().await?;
        });
        Ok(())
    }
}
