//! Several processes at once: the table is as if one had run.

use std::fmt::Write;
use std::time::Duration;

use crate::common::cli::{Enlist, Home, Output, Running};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::halt::Halted;
use crate::common::oracle::Snapshot;
use crate::common::wait::wait_until;

const LIST: &str = "at once";
const DEADLINE: Duration = Duration::from_secs(180);
const PROCESSES: usize = 5;

/// `import FILE` into the list, in small batches so that it takes a while.
fn import(home: &Home, db: &Db, file: &str, writers: &str) -> Enlist {
    home.enlist(db).args(["import", file, "--list", LIST, "--create-list", "--json"]).args([
        "--batch-size",
        "250",
        "--writers",
        writers,
    ])
}

/// The file in which every kind of row occurs, and what an import of it leaves that runs alone.
fn alone(engine: Engine) -> (String, Snapshot) {
    let csv = data::messy(25_000, 3);
    let (home, db) = (Home::new(), Db::fresh(engine));
    home.write("input.csv", &csv);
    let output = import(&home, &db, "input.csv", "2").args(["--region", "TR"]).run().expect(3);
    let snapshot = Snapshot::take(&home, &db, LIST, &output);
    (csv, snapshot)
}

fn end(all: Vec<Running>) -> Vec<Output> {
    all.into_iter().map(|running| running.wait(DEADLINE)).collect()
}

fn is_replayed(output: &Output) -> bool {
    output.json()["replayed"] == true
}

#[track_caller]
fn check_one_run(home: &Home, db: &Db, winner: &Output, expected: &Snapshot) {
    assert_eq!(winner.count("this_run/rows"), winner.count("rows"), "{}", winner.told());
    assert_eq!(winner.count("attempt"), 1, "{}", winner.told());
    Snapshot::take(home, db, LIST, winner).assert_same(expected, "several at once");
    assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs"), Some(1));
    assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM job_attempts"), Some(1));
    let kept = "SELECT CAST(recipient_count AS BIGINT) FROM lists";
    assert_eq!(db.number(kept), Some(winner.count("inserted")));
}

both! {
    fn of_five_that_import_one_file_one_works_and_four_are_told_so(db: Db) {
        let (csv, expected) = alone(db.engine);
        let home = Home::new();
        home.write("input.csv", &csv);
        let start = || import(&home, &db, "input.csv", "2").args(["--region", "TR"]).spawn();
        let outputs = end((0..PROCESSES).map(|_| start()).collect());
        let mut winner = None;
        for output in outputs {
            match output.code {
                75 => assert_eq!(output.error().as_deref(), Some("held"), "{}", output.told()),
                3 if is_replayed(&output) => assert_eq!(output.count("this_run/rows"), 0, "{}", output.told()),
                3 => assert!(winner.replace(output).is_none(), "two imported"),
                _ => panic!("{}", output.told()),
            }
        }
        check_one_run(&home, &db, &winner.expect("one imported"), &expected);
    }

    fn of_five_that_wait_one_works_and_all_have_its_result(db: Db) {
        let (csv, expected) = alone(db.engine);
        let home = Home::new();
        home.write("input.csv", &csv);
        let start =
            || import(&home, &db, "input.csv", "2").args(["--region", "TR", "--wait", "--max-rejects", "90%"]).spawn();
        let outputs = end((0..PROCESSES).map(|_| start()).collect());
        let mut winner = None;
        for output in outputs {
            let output = output.expect(0);
            assert_eq!(output.json()["rows"], expected.counts["rows"], "{}", output.told());
            if !is_replayed(&output) {
                assert!(winner.replace(output).is_none(), "two imported");
            }
        }
        check_one_run(&home, &db, &winner.expect("one imported"), &expected);
    }

    fn whoever_waits_for_a_killed_import_finishes_it(db: Db) {
        let (csv, expected) = alone(db.engine);
        let home = Home::new();
        home.write("input.csv", &csv);
        let import = || import(&home, &db, "input.csv", "2").args(["--region", "TR", "--wait", "--max-rejects", "90%"]);
        let mut first = import().spawn();
        wait_until("the first commits", DEADLINE, || db.committed_rows() > 0);
        let others: Vec<_> = (0..3).map(|_| import().spawn()).collect();
        let told = |other: &Running| other.stderr_so_far().contains("waiting for it");
        wait_until("the others wait", DEADLINE, || others.iter().all(told) || first.ended());
        assert!(first.kill9(), "it was done before the others waited: {}", first.stderr_so_far());
        let outputs = end(others);
        let workers: Vec<_> = outputs.iter().filter(|output| !is_replayed(output)).collect();
        assert_eq!(workers.len(), 1, "not exactly one went on");
        assert!(workers[0].count("resumed_rows") > 0, "{}", workers[0].told());
        for output in &outputs {
            assert_eq!(output.code, 0, "{}", output.told());
            Snapshot::take(&home, &db, LIST, output).assert_same(&expected, "after the first was killed");
        }
    }

    fn other_settings_for_a_file_in_work_are_refused_by_name(db: Db) {
        let home = Home::new();
        home.write("input.csv", data::clean(1_000, 1));
        let greek = || import(&home, &db, "input.csv", "1").args(["--region", "GR"]);
        let turkish = || import(&home, &db, "input.csv", "1").args(["--region", "TR"]);
        let halted = Halted::after(turkish(), &db, 1, 250);
        let check = |output: Output| {
            assert_eq!(output.error().as_deref(), Some("settings_changed"), "{}", output.told());
            let error = output.json()["error"].clone();
            let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
            assert!(text("message").contains("region 'TR'") && text("message").contains("'GR'"), "{}", output.told());
            assert!(text("hint").contains("--continue") && text("hint").contains("--again"), "{}", output.told());
        };
        check(greek().run().expect(2));
        let again = greek().arg("--again").run().expect(75);
        assert_eq!(again.error().as_deref(), Some("held"), "{}", again.told());
        halted.kill(&db);
        check(greek().run().expect(2));
        let done = turkish().run().expect(0);
        assert_eq!((done.count("inserted"), done.count("resumed_rows")), (1_000, 250), "{}", done.told());
        // A finished import is no reason to refuse the file under other settings.
        let other = greek().run();
        assert_eq!(other.json()["replayed"], false, "{}", other.told());
    }
}

/// Rows of `phones`, each `times` times at scattered places, with names that tell file and row.
fn overlapping(mark: &str, phones: std::ops::Range<usize>, times: usize, seed: u64) -> String {
    let mut rows: Vec<usize> = phones.flat_map(|k| std::iter::repeat_n(k, times)).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut rows);
    let mut text = String::from("phone,name,file\n");
    for (row, k) in rows.into_iter().enumerate() {
        // Half of the names are the same in both files.
        let name = if k % 2 == 0 { format!("same {k}") } else { format!("{mark} {row}") };
        let _ = writeln!(text, "{},{name},{}", data::phone(k), if k % 4 == 0 { "both" } else { mark });
    }
    text
}

/// The later job's last row of each phone, and the earlier job's where the later says nothing.
fn expected_names(first: &str, second: &str) -> std::collections::BTreeMap<String, String> {
    let mut names = data::last_names(first);
    names.extend(data::last_names(second));
    names
}

fn exported_names(home: &Home, db: &Db) -> std::collections::BTreeMap<String, String> {
    let export = home.enlist(db).args(["export", "--list", LIST, "--format", "jsonl"]).run().expect(0).text();
    let parse = |line: &str| -> (String, String) {
        let value: serde_json::Value = serde_json::from_str(line).expect("a JSON object a line");
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        (text("phone"), text("name"))
    };
    export.lines().map(parse).collect()
}

both! {
    fn two_files_at_once_into_one_list_both_finish_and_the_later_job_stands(db: Db) {
        let home = Home::new();
        let (a, b) = (overlapping("a", 0..3_000, 3, 1), overlapping("b", 1_500..4_500, 3, 2));
        home.write("a.csv", &a);
        home.write("b.csv", &b);
        home.enlist(&db).arg("migrate").run().expect(0);
        let start = |file: &str| import(&home, &db, file, "4").args(["--region", "TR"]).spawn();
        let running = vec![start("a.csv"), start("b.csv"), start("a.csv"), start("b.csv")];
        let outputs = end(running);
        let mut done = Vec::new();
        for output in outputs {
            if output.code == 75 {
                assert_eq!(output.error().as_deref(), Some("held"), "{}", output.told());
            } else {
                done.push(output.expect(0));
            }
        }
        let jobs = db.texts("SELECT CAST(source AS TEXT) FROM jobs ORDER BY id");
        assert_eq!(jobs.len(), 2);
        let first_is_a = jobs[0].as_deref().is_some_and(|source| source.ends_with("a.csv"));
        let (first, second) = if first_is_a { (&a, &b) } else { (&b, &a) };
        assert!(exported_names(&home, &db) == expected_names(first, second), "not as if the later job came last");
        for output in &done {
            Snapshot::take(&home, &db, LIST, output);
            assert_eq!(output.count("rows"), 9_000, "{}", output.told());
        }
        assert_eq!(db.number("SELECT CAST(recipient_count AS BIGINT) FROM lists"), Some(4_500));
    }

    fn what_a_later_job_confirmed_is_not_changed_by_an_older_one(db: Db) {
        let home = Home::new();
        let (k, other) = (data::phone(1), data::phone(2));
        // The older file says at first what the newer says, and something else at its end.
        let fill: String = (10..260).map(|n| format!("{},fill,x\n", data::phone(n))).collect();
        home.write("old.csv", format!("phone,name,file\n{k},agreed,x\n{fill}{k},older,y\n{other},older,y\n"));
        home.write("new.csv", format!("phone,name,file\n{k},agreed,x\n"));
        let old = || import(&home, &db, "old.csv", "1").args(["--region", "TR"]);
        let halted = Halted::after(old(), &db, 1, 250);
        let new = import(&home, &db, "new.csv", "4").args(["--region", "TR"]).run().expect(0);
        assert_eq!(new.count("unchanged"), 1, "{}", new.told());
        let done = halted.finish().expect(0);
        assert_eq!((done.count("inserted"), done.count("stale")), (252, 1), "{}", done.told());
        let names = exported_names(&home, &db);
        assert_eq!((names[&k].as_str(), names[&other].as_str()), ("agreed", "older"));
    }
}
