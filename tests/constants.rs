//! `--set`: a value that every row gets, beside the columns of the file.

use crate::common::cli::{Home, Output};
use crate::common::data;
use crate::common::engine::Db;

/// The lines of `export --format jsonl`.
fn exported(home: &Home, db: &Db) -> Vec<serde_json::Value> {
    let text = home.enlist(db).args(["export", "--list", "x", "--format", "jsonl"]).run().expect(0).text();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn run(home: &Home, db: &Db, command: &str, file: &str, more: &[&str]) -> Output {
    home.enlist(db).args([command, file, "--list", "x", "--create-list", "--region", "TR", "--json"]).args(more).run()
}

both! {
    fn every_row_gets_the_constants_beside_its_own_cells(db: Db) {
        let home = Home::new();
        home.write("in.csv", "phone,city,zip\n05320000011,İzmir,35\n05320000012,,\n,,\nyok,x,y\n");
        let set = ["--set", "source=web shop", "--set", "a=\"1\"", "--set", "name=Müşteri  Bey"];
        let first = run(&home, &db, "import", "in.csv", &set).expect(3);
        assert_eq!((first.count("inserted"), first.count("rejected"), first.count("blank")), (2, 1, 1), "{}", first.told());
        let rows = exported(&home, &db);
        assert_eq!(rows[0]["attributes"], serde_json::json!({"a": "\"1\"", "city": "İzmir", "source": "web shop", "zip": "35"}));
        assert_eq!(rows[1]["attributes"], serde_json::json!({"a": "\"1\"", "source": "web shop"}));
        assert!(rows.iter().all(|row| row["name"] == "Müşteri Bey"), "{rows:?}");
        let keys = "SELECT CAST(attributes AS TEXT) FROM recipients ORDER BY phone LIMIT 1";
        assert!(db.texts(keys)[0].as_deref().is_some_and(|text| text.starts_with("{\"a\"")), "{:?}", db.texts(keys));
        // The order in which they are given is no difference; another value is another import.
        let other_order = ["--set", "name=Müşteri  Bey", "--set", "a=\"1\"", "--set", "source=web shop"];
        assert_eq!(run(&home, &db, "import", "in.csv", &other_order).expect(3).json()["replayed"], true);
        let changed = run(&home, &db, "import", "in.csv", &["--set", "source=fair", "--blank", "clear"]).expect(3);
        assert_eq!((changed.json()["replayed"].clone(), changed.count("updated")), (false.into(), 2), "{}", changed.told());
        assert_eq!(exported(&home, &db)[1]["attributes"], serde_json::json!({"a": "\"1\"", "source": "fair"}));
        let shown = home.enlist(&db).args(["jobs", "show", "last"]).run().expect(0).text();
        assert!(shown.lines().any(|line| line.starts_with("set ") && line.ends_with("source=fair")), "{shown}");
    }

    fn a_check_shows_the_constants_and_a_column_of_the_same_name_is_refused(db: Db) {
        let home = Home::new();
        home.write("in.csv", "phone,Şehir\n05320000011,İzmir\n");
        let told = home.enlist(&db).args(["check", "in.csv", "--list", "x", "--region", "TR", "--set", "source=web"]).run().expect(0).text();
        for part in ["set", "source=web (as you said)", "source, Şehir", "\"source\":\"web\""] {
            assert!(told.contains(part), "'{part}' is missing: {told}");
        }
        for (set, part) in [("sehir=x", "column 2 'Şehir'"), ("phone=1", "same phone"), ("region=TR", "--region TR"), ("novalue", "FIELD=VALUE"), ("a=", "gives no value")] {
            for command in ["check", "import"] {
                let output = run(&home, &db, command, "in.csv", &["--set", set]).expect(2);
                assert_eq!(output.error().as_deref(), Some("usage"), "{}", output.told());
                assert!(output.stderr.contains(part), "{}", output.told());
            }
        }
        let long = run(&home, &db, "import", "in.csv", &["--set", "name=Ayşegül", "--max-name-length", "3"]).expect(2);
        assert_eq!(long.error().as_deref(), Some("usage"), "{}", long.told());
        let jobs = home.enlist(&db).args(["jobs", "--json"]).run();
        assert!(jobs.json()["jobs"].as_array().is_none_or(Vec::is_empty), "{}", jobs.told());
    }
}

#[cfg(feature = "failpoints")]
both! {
    fn an_interrupted_import_keeps_the_constants_that_it_began_with(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::clean(60, 3));
        let more = ["--batch-size", "10", "--set", "source=web"];
        let line = ["import", "in.csv", "--list", "x", "--create-list", "--region", "TR", "--json"];
        let killed = home.enlist(&db).args(line).args(more).failpoint("import::after_commit=2*off->return").run();
        assert_eq!(killed.signal, Some(6), "{}", killed.told());
        db.settle();
        let other = run(&home, &db, "import", "in.csv", &["--set", "source=fair"]).expect(2);
        assert_eq!(other.error().as_deref(), Some("settings_changed"), "{}", other.told());
        assert!(other.stderr.contains("set 'source=web', now it is 'source=fair'"), "{}", other.told());
        let done = run(&home, &db, "import", "in.csv", &["--continue", "1"]).expect(0);
        assert!(done.count("resumed_rows") > 0 && done.count("rows") == 60, "{}", done.told());
        assert!(exported(&home, &db).iter().all(|row| row["attributes"]["source"] == "web"));
    }
}
