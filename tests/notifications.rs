//! Notifications: each end of a job is told under one key, whoever dies in between.

mod answers;
mod chaos;
mod deaths;
mod limits;
mod stories;

use std::time::Duration;

use crate::common::cli::{Enlist, Home, Running};
use crate::common::data;
use crate::common::engine::Db;
use crate::common::receiver::Receiver;
use crate::common::wait::wait_until;

/// How long something may take that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A home with a small list in it, and `[notify]` with these lines besides the address.
pub(crate) fn home(receiver: &Receiver, lines: &str) -> Home {
    let home = Home::new();
    home.write("a.csv", data::clean(20, 1));
    configure(&home, &receiver.url("/hook"), lines);
    home
}

/// Says whom to tell, in the configuration file.
pub(crate) fn configure(home: &Home, url: &str, lines: &str) {
    home.write("enlist.toml", format!("[notify]\nurl = '{url}'\ntimeout = '5s'\n{lines}\n"));
}

/// `enlist --config enlist.toml …`, to be completed.
pub(crate) fn enlist(home: &Home, db: &Db) -> Enlist {
    home.enlist(db).arg("--config").arg(home.path().join("enlist.toml")).env("NO_PROXY", "127.0.0.1,localhost")
}

/// `import FILE` into the list `l`.
pub(crate) fn import(home: &Home, db: &Db, file: &str) -> Enlist {
    enlist(home, db).args(["import", file, "--list", "l", "--create-list", "--region", "TR", "--json"])
}

/// `enqueue FILE` for the list `l`; the job's number.
pub(crate) fn enqueue(home: &Home, db: &Db, file: &str) -> i64 {
    let enqueue = enlist(home, db).args(["enqueue", file, "--list", "l", "--create-list", "--region", "TR", "--json"]);
    enqueue.run().expect(0).count("job")
}

/// A worker that ends when there is nothing left.
pub(crate) fn drain(home: &Home, db: &Db) -> Enlist {
    enlist(home, db).args(["work", "--drain", "--lease", "2s", "--json"])
}

/// A worker that runs until it is stopped.
pub(crate) fn worker(home: &Home, db: &Db) -> Running {
    enlist(home, db).args(["work", "--lease", "2s", "--json"]).spawn()
}

/// The columns of every notification, in the order in which they were written, joined by blanks.
pub(crate) fn rows(db: &Db, columns: &str) -> Vec<String> {
    let joined = columns.split(' ').map(|c| format!("COALESCE(CAST({c} AS TEXT), '-')")).collect::<Vec<_>>();
    let sql = format!("SELECT {} FROM notifications ORDER BY id", joined.join(" || ' ' || "));
    db.texts(&sql).into_iter().flatten().collect()
}

/// Waits until every notification there is stands in `state`, and there is one.
pub(crate) fn wait_for_all(db: &Db, state: &str) {
    wait_until(&format!("every notification is {state}"), PATIENCE, || {
        let states = rows(db, "state");
        !states.is_empty() && states.iter().all(|found| found == state)
    });
}
