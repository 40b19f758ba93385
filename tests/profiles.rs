//! Profiles: import options under a name, and that a job keeps what it began with.

use crate::common::cli::{Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};

fn profiles(home: &Home, db: &Db, words: &[&str]) -> Output {
    home.enlist(db).arg("profiles").args(words).arg("--json").run()
}

fn import(home: &Home, db: &Db, words: &[&str]) -> Output {
    home.enlist(db).args(["import", "in.csv", "--list", "x", "--create-list", "--json"]).args(words).run()
}

#[track_caller]
fn refused(output: &Output, code: &str, part: &str) {
    assert_eq!((output.code, output.error().as_deref()), (2, Some(code)), "{}", output.told());
    assert!(output.stderr.contains(part), "'{part}' is not said: {}", output.told());
}

/// Everything that a profile can hold, with the words that it is kept under.
const ALL: &[(&str, &str)] = &[
    ("region", "TR"),
    ("map", "phone=Cep No"),
    ("map", "name=#2"),
    ("set", "source=web=1"),
    ("delimiter", ";"),
    ("quote", "'"),
    ("escape", "\\"),
    ("encoding", "windows-1254"),
    ("sheet", "Sayfa1"),
    ("no-header", "false"),
    ("skip-lines", "2"),
    ("short-rows", "fill"),
    ("type", "mobile"),
    ("max-name-length", "40"),
    ("blank", "clear"),
    ("newer-by", "updated"),
    ("max-rejects", "2.5%"),
    ("max-changes", "70%"),
];

both! {
    fn a_profile_is_saved_listed_shown_replaced_and_deleted(db: Db) {
        let home = Home::new();
        refused(&profiles(&home, &db, &["list"]), "database_not_found", "");
        home.enlist(&db).arg("migrate").run().expect(0);
        let options: Vec<String> = ALL.iter().map(|(option, value)| format!("--{option}={value}")).collect();
        let mut line = vec!["save", " Mu\u{308}steri "];
        line.extend(options.iter().map(String::as_str));
        let saved = profiles(&home, &db, &line).expect(0).json();
        assert_eq!((&saved["profile"], &saved["replaced"]), (&"Müsteri".into(), &false.into()), "{saved}");
        for (option, value) in ALL {
            let kept = &saved["settings"][option];
            let values = kept.as_array().cloned().unwrap_or_else(|| vec![kept.clone()]);
            assert!(values.contains(&(*value).into()), "{option}: {saved}");
        }
        let kept = db.texts("SELECT CAST(settings AS TEXT) FROM profiles")[0].clone().expect("a document");
        let document: std::collections::BTreeMap<String, serde_json::Value> = serde_json::from_str(&kept).expect("JSON");
        assert_eq!(document.len(), ALL.len() - 1, "{kept}");
        if db.engine == Engine::Sqlite {
            assert_eq!(serde_json::to_string(&document).expect("JSON"), kept, "its keys are not sorted");
        }

        refused(&profiles(&home, &db, &["save", "Müsteri", "--region", "GR"]), "profile_exists", "--replace");
        let shown = home.enlist(&db).args(["profiles", "show", "Müsteri"]).run().expect(0).text();
        for (option, value) in ALL {
            let found = shown.lines().any(|line| line.starts_with(&format!("{option} ")) && line.ends_with(&format!(" {value}")));
            assert!(found, "{option} {value}: {shown}");
        }
        let replaced = profiles(&home, &db, &["save", "Müsteri", "--region", "GR", "--replace"]).expect(0).json();
        assert_eq!((&replaced["replaced"], &replaced["settings"]), (&true.into(), &serde_json::json!({"region": "GR"})));
        profiles(&home, &db, &["save", "b", "--skip-lines", "1"]).expect(0);
        for words in [&[][..], &["list"]] {
            let all = profiles(&home, &db, words).expect(0).json();
            let names: Vec<_> = all["profiles"].as_array().expect("a list").iter().map(|p| p["profile"].clone()).collect();
            assert_eq!(names, ["Müsteri", "b"], "{all}");
        }
        assert_eq!(profiles(&home, &db, &["delete", "b"]).expect(0).json()["deleted"], true);
        refused(&profiles(&home, &db, &["delete", "b"]), "unknown_profile", "");
        refused(&profiles(&home, &db, &["show", "Musteri"]), "unknown_profile", "did you mean 'Müsteri'");
        refused(&profiles(&home, &db, &["save", "c"]), "usage", "--region");
        refused(&profiles(&home, &db, &["save", "c", "--region", "QQ"]), "usage", "QQ");
        refused(&profiles(&home, &db, &["save", "c", "--set", "phone=1"]), "usage", "phone");
        refused(&profiles(&home, &db, &["save", "c", "--map", "phone=a", "--map", "phone=b"]), "usage", "twice");
        refused(&profiles(&home, &db, &["save", " ", "--region", "TR"]), "bad_profile_name", "");
    }

    fn an_import_reads_by_its_profile_and_the_command_line_wins(db: Db) {
        let home = Home::new();
        home.write("in.csv", "a;b;c\n05320000011;Ayşe;İzmir\nyok;Can;x\n");
        home.enlist(&db).arg("migrate").run().expect(0);
        let save = ["save", "crm", "--region", "TR", "--map", "phone=a", "--map", "name=b", "--set", "Source=crm", "--set", "k=1", "--max-rejects", "1"];
        profiles(&home, &db, &save).expect(0);
        // The budget of the profile makes one reject an expected outcome.
        let output = import(&home, &db, &["--profile", "crm", "--map", "name=#3", "--set", "SOURCE=fair"]).expect(0);
        assert_eq!((output.count("inserted"), output.count("rejected")), (1, 1), "{}", output.told());
        let row = home.enlist(&db).args(["export", "--list", "x", "--format", "jsonl"]).run().expect(0).json();
        assert_eq!((&row["phone"], &row["name"]), (&"+905320000011".into(), &"İzmir".into()), "{row}");
        assert_eq!(row["attributes"], serde_json::json!({"b": "Ayşe", "SOURCE": "fair", "k": "1"}));
        refused(&import(&home, &db, &["--profile", "crn"]), "unknown_profile", "did you mean 'crm'");
        let check = |words: &[&str]| home.enlist(&db).args(["check", "in.csv", "--list", "x"]).args(words).run();
        let told = check(&["--profile", "crm"]).expect(0).text();
        for part in ["TR (from profile 'crm')", "a (from profile 'crm')", "; (found in the file)", "(from profile 'crm')"] {
            assert!(told.contains(part), "'{part}' is missing: {told}");
        }
        refused(&check(&["--profile", "crn", "--json"]), "unknown_profile", "did you mean 'crm'");
    }

    fn a_profile_of_a_newer_program_is_refused_and_not_half_used(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::clean(3, 1));
        home.enlist(&db).arg("migrate").run().expect(0);
        for (settings, part) in [
            (r#"{"region":"TR","later-option":"x"}"#, "'later-option'"),
            (r#"{"region":{"code":"TR"}}"#, "'region'"),
            (r#"{"blank":"ask"}"#, "'ask'"),
            (r#"{"region":"TR","list":"x"}"#, "'list'"),
        ] {
            let now = if db.engine == Engine::Sqlite { "0" } else { "now()" };
            db.execute(&format!("DELETE FROM profiles; INSERT INTO profiles VALUES ('new', '{settings}', {now}, {now})"));
            refused(&import(&home, &db, &["--profile", "new"]), "unreadable_profile", part);
            refused(&profiles(&home, &db, &["show", "new"]), "unreadable_profile", part);
            assert_eq!(profiles(&home, &db, &["list"]).expect(0).json()["profiles"][0]["profile"], "new");
        }
        assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs"), Some(0));
        profiles(&home, &db, &["save", "new", "--region", "TR", "--replace"]).expect(0);
        import(&home, &db, &["--profile", "new"]).expect(0);
    }
}

both! {
    fn a_queued_import_reads_by_its_profile_as_it_was_when_it_was_queued(db: Db) {
        let home = Home::new();
        home.write("in.csv", "tel;ad\n05320000011;Ayşe\nyok;Can\n");
        home.enlist(&db).arg("migrate").run().expect(0);
        profiles(&home, &db, &["save", "crm", "--region", "TR", "--set", "source=crm", "--max-rejects", "1"]).expect(0);
        let enqueue = |words: &[&str]| {
            home.enlist(&db).args(["enqueue", "in.csv", "--list", "x", "--create-list", "--json"]).args(words).run()
        };
        refused(&enqueue(&["--profile", "crn"]), "unknown_profile", "did you mean 'crm'");
        refused(&enqueue(&["--profile", "crm", "--duplicates", "d.csv"]), "usage", "--duplicates");
        enqueue(&["--profile", "crm"]).expect(0);
        profiles(&home, &db, &["delete", "crm"]).expect(0);
        let worked = home.enlist(&db).args(["work", "--drain", "--json"]).run().expect(0);
        assert_eq!(worked.count("done"), 1, "{}", worked.told());
        let row = home.enlist(&db).args(["export", "--list", "x", "--format", "jsonl"]).run().expect(0).json();
        assert_eq!(row["attributes"], serde_json::json!({"source": "crm"}));
    }
}

#[test]
fn a_profile_is_not_sought_in_a_database_that_is_not_there() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    home.write("in.csv", data::clean(3, 1));
    refused(&import(&home, &db, &["--profile", "crm"]), "database_not_found", "");
    let check = home.enlist(&db).args(["check", "in.csv", "--list", "x", "--profile", "crm", "--json"]).run();
    refused(&check, "unknown_profile", "no profile yet");
    assert!(db.file().is_some_and(|file| !file.exists()));
}

#[cfg(feature = "failpoints")]
both! {
    fn a_profile_that_changes_changes_nothing_of_a_job_that_has_begun(db: Db) {
        let home = Home::new();
        let rows: String = (0..40).map(|k| format!("0{};person {k}\n", &data::phone(k)[3..])).collect();
        home.write("in.csv", format!("phone;name\n{rows}"));
        home.enlist(&db).arg("migrate").run().expect(0);
        profiles(&home, &db, &["save", "crm", "--region", "TR", "--set", "source=crm"]).expect(0);
        let line = ["import", "in.csv", "--list", "x", "--create-list", "--json", "--profile", "crm", "--batch-size", "5"];
        let killed = home.enlist(&db).args(line).failpoint("import::after_commit=2*off->return").run();
        assert_eq!(killed.signal, Some(6), "{}", killed.told());
        db.settle();
        profiles(&home, &db, &["save", "crm", "--region", "TR", "--set", "source=fair", "--replace"]).expect(0);
        let told = "set 'source=crm', now it is 'source=fair' (from profile 'crm')";
        refused(&import(&home, &db, &["--profile", "crm"]), "settings_changed", told);
        profiles(&home, &db, &["delete", "crm"]).expect(0);
        refused(&import(&home, &db, &["--profile", "crm"]), "unknown_profile", "no profile yet");
        let done = import(&home, &db, &["--continue", "1"]).expect(0);
        assert_eq!((done.count("rows"), done.count("inserted")), (40, 40), "{}", done.told());
        let export = home.enlist(&db).args(["export", "--list", "x", "--format", "jsonl"]).run().expect(0).text();
        assert_eq!(export.matches(r#""source":"crm""#).count(), 40, "{export}");
        // The same options by hand are the same import.
        assert_eq!(import(&home, &db, &["--region", "TR", "--set", "source=crm"]).expect(0).json()["replayed"], true);
    }
}
