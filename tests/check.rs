//! `enlist check` tells what the import then does, and the signs of a wrong file stop it before it writes.

use crate::common::cli::Home;
use crate::common::data;

const COUNTS: [&str; 9] =
    ["rows", "inserted", "updated", "unchanged", "stale", "duplicates", "rejected", "blank", "opted_out"];

/// A list of `people` with the names that `name` gives.
fn named(people: std::ops::Range<usize>, name: impl Fn(usize) -> String) -> String {
    let rows: Vec<String> = people.map(|k| format!("{},{}\n", data::phone(k), name(k))).collect();
    format!("phone,name\n{}", rows.concat())
}

both! {
    fn a_check_tells_what_the_import_then_finds_and_writes_nothing(db: Db) {
        let home = Home::new();
        home.write("first.csv", data::messy(3_000, 1).as_bytes());
        home.write("second.csv", (data::messy(4_000, 2)).as_bytes());
        let run = |command: &str, file: &str| {
            home.enlist(&db).args([command, file, "--list", "people", "--region", "TR", "--json"]).args(["--rejects", &format!("{command}.csv"), "--max-changes", "100%"]).run()
        };
        run("import", "first.csv").expect(3);
        let out = home.enlist(&db).args(["export", "--list", "people", "--format", "jsonl"]).run().expect(0).text();
        let opted = out.lines().next().and_then(|line| line.split('"').nth(3)).expect("a phone").to_owned();
        home.enlist(&db).args(["opt-out", "--list", "people", &opted]).run().expect(0);
        let export = || home.enlist(&db).args(["export", "--list", "people", "--format", "jsonl"]).run().expect(0).text();
        let before = export();
        let checked = run("check", "second.csv").expect(3);
        assert_eq!(export(), before, "nothing was written");
        assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs"), Some(1));
        let imported = run("import", "second.csv").expect(3);
        for count in COUNTS {
            assert_eq!(checked.json().get(count), imported.json().get(count), "{count}");
        }
        assert!(imported.count("updated") > 0 && imported.count("inserted") > 0, "{}", imported.told());
        assert_eq!(home.read("check.csv"), home.read("import.csv"));
    }

    fn a_check_shows_how_the_file_is_read(db: Db) {
        let home = Home::new();
        home.write("a.csv", "Cep Telefonu;Ad Soyad;Şehir\n0532 000 00 11;Ayşe;İzmir\nyok;Can;\n".as_bytes());
        let run = home.enlist(&db).args(["check", "a.csv", "--list", "new", "--region", "TR"]).run().expect(3);
        let told = run.text();
        for part in ["delimiter", "; (found in the file)", "Cep Telefonu", "TR (as you said)", "Şehir",
            "+905320000011 Ayşe {\"Şehir\":\"İzmir\"}", "refused: phone_not_a_number", "a new list 'new'", "nothing was written"] {
            assert!(told.contains(part), "'{part}' is missing:\n{told}");
        }
    }

    fn a_file_whose_first_thousand_rows_are_refused_stops_before_it_writes(db: Db) {
        let home = Home::new();
        let rows: String = (0..1_500).map(|n| format!("user {n},{}\n", data::phone(n))).collect();
        home.write("swapped.csv", format!("phone,name\n{rows}").as_bytes());
        let import = |more: &[&str]| home.enlist(&db).args(["import", "swapped.csv", "--list", "people", "--json", "--batch-size", "10"]).args(more).run();
        let run = import(&[]).expect(4);
        assert_eq!(run.error().as_deref(), Some("too_many_rejects"));
        assert_eq!((run.count("rows"), db.committed_rows()), (0, 0), "{}", run.told());
        assert!(run.told().contains("1000 of them with phone_not_a_number in the column 'phone'"), "{}", run.told());
        let run = import(&["--max-rejects", "100%"]);
        assert_eq!((run.code, run.count("rejected")), (1, 1_500), "{}", run.told());
    }

    fn a_file_that_renames_nearly_everybody_stops_before_it_writes(db: Db) {
        let home = Home::new();
        let import = |file: &str, more: &[&str]| {
            home.enlist(&db).args(["import", file, "--list", "people", "--json", "--batch-size", "100"]).args(more).run()
        };
        home.write("right.csv", named(0..1_500, |k| format!("person {k}")).as_bytes());
        import("right.csv", &[]).expect(0);
        home.write("sorted.csv", named(0..1_500, |k| format!("person {}", (k + 7) % 1_500)).as_bytes());
        let run = import("sorted.csv", &[]).expect(4);
        assert_eq!((run.error().as_deref(), run.count("rows")), (Some("too_many_changes"), 0), "{}", run.told());
        assert_eq!(db.committed_rows(), 1_500);
        assert_eq!(import("sorted.csv", &["--max-changes", "100%"]).expect(0).count("updated"), 1_500);
        let checked = home.enlist(&db).args(["check", "right.csv", "--list", "people"]).run().expect(3).text();
        assert!(checked.contains("would stop: 1500 of the first 1500 known people would get another name"), "{checked}");
        home.write("half.csv", named(0..1_500, |k| if k % 3 == 0 { format!("new {k}") } else { format!("person {}", (k + 7) % 1_500) }).as_bytes());
        assert_eq!(import("half.csv", &[]).expect(0).count("updated"), 500);
    }
}

both! {
    fn an_import_that_is_only_tried_is_a_check(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::messy(500, 3));
        home.write("b.csv", data::clean(20, 3));
        home.enlist(&db).args(["import", "b.csv", "--list", "people"]).run().expect(0);
        let run = |command: &[&str], file: &str, more: &[&str]| {
            home.enlist(&db).args(command).args([file, "--list", "people", "--region", "TR"]).args(more).run()
        };
        for (file, list, exit) in [("a.csv", &[][..], 3), ("a.csv", &["--max-rejects", "100%"], 0), ("none.csv", &[], 1), ("b.csv", &["--set", "phone=1"], 2)] {
            let (check, tried) = (run(&["check"], file, list), run(&["import", "--dry-run"], file, list));
            assert_eq!((check.code, tried.code), (exit, exit), "{}{}", check.told(), tried.told());
            assert_eq!(check.text(), tried.text());
            let more: Vec<&str> = list.iter().copied().chain(["--json"]).collect();
            let json = |command: &[&str]| {
                let mut json = run(command, file, &more).json();
                json["elapsed_ms"] = 0.into();
                json
            };
            assert_eq!(json(&["check"]), json(&["import", "--dry-run"]));
        }
        assert_eq!((db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs"), db.committed_rows()), (Some(1), 20));
    }

    fn a_file_that_is_not_the_expected_one_is_refused_before_anything_is_made(db: Db) {
        let home = Home::new();
        home.write("a.csv", "phone,name\n+905320000011,Ayşe\n\n,,\nyok,Can\n");
        let import = |more: &[&str]| home.enlist(&db).args(["import", "a.csv", "--list", "new", "--json"]).args(more).run();
        let digest = "0".repeat(64);
        for more in [["--expect-rows", "3"], ["--expect-rows", "1"], ["--expect-sha256", &digest]] {
            let run = import(&more).expect(5);
            assert_eq!(run.error().as_deref(), Some("unexpected_input"), "{}", run.told());
        }
        let lists = home.enlist(&db).args(["lists", "--json"]).run().expect(0).json();
        assert_eq!(lists["lists"].as_array().map(Vec::len), Some(0), "{lists}");
        let sum = std::process::Command::new("sha256sum").arg(home.path().join("a.csv")).output().expect("sha256sum runs");
        let digest = String::from_utf8_lossy(&sum.stdout).split(' ').next().expect("a digest").to_uppercase();
        assert_eq!(import(&["--expect-rows", "2", "--expect-sha256", &digest]).expect(3).count("rows"), 2);
        assert_eq!(import(&["--expect-sha256", "12"]).expect(2).error().as_deref(), Some("usage"));
    }
}

#[test]
fn a_file_that_is_still_being_uploaded_is_waited_for() {
    use crate::common::engine::{Db, Engine};
    use crate::common::wait::let_pass;
    use std::io::Write;
    use std::time::Duration;

    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    home.write("a.csv", "phone,name\n");
    let running = home.enlist(&db).args(["import", "a.csv", "--list", "new", "--json", "--settle", "2s"]).spawn();
    let mut file = std::fs::File::options().append(true).open(home.path().join("a.csv")).expect("it is there");
    for k in 0..20 {
        assert!(let_pass(Duration::from_millis(150), || false));
        writeln!(file, "{},person {k}", data::phone(k)).expect("written");
    }
    let output = running.wait(Duration::from_secs(60)).expect(0);
    assert_eq!(output.count("inserted"), 20, "{}", output.told());
}
