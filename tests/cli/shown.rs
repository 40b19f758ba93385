//! What is shown while an import runs, and what never is.

use crate::common::cli::{Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};

/// Imports on a terminal, as `script` gives one.
fn on_a_terminal(words: &str, environment: &[(&str, &str)]) -> String {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    home.write("in.csv", data::clean(30_000, 1));
    let line = format!("script -qec 'enlist import in.csv --list x --batch-size 500 {words}' /dev/null");
    let mut bash = home.bash(&db, &line).env("TERM", "xterm");
    for (name, value) in environment {
        bash = bash.env(name, value);
    }
    bash.run().expect(0).text()
}

#[test]
fn a_terminal_shows_a_bar_unless_it_is_switched_off() {
    let shown = on_a_terminal("", &[]);
    assert!(shown.contains("[=") && shown.contains(" rows, ") && shown.contains(" of "), "no bar: {shown}");
    assert!(shown.contains("30,000 rows"), "no summary: {shown}");
    for words in ["--no-progress", "-q"] {
        let shown = on_a_terminal(words, &[]);
        assert!(!shown.contains("[=") && !shown.contains("\u{1b}[2K"), "{words} shows a bar: {shown}");
    }
    assert!(on_a_terminal("-q", &[]).trim().is_empty());
    assert!(!on_a_terminal("", &[("TERM", "dumb")]).contains('\u{1b}'), "a dumb terminal gets escapes");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    let error = |words: &str, no_color: &str| {
        let line = format!("script -qec 'enlist --database-url sqlite:none.db lists {words}' /dev/null");
        home.bash(&db, &line).env("TERM", "xterm").env("NO_COLOR", no_color).run().text()
    };
    assert!(error("", "").contains("\u{1b}[1;31merror:"), "{}", error("", ""));
    assert!(!error("", "1").contains('\u{1b}'), "{}", error("", "1"));
    assert!(!error("--color never", "").contains('\u{1b}'));
    assert!(error("--color always", "1").contains('\u{1b}'));
    let apart = home.bare().args(["--database-url", "sqlite:none.db", "lists"]).run().expect(2);
    assert!(!apart.stderr.contains('\u{1b}'), "{}", apart.told());
    for words in [&["--help"][..], &["import", "--nope"], &["import", "--help"]] {
        let output = home.bare().args(words).run();
        assert!(!output.told().contains('\u{1b}'), "{}", output.told());
    }
}

/// Fails when anything of a row of `csv` is on standard error.
fn assert_discreet(output: &Output, csv: &str, kept: &[&str]) {
    for cell in csv.lines().skip(1).flat_map(|line| line.split(',')) {
        let cell = cell.trim_matches('"').trim();
        if cell.chars().count() >= 4 && !kept.contains(&cell) {
            assert!(!output.stderr.contains(cell), "'{cell}' is shown: {}", output.told());
        }
    }
}

both! {
    fn nothing_of_a_row_is_ever_logged(db: Db) {
        let home = Home::new();
        let mut csv = String::from("phone,name\n");
        for k in 0..300 {
            csv += &format!("{},Gizli Kişi{k}\n", data::phone(k));
        }
        csv += "905320000011 dahili 5,Gizli Kişi\n053200000,Gizli Kişi\n+9999999999999,Gizli Kişi\n05x20000011,Gizli Kişi\n";
        home.write("in.csv", &csv);
        for verbose in ["-v", "-vv", "-vvvv"] {
            for format in ["text", "json"] {
                let line = ["import", "in.csv", "--list", "x", "--region", "TR", "--again", "--batch-size", "20", "--json"];
                let output = home
                    .enlist(&db)
                    .args(line)
                    .args([verbose, "--log-format", format])
                    .env("RUST_LOG", "trace,rlibphonenumber=trace")
                    .run()
                    .expect(3);
                assert_discreet(&output, &csv, &[]);
                assert!(!output.stderr.contains("rlibphonenumber"), "{}", output.told());
            }
        }
        let stop = home.enlist(&db).args(["opt-out", "--list", "x", "-vv", "--json", "--region", "TR"]);
        let output = stop.args([data::phone(7).as_str(), "05x20000011"]).env("RUST_LOG", "trace").run().expect(3);
        assert_discreet(&output, &csv, &[]);
        assert!(!output.told().replace(&data::phone(7), "").contains("05x20000011\""), "{}", output.told());
        home.enlist(&db).args(["rejects", "last", "-o", "r.csv", "-vv"]).run().expect(0);
    }

    fn off_a_terminal_a_short_import_tells_its_end_only(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::clean(20_000, 1));
        let import = |words: &[&str]| {
            home.enlist(&db).args(["import", "in.csv", "--list", "x", "--batch-size", "200", "--again"]).args(words).run().expect(0)
        };
        let output = import(&[]);
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert!(lines[0].starts_with("database: ") && lines[1].contains("done after"), "{}", output.told());
        assert!(output.stdout.is_empty(), "{}", output.told());
        assert!(import(&["-q"]).stderr.is_empty());
        let quiet = import(&["-q", "--json"]);
        assert!(quiet.stderr.is_empty() && quiet.json()["state"] == "done", "{}", quiet.told());
    }
}

both! {
    fn a_refused_row_is_named_in_the_log_with_its_phone_masked_unless_asked_otherwise(db: Db) {
        let home = Home::new();
        let csv = format!("phone,name\n{},Gizli Kişi\n05x20000011,Gizli Kişi\n", data::phone(1));
        home.write("in.csv", &csv);
        let log = |words: &[&str]| {
            let line = ["import", "in.csv", "--list", "x", "--create-list", "--region", "TR", "--again", "--log-format", "json"];
            home.enlist(&db).args(line).args(words).run().expect(3)
        };
        for words in [&[][..], &["--log-pii"], &["-v", "--log-pii"], &["-vv"]] {
            assert_discreet(&log(words), &csv, &[]);
        }
        assert!(!log(&["-v", "--log-pii"]).stderr.contains("refused a row"));
        for (words, phone) in [(&["-vv"][..], "05x*****11"), (&["-vv", "--log-pii"], "05x20000011")] {
            let output = log(words);
            let line = output.stderr.lines().find(|line| line.contains("refused a row")).unwrap_or_else(|| panic!("{}", output.told()));
            for part in ["\"line\":3", "phone_not_a_number", phone] {
                assert!(line.contains(part), "'{part}' is not in {line}");
            }
            // What was taken is nobody's business in either case.
            assert!(!output.stderr.contains(&data::phone(1)) && !output.stderr.contains("Gizli"), "{}", output.told());
        }
    }
}
