//! Reject files: what they hold, and that they can be mended and imported as they are.

use std::os::unix::fs::PermissionsExt;

use crate::common::cli::{Enlist, Home};
use crate::common::data;
use crate::common::engine::Db;

/// Rows that are refused for their phone, their quotes, and for being too long or too short.
fn trouble() -> String {
    let [a, b, c, d, e] = [1, 2, 3, 4, 5].map(data::phone);
    format!(
        "phone;name;note\n{a};Ayşe;first\nhatalı;=1+1;\"a;b\"\n{b};Mehmet\n{c};Ömer;x;y;z\n;\"two\nlines\";\n{d};\"open;z\n{e};Zeynep;last\n"
    )
}

fn import(home: &Home, db: &Db, name: &str) -> Enlist {
    home.enlist(db).args(["import", name, "--list", "x", "--create-list", "--json", "--rejects", "r.csv"])
}

both! {
    fn a_reject_file_is_private_and_is_what_the_database_holds(db: Db) {
        let home = Home::new();
        home.write("in.csv", trouble());
        let output = import(&home, &db, "in.csv").run().expect(3);
        assert_eq!(output.json()["rejects_file"], "r.csv", "{}", output.told());
        let file = home.read("r.csv");
        let mode = std::fs::metadata(home.path().join("r.csv")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        for id in ["last", &output.json()["job"].to_string()] {
            assert_eq!(home.enlist(&db).args(["rejects", id]).run().expect(0).stdout, file, "rejects {id}");
            home.enlist(&db).args(["rejects", id, "-o", "again.csv"]).run().expect(0);
            assert_eq!(home.read("again.csv"), file, "rejects {id} -o");
        }
        let text = String::from_utf8(file.clone()).unwrap();
        assert!(text.starts_with("phone;name;note;"), "{text}");
        assert!(text.lines().next().unwrap().ends_with("_line;_column;_reason;_detail"), "{text}");
        assert!(text.contains("hatalı;=1+1;\"a;b\""), "the cells are changed: {text}");
        // A replay writes it again, whatever became of it.
        for damage in [None, Some("damaged")] {
            match damage {
                None => std::fs::remove_file(home.path().join("r.csv")).unwrap(),
                Some(text) => drop(home.write("r.csv", text)),
            }
            let again = import(&home, &db, "in.csv").run().expect(3);
            assert_eq!(again.json()["replayed"], true, "{}", again.told());
            assert_eq!(home.read("r.csv"), file);
        }
    }

    fn a_reject_file_in_which_the_faults_are_mended_can_be_imported_as_it_is(db: Db) {
        let home = Home::new();
        home.write("in.csv", trouble());
        let first = import(&home, &db, "in.csv").run().expect(3);
        // As it is, what was refused for its cells is refused again. Bad quotes were mended by writing them well.
        std::fs::copy(home.path().join("r.csv"), home.path().join("same.csv")).unwrap();
        let reasons = |name: &str| -> Vec<String> {
            let rejects = crate::common::rejects::read_rejects(&home.path().join(name)).unwrap();
            rejects.into_iter().map(|(_, reason)| reason).collect()
        };
        let mut expected = reasons("same.csv");
        expected.retain(|reason| reason != "bad_quoting");
        assert_eq!(expected.len() + 1, usize::try_from(first.count("rejected")).unwrap(), "{}", first.told());
        import(&home, &db, "same.csv").run().expect(3);
        assert_eq!(reasons("r.csv"), expected);
        // A person mends the cells with a tool that knows CSV, and leaves the four columns alone.
        let mut reader = csv::ReaderBuilder::new().delimiter(b';').from_path(home.path().join("same.csv")).unwrap();
        let header = reader.headers().unwrap().clone();
        let mut writer = csv::WriterBuilder::new().delimiter(b';').from_path(home.path().join("mended.csv")).unwrap();
        writer.write_record(&header).unwrap();
        let mut rows = 0;
        for (n, record) in reader.records().enumerate() {
            let record = record.expect("every line of the file has as many cells as its header");
            let mut cells: Vec<String> = record.iter().map(str::to_owned).collect();
            cells[0] = data::phone(100 + n);
            cells[2] = "mended".to_owned();
            let own = cells.len() - 4;
            cells[3..own].fill(String::new());
            writer.write_record(&cells).unwrap();
            rows += 1;
        }
        writer.flush().unwrap();
        drop(writer);
        let mended = import(&home, &db, "mended.csv").run().expect(0);
        assert_eq!((mended.count("inserted"), mended.count("rejected")), (rows, 0), "{}", mended.told());
        let export = home.enlist(&db).args(["export", "--list", "x", "--format", "jsonl"]).run().expect(0).text();
        assert!(!export.contains("_reason") && !export.contains("_line"), "{export}");
        assert_eq!(export.lines().filter(|line| line.contains("mended")).count(), usize::try_from(rows).unwrap());
    }

    fn without_rejects_the_file_holds_its_header(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::clean(3, 1));
        import(&home, &db, "in.csv").run().expect(0);
        let text = String::from_utf8(home.read("r.csv")).unwrap();
        assert_eq!(text, "phone,name,email,city,segment,_line,_column,_reason,_detail\n");
    }
}

both! {
    fn a_reject_workbook_holds_text_cells_and_is_imported_as_it_is(db: Db) {
        let home = Home::new();
        home.write("in.csv", "phone,name,code\n05320000011,Ayşe,007\n9.05E+11,Can,0042\nyok,Ece,12\n0532,Su\n");
        let import = |file: &str, list: &str| {
            home.enlist(&db).args(["import", file, "--list", list, "--create-list", "--region", "TR", "--json"]).run().expect(3)
        };
        import("in.csv", "first");
        home.enlist(&db).args(["rejects", "last", "-o", "refused.xlsx"]).run().expect(0);
        assert!(home.read("refused.xlsx").starts_with(b"PK"));
        let again = home.enlist(&db).args(["import", "refused.xlsx", "--list", "second", "--create-list", "--region", "TR", "--json"]).run().expect(1);
        assert_eq!((again.count("rows"), again.count("rejected")), (3, 3), "{}", again.told());
        let rejects = home.enlist(&db).args(["rejects", "last"]).run().expect(0).text();
        let lines: Vec<&str> = rejects.lines().collect();
        assert_eq!(lines.len(), 4, "{rejects}");
        for (line, part) in [(1, "9.05E+11,Can,0042,2,phone,phone_precision_lost"), (2, "yok,Ece,12,3,phone,phone_not_a_number"), (3, "0532,Su,,4,,row_too_short")] {
            assert!(lines[line].starts_with(part), "'{}' does not start with '{part}'", lines[line]);
        }
    }
}

#[test]
fn an_output_never_replaces_a_database() {
    use crate::common::engine::Engine;
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    home.write("in.csv", trouble());
    import(&home, &db, "in.csv").run().expect(3);
    let file = db.file().expect("a file");
    let before = std::fs::read(&file).expect("readable");
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = format!("{}{end}", file.display());
        for line in [
            vec!["import", "in.csv", "--list", "x", "--rejects", &path],
            vec!["check", "in.csv", "--list", "x", "--rejects", &path],
            vec!["rejects", "last", "-o", &path],
            vec!["export", "--list", "x", "-o", &path],
        ] {
            let output = home.enlist(&db).args(&line).arg("--json").run().expect(2);
            assert_eq!(output.error().as_deref(), Some("unwritable_file"), "{}", output.told());
        }
    }
    assert!(std::fs::read(&file).expect("readable") == before, "the database changed");
}
