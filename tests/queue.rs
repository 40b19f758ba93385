//! The queue: what is enqueued is done once, in order, by whichever worker lives.

mod beats;
mod chaos;
mod deaths;
mod model;
mod order;
mod service;
mod steering;
mod stories;

use std::time::Duration;

use serde_json::Value;

use crate::common::cli::{Enlist, Home, Output, Running};
use crate::common::engine::Db;
use crate::common::wait::{wait_for, wait_until};

/// How long a worker may take for what it is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// `enqueue FILE --list LIST --json`, to be completed.
pub(crate) fn enqueue(home: &Home, db: &Db, file: &str, list: &str) -> Enlist {
    home.enlist(db).args(["enqueue", file, "--list", list, "--create-list", "--region", "TR", "--json"])
}

/// A worker that ends when there is nothing left.
pub(crate) fn drain(home: &Home, db: &Db) -> Enlist {
    home.enlist(db).args(["work", "--drain", "--lease", "2s", "--json"])
}

/// A worker that runs until it is stopped.
pub(crate) fn worker(home: &Home, db: &Db) -> Enlist {
    home.enlist(db).args(["work", "--lease", "2s", "--json"])
}

/// `jobs show ID --json`.
pub(crate) fn show(home: &Home, db: &Db, job: i64) -> Value {
    home.enlist(db).args(["jobs", "show", &job.to_string(), "--json"]).run().expect(0).json()
}

/// A job's state, read from the table.
pub(crate) fn state(db: &Db, job: i64) -> String {
    let found = db.texts(&format!("SELECT state FROM jobs WHERE id = {job}"));
    found.into_iter().next().flatten().unwrap_or_default()
}

/// Waits until a job stands in `wanted`.
pub(crate) fn wait_for_state(db: &Db, job: i64, wanted: &str) {
    wait_for(&format!("job {job} is {wanted}"), PATIENCE, || (state(db, job) == wanted).then_some(()));
}

/// A number of a job's row.
pub(crate) fn field(db: &Db, job: i64, column: &str) -> i64 {
    db.number(&format!("SELECT CAST({column} AS BIGINT) FROM jobs WHERE id = {job}")).unwrap_or(-1)
}

/// Waits until a worker has committed rows.
pub(crate) fn wait_for_rows(db: &Db, rows: i64) {
    wait_until("rows are committed", PATIENCE, || db.committed_rows() >= rows);
}

/// The codes of `why` in `jobs show`.
pub(crate) fn why(home: &Home, db: &Db, job: i64) -> Vec<String> {
    let shown = show(home, db, job);
    let reasons = shown["why"].as_array().cloned().unwrap_or_default();
    reasons.iter().filter_map(|reason| reason["code"].as_str().map(str::to_owned)).collect()
}

/// Ends a worker with SIGTERM; it must end with 0.
#[track_caller]
pub(crate) fn end(worker: Running) -> Output {
    worker.term();
    worker.wait(Duration::from_secs(60)).expect(0)
}
