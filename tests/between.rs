//! What happens between two runs of an import, or during one: other imports, opt-outs, a person's orders.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::Db;
use crate::common::halt::Halted;
use crate::common::oracle::Snapshot;

const LIST: &str = "between";

/// A list of `phones` in this order, `mark` in the names and in one attribute.
fn csv(mark: &str, phones: impl IntoIterator<Item = usize>) -> String {
    let rows = phones.into_iter().map(|k| format!("{},{mark} {k},{mark}\n", data::phone(k)));
    format!("phone,name,file\n{}", rows.collect::<String>())
}

/// One writer and batches of 50 rows: where a crash point strikes is certain.
fn import(home: &Home, db: &Db, file: &str) -> Enlist {
    home.enlist(db).args(["import", file, "--list", LIST, "--create-list", "--region", "TR", "--json"]).args([
        "--batch-size",
        "50",
        "--writers",
        "1",
    ])
}

/// Runs it; it dies after its `parts`th commit.
#[track_caller]
fn kill_after(import: Enlist, db: &Db, parts: u32) {
    let point = format!("import::after_commit={}*off->return", parts - 1);
    let output = import.failpoint(&point).run();
    assert_eq!(output.signal, Some(6), "{}", output.told());
    db.settle();
}

/// A command that must work.
fn enlist(home: &Home, db: &Db, line: &[&str]) -> Output {
    home.enlist(db).args(line).run().expect(0)
}

/// What is stored, by phone.
fn stored(home: &Home, db: &Db) -> BTreeMap<String, Value> {
    let export = enlist(home, db, &["export", "--list", LIST, "--format", "jsonl"]).text();
    let parse = |line: &str| -> (String, Value) {
        let value: Value = serde_json::from_str(line).expect("a JSON object a line");
        (value["phone"].as_str().unwrap_or_default().to_owned(), value)
    };
    export.lines().map(parse).collect()
}

/// The file that each phone's values come from.
fn marks(stored: &BTreeMap<String, Value>, phones: std::ops::Range<usize>) -> Vec<&str> {
    let mark = |k| stored[&data::phone(k)]["attributes"]["file"].as_str().unwrap_or("none");
    let mut marks: Vec<&str> = phones.map(mark).collect();
    marks.dedup();
    marks
}

fn state(home: &Home, db: &Db, job: &str) -> String {
    let job = enlist(home, db, &["jobs", "show", job, "--json"]).json();
    job["state"].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn check(output: &Output, figures: &[(&str, i64)]) {
    for (name, expected) in figures {
        assert_eq!(output.count(name), *expected, "{name}: {}", output.told());
    }
    let parts = ["inserted", "updated", "unchanged", "stale", "duplicates", "rejected"].map(|name| output.count(name));
    assert_eq!(output.count("rows"), parts.iter().sum::<i64>(), "{}", output.told());
}

both! {
    fn an_import_that_is_finished_after_a_later_one_only_adds_what_is_missing(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..400));
        home.write("b.csv", csv("b", 100..300));
        kill_after(import(&home, &db, "a.csv"), &db, 4);
        let b = import(&home, &db, "b.csv").run().expect(0);
        check(&b, &[("rows", 200), ("inserted", 100), ("updated", 100)]);
        let a = import(&home, &db, "a.csv").run().expect(0);
        check(&a, &[("rows", 400), ("resumed_rows", 200), ("inserted", 300), ("stale", 100)]);
        let stored = stored(&home, &db);
        assert_eq!(stored.len(), 400);
        let parts = [0..100, 100..300, 300..400].map(|range| marks(&stored, range));
        assert_eq!(parts, [["a"], ["b"], ["a"]]);
        // B finished before A did, and nothing came since A.
        assert_eq!(import(&home, &db, "a.csv").run().expect(0).json()["replayed"], true);
    }

    fn an_older_import_never_replaces_what_a_later_one_only_confirmed(db: Db) {
        let home = Home::new();
        // Both files agree on phone 1 at first; A says something else about it at its end.
        let rows = csv("a", 0..100);
        home.write("a.csv", format!("{rows}{},changed,changed\n", data::phone(1)));
        home.write("b.csv", csv("a", 0..100));
        kill_after(import(&home, &db, "a.csv"), &db, 1);
        check(&import(&home, &db, "b.csv").run().expect(0), &[("unchanged", 50), ("inserted", 50)]);
        check(&import(&home, &db, "a.csv").run().expect(0), &[("rows", 101), ("inserted", 50), ("stale", 51)]);
        assert_eq!(marks(&stored(&home, &db), 0..100), ["a"]);
    }

    fn a_file_is_imported_again_after_another_and_answered_after_itself(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..100));
        home.write("b.csv", csv("b", 0..100));
        let first = import(&home, &db, "a.csv").run().expect(0);
        check(&first, &[("inserted", 100)]);
        let replay = import(&home, &db, "a.csv").run().expect(0);
        assert_eq!(replay.json()["replayed"], true, "{}", replay.told());
        assert_eq!(replay.count("job"), first.count("job"));
        check(&replay, &[("rows", 100), ("inserted", 100), ("this_run/rows", 0)]);
        check(&import(&home, &db, "b.csv").run().expect(0), &[("updated", 100)]);
        let last = import(&home, &db, "a.csv").run().expect(0);
        assert_eq!(last.json()["replayed"], false, "{}", last.told());
        check(&last, &[("rows", 100), ("updated", 100), ("this_run/rows", 100)]);
        let generation = format!("SELECT CAST(generation AS BIGINT) FROM jobs WHERE id = {}", last.count("job"));
        assert_eq!(db.number(&generation), Some(2));
        assert_eq!(marks(&stored(&home, &db), 0..100), ["a"]);
        assert_eq!(import(&home, &db, "a.csv").run().expect(0).json()["replayed"], true);
        assert_eq!(import(&home, &db, "b.csv").run().expect(0).json()["replayed"], false);
    }

    fn a_file_is_imported_again_after_another_that_was_not_finished(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..100));
        home.write("b.csv", csv("b", 0..100));
        import(&home, &db, "a.csv").run().expect(0);
        kill_after(import(&home, &db, "b.csv"), &db, 1);
        let again = import(&home, &db, "a.csv").run().expect(0);
        assert_eq!(again.json()["replayed"], false, "{}", again.told());
        assert_eq!(marks(&stored(&home, &db), 0..100), ["a"]);
        // B was begun before: it goes on and changes nothing any more.
        check(&import(&home, &db, "b.csv").run().expect(0), &[("rows", 100), ("updated", 50), ("stale", 50)]);
        assert_eq!(marks(&stored(&home, &db), 0..100), ["a"]);
    }

    fn an_opt_out_during_an_import_holds(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..300));
        let halted = Halted::after(import(&home, &db, "a.csv"), &db, 2, 100);
        let [before, later, absent] = [10, 250, 1_000].map(data::phone);
        let line = ["opt-out", "--list", LIST, &before, &later, &absent, "--json"];
        let opted = home.enlist(&db).args(line).run().expect(0);
        check_opt_out(&opted, 1, 2);
        let output = halted.finish().expect(0);
        // The third is in no file; the second was stored before its row came.
        check(&output, &[("rows", 300), ("inserted", 299), ("updated", 1), ("opted_out", 1)]);
        check_opted_out(&home, &db, &[&before, &later, &absent]);
        // Later runs keep it as well, and count both that the file names.
        let again = import(&home, &db, "a.csv").arg("--again").run().expect(0);
        check(&again, &[("unchanged", 300), ("opted_out", 2)]);
        check_opted_out(&home, &db, &[&before, &later, &absent]);
        enlist(&home, &db, &["opt-in", "--list", LIST, &later]);
        check_opted_out(&home, &db, &[&before, &absent]);
    }

    fn an_opt_out_between_a_kill_and_the_next_run_holds(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..300));
        kill_after(import(&home, &db, "a.csv"), &db, 2);
        let [before, later] = [10, 250].map(data::phone);
        enlist(&home, &db, &["opt-out", "--list", LIST, &before, &later]);
        check(&import(&home, &db, "a.csv").run().expect(0), &[("rows", 300), ("opted_out", 1)]);
        check_opted_out(&home, &db, &[&before, &later]);
    }

    fn again_begins_anew_and_joins_what_it_began(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..300));
        let first = import(&home, &db, "a.csv").run().expect(0);
        kill_after(import(&home, &db, "a.csv").arg("--again"), &db, 2);
        let second = import(&home, &db, "a.csv").arg("--again").run().expect(0);
        check(&second, &[("rows", 300), ("unchanged", 300), ("resumed_rows", 100), ("attempt", 2)]);
        assert_ne!(second.count("job"), first.count("job"));
        // Without --again the unfinished one is joined as well.
        kill_after(import(&home, &db, "a.csv").arg("--again"), &db, 2);
        let third = import(&home, &db, "a.csv").run().expect(0);
        check(&third, &[("rows", 300), ("unchanged", 300), ("resumed_rows", 100), ("attempt", 2)]);
        assert_eq!(db.number("SELECT CAST(max(generation) AS BIGINT) FROM jobs"), Some(3));
        assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs"), Some(3));
    }

    fn again_under_other_settings_replaces_what_was_begun(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..300));
        kill_after(import(&home, &db, "a.csv"), &db, 2);
        let other = import(&home, &db, "a.csv").args(["--type", "mobile", "--again"]).run().expect(0);
        check(&other, &[("rows", 300), ("resumed_rows", 0), ("unchanged", 100), ("inserted", 200)]);
        assert_eq!(state(&home, &db, "1"), "superseded");
        let gone = import(&home, &db, "a.csv").args(["--continue", "1"]).run().expect(2);
        assert_eq!(gone.error().as_deref(), Some("job_state"), "{}", gone.told());
    }

    fn continue_finishes_a_job_as_it_began(db: Db) {
        let home = Home::new();
        let text = csv("a", 0..200).replace("+90", "") + "05320000011,,\n2101234567,landline,a\n";
        home.write("a.csv", &text);
        let (other_home, other_db) = (Home::new(), Db::fresh(db.engine));
        other_home.write("a.csv", &text);
        let undisturbed = import(&other_home, &other_db, "a.csv").run().expect(3);
        let expected = Snapshot::take(&other_home, &other_db, LIST, &undisturbed);

        kill_after(import(&home, &db, "a.csv"), &db, 2);
        let other = ["--type", "mobile", "--blank", "clear", "--short-rows", "fill", "--map", "name=file"];
        let refused = import(&home, &db, "a.csv").args(other).run().expect(2);
        assert_eq!(refused.error().as_deref(), Some("settings_changed"), "{}", refused.told());
        let line = ["import", "a.csv", "--list", LIST, "--region", "GR", "--continue", "1", "--json"];
        let output = home.enlist(&db).args(line).args(other).args(["--batch-size", "7"]).run().expect(3);
        check(&output, &[("job", 1), ("resumed_rows", 100), ("rows", 202)]);
        Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "continued under other options");
    }

    fn a_running_import_that_is_cancelled_ends_and_can_go_on(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..20_000));
        let halted = Halted::and_slow(import(&home, &db, "a.csv"), &db, 2, 100);
        let asked = enlist(&home, &db, &["jobs", "cancel", "last", "--json"]);
        assert_eq!(asked.json()["state"], "running", "{}", asked.told());
        let cancelled = halted.finish().expect(4);
        assert_eq!(cancelled.error().as_deref(), Some("cancelled"), "{}", cancelled.told());
        assert_eq!(cancelled.json()["state"], "cancelled", "{}", cancelled.told());
        let committed = cancelled.count("rows");
        assert_eq!(committed, db.committed_rows());
        assert!((100..20_000).contains(&committed), "{}", cancelled.told());
        let done = import(&home, &db, "a.csv").run().expect(0);
        check(&done, &[("job", 1), ("resumed_rows", committed), ("rows", 20_000), ("inserted", 20_000)]);
        let again = home.enlist(&db).args(["jobs", "cancel", "1", "--json"]).run().expect(2);
        assert_eq!(again.error().as_deref(), Some("job_state"), "{}", again.told());
    }

    fn a_running_import_that_is_paused_waits_until_it_is_resumed(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..20_000));
        let halted = Halted::and_slow(import(&home, &db, "a.csv"), &db, 2, 100);
        enlist(&home, &db, &["jobs", "pause", "last"]);
        let paused = halted.finish().expect(75);
        assert_eq!(paused.error().as_deref(), Some("paused"), "{}", paused.told());
        assert_eq!(state(&home, &db, "1"), "paused");
        let committed = db.committed_rows();
        let held = import(&home, &db, "a.csv").run().expect(75);
        assert_eq!(held.error().as_deref(), Some("paused"), "{}", held.told());
        assert_eq!(db.committed_rows(), committed, "a paused job was worked on");
        enlist(&home, &db, &["jobs", "resume", "1"]);
        let done = import(&home, &db, "a.csv").run().expect(0);
        check(&done, &[("job", 1), ("resumed_rows", committed), ("rows", 20_000), ("inserted", 20_000)]);
    }

    fn an_order_that_its_holder_did_not_live_to_see_does_not_stop_the_next_run(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..20_000));
        let halted = Halted::after(import(&home, &db, "a.csv"), &db, 2, 100);
        enlist(&home, &db, &["jobs", "cancel", "last"]);
        halted.kill(&db);
        // Whoever runs it again wants it to go on, as after a cancel that was seen.
        let slow = import(&home, &db, "a.csv").failpoint("import::after_commit=sleep(10)");
        let done = slow.run().expect(0);
        check(&done, &[("job", 1), ("resumed_rows", 100), ("rows", 20_000)]);
    }

    fn an_order_for_a_job_whose_holder_is_dead_holds_at_once(db: Db) {
        let home = Home::new();
        home.write("a.csv", csv("a", 0..300));
        kill_after(import(&home, &db, "a.csv"), &db, 2);
        let answer = enlist(&home, &db, &["jobs", "cancel", "last", "--json"]);
        assert_eq!(answer.json()["state"], "cancelled", "{}", answer.told());
        kill_after(import(&home, &db, "a.csv"), &db, 1);
        let answer = enlist(&home, &db, &["jobs", "pause", "last", "--json"]);
        assert_eq!(answer.json()["state"], "paused", "{}", answer.told());
        enlist(&home, &db, &["jobs", "resume", "last"]);
        check(&import(&home, &db, "a.csv").run().expect(0), &[("job", 1), ("resumed_rows", 150), ("rows", 300)]);
    }

    fn an_older_version_never_replaces_a_newer_one_whichever_file_comes_first(db: Db) {
        let home = Home::new();
        let versioned = |mark: &str, day: u32, phones: std::ops::Range<usize>| {
            let row = |k| format!("{},{mark},{mark},2026-03-{day:02}\n", data::phone(k));
            format!("phone,name,file,changed\n{}", phones.map(row).collect::<String>())
        };
        home.write("new.csv", versioned("new", 20, 0..100));
        home.write("old.csv", versioned("old", 10, 50..150));
        home.write("plain.csv", csv("plain", 0..10));
        home.write("newest.csv", versioned("newest", 21, 0..150));
        let by = |file: &str| import(&home, &db, file).args(["--newer-by", "changed"]);
        // The newest is begun first and finished last.
        kill_after(by("newest.csv"), &db, 1);
        check(&by("new.csv").run().expect(0), &[("inserted", 50), ("stale", 50)]);
        check(&by("old.csv").run().expect(0), &[("inserted", 50), ("stale", 50)]);
        let stored_now = stored(&home, &db);
        let parts = [0..50, 50..100, 100..150].map(|range| marks(&stored_now, range));
        assert_eq!(parts, [["newest"], ["new"], ["old"]]);
        // A file without versions follows the order of the jobs.
        check(&import(&home, &db, "plain.csv").run().expect(0), &[("updated", 10)]);
        let done = by("newest.csv").run().expect(0);
        check(&done, &[("rows", 150), ("resumed_rows", 50), ("inserted", 50), ("updated", 100)]);
        let stored_now = stored(&home, &db);
        assert_eq!([0..10, 10..150].map(|range| marks(&stored_now, range)), [["plain"], ["newest"]]);
    }
}

#[track_caller]
fn check_opt_out(output: &Output, changed: i64, created: i64) {
    assert_eq!((output.count("changed"), output.count("created")), (changed, created), "{}", output.told());
}

/// Exactly these are opted out.
#[track_caller]
fn check_opted_out(home: &Home, db: &Db, phones: &[&str]) {
    let stored = stored(home, db);
    let mut expected: Vec<&str> = phones.to_vec();
    expected.sort_unstable();
    let out: Vec<&str> = stored.iter().filter(|(_, r)| r["status"] == "opted_out").map(|(p, _)| p.as_str()).collect();
    assert_eq!(out, expected);
}
