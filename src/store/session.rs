//! A job in hand: its lease, its own connections, its heartbeat.
//!
//! Owns what a holder does besides writing rows. It does not know when a heartbeat is due. Invariant:
//! everything a session writes is bound to the fence and the owner of its lease; on PostgreSQL its
//! connections carry the job and the fence in their name, so that a successor can end them.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::types::Json;

use crate::clock::Timestamp;
use crate::job::{Fence, JobId, State};
use crate::position::Position;
use crate::run::Counts;
use crate::settings::{Blank, Settings};
use crate::store::admit::as_i64;
use crate::store::approach::{Approach, Course};
use crate::store::overlay::Origin;
use crate::store::target::Kind;
use crate::store::{CLOSE_PATIENCE, Pool, Store, StoreError, now, on, postgres};

/// The right to work on a job, until somebody else gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Under which fence.
    pub fence: Fence,
    /// Under which owner.
    pub owner: String,
    /// How long it lasts without a heartbeat.
    pub duration: Duration,
}

impl Lease {
    pub(crate) fn new(job: JobId, fence: Fence, owner: &str, duration: Duration) -> Self {
        Self { job, fence, owner: owner.to_owned(), duration }
    }
}

/// What a heartbeat found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// The job is ours for another lease.
    Held,
    /// It is ours, and a person wants it cancelled.
    CancelRequested,
    /// It is ours, and a person wants it paused.
    PauseRequested,
    /// It is not ours any more.
    Lost,
}

/// A job in hand.
#[derive(Debug)]
pub struct Session {
    pub(crate) lease: Lease,
    pub(crate) pool: Pool,
    /// Heartbeats of PostgreSQL have a connection of their own; SQLite's queue with the writer.
    beats: Pool,
    pub(crate) merge: Merge,
    pub(crate) course: Course,
    /// What the store stands over, when it is a scratch store.
    pub(crate) origin: Option<Origin>,
}

/// How rows of this job meet what is stored.
#[derive(Debug, Clone)]
pub(crate) struct Merge {
    /// Attribute keys as JSON strings, quotes included, in the order of `Recipient::attributes`.
    pub(crate) json_keys: Vec<String>,
    /// Attribute keys, in the same order.
    pub(crate) keys: Vec<String>,
    /// Attribute keys that an empty cell clears.
    pub(crate) cleared: Vec<String>,
    /// Whether an empty name clears the stored one.
    pub(crate) clears_name: Blank,
    /// Whether rows carry versions.
    pub(crate) versioned: Versioned,
}

/// Whether a job has a `--newer-by` column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Versioned {
    Yes,
    No,
}

impl Merge {
    pub(crate) fn new(settings: &Settings) -> Self {
        let clears = settings.blank == Blank::Clear;
        Self {
            json_keys: settings.attribute_keys().map(|key| serde_json::Value::from(key).to_string()).collect(),
            keys: settings.attribute_keys().map(str::to_owned).collect(),
            cleared: if clears { settings.attribute_keys().map(str::to_owned).collect() } else { Vec::new() },
            clears_name: if clears && settings.names_people() { Blank::Clear } else { Blank::Keep },
            versioned: if settings.columns.version.is_some() { Versioned::Yes } else { Versioned::No },
        }
    }
}

/// How long an exchange with a server may take at least before the line counts as dead. No timeout of the
/// server helps a client that it cannot reach, and TCP alone waits for about 15 minutes (tcp(7), tcp_retries2).
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// How many heartbeat connections there may be: one works, and one that is stuck keeps neither the next beat
/// nor the one after it from being sent.
const BEAT_CONNECTIONS: u32 = 3;

const LANES: &str = "SELECT lane, byte, line FROM job_lanes WHERE job_id = $1 ORDER BY lane";

/// Whether the job's list holds anybody.
const ANYBODY: &str = "SELECT EXISTS (SELECT 1 FROM recipients r JOIN jobs j ON j.list_id = r.list_id WHERE j.id = $1)";

const STATE: &str = "SELECT state FROM jobs WHERE id = $1";

const BEAT: &str = "UPDATE jobs SET lease_until = $4, progress = $5, beat_at = $6
    WHERE id = $1 AND state = 'running' AND fence = $2 AND owner = $3
    RETURNING cancel_requested_at, pause_requested_at";

impl Store {
    /// How many of `writers` can write at once: a part must not wait for a connection that never comes free.
    pub fn writers_up_to(&self, writers: u16) -> u16 {
        let most = self.options.max_connections.and_then(|most| u16::try_from(most).ok());
        most.map_or(writers, |most| writers.min(most.max(1)))
    }

    /// Opens the connections of a job in hand: `writers` for rows and one for heartbeats.
    pub async fn session(&self, lease: Lease, settings: &Settings, writers: u16) -> Result<Session, StoreError> {
        let (pool, beats) = self.session_pools(&lease, writers).await?;
        let known: bool = on!(&pool, |db| sqlx::query_scalar(ANYBODY).bind(lease.job.0).fetch_one(db).await?);
        let course = Course::new(if known { Approach::Compare } else { Approach::Copy });
        Ok(Session { lease, pool, beats, merge: Merge::new(settings), course, origin: self.origin.clone() })
    }

    /// The same job in hand on new connections, after the old ones failed. Holds no lease by itself: ask with a
    /// heartbeat first.
    ///
    /// On PostgreSQL the old connections' sessions are ended: the server may not know yet that their line is
    /// dead, and one of them may stand in a transaction that locks a lane (rule 16).
    pub async fn session_again(&self, old: &Session, writers: u16) -> Result<Session, StoreError> {
        let (pool, beats) = self.session_pools(&old.lease, writers).await?;
        let course = Course::new(Approach::Compare);
        Ok(Session {
            lease: old.lease.clone(),
            pool,
            beats,
            merge: old.merge.clone(),
            course,
            origin: self.origin.clone(),
        })
    }

    /// Connections for rows and for heartbeats. Sessions that bear the same name are ended.
    async fn session_pools(&self, lease: &Lease, writers: u16) -> Result<(Pool, Pool), StoreError> {
        Ok(match (&self.target.0, &self.pool) {
            (Kind::Postgres(options), _) => {
                let name = postgres::session_name(lease.job, lease.fence);
                // Below the lease, so that no wait outlives the right to wait (rule 16).
                let patience = lease.duration / 3;
                let most =
                    self.options.max_connections.map_or(u32::from(writers), |most| most.clamp(1, u32::from(writers)));
                let timeout = self.options.connect_timeout;
                let rows = postgres::connect(options, &name, most, patience, timeout).await?;
                postgres::end_sessions(&rows, lease.job, lease.fence).await?;
                let beats =
                    postgres::connect(options, &name, BEAT_CONNECTIONS, patience, timeout.min(patience)).await?;
                (Pool::Postgres(rows), Pool::Postgres(beats))
            }
            (_, pool) => (pool.clone(), pool.clone()),
        })
    }
}

impl Session {
    /// The lease that this session works under.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Bounds an exchange with a server by the lease, or by `ANSWER_PATIENCE` where that is longer: `Silent`
    /// when it took longer. What became of it is then unknown. A file has no line that could die.
    pub(crate) async fn answered<T>(
        &self,
        exchange: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match &self.pool {
            Pool::Sqlite(_) => exchange.await,
            Pool::Postgres(_) => tokio::time::timeout(self.lease.duration.max(ANSWER_PATIENCE), exchange)
                .await
                .unwrap_or(Err(StoreError::Silent)),
        }
    }

    /// Where each lane stands, by lane number.
    pub async fn lanes(&self) -> Result<BTreeMap<u16, Position>, StoreError> {
        let asked = async {
            let rows: Vec<(i64, i64, i64)> =
                on!(&self.pool, |db| sqlx::query_as(LANES).bind(self.lease.job.0).fetch_all(db).await?);
            Ok(rows)
        };
        let rows = self.answered(asked).await?;
        rows.into_iter()
            .map(|(lane, byte, line)| {
                let corrupt = |_| StoreError::Corrupt(format!("lane {lane} of job {} is impossible", self.lease.job));
                let position = Position {
                    byte: u64::try_from(byte).map_err(corrupt)?,
                    line: u64::try_from(line).map_err(corrupt)?,
                };
                Ok((u16::try_from(lane).map_err(corrupt)?, position))
            })
            .collect()
    }

    /// Renews the lease and shows how far the work is.
    ///
    /// An error means that it is unknown whether the lease was renewed: go on until the local deadline.
    pub async fn beat(&self, progress: &Counts) -> Result<Beat, StoreError> {
        on!(&self.beats, |db, begin| {
            let mut tx = db.begin_with(begin).await?;
            let now = now!(&self.beats, &mut *tx);
            let found: Vec<(Option<Timestamp>, Option<Timestamp>)> = sqlx::query_as(BEAT)
                .bind(self.lease.job.0)
                .bind(self.lease.fence.0)
                .bind(&self.lease.owner)
                .bind(now.plus(self.lease.duration))
                .bind(Json(progress))
                .bind(now)
                .fetch_all(&mut *tx)
                .await?;
            tx.commit().await?;
            Ok(match found.first() {
                None => Beat::Lost,
                Some((Some(_), _)) => Beat::CancelRequested,
                Some((None, Some(_))) => Beat::PauseRequested,
                Some((None, None)) => Beat::Held,
            })
        })
    }

    /// The state that the job is in now, whoever holds it.
    pub async fn state(&self) -> Result<Option<State>, StoreError> {
        let asked = async {
            let word: Option<String> =
                on!(&self.pool, |db| sqlx::query_scalar(STATE).bind(self.lease.job.0).fetch_optional(db).await?);
            Ok(word)
        };
        let word = self.answered(asked).await?;
        Ok(word.as_deref().and_then(State::from_word))
    }

    /// What the job has committed so far, in this session and in those before.
    pub async fn committed(&self) -> Result<Counts, StoreError> {
        let asked = async {
            on!(&self.pool, |db| {
                let mut connection = db.acquire().await?;
                crate::store::job_row::sum_results!(&mut *connection, self.lease.job)
            })
        };
        self.answered(asked).await
    }

    /// Closes the session's own connections. On SQLite they are the store's.
    pub async fn close(&self) {
        if let (Pool::Postgres(rows), Pool::Postgres(beats)) = (&self.pool, &self.beats) {
            let closing = async { tokio::join!(rows.close(), beats.close()) };
            if tokio::time::timeout(CLOSE_PATIENCE, closing).await.is_err() {
                tracing::debug!(job = self.lease.job.0, "a connection does not close");
            }
        }
    }
}

/// A position as it is bound: byte, line.
pub(crate) fn position_pair(position: Position) -> (i64, i64) {
    (as_i64(position.byte), as_i64(position.line))
}
