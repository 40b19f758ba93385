//! What happened to a job, for whoever is to be told.
//!
//! Owns the events and the one place where their consequences are written: in the transaction of the event, so
//! that none is lost and none is told of what did not happen. It sends nothing.

use crate::run::Counts;
use crate::store::job_row::JobError;

/// Something that happened to a job, as it is committed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum JobEvent<'a> {
    /// It is done, with these counts.
    Done(&'a Counts),
    /// It failed for good.
    Failed(&'a JobError),
    /// A command gave it up for now; it waits to be run again.
    Stopped(&'a JobError),
    /// A person ended it.
    Cancelled,
    /// It was taken from a holder that died, for the so-manieth time.
    Rescued(i64),
}

impl JobEvent<'_> {
    /// Whether the job ended by it.
    pub(crate) fn is_end(self) -> bool {
        !matches!(self, Self::Stopped(_) | Self::Rescued(_))
    }
}

impl std::fmt::Display for JobEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done(counts) => write!(f, "done with {} rows", counts.rows),
            Self::Failed(error) => write!(f, "failed with {}", error.code),
            Self::Stopped(error) => write!(f, "stopped by {}", error.code),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Rescued(times) => write!(f, "rescued for the {times}. time"),
        }
    }
}

/// Something that happened to a notification, as it is committed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NotificationEvent<'a> {
    /// The receiver refused it.
    Failed {
        /// Its key.
        key: &'a str,
        /// What was in the way, without an address.
        why: &'a str,
    },
    /// Nobody knows whether the receiver took it, and it is not sent again.
    Unknown {
        /// Its key.
        key: &'a str,
        /// What was in the way, without an address.
        why: &'a str,
    },
}

impl std::fmt::Display for NotificationEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed { key, why } => write!(f, "{key} failed: {why}"),
            Self::Unknown { key, why } => write!(f, "{key} is unknown: {why}"),
        }
    }
}

/// Writes what follows from an event: `announce!(connection, now, job, event)`.
macro_rules! announce {
    ($connection:expr, $now:expr, $job:expr, $event:expr) => {{
        let (job, event): ($crate::job::JobId, $crate::store::events::JobEvent<'_>) = ($job, $event);
        tracing::trace!(job = job.0, %event, "announced");
        if event.is_end() {
            $crate::store::notice::note_end!($connection, $now, job);
        }
        $crate::store::outbox::ring_event!($connection, $now, job, event);
    }};
}
pub(crate) use announce;

/// Writes what follows from the end of a notification that was not good:
/// `announce_notification!(connection, now, job, event)`.
macro_rules! announce_notification {
    ($connection:expr, $now:expr, $job:expr, $event:expr) => {{
        let (job, event): ($crate::job::JobId, $crate::store::events::NotificationEvent<'_>) = ($job, $event);
        tracing::trace!(job = job.0, %event, "announced");
        let ringing = $crate::store::outbox::ringing_of_notification(job, event);
        $crate::store::outbox::ring_from!($connection, $now, &ringing);
    }};
}
pub(crate) use announce_notification;
