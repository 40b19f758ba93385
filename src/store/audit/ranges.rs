//! Auditing finished jobs: whether what they committed covers the input once and adds up.
//!
//! Owns the checks of one job. It does not know which jobs are looked at for how long. Invariant: a job from
//! which retention takes something while it is looked at is no finding.

use sqlx::FromRow;

use crate::clock::Timestamp;
use crate::job::JobKey;
use crate::run::{Chain, Counts, RunKey};
use crate::store::audit::Audit;
use crate::store::{Finding, Store, StoreError, on};

/// Documents are read as text: one that cannot be read is a finding, not an error.
#[derive(Debug, FromRow)]
struct Job {
    id: i64,
    key: String,
    generation: i64,
    lanes: i64,
    payload: String,
    result: Option<String>,
    keys_pruned_at: Option<Timestamp>,
    rejects_pruned_at: Option<Timestamp>,
}

/// Jobs of one statement; a payload holds a header, so it may be large.
const JOBS_PAGE: i64 = 50;

const JOBS: &str = "SELECT id, key, generation, lanes, CAST(payload AS text) AS payload,
      CAST(result AS text) AS result, keys_pruned_at, rejects_pruned_at
    FROM jobs WHERE kind = 'import' AND state = 'done' AND finished_at >= $1 AND id > $2 ORDER BY id LIMIT $3";

const LANES: &str = "SELECT lane, byte FROM job_lanes WHERE job_id = $1 ORDER BY lane";

/// What retention has marked; no row where the job is gone.
const MARKS: &str = "SELECT keys_pruned_at, rejects_pruned_at FROM jobs WHERE id = $1";

const KEYS_PAGE: i64 = 5_000;

/// The order that `Chain` wants; $1 and $2 enclose the lane's keys, $3 and $4 are the last one's length and text.
const KEYS: &str = "SELECT key, job_id, CAST(result AS text) FROM job_runs
    WHERE key >= $1 AND key < $2 AND (length(key), key) > ($3, $4) ORDER BY length(key), key LIMIT $5";

const COUNT_KEYS: &str = "SELECT count(*) FROM job_runs WHERE job_id = $1";
const COUNT_REJECTS: &str = "SELECT count(*) FROM rejects WHERE job_id = $1";

/// A lane's number and position as they are stored.
type Lane = (i64, i64);

/// The code and the message of something that is not right with a job.
type Wrong = (&'static str, String);

/// What the keys of a job amount to.
#[derive(Debug, Default)]
struct Sum {
    counts: Counts,
    keys: i64,
}

impl Store {
    pub(super) async fn audit_jobs(&self, since: Timestamp, found: &mut Audit) -> Result<(), StoreError> {
        let mut after = 0_i64;
        loop {
            let page: Vec<Job> = on!(&self.pool, |db| {
                sqlx::query_as(JOBS).bind(since).bind(after).bind(JOBS_PAGE).fetch_all(db).await?
            });
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            for job in page {
                found.jobs += 1;
                let wrong = self.audit_job(&job).await?;
                if wrong.is_empty() || self.marks(job.id).await? != Some((job.keys_pruned_at, job.rejects_pruned_at)) {
                    continue;
                }
                for (code, message) in wrong {
                    found.add(Finding {
                        code,
                        subject: format!("job {}", job.id),
                        message,
                        hint: "import its file again with --again, and report this".to_owned(),
                    });
                }
            }
        }
    }

    async fn marks(&self, id: i64) -> Result<Option<(Option<Timestamp>, Option<Timestamp>)>, StoreError> {
        Ok(on!(&self.pool, |db| sqlx::query_as(MARKS).bind(id).fetch_optional(db).await?))
    }

    async fn audit_job(&self, job: &Job) -> Result<Vec<Wrong>, StoreError> {
        let mut wrong = Vec::new();
        let result = result_of(job, &mut wrong);
        let lanes: Vec<Lane> = on!(&self.pool, |db| sqlx::query_as(LANES).bind(job.id).fetch_all(db).await?);
        wrong.extend(lanes_wrong(job.lanes, &lanes));
        if job.keys_pruned_at.is_none() {
            self.audit_keys(job, &lanes, result, &mut wrong).await?;
        }
        if let (Some(result), None) = (result, job.rejects_pruned_at) {
            let stored: i64 =
                on!(&self.pool, |db| sqlx::query_scalar(COUNT_REJECTS).bind(job.id).fetch_one(db).await?);
            if stored.unsigned_abs() != result.rejected {
                let message = format!("its result says {} refused rows, {stored} are stored", result.rejected);
                wrong.push(("rejects_differ", message));
            }
        }
        Ok(wrong)
    }

    /// Every lane's keys follow one another from the first record to the lane's position, and their sum is the result.
    async fn audit_keys(
        &self,
        job: &Job,
        lanes: &[Lane],
        result: Option<Counts>,
        wrong: &mut Vec<Wrong>,
    ) -> Result<(), StoreError> {
        let Some(start) = data_start(&job.payload) else {
            wrong.push(("payload_unreadable", "what it was told to do cannot be read back".to_owned()));
            return Ok(());
        };
        let mut sum = Sum::default();
        for (lane, position) in lanes {
            self.audit_lane(job, *lane, start, position.unsigned_abs(), &mut sum, wrong).await?;
        }
        let keys: i64 = on!(&self.pool, |db| sqlx::query_scalar(COUNT_KEYS).bind(job.id).fetch_one(db).await?);
        if keys != sum.keys {
            wrong.push(("ranges_incomplete", format!("{keys} keys belong to it, its lanes account for {}", sum.keys)));
        }
        if let Some((name, kept, summed)) = result.and_then(|result| result.difference(&sum.counts)) {
            wrong.push(("counts_differ", format!("its result says {name} {kept}, its keys sum up to {summed}")));
        }
        Ok(())
    }

    async fn audit_lane(
        &self,
        job: &Job,
        lane: i64,
        start: u64,
        position: u64,
        sum: &mut Sum,
        wrong: &mut Vec<Wrong>,
    ) -> Result<(), StoreError> {
        let begin = lane_start(job, lane);
        // The character after the slash: every key of the lane lies between.
        let end = format!("{}0", begin.trim_end_matches('/'));
        let mut chain = Chain::from(start);
        let (mut length, mut after) = (0_i32, String::new());
        loop {
            type Key = (String, Option<i64>, Option<String>);
            let page: Vec<Key> = on!(&self.pool, |db| {
                let page = sqlx::query_as(KEYS).bind(&begin).bind(&end).bind(length).bind(&after);
                page.bind(KEYS_PAGE).fetch_all(db).await?
            });
            let Some((last, ..)) = page.last() else { break };
            length = i32::try_from(last.len()).unwrap_or(i32::MAX);
            after.clone_from(last);
            for (key, owner, result) in page {
                if owner != Some(job.id) || key.strip_prefix(&begin).and_then(|rest| chain.follow(rest)).is_none() {
                    wrong.push(("ranges_incomplete", format!("the key '{key}' is none of its own")));
                    return Ok(());
                }
                sum.keys += 1;
                let counts = result.as_deref().and_then(|text| serde_json::from_str::<Counts>(text).ok());
                match counts.filter(Counts::adds_up) {
                    Some(counts) => sum.counts += counts,
                    None => wrong.push(("counts_do_not_add_up", format!("those of the key '{key}' do not"))),
                }
            }
            if wrong.len() > 10 {
                return Ok(());
            }
        }
        if let Some(broken) = chain.broken_before(position) {
            wrong.push(("ranges_incomplete", format!("lane {lane} of {}: {broken}", job.lanes)));
        }
        Ok(())
    }
}

fn lane_start(job: &Job, lane: i64) -> String {
    let narrow = |number: i64| u16::try_from(number).unwrap_or(u16::MAX);
    let generation = u32::try_from(job.generation).unwrap_or(u32::MAX);
    RunKey::lane_start(&JobKey::stored(job.key.clone()), generation, narrow(lane), narrow(job.lanes))
}

fn result_of(job: &Job, wrong: &mut Vec<Wrong>) -> Option<Counts> {
    let result = job.result.as_deref().and_then(|text| serde_json::from_str::<Counts>(text).ok());
    match result {
        None => wrong.push(("result_unreadable", "its result cannot be read back".to_owned())),
        Some(counts) if !counts.adds_up() => {
            wrong.push(("counts_do_not_add_up", format!("{} rows did not each end in one way", counts.rows)));
        }
        Some(_) => {}
    }
    result
}

/// Where the first record starts.
fn data_start(payload: &str) -> Option<u64> {
    let payload: serde_json::Value = serde_json::from_str(payload).ok()?;
    payload.pointer("/settings/data_start/byte")?.as_u64()
}

/// Every lane is there once and stands where the others do.
fn lanes_wrong(number: i64, lanes: &[Lane]) -> Option<Wrong> {
    let there: Vec<i64> = lanes.iter().map(|(lane, _)| *lane).collect();
    if there != (0..number).collect::<Vec<_>>() {
        return Some(("lanes_incomplete", format!("it has {number} lanes, stored are those numbered {there:?}")));
    }
    let ends = lanes.iter().map(|(_, byte)| *byte);
    match (ends.clone().min(), ends.max()) {
        (Some(first), Some(last)) if first != last => {
            Some(("lanes_incomplete", format!("one of its lanes ends at byte {first}, another at byte {last}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_complete_and_end_together() {
        assert_eq!(lanes_wrong(2, &[(0, 9), (1, 9)]), None);
        for lanes in [&[(0, 9)][..], &[(0, 9), (2, 9)], &[(0, 9), (1, 8)], &[(0, 9), (1, 9), (2, 9)]] {
            assert_eq!(lanes_wrong(2, lanes).map(|(code, _)| code), Some("lanes_incomplete"), "{lanes:?}");
        }
    }

    #[test]
    fn the_start_is_read_from_the_settings() {
        assert_eq!(data_start(r#"{"settings":{"data_start":{"byte":7,"line":2}}}"#), Some(7));
        assert_eq!(data_start("{}"), None);
        assert_eq!(data_start("{"), None);
    }
}
