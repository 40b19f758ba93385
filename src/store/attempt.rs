//! Who worked on a job, when, and how it ended.
//!
//! Owns the statements that write `job_attempts`; they run inside the transactions that change hands.
//! Invariant: each (job, fence, owner) is one row, and `outcome` is written with the job's own change, so
//! that a holder whose COMMIT went unanswered can find out what became of it.

/// Begins an attempt: job, fence, owner, now.
pub(crate) const OPEN_ATTEMPT: &str =
    "INSERT INTO job_attempts (job_id, fence, owner, started_at) VALUES ($1, $2, $3, $4)";

/// Ends whatever attempts of a job are still open: job, now, outcome.
pub(crate) const CLOSE_ATTEMPTS: &str =
    "UPDATE job_attempts SET ended_at = $2, outcome = $3 WHERE job_id = $1 AND ended_at IS NULL";

/// Ends one attempt: job, fence, owner, now, outcome, error.
pub(crate) const CLOSE_ATTEMPT: &str = "UPDATE job_attempts SET ended_at = $4, outcome = $5, error = $6
    WHERE job_id = $1 AND fence = $2 AND owner = $3";

/// How one attempt ended: job, fence, owner.
pub(crate) const ATTEMPT_OUTCOME: &str =
    "SELECT outcome FROM job_attempts WHERE job_id = $1 AND fence = $2 AND owner = $3";
