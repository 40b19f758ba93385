//! What somebody trips over who never used the program: each is told, and told what to do.

use crate::common::cli::{Enlist, Home};
use crate::common::data;
use crate::common::engine::{Db, Engine};

fn import(home: &Home, db: &Db, file: &str) -> Enlist {
    home.enlist(db).args(["import", file, "--list", "x", "--create-list", "--region", "TR", "--json"])
}

#[test]
fn a_file_without_a_header_says_so_and_tells_nobody_s_phone() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    for (text, words, place) in [
        ("05320000011,Ayşe\n05320000012,Can\n", &[][..], 1),
        ("Ayşe;0532 000 00 11\nCan;0532 000 00 12\n", &[], 2),
        ("\n\n+306900000012\n", &[], 1),
        // Somebody knows the place and forgets the header: the first person would be lost.
        ("05320000011,Ayşe\n05320000012,Can\n", &["--map", "phone=#1"], 1),
        ("Ayşe,05320000011\nCan,05320000012\n", &["--map", "phone=cep"], 2),
    ] {
        home.write("in.csv", text);
        let output = import(&home, &db, "in.csv").args(words).run();
        output.refused(1, "no_header");
        assert!(output.stderr.contains(&format!("--no-header --map phone=#{place}")), "{}", output.told());
        assert!(!output.told().contains("0000011") && !output.told().contains("Ayşe"), "{}", output.told());
        let place = format!("phone=#{place}");
        let line =
            ["import", "in.csv", "--list", "x", "--create-list", "--region", "TR", "--no-header", "--map", &place];
        home.enlist(&db).args(line).arg("--again").run().expect(0);
    }
    // Without a region as well.
    home.write("in.csv", "05320000011,Ayşe\n");
    home.enlist(&db).args(["import", "in.csv", "--list", "x", "--json"]).run().refused(1, "no_header");
    // A title with a phone in a cell stands above a header all the same.
    home.write("in.csv", "05320000011,,\nphone,name,city\n05320000012,Can,x\n");
    let output = import(&home, &db, "in.csv").run();
    output.refused(1, "no_phone_column");
    assert!(output.stderr.contains("--skip-lines 1"), "{}", output.told());
}

#[test]
fn an_odd_delimiter_is_not_taken_but_offered() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    for (sign, word) in [("^", "^"), ("~", "~"), (":", ":"), ("#", "#"), (" ", "space")] {
        let row = |cells: [&str; 3]| cells.join(sign) + "\n";
        let text = row(["phone", "name", "city"])
            + &row(["05320000011", "Ayşe", "İzmir"])
            + &row(["05320000012", "Can", "Ankara"]);
        home.write("in.csv", text);
        let output = import(&home, &db, "in.csv").run();
        output.refused(1, "no_phone_column");
        assert!(output.stderr.contains(&format!("pass --delimiter '{word}'")), "{}", output.told());
        let done = import(&home, &db, "in.csv").args(["--delimiter", word]).run().expect(0);
        assert_eq!(done.count("rows"), 2, "{}", done.told());
    }
    home.write("in.csv", "Customer Nr.\n0532 0000011\n0532 0000012\n");
    assert!(!import(&home, &db, "in.csv").run().stderr.contains("--delimiter"), "one column was taken for two");
}

#[test]
fn a_text_of_the_file_cannot_steer_the_terminal() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    home.write("in.csv", format!("\u{1b}[2J{}\u{7}\nphone,name\n05320000011,x\n", "long".repeat(1_000)));
    let output = import(&home, &db, "in.csv").run();
    output.refused(1, "no_phone_column");
    assert!(!output.stderr.contains(['\u{1b}', '\u{7}']) && output.stderr.len() < 1_000, "{}", output.told());
}

both! {
    fn dates_in_a_phone_column_are_refused_in_every_region(db: Db) {
        let home = Home::new();
        home.write("in.csv", "phone,name\n17.05.2024,a\n2024-05-17,b\n17/05/1984,c\n030/123456,d\n");
        let line = ["import", "in.csv", "--list", "x", "--region", "DE", "--json", "--rejects", "r.csv"];
        let output = home.enlist(&db).args(line).run().expect(3);
        assert_eq!((output.count("inserted"), output.count("rejected")), (1, 3), "{}", output.told());
        let refused = String::from_utf8(home.read("r.csv")).unwrap();
        assert_eq!(refused.matches("phone_is_date").count(), 3, "{refused}");
    }

    fn opt_outs_come_from_any_file_that_an_import_reads(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::clean(40, 1));
        home.enlist(&db).args(["import", "in.csv", "--list", "x"]).run().expect(0);
        let stop = |file: &str, words: &[&str]| {
            let line = ["opt-out", "--list", "x", "--region", "TR", "--json", "--file", file];
            home.enlist(&db).args(line).args(words).run()
        };
        let utf16: Vec<u8> = format!("\u{feff}Telefon\tNot\r\n{}\tŞule\r\n", data::national(1))
            .encode_utf16().flat_map(u16::to_le_bytes).collect();
        home.write("utf16.txt", utf16);
        home.write("1254.csv", [b"neden;telefon\n\xFEikayet;".as_slice(), data::phone(2).as_bytes()].concat());
        home.write("plain.txt", format!("{}\n", data::phone(3)));
        home.bash(&db, "gzip -k plain.txt").run().expect(0);
        home.write("refused.csv", format!("phone,name\nyok,{0}\n", data::phone(4)));
        home.enlist(&db).args(["import", "refused.csv", "--list", "x"]).run().expect(1);
        home.enlist(&db).args(["rejects", "last", "-o", "book.xlsx"]).run().expect(0);
        for (file, words, changed) in [
            ("utf16.txt", &[][..], 1),
            ("1254.csv", &[], 1),
            ("plain.txt.gz", &[], 1),
            ("book.xlsx", &["--map", "phone=name"], 1),
        ] {
            let output = stop(file, words).expect(0);
            assert_eq!((output.count("changed"), output.count("refused")), (changed, 0), "{}", output.told());
        }
        let piped = home.bash(&db, "enlist opt-out --list x --file - --json < plain.txt.gz").run().expect(0);
        assert_eq!(piped.count("already"), 1, "{}", piped.told());
        let left = std::fs::read_dir(home.path().join("state/enlist/spool")).unwrap().count();
        assert_eq!(left, 0, "copies are left behind");
        home.write("list.pdf", "%PDF-1.7\n");
        stop("list.pdf", &[]).refused(1, "unreadable_file");
        stop("none.csv", &[]).refused(1, "not_found");
        stop("utf16.txt", &["--map", "phone=cep"]).refused(1, "unknown_column");
        stop("utf16.txt", &["--map", "name=#1"]).refused(2, "usage");
        stop("utf16.txt", &["--encoding", "klingon"]).refused(2, "usage");
        stop("plain.txt", &["--sheet", "x"]).refused(2, "unknown_sheet");
    }

    fn refusals_beyond_those_told_are_counted(db: Db) {
        let home = Home::new();
        home.enlist(&db).arg("migrate").run().expect(0);
        home.enlist(&db).args(["lists", "create", "x"]).run().expect(0);
        home.write("bad.txt", format!("{}\n{}", data::phone(1), "no phone\n".repeat(23)));
        let output = home.enlist(&db).args(["opt-out", "--list", "x", "--file", "bad.txt"]).run().expect(3);
        assert_eq!(output.stderr.matches("phone_not_a_number").count(), 20, "{}", output.told());
        assert!(output.stderr.contains("\nand 3 more refused\n"), "{}", output.told());
        home.write("new.txt", (2..24).map(|k| data::phone(k) + "\n").collect::<String>());
        let output = home.enlist(&db).args(["opt-in", "--list", "x", "--file", "new.txt"]).run().expect(3);
        assert!(output.stderr.contains("\nline 20: not on list 'x'"), "{}", output.told());
        assert!(output.stderr.contains("\nand 2 more unknown\n"), "{}", output.told());
    }

    fn an_opt_in_makes_nobody_a_recipient(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::clean(2, 1));
        home.enlist(&db).args(["import", "in.csv", "--list", "x"]).run().expect(0);
        let (known, stranger) = (data::phone(1), data::phone(9));
        home.enlist(&db).args(["opt-out", "--list", "x", &known]).run().expect(0);
        let line = ["opt-in", "--list", "x", &known, &stranger, &stranger, "--json"];
        let output = home.enlist(&db).args(line).run().expect(3);
        let figures = ["phones", "changed", "created", "already", "unknown", "refused"].map(|name| output.count(name));
        assert_eq!(figures, [3, 1, 0, 0, 2, 0], "{}", output.told());
        assert!(!output.told().replace("+90", "").contains(&format!("'{stranger}'")), "{}", output.told());
        let lists = home.enlist(&db).args(["lists", "--json"]).run().expect(0).json();
        assert_eq!(lists["lists"][0]["recipients"], 2, "{lists}");
        // An opt-out before an import is kept all the same.
        let output = home.enlist(&db).args(["opt-out", "--list", "x", &stranger, "--json"]).run().expect(0);
        assert_eq!((output.count("created"), output.count("unknown")), (1, 0), "{}", output.told());
    }

    fn migrate_tells_what_it_applied(db: Db) {
        let home = Home::new();
        let first = home.enlist(&db).args(["migrate", "--json"]).run().expect(0).json();
        assert_eq!(first["applied"][0], "0001_import", "{first}");
        let newest = first["applied"].as_array().and_then(|applied| applied.last()?.as_str()).unwrap_or_default();
        assert!(newest.starts_with(&format!("{:04}_", first["schema_version"].as_u64().unwrap())), "{first}");
        let second = home.enlist(&db).args(["migrate", "--json"]).run().expect(0).json();
        assert_eq!(second["applied"], serde_json::json!([]), "{second}");
    }

    fn a_file_that_is_standard_output_is_refused_beside_an_object(db: Db) {
        let home = Home::new();
        home.write("in.csv", "phone\n05320000011\nbad\n");
        import(&home, &db, "in.csv").run().expect(3);
        let lines = [
            "export --list x -o /dev/stdout",
            "rejects last -o /proc/self/fd/1",
            "import in.csv --list x --region TR --rejects /dev/stdout",
            "check in.csv --list x --region TR --rejects /dev/fd/1",
        ];
        for line in lines {
            for to in ["", " > out.json", " | cat"] {
                let output = home.bash(&db, &format!("enlist --json {line}{to}; exit ${{PIPESTATUS[0]}}")).run().expect(2);
                let json: serde_json::Value = match to {
                    " > out.json" => serde_json::from_slice(&home.read("out.json")).expect("one object"),
                    _ => output.json(),
                };
                assert_eq!(json["error"]["code"], "usage", "{line}{to}: {json}");
            }
        }
        let redirected = home.bash(&db, "enlist --json export --list x -o out.csv > out.csv").run().expect(2);
        assert!(redirected.stderr.contains("standard output"), "{}", redirected.told());
        home.bash(&db, "enlist --json export --list x -o /dev/null > /dev/null").run().expect(0);
        let text = home.bash(&db, "enlist export --list x -o /dev/stdout").run().expect(0).text();
        assert!(text.starts_with("phone,"), "{text}");
    }

    fn a_short_row_that_was_not_mended_is_refused_again_from_a_workbook(db: Db) {
        let home = Home::new();
        home.write("in.csv", "phone,name,city\n05320000011\n05320000012,Can\n05320000013,Ece,İzmir\n");
        let first = import(&home, &db, "in.csv").run().expect(3);
        assert_eq!(first.count("rejected"), 2, "{}", first.told());
        for file in ["r.csv", "r.xlsx"] {
            home.enlist(&db).args(["rejects", "last", "-o", file]).run().expect(0);
            let again = import(&home, &db, file).run().expect(1);
            assert_eq!((again.count("rows"), again.count("rejected")), (2, 2), "{file}: {}", again.told());
            let refused = home.enlist(&db).args(["rejects", "last"]).run().expect(0).text();
            assert_eq!(refused.matches("row_too_short").count(), 2, "{refused}");
        }
        // Whoever says that missing cells are empty ones means these as well.
        let filled = import(&home, &db, "r.xlsx").args(["--short-rows", "fill"]).run().expect(0);
        assert_eq!(filled.count("inserted"), 2, "{}", filled.told());
    }
}
