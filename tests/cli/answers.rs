//! What the commands answer: help, one JSON line each, exit codes.

use std::os::unix::fs::PermissionsExt;

use crate::common::cli::{Home, SECRET};
use crate::common::data;
use crate::common::engine::{Db, Engine};

const COMMANDS: [&str; 13] = [
    "import",
    "export",
    "lists",
    "jobs",
    "rejects",
    "profiles",
    "opt-out",
    "opt-in",
    "migrate",
    "doctor",
    "config",
    "explain",
    "completions",
];

#[test]
fn every_command_has_help_with_examples() {
    let home = Home::new();
    let all = home.bare().arg("--help").run().expect(0).text();
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "'{command}' is not in the list of commands: {all}");
        for flag in ["--help", "-h"] {
            let output = home.bare().args([command, flag]).run().expect(0);
            assert!(output.stderr.is_empty(), "{}", output.told());
            let text = output.text();
            let examples = text.split("Example").nth(1).unwrap_or_default();
            assert!(examples.contains(&format!("  enlist {command}")), "no example of '{command}': {text}");
        }
    }
    for steer in ["show", "cancel", "pause", "resume", "retry"] {
        home.bare().args(["jobs", steer, "--help"]).run().expect(0);
    }
    home.bare().args(["lists", "create", "--help"]).run().expect(0);
}

both! {
    fn every_command_answers_json_with_one_line_that_has_the_common_fields(db: Db) {
        let home = Home::new();
        home.write("in.csv", format!("{}bad,x,,,\n", data::clean(5, 1)));
        home.write("stop.txt", format!("{}\n", data::phone(3)));
        let one = data::phone(1);
        let lines: [&[&str]; 26] = [
            &["migrate"],
            &["import", "in.csv", "--list", "x", "--create-list"],
            &["import", "in.csv", "--list", "x"],
            &["export", "--list", "x", "-o", "out.csv"],
            &["lists"],
            &["lists", "create", "y"],
            &["lists", "create", "y"],
            &["jobs"],
            &["jobs", "--state", "done"],
            &["jobs", "show", "last"],
            &["jobs", "cancel", "last"],
            &["rejects", "last"],
            &["rejects", "last", "-o", "r.csv"],
            &["opt-out", "--list", "x", &one],
            &["opt-out", "--list", "x", "--file", "stop.txt"],
            &["opt-in", "--list", "x", &one],
            &["profiles", "save", "p", "--region", "TR"],
            &["profiles"],
            &["profiles", "show", "p"],
            &["profiles", "delete", "p"],
            &["doctor"],
            &["config"],
            &["explain", "phone_invalid"],
            &["explain"],
            &["completions", "bash"],
            &["export", "--list", "x"],
        ];
        for line in lines {
            let output = home.enlist(&db).args(line).arg("--json").run();
            assert_eq!(output.text().lines().count(), 1, "{}", output.told());
            let json = output.json();
            assert_eq!(json["schema"], 1, "{}", output.told());
            assert_eq!(json["exit_code"], output.code, "{}", output.told());
            assert!(json["retryable"].is_boolean(), "{}", output.told());
            assert_eq!(json["error"].is_null(), matches!(output.code, 0 | 3), "{}", output.told());
        }
    }

    fn the_object_of_an_import_has_the_fields_of_the_contract_in_order(db: Db) {
        const FIELDS: [&str; 25] = [
            "schema", "job", "list", "list_created", "state", "rows", "inserted", "updated", "unchanged", "stale",
            "duplicates", "rejected", "blank", "opted_out", "resumed_rows", "this_run", "replayed", "attempt",
            "elapsed_ms", "rejects_file", "duplicates_file", "warnings", "exit_code", "retryable", "error",
        ];
        let home = Home::new();
        home.write("in.csv", data::clean(5, 1));
        home.write("other.csv", "name\nx\n");
        let import = |name: &str| home.enlist(&db).args(["import", name, "--list", "x", "--json"]).run();
        for output in [import("in.csv"), import("in.csv"), import("other.csv"), import("none.csv")] {
            let text = output.text();
            let mut rest = text.as_str();
            for field in FIELDS {
                let name = format!("\"{field}\":");
                let at = rest.find(&name).unwrap_or_else(|| panic!("'{field}' is missing or too early: {}", output.told()));
                rest = &rest[at + name.len()..];
            }
            assert_eq!(output.json().as_object().unwrap().len(), FIELDS.len(), "{}", output.told());
            assert_eq!(output.json()["list"], "x");
        }
    }

    fn each_exit_code_says_what_happened(db: Db) {
        let home = Home::new();
        home.write("good.csv", data::clean(20, 1));
        home.write("some.csv", format!("phone\n{}\nbad\n", data::phone(1)));
        home.write("bad.csv", "phone\nbad\nworse\n\n");
        let import = |words: &[&str]| home.enlist(&db).args(["import", "--list", "x", "--json"]).args(words).run();
        assert_eq!(import(&["good.csv"]).expect(0).json()["state"], "done");
        assert_eq!(import(&["good.csv"]).expect(0).json()["replayed"], true);
        import(&["some.csv"]).expect(3);
        import(&["some.csv"]).expect(3);
        import(&["some.csv", "--max-rejects", "1"]).expect(0);
        let nothing = import(&["bad.csv"]).expect(1).json();
        assert_eq!((&nothing["state"], &nothing["error"]), (&"done".into(), &serde_json::Value::Null));
        assert_eq!(nothing["warnings"][0]["code"], "nothing_stored", "{nothing}");
        assert_eq!((&nothing["rejected"], &nothing["blank"]), (&2.into(), &1.into()));
        import(&["bad.csv", "--max-rejects", "100%"]).expect(1);
        home.write("header.csv", "phone,name\n");
        assert_eq!(import(&["header.csv"]).expect(0).json()["warnings"][0]["code"], "no_rows");
        home.enlist(&db).args(["doctor", "--json"]).run().expect(0);
        home.enlist(&db).args(["lists", "--list"]).run().expect(2);
    }

    fn rejects_beyond_the_limit_stop_the_import_until_the_limit_is_raised(db: Db) {
        let home = Home::new();
        let mut csv = String::from("phone,name\n");
        for k in 0..4_000 {
            csv += &if k % 20 == 19 { format!("bad {k},x\n") } else { format!("{},x\n", data::phone(k)) };
        }
        home.write("in.csv", csv);
        let import = |limit: &str| {
            let line = ["import", "in.csv", "--list", "x", "--batch-size", "100", "--json", "--rejects", "r.csv"];
            home.enlist(&db).args(line).args(["--max-rejects", limit]).run()
        };
        for limit in ["50", "4.9%", "0"] {
            let output = import(limit);
            output.stopped(4, "too_many_rejects");
            assert_eq!(output.json()["state"], "interrupted", "{}", output.told());
            assert!(output.count("rejected") <= 50, "{}", output.told());
            let lines = String::from_utf8(home.read("r.csv")).unwrap().lines().count();
            assert_eq!(lines, usize::try_from(output.count("rejected")).unwrap() + 1, "the reject file after {limit}");
        }
        home.enlist(&db).args(["doctor", "--json"]).run().expect(3);
        let output = import("5%").expect(0);
        assert!(output.count("resumed_rows") > 0, "{}", output.told());
        assert_eq!((output.count("rows"), output.count("rejected")), (4_000, 200), "{}", output.told());
        assert_eq!(output.json()["state"], "done");
        home.enlist(&db).args(["doctor", "--json"]).run().expect(0);
        import("0").expect(0);
    }

    fn opt_outs_from_a_file_hold_against_an_import_and_can_be_taken_back(db: Db) {
        let home = Home::new();
        home.enlist(&db).arg("migrate").run().expect(0);
        let made = home.enlist(&db).args(["lists", "create", "x", "--json"]).run().expect(0);
        assert_eq!(made.json()["created"], true, "{}", made.told());
        let (one, two, three) = (data::phone(1), data::national(2), data::phone(3));
        home.write("stop.txt", format!("\u{feff}{one}\r\n\r\n0{two}\nno phone\n{three}\n{one}\n"));
        let stop = ["opt-out", "--list", "x", "--region", "TR", "--file", "stop.txt", "--json"];
        let output = home.enlist(&db).args(stop).run().expect(3);
        assert_eq!((output.count("created"), output.count("refused")), (3, 1), "{}", output.told());
        home.write("in.csv", data::clean(10, 1));
        let import = home.enlist(&db).args(["import", "in.csv", "--list", "x", "--json"]).run().expect(0);
        assert_eq!(import.count("opted_out"), 3, "{}", import.told());
        let back = home.enlist(&db).args(["opt-in", "--list", "x", &one, "--json"]).run().expect(0);
        assert_eq!(back.count("changed"), 1, "{}", back.told());
        let export = home.enlist(&db).args(["export", "--list", "x", "--format", "jsonl"]).run().expect(0).text();
        let opted_out: Vec<&str> = export.lines().filter(|line| line.contains("\"opted_out\"")).collect();
        assert_eq!(opted_out.len(), 2, "{export}");
        assert!(!opted_out.iter().any(|line| line.contains(&one)), "{export}");
        for line in [&["opt-out", "--list", "nowhere", &one][..], &["opt-out", "--list", "x", "--file", "none.txt"]] {
            let output = home.enlist(&db).args(line).arg("--json").run();
            assert!(output.error().is_some() && output.code != 0, "{}", output.told());
            assert!(!output.told().contains(&format!("{one}'")), "{}", output.told());
        }
    }

    fn a_pipe_that_closes_early_ends_a_command_quietly(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::clean(30_000, 1));
        home.enlist(&db).args(["import", "in.csv", "--list", "x"]).run().expect(0);
        for k in 0..40 {
            home.write("small.csv", data::clean(1, 100 + k).replace("user", &format!("user{k}")));
            home.enlist(&db).args(["import", "small.csv", "--list", "x", "-q"]).run().expect(0);
        }
        home.write("bad.csv", format!("phone\n{}\n{}", data::phone(1), "no number\n".repeat(20_000)));
        home.enlist(&db).args(["import", "bad.csv", "--list", "x"]).run().expect(3);
        for command in ["jobs", "export --list x", "export --list x --format jsonl", "rejects last", "explain"] {
            let line = format!("enlist -q {command} | head -1; echo \"${{PIPESTATUS[0]}} ${{PIPESTATUS[1]}}\" >&2");
            let output = home.bash(&db, &line).run().expect(0);
            assert_eq!(output.stderr.trim(), "0 0", "{command}: {}", output.told());
            assert_eq!(output.text().lines().count(), 1, "{command}: {}", output.told());
            // Nobody reads at all.
            let line = format!("enlist -q {command} | true; echo \"${{PIPESTATUS[0]}}\" >&2");
            assert_eq!(home.bash(&db, &line).run().expect(0).stderr.trim(), "0", "{command}");
        }
        let full = home.bash(&db, "enlist -q export --list x > /dev/full; echo $? >&2").run();
        assert!(full.stderr.starts_with("error: ") && full.stderr.ends_with("\n4\n"), "{}", full.told());
    }
}

#[test]
fn every_code_that_exists_is_explained() {
    let home = Home::new();
    let all = home.bare().args(["explain", "--json"]).run().expect(0).json();
    let explained: Vec<&str> =
        all["codes"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
    let faults = enlist::fault::Code::ALL.iter().map(|code| code.as_str());
    let reasons = enlist::reject::Reason::ALL.iter().map(|reason| reason.code());
    for code in faults.chain(reasons) {
        assert!(explained.contains(&code), "'{code}' is not in the overview");
        let text = home.bare().args(["explain", code]).run().expect(0).text();
        assert!(text.starts_with(code) && text.contains("What to do: "), "{text}");
    }
    home.bare().args(["explain", "phone_invald", "--json"]).run().refused(2, "usage");
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let home = Home::new();
    for (shell, sign) in [("bash", "complete "), ("zsh", "#compdef enlist"), ("fish", "complete -c enlist")] {
        let text = home.bare().args(["completions", shell]).run().expect(0).text();
        assert!(text.contains(sign) && text.contains("opt-out"), "{shell}: {text}");
    }
    let db = Db::fresh(Engine::Sqlite);
    let output = home.bash(&db, "source <(enlist completions bash) && complete -p enlist").run().expect(0);
    assert!(output.text().contains("enlist"), "{}", output.told());
    home.bare().args(["completions", "tcsh-ish", "--json"]).run().refused(2, "usage");
}

#[test]
fn the_configuration_is_shown_with_its_origins_and_without_the_password() {
    let home = Home::new();
    home.write("config/enlist/enlist.toml", "region = 'gr'\nwriters = 3\n");
    let url = format!("postgres://ayse:{SECRET}@db.example:6543/lists");
    for style in [&["--json"][..], &[]] {
        let output = home.bare().env("ENLIST_DATABASE_URL", &url).arg("config").args(style).run().expect(0);
        assert!(!output.told().contains(SECRET), "{}", output.told());
        for shown in ["ayse@db.example:6543/lists", "ENLIST_DATABASE_URL", "GR", "enlist.toml", "default"] {
            assert!(output.text().contains(shown), "no '{shown}': {}", output.told());
        }
    }
    let json = home.bare().env("ENLIST_DATABASE_URL", &url).args(["config", "--json"]).run().expect(0).json();
    let origin = |name: &str| json["settings"][name]["origin"].as_str().unwrap_or_default().to_owned();
    assert!(origin("region").ends_with("enlist.toml") && origin("writers").ends_with("enlist.toml"), "{json}");
    assert_eq!(origin("batch_size"), "default");
}

#[test]
fn exported_files_are_for_their_owner_alone() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    home.write("in.csv", data::clean(5, 1));
    home.enlist(&db).args(["import", "in.csv", "--list", "x"]).run().expect(0);
    home.enlist(&db).args(["export", "--list", "x", "-o", "out.csv"]).run().expect(0);
    let mode = std::fs::metadata(home.path().join("out.csv")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}
