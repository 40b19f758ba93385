//! When a pass is overdue.

use super::*;
use crate::store::Schedule;
use crate::window::CatchUp;

const NOW: i64 = 1_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn worker(started: i64, seen: i64) -> WorkerRow {
    let owner = Owner::from_text("n boot pid:[1] 7 100 host").to_text();
    let (started_at, seen_at) = (at(started), at(seen));
    WorkerRow { owner, queues: "default".to_owned(), concurrency: 1, started_at, seen_at, left_at: None }
}

fn run(window: i64, ended: Option<i64>) -> PassRun {
    let owner = Owner::from_text("other boot pid:[1] 7 100 host").to_text();
    PassRun { window: at(window), owner, started_at: at(window), finished_at: ended.map(at), result: None, error: None }
}

fn reconcile(last: Option<PassRun>, open: Option<PassRun>, workers: &[WorkerRow]) -> PassHealth {
    let schedule =
        Schedule { name: "reconcile".to_owned(), every: Duration::from_secs(120), catch_up: CatchUp::Latest };
    let row = ScheduleRow { schedule, high_water: at(0), skipped: 0, last, open };
    let all = health(&PassTimes::default(), &[row], workers, at(NOW));
    all.into_iter().find(|health| health.pass == Pass::Reconcile).unwrap()
}

#[test]
fn a_pass_is_overdue_when_workers_were_there_for_three_windows_and_a_minute() {
    let there = [worker(0, NOW)];
    let last = |ago: i64| Some(run(NOW - ago, Some(NOW - ago)));
    assert_eq!(reconcile(last(420), None, &there).health, Health::Ran);
    assert_eq!(reconcile(last(421), None, &there).health, Health::Overdue);
    let gone = [worker(0, NOW - 500)];
    assert_eq!(reconcile(last(421), None, &gone).health, Health::Ran, "nobody was there");
    let fresh = [worker(0, NOW - 100_000), worker(NOW - 5, NOW)];
    assert_eq!(reconcile(last(100_000), None, &fresh).health, Health::Ran, "it has only just come");
    let replaced: Vec<_> = (0..10).map(|n| worker(NOW - 500 + n * 50, NOW - 450 + n * 50)).collect();
    assert_eq!(reconcile(last(500), None, &replaced).health, Health::Overdue, "one after the other was there");
}

#[test]
fn one_that_never_ran_has_a_minute_once_a_worker_is_there() {
    assert_eq!(reconcile(None, None, &[]).health, Health::NoWorker);
    assert_eq!(reconcile(None, None, &[worker(NOW - 60, NOW)]).health, Health::Waiting);
    assert_eq!(reconcile(None, None, &[worker(NOW - 61, NOW)]).health, Health::Overdue);
    let begun = Some(run(NOW - 200, None));
    assert_eq!(reconcile(None, begun, &[worker(NOW - 200, NOW)]).health, Health::Waiting, "it is at it");
    let hangs = Some(run(NOW - 421, None));
    assert_eq!(reconcile(None, hangs, &[worker(NOW - 421, NOW)]).health, Health::Overdue);
}

#[test]
fn one_that_is_turned_off_is_never_overdue() {
    let times = PassTimes { audit: Duration::ZERO, ..PassTimes::default() };
    let all = health(&times, &[], &[worker(0, NOW)], at(NOW));
    let off: Vec<Pass> = all.iter().filter(|one| one.health == Health::Off).map(|one| one.pass).collect();
    assert_eq!(off, [Pass::Audit]);
}

#[test]
fn a_failing_pass_and_what_an_audit_found_are_told() {
    let failed = PassRun { error: Some("no disk".to_owned()), ..run(NOW - 60, Some(NOW - 60)) };
    let told = reconcile(None, Some(failed), &[worker(0, NOW)]).findings();
    assert!(told[0].code == "pass_overdue" && told[0].message.ends_with("failed: no disk"), "{told:?}");
    let mut audit = reconcile(Some(run(NOW, Some(NOW))), None, &[]);
    audit.pass = Pass::Audit;
    assert!(audit.findings().is_empty());
    audit.last.as_mut().unwrap().result = Some(serde_json::json!({ "findings": 2 }));
    assert_eq!(audit.findings()[0].code, "audit_found");
}
