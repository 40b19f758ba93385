//! A holder that is stopped past its lease is taken over, and writes nothing when it wakes up; a holder that is
//! dead is taken over at once.
//!
//! The oracle is a run that nobody disturbed, as in `crash`.

use std::time::{Duration, Instant};

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::oracle::Snapshot;
use crate::common::proxy::Proxy;
#[cfg(feature = "failpoints")]
use crate::common::wait::wait_until;

const LIST: &str = "zombie";
const LEASE: Duration = Duration::from_secs(2);
/// What a takeover may cost beyond the lease: starting a process, reading the file, importing the rest.
const SLACK: Duration = Duration::from_secs(10);

/// `import` of `input.csv` in `home` with a short lease.
fn import(home: &Home, db: &Db, writers: u16) -> Enlist {
    patient_import(home, db, writers).args(["--lease", "2s"])
}

/// The same with the lease that is usual.
fn patient_import(home: &Home, db: &Db, writers: u16) -> Enlist {
    let writers = writers.to_string();
    home.enlist(db).args(["import", "input.csv", "--list", LIST, "--create-list", "--region", "TR", "--json"]).args([
        "--batch-size",
        "50",
        "--writers",
        &writers,
    ])
}

fn home_with(csv: &str) -> Home {
    let home = Home::new();
    home.write("input.csv", csv);
    home
}

fn undisturbed(engine: Engine, csv: &str, writers: u16) -> Snapshot {
    let (home, db) = (home_with(csv), Db::fresh(engine));
    let output = import(&home, &db, writers).run();
    assert_finished(&output);
    Snapshot::take(&home, &db, LIST, &output)
}

#[track_caller]
fn assert_finished(output: &Output) {
    assert!(matches!(output.code, 0 | 3), "{}", output.told());
}

/// Parts committed under the first holder's fence.
fn parts_of_the_first_holder(db: &Db) -> i64 {
    let sum = match db.engine {
        Engine::Sqlite => "SELECT count(*) FROM job_runs WHERE fence = 1",
        Engine::Postgres => "SELECT CAST(count(*) AS BIGINT) FROM job_runs WHERE fence = 1",
    };
    if db.committed_rows() == 0 { 0 } else { db.number(sum).unwrap_or(0) }
}

#[cfg(feature = "failpoints")]
/// Waits until `parts` parts are committed.
fn wait_for_parts(db: &Db, parts: i64) {
    wait_until("enough parts are committed", Duration::from_secs(60), || parts_of_the_first_holder(db) >= parts);
}

#[cfg(feature = "failpoints")]
/// Waits until a session of an import has stood still inside its transaction for a while.
fn wait_for_an_idle_transaction(db: &Db) {
    let idle = "SELECT CAST(count(*) AS BIGINT) FROM pg_stat_activity \
                WHERE datname = current_database() AND application_name LIKE 'enlist/%' \
                  AND state = 'idle in transaction' AND clock_timestamp() - state_change > interval '200 ms'";
    wait_until("a transaction stands still", Duration::from_secs(60), || db.number(idle) >= Some(1));
}

#[cfg(feature = "failpoints")]
/// Whether somebody holds the SQLite file in a write transaction.
fn is_write_locked(db: &Db) -> bool {
    use sqlx::{Connection, Executor};
    let url = db.url.clone();
    let probe = async move {
        let options: sqlx::sqlite::SqliteConnectOptions = url.parse().expect("a URL");
        let options = options.busy_timeout(Duration::ZERO);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.expect("it opens");
        let locked = connection.execute("BEGIN IMMEDIATE; ROLLBACK").await.is_err();
        connection.close().await.expect("it closes");
        locked
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(probe)
}

#[cfg(feature = "failpoints")]
/// Waits until the SQLite file has been held without a pause for a while.
fn wait_for_a_standing_write_lock(db: &Db) {
    wait_for_parts(db, 1);
    let mut since = None;
    wait_until("a write transaction stands still", Duration::from_secs(60), || {
        since = if is_write_locked(db) { since.or_else(|| Some(Instant::now())) } else { None };
        since.is_some_and(|since| since.elapsed() > Duration::from_millis(300))
    });
}

/// `frozen` is stopped: another process takes over in bounded time and ends as `expected`; then `frozen` wakes
/// up, writes nothing and says why.
fn take_over_from(
    frozen: crate::common::cli::Running,
    home: &Home,
    db: &Db,
    writers: u16,
    expected: &Snapshot,
    when: &str,
) {
    let started = Instant::now();
    let successor = import(home, db, writers).arg("--wait=60s").run();
    let took = started.elapsed();
    assert_finished(&successor);
    assert!(took <= LEASE + SLACK, "{when}: the takeover and the rest took {took:?}");
    assert!(successor.stderr.contains("whose lease ended"), "{when}: {}", successor.told());
    assert_eq!(successor.count("attempt"), 2, "{when}: {}", successor.told());
    let committed = parts_of_the_first_holder(db);
    assert!(committed > 0, "{when}: nothing was committed before");
    assert!(successor.count("resumed_rows") > 0, "{when}: {}", successor.told());
    assert!(successor.count("this_run/rows") > 0, "{when}: {}", successor.told());
    Snapshot::take(home, db, LIST, &successor).assert_same(expected, when);

    frozen.cont();
    let zombie = frozen.wait(Duration::from_secs(30));
    assert_eq!(zombie.code, 4, "{when}: {}", zombie.told());
    assert_eq!(zombie.error().as_deref(), Some("lease_lost"), "{when}: {}", zombie.told());
    assert!(zombie.stderr.contains("another process took this import over"), "{when}: {}", zombie.told());
    assert_eq!(parts_of_the_first_holder(db), committed, "{when}: the zombie committed parts");
    Snapshot::take(home, db, LIST, &successor).assert_same(expected, &format!("{when}, after the zombie woke up"));
}

#[cfg(feature = "failpoints")]
fn stopped_between_transactions(engine: Engine, writers: u16) {
    let csv = data::messy(1_500, 31);
    let expected = undisturbed(engine, &csv, writers);
    let (home, db) = (home_with(&csv), Db::fresh(engine));
    let frozen = import(&home, &db, writers).failpoint("import::after_commit=2*off->sleep(1000)").spawn();
    wait_for_parts(&db, 3);
    frozen.stop();
    let when = format!("{engine:?}, {writers} writers, stopped between transactions");
    take_over_from(frozen, &home, &db, writers, &expected, &when);
}

#[cfg(feature = "failpoints")]
mod stopped_between_two_transactions_it_is_taken_over_and_writes_nothing_more {
    use super::stopped_between_transactions;
    use crate::common::engine::Engine;

    #[test]
    fn sqlite() {
        stopped_between_transactions(Engine::Sqlite, 1);
    }

    #[test]
    fn postgres_with_one_writer() {
        stopped_between_transactions(Engine::Postgres, 1);
    }

    #[test]
    fn postgres_with_four_writers() {
        stopped_between_transactions(Engine::Postgres, 4);
    }
}

/// The zombie wakes up while its successor is in the middle: both want to write the same lanes.
#[cfg(feature = "failpoints")]
fn woken_in_the_middle(engine: Engine, writers: u16) {
    let csv = data::messy(1_500, 37);
    let expected = undisturbed(engine, &csv, writers);
    let (home, db) = (home_with(&csv), Db::fresh(engine));
    let slowly = "import::after_commit=2*off->sleep(300)";
    let frozen = import(&home, &db, writers).failpoint(slowly).spawn();
    wait_for_parts(&db, 3);
    frozen.stop();
    let successor = import(&home, &db, writers).arg("--wait=60s").failpoint(slowly).spawn();
    let (sqlite, postgres) = (
        "SELECT count(*) FROM job_runs WHERE fence = 2",
        "SELECT CAST(count(*) AS BIGINT) FROM job_runs WHERE fence = 2",
    );
    let of_the_second = if engine == Engine::Sqlite { sqlite } else { postgres };
    wait_until("the successor commits", Duration::from_secs(60), || db.number(of_the_second) >= Some(2));
    let committed = parts_of_the_first_holder(&db);
    frozen.cont();
    let zombie = frozen.wait(Duration::from_secs(30));
    let state = db.texts("SELECT state FROM jobs");
    assert_eq!(state, [Some("running".to_owned())], "the successor was to be in the middle still");
    let successor = successor.wait(Duration::from_secs(90));
    let when = format!("{engine:?}, {writers} writers, woken up while the successor is in the middle");
    assert_eq!(zombie.code, 4, "{when}: {}", zombie.told());
    assert_eq!(zombie.error().as_deref(), Some("lease_lost"), "{when}: {}", zombie.told());
    assert_finished(&successor);
    assert_eq!(parts_of_the_first_holder(&db), committed, "{when}: the zombie committed parts");
    Snapshot::take(&home, &db, LIST, &successor).assert_same(&expected, &when);
}

#[cfg(feature = "failpoints")]
mod woken_up_beside_its_successor_it_writes_nothing_more {
    use super::woken_in_the_middle;
    use crate::common::engine::Engine;

    #[test]
    fn sqlite() {
        woken_in_the_middle(Engine::Sqlite, 1);
    }

    #[test]
    fn postgres_with_one_writer() {
        woken_in_the_middle(Engine::Postgres, 1);
    }

    #[test]
    fn postgres_with_four_writers() {
        woken_in_the_middle(Engine::Postgres, 4);
    }
}

#[cfg(feature = "failpoints")]
fn stopped_before_commit(writers: u16) {
    let csv = data::messy(1_500, 32);
    let expected = undisturbed(Engine::Postgres, &csv, writers);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let frozen = import(&home, &db, writers).failpoint("import::before_commit=4*off->1*sleep(1500)->off").spawn();
    wait_for_an_idle_transaction(&db);
    frozen.stop();
    let when = format!("{writers} writers, stopped between the fence check and COMMIT");
    take_over_from(frozen, &home, &db, writers, &expected, &when);
}

#[cfg(feature = "failpoints")]
mod stopped_between_the_fence_check_and_commit_it_is_ended_and_writes_nothing_more {
    #[test]
    fn with_one_writer() {
        super::stopped_before_commit(1);
    }

    #[test]
    fn with_four_writers() {
        super::stopped_before_commit(4);
    }
}

/// Rows of 3 kB: a batch of 50 is a statement of 150 kB.
fn wide_rows() -> String {
    let wide = "x".repeat(3_000);
    let widen = |(row, line)| if row == 0 { format!("{line},note\n") } else { format!("{line},{wide}\n") };
    data::clean(600, 33).lines().enumerate().map(widen).collect()
}

/// The server stands in the middle of a message of its client, which is stopped.
fn stopped_while_sending(writers: u16) {
    let csv = wide_rows();
    let expected = undisturbed(Engine::Postgres, &csv, writers);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let proxy = Proxy::to_server_of(&db.url);
    // A batch is one statement or four of about a quarter; each lane sends one at a time.
    proxy.stall_in_message_of(15_000, usize::from(writers) + 2);
    let first = import(&home, &db.via(proxy.url(&db.url)), writers).spawn();
    proxy.wait_for_stall(1);
    first.stop();
    let when = format!("{writers} writers, stopped while sending rows");
    take_over_from(first, &home, &db, writers, &expected, &when);
}

mod stopped_while_sending_rows_it_is_ended_and_writes_nothing_more {
    #[test]
    fn with_one_writer() {
        super::stopped_while_sending(1);
    }

    #[test]
    fn with_four_writers() {
        super::stopped_while_sending(4);
    }
}

/// A proxy or a pooler can keep a dead client's session open in the middle of a transaction.
#[test]
fn a_killed_holder_whose_session_lives_on_is_taken_over_without_waiting_for_a_timeout() {
    let csv = wide_rows();
    let expected = undisturbed(Engine::Postgres, &csv, 1);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let proxy = Proxy::to_server_of(&db.url);
    proxy.stall_in_message_of(15_000, 4);
    let mut holder = patient_import(&home, &db.via(proxy.url(&db.url)), 1).spawn();
    proxy.wait_for_stall(1);
    assert!(holder.kill9(), "it ended by itself");
    let started = Instant::now();
    let output = patient_import(&home, &db, 1).run();
    let took = started.elapsed();
    assert_finished(&output);
    // The session's own timeouts are a third of the lease of 30 s.
    assert!(took < Duration::from_secs(8), "it took {took:?}: {}", output.told());
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after a session that lived on");
}

#[cfg(feature = "failpoints")]
#[test]
fn stopped_inside_a_write_transaction_of_sqlite_others_wait_and_nothing_is_lost() {
    let csv = data::messy(1_500, 34);
    let expected = undisturbed(Engine::Sqlite, &csv, 1);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Sqlite));
    let frozen = import(&home, &db, 1).failpoint("import::before_commit=4*off->1*sleep(1500)->off").spawn();
    wait_for_a_standing_write_lock(&db);
    frozen.stop();
    let other = import(&home, &db, 1).arg("--wait=60s").spawn();
    wait_until("the other says that it waits", Duration::from_secs(30), || {
        other.stderr_so_far().contains("waiting for another process that holds the database")
    });
    frozen.cont();
    let (first, second) = (frozen.wait(Duration::from_secs(90)), other.wait(Duration::from_secs(90)));
    let finished = |output: &Output| matches!(output.code, 0 | 3);
    assert!(finished(&first) || finished(&second), "{}\n{}", first.told(), second.told());
    for output in [&first, &second] {
        let lost = output.code == 4 && output.error().as_deref() == Some("lease_lost");
        assert!(finished(output) || lost, "{}\nand the other: {}{}", output.told(), first.told(), second.told());
    }
    let again = import(&home, &db, 1).run();
    assert_eq!(again.json()["replayed"], true, "{}", again.told());
    Snapshot::take(&home, &db, LIST, &again).assert_same(&expected, "stopped inside a write transaction");
}

/// A holder in mid-import with the usual lease of 30 s.
#[cfg(feature = "failpoints")]
fn holder_in_mid_import(home: &Home, db: &Db) -> crate::common::cli::Running {
    let running = patient_import(home, db, 1).failpoint("import::after_commit=2*off->sleep(1000)").spawn();
    wait_for_parts(db, 3);
    running
}

#[cfg(feature = "failpoints")]
#[track_caller]
fn take_over_at_once(home: &Home, db: &Db, expected: &Snapshot, when: &str) {
    let started = Instant::now();
    let output = patient_import(home, db, 1).run();
    let took = started.elapsed();
    assert_finished(&output);
    assert!(took < Duration::from_secs(15), "{when}: it took {took:?}");
    assert!(output.stderr.contains("which is gone"), "{when}: {}", output.told());
    Snapshot::take(home, db, LIST, &output).assert_same(expected, when);
}

#[cfg(feature = "failpoints")]
both! {
    fn a_killed_holder_is_taken_over_at_once_and_a_stopped_one_is_not(db: Db) {
        let csv = data::messy(1_500, 35);
        let expected = undisturbed(db.engine, &csv, 1);
        let home = home_with(&csv);
        let mut holder = holder_in_mid_import(&home, &db);
        holder.stop();
        let refused = patient_import(&home, &db, 1).run().expect(75);
        assert_eq!(refused.error().as_deref(), Some("held"), "{}", refused.told());
        assert!(holder.kill9(), "it was stopped, so it cannot have ended");
        take_over_at_once(&home, &db, &expected, "after SIGKILL");
    }

    fn a_holder_whose_job_was_taken_but_not_moved_on_is_refused_by_its_fence(db: Db) {
        let home = home_with(&data::messy(1_500, 38));
        // Nobody ends its sessions and its lanes stand where it thinks: only the fence says no.
        let holder = holder_in_mid_import(&home, &db);
        holder.stop();
        db.execute("UPDATE jobs SET fence = fence + 1, owner = 'somebody else'");
        let committed = parts_of_the_first_holder(&db);
        holder.cont();
        let output = holder.wait(Duration::from_secs(30)).expect(4);
        assert_eq!(output.error().as_deref(), Some("lease_lost"), "{}", output.told());
        assert_eq!(parts_of_the_first_holder(&db), committed, "{}", output.told());
        assert_eq!(db.texts("SELECT owner FROM jobs"), [Some("somebody else".to_owned())], "it left a job that is not its own");
    }

    fn a_killed_holder_that_nobody_has_reaped_counts_as_dead(db: Db) {
        let csv = data::messy(1_500, 36);
        let expected = undisturbed(db.engine, &csv, 1);
        let home = home_with(&csv);
        let holder = holder_in_mid_import(&home, &db);
        holder.kill9_unreaped();
        take_over_at_once(&home, &db, &expected, "unreaped");
        drop(holder);
    }
}
