//! An import frozen between two batches, so that a test can act in the middle of it without a race.

use std::time::Duration;

use super::cli::{Enlist, Output, Running};
use super::engine::Db;
use super::wait::wait_until;

/// How long the import lingers after a commit: time enough to freeze it there.
const LINGER: &str = "3000";

/// How long anything here may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running import that is stopped after a commit, in no transaction.
pub(crate) struct Halted(Running);

impl Halted {
    /// Starts `import`, which must have one writer, and freezes it after its `parts`th commit of `rows` rows in all.
    pub(crate) fn after(import: Enlist, db: &Db, parts: u32, rows: i64) -> Self {
        Self::with(import, db, parts, rows, "")
    }

    /// The same; afterwards it works slowly, so that there is something left to be stopped.
    pub(crate) fn and_slow(import: Enlist, db: &Db, parts: u32, rows: i64) -> Self {
        Self::with(import, db, parts, rows, "->sleep(20)")
    }

    fn with(import: Enlist, db: &Db, parts: u32, rows: i64, then: &str) -> Self {
        let before = db.committed_rows();
        let point = format!("import::after_commit={}*off->1*sleep({LINGER}){then}", parts - 1);
        let mut running = import.failpoint(&point).spawn();
        wait_until("the part before the halt is committed", DEADLINE, || {
            assert!(!running.ended(), "it ended before it could be halted: {}", running.stderr_so_far());
            db.committed_rows() >= before + rows
        });
        running.stop();
        assert_eq!(db.committed_rows(), before + rows, "it was stopped too late");
        Self(running)
    }

    /// Lets it go on.
    pub(crate) fn resume(self) -> Running {
        self.0.cont();
        self.0
    }

    /// Lets it go on to its end.
    pub(crate) fn finish(self) -> Output {
        self.resume().wait(DEADLINE)
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self, db: &Db) {
        assert!(self.0.kill9(), "it was gone already");
        db.settle();
    }
}
