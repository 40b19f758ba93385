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
    /// A person ended it.
    Cancelled,
    /// It was taken from a holder that died, for the so-manieth time.
    Rescued(i64),
}

/// Writes what follows from an event: `announce!(connection, now, job, event)`.
macro_rules! announce {
    ($connection:expr, $now:expr, $job:expr, $event:expr) => {{
        let (job, event): ($crate::job::JobId, $crate::store::events::JobEvent<'_>) = ($job, $event);
        tracing::trace!(job = job.0, ?event, "announced");
    }};
}
pub(crate) use announce;
