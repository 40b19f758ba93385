//! The audit: looking for what should be impossible.
//!
//! Owns the checks over whole tables and how findings are gathered; those of one finished job are in `ranges`. It
//! mends nothing. Invariant: it only reads, by pages, so that neither memory nor the length of a statement grows
//! with the tables; what changes meanwhile is no finding.

mod ranges;

use std::time::Duration;

use crate::clock::Timestamp;
use crate::phone::Phone;
use crate::store::{Finding, Pool, Store, StoreError, on};

/// Which finished jobs are looked at; everything else is looked at always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditScope {
    /// All.
    Everything,
    /// Those that finished within this time.
    Recent(Duration),
}

/// What was looked at and found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// Finished jobs that were looked at.
    pub jobs: u64,
    /// Recipients that were looked at.
    pub recipients: u64,
    /// The first findings, so many as fit.
    pub findings: Vec<Finding>,
    /// How many there are besides.
    pub untold: u64,
}

/// The most findings that are kept.
const FINDINGS_MOST: usize = 200;

/// How long a lease must have ended before what it holds counts as stuck: sweeps come every few seconds.
const STUCK: Duration = Duration::from_secs(600);

/// Recipients of one statement.
const PAGE: i64 = 50_000;

/// Rows of other checks of one statement.
const ROWS: i64 = 1_000;

/// Per list of a page of recipients: how many there are, up to which phone, how many of them are none, and one of those.
macro_rules! recipients {
    ($none:literal) => {
        concat!(
            "SELECT r.list_id, count(*), max(r.phone), CAST(sum(CASE WHEN ",
            $none,
            " THEN 1 ELSE 0 END) AS bigint), min(CASE WHEN ",
            $none,
            " THEN r.phone END)
             FROM (SELECT list_id, phone FROM recipients WHERE (list_id, phone) > ($1, $2)
                   ORDER BY list_id, phone LIMIT $3) r
             GROUP BY r.list_id ORDER BY r.list_id"
        )
    };
}
/// Differs: SQLite has no regular expressions.
const NO_PHONE_SQLITE: &str = recipients!(
    "r.phone NOT GLOB '+[1-9]*' OR substr(r.phone, 2) GLOB '*[^0-9]*' OR length(r.phone) NOT BETWEEN 3 AND 16"
);
const NO_PHONE_POSTGRES: &str = recipients!("r.phone !~ '^[+][1-9][0-9]{1,14}$'");

const LIST_NAME: &str = "SELECT name FROM lists WHERE id = $1";

const STUCK_JOBS: &str =
    "SELECT id, lease_until FROM jobs WHERE state = 'running' AND lease_until < $1 AND id > $2 ORDER BY id LIMIT $3";

/// Keys that somebody claimed; those of batches are never in this state.
const STUCK_KEYS: &str = "SELECT key, COALESCE(lease_until, created_at) FROM job_runs
    WHERE status = 'running' AND COALESCE(lease_until, created_at) < $1 AND key > $2 ORDER BY key LIMIT $3";

/// One key on several notifications.
const TWICE: &str = "SELECT external_event_id, count(*) FROM notifications
    GROUP BY external_event_id HAVING count(*) > 1 ORDER BY external_event_id LIMIT $1";

impl Audit {
    /// Keeps a finding, or counts it once there are enough.
    fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MOST {
            self.findings.push(finding);
        } else {
            self.untold += 1;
        }
    }

    /// Whether there is nothing to tell.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl Store {
    /// Looks for what should be impossible; `found` holds what was found also when it ends with an error.
    pub async fn audit(&self, scope: AuditScope, found: &mut Audit) -> Result<(), StoreError> {
        let now = self.now().await?;
        let since = match scope {
            AuditScope::Everything => Timestamp::from_millis(0),
            AuditScope::Recent(age) => now.minus(age),
        };
        self.audit_stuck_jobs(now, found).await?;
        self.audit_stuck_keys(now, found).await?;
        self.audit_jobs(since, found).await?;
        self.audit_notifications(found).await?;
        self.audit_phones(found).await
    }

    async fn audit_stuck_jobs(&self, now: Timestamp, found: &mut Audit) -> Result<(), StoreError> {
        let mut after = 0_i64;
        loop {
            let page: Vec<(i64, Timestamp)> = on!(&self.pool, |db| {
                sqlx::query_as(STUCK_JOBS).bind(now.minus(STUCK)).bind(after).bind(ROWS).fetch_all(db).await?
            });
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            for (id, until) in page {
                found.add(Finding {
                    code: "job_stuck",
                    subject: format!("job {id}"),
                    message: format!("it is running, but its lease ended at {until} and nobody took it"),
                    hint: "start 'enlist work', or run 'enlist pass sweep'".to_owned(),
                });
            }
        }
    }

    async fn audit_stuck_keys(&self, now: Timestamp, found: &mut Audit) -> Result<(), StoreError> {
        let mut after = String::new();
        loop {
            let page: Vec<(String, Timestamp)> = on!(&self.pool, |db| {
                sqlx::query_as(STUCK_KEYS).bind(now.minus(STUCK)).bind(&after).bind(ROWS).fetch_all(db).await?
            });
            let Some((last, _)) = page.last() else { return Ok(()) };
            after.clone_from(last);
            for (key, until) in page {
                found.add(Finding {
                    code: "key_stuck",
                    subject: format!("key '{key}'"),
                    message: format!("it is running, but its lease ended at {until} and nobody took it"),
                    hint: "start 'enlist work', or run 'enlist pass sweep'".to_owned(),
                });
            }
        }
    }

    /// A unique index forbids it; a database that was restored in parts may have lost the index.
    async fn audit_notifications(&self, found: &mut Audit) -> Result<(), StoreError> {
        let twice: Vec<(String, i64)> = on!(&self.pool, |db| sqlx::query_as(TWICE).bind(ROWS).fetch_all(db).await?);
        for (event, times) in twice {
            found.add(Finding {
                code: "notification_twice",
                subject: format!("notification '{event}'"),
                message: format!("{times} rows carry this key, so its receiver may have been told {times} times"),
                hint: "make 'external_event_id' of 'notifications' unique again, and keep the row that was sent"
                    .to_owned(),
            });
        }
        Ok(())
    }

    async fn audit_phones(&self, found: &mut Audit) -> Result<(), StoreError> {
        type Page = (i64, i64, String, i64, Option<String>);
        let (mut list, mut phone) = (0_i64, String::new());
        let mut bad: Option<(i64, i64, String)> = None;
        loop {
            let page: Vec<Page> = match &self.pool {
                Pool::Sqlite(db) => {
                    sqlx::query_as(NO_PHONE_SQLITE).bind(list).bind(&phone).bind(PAGE).fetch_all(db).await?
                }
                Pool::Postgres(db) => {
                    sqlx::query_as(NO_PHONE_POSTGRES).bind(list).bind(&phone).bind(PAGE).fetch_all(db).await?
                }
            };
            let Some((last, _, end, ..)) = page.last() else { break };
            (list, phone) = (*last, end.clone());
            for (list, rows, _, none, example) in page {
                found.recipients += rows.unsigned_abs();
                let Some(example) = example else { continue };
                bad = match bad {
                    Some((of, count, first)) if of == list => Some((of, count + none, first)),
                    other => {
                        self.add_phones(other, found).await?;
                        Some((list, none, example))
                    }
                };
            }
        }
        self.add_phones(bad, found).await
    }

    /// One finding for a list, whatever the number of its rows: list, rows, one of them.
    async fn add_phones(&self, bad: Option<(i64, i64, String)>, found: &mut Audit) -> Result<(), StoreError> {
        let Some((list, rows, example)) = bad else { return Ok(()) };
        let name: Option<String> =
            on!(&self.pool, |db| sqlx::query_scalar(LIST_NAME).bind(list).fetch_optional(db).await?);
        let what = if rows == 1 { "recipient has a phone that is" } else { "recipients have phones that are" };
        found.add(Finding {
            code: "phone_not_e164",
            subject: name.map_or_else(|| format!("list {list}"), |name| format!("list '{name}'")),
            message: format!("{rows} {what} not E.164, for example '{}'", Phone::stored(example).masked()),
            hint: "no import stores such a phone: find out what else writes into the table".to_owned(),
        });
        Ok(())
    }
}
