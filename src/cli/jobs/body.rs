//! Jobs as JSON objects.
//!
//! Owns the names of the fields, which are a contract: they are only ever added to. It does not know where the
//! rows come from. Invariant: times are RFC 3339 in UTC.

use serde::Serialize;

use crate::clock::Timestamp;
use crate::import::report::ReasonCount;
use crate::job::{JobId, State};
use crate::run::Counts;
use crate::store::{AttemptRow, JobRow, NotificationRow};

#[derive(Serialize)]
pub(crate) struct Jobs<'a> {
    pub(crate) jobs: Vec<JobBody<'a>>,
}

#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    #[serde(flatten)]
    pub(crate) job: JobBody<'a>,
    pub(crate) why: Vec<WhyBody<'a>>,
    pub(crate) counts: Counts,
    pub(crate) rejects: u64,
    /// Those that no later import of the reject file took.
    pub(crate) rejects_open: u64,
    pub(crate) settings: std::collections::BTreeMap<&'static str, String>,
    pub(crate) attempts: Vec<AttemptBody<'a>>,
    pub(crate) reasons: Vec<ReasonBody>,
    pub(crate) notify: Option<String>,
    pub(crate) notifications: Vec<NotificationBody<'a>>,
}

#[derive(Serialize)]
pub(crate) struct JobBody<'a> {
    pub(crate) job: JobId,
    pub(crate) state: State,
    pub(crate) list: &'a str,
    pub(crate) file: &'a str,
    pub(crate) bytes: u64,
    pub(crate) fingerprint: &'a str,
    pub(crate) generation: u32,
    pub(crate) rows: Option<u64>,
    pub(crate) rejected: Option<u64>,
    pub(crate) charged_attempts: u32,
    pub(crate) max_attempts: u32,
    pub(crate) rescues: u32,
    pub(crate) fence: i64,
    pub(crate) direct: bool,
    pub(crate) queue: &'a str,
    pub(crate) priority: i64,
    pub(crate) run_at: String,
    pub(crate) owner: Option<&'a str>,
    pub(crate) beat_at: Option<String>,
    pub(crate) lease_until: Option<String>,
    pub(crate) lanes: u16,
    pub(crate) batch_rows: u32,
    pub(crate) created_at: String,
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
    pub(crate) cancel_requested_at: Option<String>,
    pub(crate) job_error: Option<JobErrorBody<'a>>,
}

#[derive(Serialize)]
pub(crate) struct WhyBody<'a> {
    pub(crate) code: &'static str,
    pub(crate) message: &'a str,
}

#[derive(Serialize)]
pub(crate) struct JobErrorBody<'a> {
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
}

impl<'a> JobBody<'a> {
    pub(crate) fn of(row: &'a JobRow) -> Self {
        let when = |time: Option<Timestamp>| time.map(|time| time.to_string());
        Self {
            job: row.id,
            state: row.state,
            list: &row.list_name,
            file: &row.payload.source,
            bytes: row.payload.bytes,
            fingerprint: &row.fingerprint.0,
            generation: row.generation,
            rows: row.result.map(|counts| counts.rows),
            rejected: row.result.map(|counts| counts.rejected),
            charged_attempts: row.attempts,
            max_attempts: row.max_attempts,
            rescues: row.rescues,
            fence: row.fence.0,
            direct: row.direct,
            queue: &row.queue,
            priority: row.priority,
            run_at: row.run_at.to_string(),
            owner: row.owner.as_deref(),
            beat_at: when(row.beat_at),
            lease_until: when(row.lease_until),
            lanes: row.grid.lanes,
            batch_rows: row.grid.batch_rows,
            created_at: row.created_at.to_string(),
            started_at: when(row.started_at),
            finished_at: when(row.finished_at),
            cancel_requested_at: when(row.cancel_requested_at),
            job_error: row.error.as_ref().map(|error| JobErrorBody { code: &error.code, message: &error.message }),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct AttemptBody<'a> {
    pub(crate) fence: i64,
    pub(crate) owner: &'a str,
    pub(crate) started_at: String,
    pub(crate) ended_at: Option<String>,
    pub(crate) outcome: Option<&'a str>,
    pub(crate) error: Option<&'a str>,
}

impl<'a> AttemptBody<'a> {
    pub(crate) fn of(row: &'a AttemptRow) -> Self {
        Self {
            fence: row.fence.0,
            owner: &row.owner,
            started_at: row.started_at.to_string(),
            ended_at: row.ended_at.map(|time| time.to_string()),
            outcome: row.outcome.as_deref(),
            error: row.error.as_deref(),
        }
    }
}

/// One end of the job that somebody is told of.
#[derive(Serialize)]
pub(crate) struct NotificationBody<'a> {
    pub(crate) key: &'a str,
    pub(crate) endpoint: String,
    pub(crate) receiver: &'static str,
    pub(crate) state: &'static str,
    pub(crate) attempts: u32,
    pub(crate) holds: u32,
    pub(crate) last_status: Option<i64>,
    pub(crate) last_error: Option<&'a str>,
    pub(crate) not_before: String,
    pub(crate) give_up_at: String,
    pub(crate) created_at: String,
    pub(crate) sent_at: Option<String>,
}

impl<'a> NotificationBody<'a> {
    pub(crate) fn of(row: &'a NotificationRow) -> Self {
        Self {
            key: &row.key,
            endpoint: row.endpoint.to_string(),
            receiver: row.receiver.as_str(),
            state: row.stage.as_str(),
            attempts: row.tried.attempts,
            holds: row.tried.holds,
            last_status: row.last_status,
            last_error: row.last_error.as_deref(),
            not_before: row.not_before.to_string(),
            give_up_at: row.give_up_at.to_string(),
            created_at: row.created_at.to_string(),
            sent_at: row.sent_at.map(|time| time.to_string()),
        }
    }
}

/// A reason and how often it occurred, in an object.
#[derive(Debug, Serialize)]
pub(crate) struct ReasonBody {
    pub(crate) reason: crate::reject::Reason,
    /// How many rows.
    pub(crate) rows: u64,
    pub(crate) first_line: u64,
    pub(crate) first_detail: String,
}

impl ReasonBody {
    /// The fields of this count.
    pub(crate) fn of(count: &ReasonCount) -> Self {
        Self {
            reason: count.reason,
            rows: count.rows,
            first_line: count.first_line,
            first_detail: count.first_detail.clone(),
        }
    }
}
