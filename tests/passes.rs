//! The scheduled passes: each window once, and what each pass finds, mends and removes.

mod audit;
mod doctor;
mod reconcile;
mod retention;
mod windows;

use serde_json::Value;

use crate::common::cli::{Home, Output};
use crate::common::engine::{Db, Engine};

/// `import FILE --list l --json`, run to its end.
pub(crate) fn import(home: &Home, db: &Db, file: &str, more: &[&str]) -> Output {
    let line = ["import", file, "--list", "l", "--create-list", "--region", "TR", "--json"];
    home.enlist(db).args(line).args(more).run()
}

/// Kills an import after some committed parts; the number of its job.
pub(crate) fn kill_import(home: &Home, db: &Db, file: &str, parts: u32, more: &[&str]) -> i64 {
    let line = ["import", file, "--list", "l", "--create-list", "--region", "TR", "--json"];
    let point = format!("import::after_commit={parts}*off->return");
    let killed = home.enlist(db).args(line).args(more).failpoint(&point).run();
    assert_eq!(killed.signal, Some(6), "{}", killed.told());
    db.settle();
    db.number("SELECT CAST(max(id) AS BIGINT) FROM jobs").expect("a job")
}

/// Ends a killed job for good, as a person does.
pub(crate) fn cancel(home: &Home, db: &Db, job: i64) {
    home.enlist(db).args(["jobs", "cancel", &job.to_string(), "--json"]).run().expect(0);
    assert_eq!(crate::queue::state(db, job), "cancelled");
}

/// `pass NAME --json`: its result.
pub(crate) fn pass(home: &Home, db: &Db, name: &str) -> Value {
    home.enlist(db).args(["pass", name, "--json"]).run().expect(0).json()["result"].clone()
}

/// A moment so many seconds before now, in the database's terms and of the precision that is stored.
pub(crate) fn ago(db: &Db, seconds: i64) -> String {
    match db.engine {
        Engine::Sqlite => format!("(CAST(unixepoch('subsec') * 1000 AS INTEGER) - {seconds} * 1000)"),
        Engine::Postgres => format!("date_trunc('milliseconds', now() - {seconds} * interval '1 second')"),
    }
}

/// A day in seconds.
pub(crate) const DAY: i64 = 86_400;

/// Lets a job have finished so many days ago.
pub(crate) fn backdate(db: &Db, job: i64, days: i64) {
    db.execute(&format!("UPDATE jobs SET finished_at = {} WHERE id = {job}", ago(db, days * DAY)));
}

/// How many rows of a table fit.
pub(crate) fn rows(db: &Db, what: &str) -> i64 {
    db.number(&format!("SELECT CAST(count(*) AS BIGINT) FROM {what}")).expect("a number")
}

/// How many keys, refused rows, lanes and attempts a job has.
pub(crate) fn belongings(db: &Db, job: i64) -> [i64; 4] {
    ["job_runs", "rejects", "job_lanes", "job_attempts"].map(|table| rows(db, &format!("{table} WHERE job_id = {job}")))
}
