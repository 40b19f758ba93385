//! A server or a line that goes away in mid-import: the import goes on by itself or stops within a bounded
//! time, resumable, and nothing is lost or doubled, whatever the server had acknowledged.
//!
//! The oracle is a run that nobody disturbed, as in `crash`.

use std::time::{Duration, Instant};

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::oracle::Snapshot;
use crate::common::postgres::Server;
use crate::common::proxy::{Delivery, Proxy};
use crate::common::wait::{let_pass, wait_until};

const LIST: &str = "outage";

/// COMMIT as a simple query, whole: `READ COMMITTED` holds the word too.
const COMMIT: &str = "Q\0\0\0\u{b}COMMIT\0";
/// What only a part's transaction begins with.
const PART: &str = "SET LOCAL synchronous_commit = off";
/// What only the finishing transaction says.
const FINISH: &str = "SET state = 'done'";
/// What only a heartbeat says.
#[cfg(feature = "failpoints")]
const HEARTBEAT: &str = "UPDATE jobs SET lease_until";

/// `import` of `input.csv` in `home`.
fn import(home: &Home, db: &Db, writers: u16) -> Enlist {
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

fn undisturbed(csv: &str, writers: u16) -> Snapshot {
    let (home, db) = (home_with(csv), Db::fresh(Engine::Postgres));
    let output = import(&home, &db, writers).run();
    assert_finished(&output);
    Snapshot::take(&home, &db, LIST, &output)
}

#[track_caller]
fn assert_finished(output: &Output) {
    assert!(matches!(output.code, 0 | 3), "{}", output.told());
}

/// It stopped because the database went away, and says that running it again helps.
#[track_caller]
fn assert_stopped(output: &Output) {
    assert_eq!(output.code, 4, "{}", output.told());
    assert_eq!(output.error().as_deref(), Some("database_stopped"), "{}", output.told());
    assert_eq!(output.json()["retryable"], true, "{}", output.told());
}

fn wait_for_rows(db: &Db, rows: i64) {
    wait_until("enough rows are committed", Duration::from_secs(60), || db.committed_rows() >= rows);
}

/// Settings with which a crash loses acknowledged asynchronous commits for sure: nobody writes them out.
const FORGETFUL: &str = "wal_writer_delay = 10s\nwal_writer_flush_after = 1GB\nbgwriter_delay = 10s\nautovacuum = off";

/// One server crash in mid-import; whether acknowledged rows were lost in it.
fn crash_in_mid_import(server: &Server, writers: u16, rows: i64, csv: &str, expected: &Snapshot) -> bool {
    let (home, db) = (home_with(csv), Db::on(server));
    let mut running = import(&home, &db, writers).spawn();
    wait_for_rows(&db, rows);
    // Stopped, so that nothing moves between the two looks.
    running.stop();
    let before = db.committed_rows();
    server.kill_immediate();
    server.restart();
    let after = db.committed_rows();
    assert!(after <= before, "{after} rows after the crash, {before} before");
    assert!(!running.ended(), "it ended too early: {}", running.stderr_so_far());
    running.cont();
    let output = running.wait(Duration::from_secs(90));
    assert_finished(&output);
    assert_eq!(output.count("attempt"), 1, "it goes on by itself: {}", output.told());
    let when = format!("{writers} writers, crash after {before} rows, of which {after} survived");
    Snapshot::take(&home, &db, LIST, &output).assert_same(expected, &when);
    after < before
}

fn survive_crashes(writers: u16) {
    let csv = data::messy(6_000, 41);
    let expected = undisturbed(&csv, writers);
    let server = Server::start_with(FORGETFUL);
    let mut losses = 0;
    for rows in [100, 900, 2_000, 3_500] {
        losses += u32::from(crash_in_mid_import(&server, writers, rows, &csv, &expected));
    }
    assert!(losses > 0, "no crash lost an acknowledged part, so nothing was tried");
}

mod a_crashed_server_that_lost_acknowledged_parts_gets_them_again {
    #[test]
    fn with_one_writer() {
        super::survive_crashes(1);
    }

    #[test]
    fn with_four_writers() {
        super::survive_crashes(4);
    }
}

#[test]
fn a_server_that_crashes_again_and_again_under_a_running_import_loses_nothing() {
    let csv = data::messy(30_000, 42);
    let expected = undisturbed(&csv, 2);
    let server = Server::start_with(FORGETFUL);
    let (home, db) = (home_with(&csv), Db::on(&server));
    let mut random = fastrand::Rng::with_seed(20_261_201);
    let mut running = Some(import(&home, &db, 2).spawn());
    let mut outputs = Vec::new();
    let mut crashes = 0;
    wait_for_rows(&db, 50);
    while crashes < 4 {
        let child = running.get_or_insert_with(|| import(&home, &db, 2).spawn());
        let_pass(Duration::from_millis(random.u64(100..700)), || child.ended());
        if child.ended() {
            let output = running.take().expect("it is there").wait(Duration::from_secs(1));
            assert!(matches!(output.code, 0 | 3 | 4), "{}", output.told());
            let ended = output.code != 4;
            outputs.push(output);
            if ended {
                break;
            }
            continue;
        }
        server.kill_immediate();
        server.restart();
        crashes += 1;
    }
    assert!(crashes >= 2, "only {crashes} crashes came while it ran");
    if let Some(child) = running {
        outputs.push(child.wait(Duration::from_secs(120)));
    }
    let last = outputs.pop().expect("it ran");
    let output = if last.code == 4 { import(&home, &db, 2).run() } else { last };
    assert_finished(&output);
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, &format!("after {crashes} crashes"));
}

#[test]
fn a_server_that_stays_away_stops_the_import_in_bounded_time_and_a_rerun_finishes_it() {
    let csv = data::messy(6_000, 43);
    let expected = undisturbed(&csv, 2);
    let server = Server::start();
    let (home, db) = (home_with(&csv), Db::on(&server));
    let running = import(&home, &db, 2).args(["--lease", "2s"]).spawn();
    wait_for_rows(&db, 300);
    let went_away = Instant::now();
    server.kill_immediate();
    let output = running.wait(Duration::from_secs(60));
    let took = went_away.elapsed();
    assert_stopped(&output);
    assert!(took < Duration::from_secs(30), "it took {took:?}: {}", output.told());
    server.restart();
    let committed = db.committed_rows();
    let output = import(&home, &db, 2).run();
    assert_finished(&output);
    assert_eq!(output.count("resumed_rows"), committed, "{}", output.told());
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after the server came back");
}

/// The answer to one COMMIT is lost; the process must find out by itself.
fn lose_the_answer_to_commit(mark: &str, writers: u16) {
    let csv = data::clean(1_500, 44);
    let expected = undisturbed(&csv, writers);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let proxy = Proxy::to_server_of(&db.url);
    proxy.cut_after_marked(mark, COMMIT, Delivery::AtOnce);
    let output = import(&home, &db.via(proxy.url(&db.url)), writers).run().expect(0);
    assert_eq!(proxy.cuts(), 1, "no COMMIT was cut: {}", output.told());
    assert_done_by_this_run(&output);
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after a lost answer");
}

#[track_caller]
fn assert_done_by_this_run(output: &Output) {
    let json = output.json();
    assert_eq!(json["state"], "done", "{}", output.told());
    assert_eq!(json["replayed"], false, "{}", output.told());
    assert_eq!(json["attempt"], 1, "{}", output.told());
    assert_eq!(output.count("this_run/rows"), output.count("rows"), "{}", output.told());
}

mod a_lost_answer_to_commit_neither_loses_nor_doubles_anything {
    use super::{FINISH, PART, lose_the_answer_to_commit};

    #[test]
    fn of_a_part_with_one_writer() {
        lose_the_answer_to_commit(PART, 1);
    }

    #[test]
    fn of_a_part_with_four_writers() {
        lose_the_answer_to_commit(PART, 4);
    }

    #[test]
    fn of_the_finish_with_one_writer() {
        lose_the_answer_to_commit(FINISH, 1);
    }

    #[test]
    fn of_the_finish_with_four_writers() {
        lose_the_answer_to_commit(FINISH, 4);
    }
}

/// The line is cut while a COMMIT is still under way, and the server gets it when the process has already
/// asked what became of it.
fn a_late_commit(mark: &str) {
    let csv = data::clean(1_500, 45);
    let expected = undisturbed(&csv, 1);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let proxy = Proxy::to_server_of(&db.url);
    proxy.cut_after_marked(mark, COMMIT, Delivery::Late);
    let running = import(&home, &db.via(proxy.url(&db.url)), 1).spawn();
    proxy.wait_for_cut(1);
    wait_until("it says that it goes on", Duration::from_secs(60), || {
        running.stderr_so_far().contains("going on from the last commit")
    });
    proxy.release();
    let output = running.wait(Duration::from_secs(60)).expect(0);
    assert_done_by_this_run(&output);
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after a late COMMIT");
}

mod a_commit_that_arrives_after_it_was_asked_about_neither_loses_nor_doubles_anything {
    #[test]
    fn of_a_part() {
        super::a_late_commit(super::PART);
    }

    #[test]
    fn of_the_finish() {
        super::a_late_commit(super::FINISH);
    }
}

#[test]
fn a_line_that_goes_silent_for_good_stops_the_import_in_bounded_time() {
    for writers in [1, 4] {
        let csv = data::messy(6_000, 46);
        let expected = undisturbed(&csv, writers);
        let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
        let proxy = Proxy::to_server_of(&db.url);
        let running = import(&home, &db.via(proxy.url(&db.url)), writers).args(["--lease", "2s"]).spawn();
        wait_for_rows(&db, 300);
        let silent = Instant::now();
        proxy.hang();
        let output = running.wait(Duration::from_secs(90));
        let took = silent.elapsed();
        assert_stopped(&output);
        assert!(took < Duration::from_secs(40), "it took {took:?}: {}", output.told());
        let output = import(&home, &db, writers).run();
        assert_finished(&output);
        Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after a line went silent");
    }
}

#[test]
fn a_line_that_is_silent_for_longer_than_the_lease_is_picked_up_again() {
    let csv = data::messy(6_000, 47);
    let expected = undisturbed(&csv, 2);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let proxy = Proxy::to_server_of(&db.url);
    let running = import(&home, &db.via(proxy.url(&db.url)), 2).args(["--lease", "3s"]).spawn();
    wait_for_rows(&db, 300);
    proxy.hang();
    wait_until("it notices", Duration::from_secs(30), || {
        running.stderr_so_far().contains("going on from the last commit")
    });
    proxy.pass();
    let output = running.wait(Duration::from_secs(60));
    assert_finished(&output);
    assert_eq!(output.count("attempt"), 1, "{}", output.told());
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after a silence");
}

#[test]
fn a_single_line_that_stalls_while_sending_rows_is_replaced() {
    let csv = data::messy(3_000, 48);
    let expected = undisturbed(&csv, 2);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let proxy = Proxy::to_server_of(&db.url);
    proxy.stall_in_message_of(1_000, 10);
    let running = import(&home, &db.via(proxy.url(&db.url)), 2).args(["--lease", "2s"]).spawn();
    proxy.wait_for_stall(1);
    let output = running.wait(Duration::from_secs(90));
    assert_finished(&output);
    assert_eq!(output.count("attempt"), 1, "{}", output.told());
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after a stalled line");
}

/// An import that lasts some seconds, so that heartbeats come due.
#[cfg(feature = "failpoints")]
fn slow_import(home: &Home, db: &Db) -> Enlist {
    import(home, db, 1).failpoint("import::after_commit=sleep(100)")
}

#[cfg(feature = "failpoints")]
#[test]
fn a_heartbeat_line_that_is_cut_is_opened_again() {
    let csv = data::messy(2_000, 49);
    let expected = undisturbed(&csv, 1);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let proxy = Proxy::to_server_of(&db.url);
    proxy.cut_after(HEARTBEAT, 1);
    let output = slow_import(&home, &db.via(proxy.url(&db.url))).args(["--lease", "2s"]).run();
    assert_finished(&output);
    assert_eq!(proxy.cuts(), 1, "no heartbeat was cut: {}", output.told());
    assert_eq!(output.count("attempt"), 1, "{}", output.told());
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after a heartbeat was cut");
}

#[cfg(feature = "failpoints")]
#[test]
fn a_process_whose_heartbeats_never_arrive_stops_writing_when_its_lease_ends() {
    let csv = data::messy(10_000, 50);
    let expected = undisturbed(&csv, 1);
    let (home, db) = (home_with(&csv), Db::fresh(Engine::Postgres));
    let proxy = Proxy::to_server_of(&db.url);
    proxy.mute(HEARTBEAT);
    // It would go on for 20 s.
    let output = slow_import(&home, &db.via(proxy.url(&db.url))).args(["--lease", "3s"]).run();
    assert_stopped(&output);
    assert!(output.stderr.contains("the lease ended before a heartbeat was answered"), "{}", output.told());
    let written = db.number(
        "SELECT CAST(extract(epoch FROM max(r.completed_at) - min(j.started_at)) * 1000 AS BIGINT)
           FROM job_runs r JOIN jobs j ON j.id = r.job_id",
    );
    let written = written.expect("something was committed before the lease ended");
    assert!((500..=3_500).contains(&written), "the last part was written {written} ms after the claim");
    let output = import(&home, &db, 1).run();
    assert_finished(&output);
    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "after heartbeats failed");
}
