//! What an operator should know about a database.
//!
//! Owns the checks behind `doctor`. It mends nothing. Invariant: a finding names something that a person can
//! act on.

use crate::store::job_row::{JobRow, Row, jobs_where};
use crate::store::migrate::SCHEMA_VERSION;
use crate::store::{Pool, Store, StoreError, now, on};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A stable code.
    pub code: &'static str,
    /// What it is about, for example `job 7`.
    pub subject: String,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: String,
}

const STUCK: &str = jobs_where!("WHERE j.state = 'running' AND j.lease_until < $1 ORDER BY j.id LIMIT 50");
const WAITING: &str = jobs_where!("WHERE j.state = 'interrupted' ORDER BY j.id LIMIT 50");

const SQLITE_VERSION: &str = "SELECT sqlite_version()";
const POSTGRES_VERSION: &str = "SHOW server_version";
const SQLITE_INTEGRITY: &str = "PRAGMA quick_check(5)";
const COUNT_JOBS: &str = "SELECT state, count(*) FROM jobs GROUP BY state ORDER BY state";
const NEWEST: &str = "SELECT COALESCE(MAX(version), 0) FROM schema_migrations";

impl Store {
    /// Facts about the database: name and value.
    pub async fn facts(&self) -> Result<Vec<(String, String)>, StoreError> {
        let version: String = match &self.pool {
            Pool::Sqlite(db) => sqlx::query_scalar(SQLITE_VERSION).fetch_one(db).await?,
            Pool::Postgres(db) => sqlx::query_scalar(POSTGRES_VERSION).fetch_one(db).await?,
        };
        let schema: i64 = on!(&self.pool, |db| sqlx::query_scalar(NEWEST).fetch_one(db).await?);
        let states: Vec<(String, i64)> = on!(&self.pool, |db| sqlx::query_as(COUNT_JOBS).fetch_all(db).await?);
        let mut facts = vec![
            ("database".to_owned(), self.target.to_string()),
            ("server".to_owned(), format!("{} {version}", self.engine())),
            ("schema".to_owned(), format!("{schema} (this program needs {SCHEMA_VERSION})")),
        ];
        for list in self.lists().await? {
            let value = format!("{} recipients, {} opted out", list.recipients, list.opted_out);
            facts.push((format!("list '{}'", list.name), value));
        }
        facts.extend(states.into_iter().map(|(state, count)| (format!("jobs {state}"), count.to_string())));
        Ok(facts)
    }

    /// What is not as it should be.
    pub async fn findings(&self) -> Result<Vec<Finding>, StoreError> {
        let mut findings = Vec::new();
        if let Pool::Sqlite(db) = &self.pool {
            let problems: Vec<String> = sqlx::query_scalar(SQLITE_INTEGRITY).fetch_all(db).await?;
            findings.extend(problems.into_iter().filter(|problem| problem != "ok").map(|problem| Finding {
                code: "damaged_file",
                subject: self.target.to_string(),
                message: problem,
                hint: "restore the file from a backup".to_owned(),
            }));
        }
        let (stuck, waiting): (Vec<Row>, Vec<Row>) = on!(&self.pool, |db| {
            let mut connection = db.acquire().await?;
            let now = now!(&self.pool, &mut *connection);
            let stuck = sqlx::query_as(STUCK).bind(now).fetch_all(&mut *connection).await?;
            let waiting = sqlx::query_as(WAITING).fetch_all(&mut *connection).await?;
            (stuck, waiting)
        });
        for row in stuck {
            let job = JobRow::try_from(row)?;
            findings.push(Finding {
                code: "expired_lease",
                subject: format!("job {}", job.id),
                message: format!(
                    "its holder has not been heard of for longer than its lease; it reads '{}'",
                    job.payload.source
                ),
                hint: "run the same import again: it takes the job over and goes on".to_owned(),
            });
        }
        for row in waiting {
            let job = JobRow::try_from(row)?;
            let why = job.error.map_or_else(|| "it was stopped".to_owned(), |error| error.message);
            findings.push(Finding {
                code: "unfinished_import",
                subject: format!("job {}", job.id),
                message: format!(
                    "the import of '{}' into '{}' is not finished: {why}",
                    job.payload.source, job.list_name
                ),
                hint: format!("run the same import again, or 'enlist jobs cancel {}'", job.id),
            });
        }
        Ok(findings)
    }
}
