//! `--duplicates`: the rows that were folded into a later row of their phone, as many as the summary counts.

use std::os::unix::fs::PermissionsExt;

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::Db;

const HEADER: &str = "line,phone,winning_line,replaced\n";

fn command(home: &Home, db: &Db, command: &str, file: &str, out: &str) -> Enlist {
    let line = [command, file, "--list", "x", "--create-list", "--region", "TR", "--json", "--max-rejects", "100%"];
    home.enlist(db).args(line).args(["--duplicates", out])
}

/// The file's lines below its header, checked against the figure that was told.
#[track_caller]
fn listed(home: &Home, output: &Output, name: &str) -> String {
    assert_eq!(output.json()["duplicates_file"], name, "{}", output.told());
    let text = String::from_utf8(home.read(name)).expect("UTF-8");
    let rows = text.strip_prefix(HEADER).unwrap_or_else(|| panic!("another header: {text}")).to_owned();
    assert_eq!(rows.lines().count(), usize::try_from(output.count("duplicates")).unwrap(), "{}{text}", output.told());
    rows
}

both! {
    fn each_folded_row_is_told_with_the_row_that_won_and_what_it_replaced(db: Db) {
        let home = Home::new();
        let csv = "phone,name,\"a;b\",v\n\
            05320000011,Ayşe,1,5\n05320000012,Can,,5\nyok,x,,\n\
            +905320000011,,2,5\n,,,\n05320000011,Ayşe,2,5\n05320000012,Can,,6\n05320000012,Ece,,6\n";
        home.write("in.csv", csv);
        // Another version of the same phone does not fold: the two rows follow each other.
        let checked = command(&home, &db, "check", "in.csv", "c.csv").args(["--newer-by", "v"]).run().expect(0);
        let rows = "2,+905320000011,7,a;b\n5,+905320000011,7,\n8,+905320000012,9,name\n";
        assert_eq!(listed(&home, &checked, "c.csv"), rows);
        let output = command(&home, &db, "import", "in.csv", "d.csv").args(["--newer-by", "v"]).run().expect(0);
        assert_eq!(listed(&home, &output, "d.csv"), rows);
        let mode = std::fs::metadata(home.path().join("d.csv")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        // On a replay it is written again, whatever became of it.
        home.write("d.csv", "damaged");
        let again = command(&home, &db, "import", "in.csv", "d.csv").args(["--newer-by", "v"]).run().expect(0);
        assert_eq!(again.json()["replayed"], true, "{}", again.told());
        assert_eq!(listed(&home, &again, "d.csv"), rows);
    }

    fn rows_of_one_phone_in_different_batches_are_no_duplicates(db: Db) {
        let home = Home::new();
        let [a, b] = [1, 2].map(data::phone);
        home.write("in.csv", format!("phone,name\n{a},one\n{b},one\n{a},two\n{a},three\n"));
        let output = command(&home, &db, "import", "in.csv", "d.csv").args(["--batch-size", "2"]).run().expect(0);
        assert_eq!((output.count("updated"), output.count("duplicates")), (1, 1), "{}", output.told());
        assert_eq!(listed(&home, &output, "d.csv"), format!("4,{a},5,name\n"));
    }

    fn a_check_and_an_import_of_many_rows_tell_the_same(db: Db) {
        let home = Home::new();
        // More than a batch of either engine, so that some repetitions meet what is stored.
        home.write("in.csv", data::repeated(30_000, 2, 7));
        let checked = command(&home, &db, "check", "in.csv", "c.csv").run().expect(0);
        let output = command(&home, &db, "import", "in.csv", "d.csv").run().expect(0);
        assert_eq!(checked.count("duplicates"), output.count("duplicates"));
        assert!(output.count("duplicates") > 0 && output.count("updated") > 0, "{}", output.told());
        assert_eq!(listed(&home, &checked, "c.csv"), listed(&home, &output, "d.csv"));
    }

    fn standard_input_is_read_again_from_its_copy_which_then_goes(db: Db) {
        let home = Home::new();
        let csv = data::messy(2_000, 4);
        home.write("in.csv", &csv);
        let file = command(&home, &db, "check", "in.csv", "c.csv").run().expect(0);
        for _ in 0..2 {
            let output = command(&home, &db, "import", "-", "d.csv").stdin_bytes(csv.clone()).run().expect(0);
            assert_eq!(listed(&home, &output, "d.csv"), listed(&home, &file, "c.csv"));
            let spool = std::fs::read_dir(home.path().join("state/enlist/spool")).expect("the folder").count();
            assert_eq!(spool, 0, "the copy of the input stays behind");
        }
    }

    fn the_file_is_never_the_input_nor_the_reject_file_and_comes_whole_or_not_at_all(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::messy(200, 4));
        home.write("r.csv", "");
        std::os::unix::fs::symlink("in.csv", home.path().join("link.csv")).expect("a link");
        for (out, more, code) in [
            ("in.csv", &[][..], "usage"), ("link.csv", &[], "usage"), ("-", &[], "usage"),
            ("r.csv", &["--rejects", "r.csv"], "usage"), ("none/d.csv", &[], "unwritable_file"), ("state", &[], "unwritable_file"),
        ] {
            std::fs::create_dir_all(home.path().join("state")).expect("a folder");
            for name in ["import", "check"] {
                let output = command(&home, &db, name, "in.csv", out).args(more).run().expect(2);
                assert_eq!(output.error().as_deref(), Some(code), "{}", output.told());
            }
        }
        if let Some(file) = db.file() {
            home.enlist(&db).arg("migrate").run().expect(0);
            let output = command(&home, &db, "import", "in.csv", &file.display().to_string()).run().expect(2);
            assert_eq!(output.error().as_deref(), Some("unwritable_file"), "{}", output.told());
        }
        // An import that is not done leaves what stands there alone.
        home.write("d.csv", "kept");
        home.write("no.csv", "name\nx\n");
        let failed = command(&home, &db, "import", "no.csv", "d.csv").run().expect(1);
        assert!(failed.json()["duplicates_file"].is_null(), "{}", failed.told());
        // A replay needs the input: gone, or another.
        command(&home, &db, "import", "in.csv", "e.csv").run().expect(0);
        let bytes = home.read("in.csv");
        std::fs::remove_file(home.path().join("in.csv")).expect("it is there");
        let gone = command(&home, &db, "import", "in.csv", "d.csv").run().expect(1);
        assert_eq!(gone.error().as_deref(), Some("not_found"), "{}", gone.told());
        home.write("in.csv", &bytes);
        db.execute("UPDATE jobs SET rules_version = 'older' WHERE state = 'done'");
        let older = command(&home, &db, "import", "in.csv", "d.csv").run().expect(2);
        assert_eq!(older.error().as_deref(), Some("job_state"), "{}", older.told());
        assert!(older.stderr.contains("--again"), "{}", older.told());
        assert_eq!(home.read("d.csv"), b"kept");
        let again = command(&home, &db, "import", "in.csv", "d.csv").arg("--again").run().expect(0);
        listed(&home, &again, "d.csv");
    }
}

#[cfg(feature = "failpoints")]
both! {
    fn after_a_crash_the_file_is_that_of_an_uninterrupted_run(db: Db) {
        let home = Home::new();
        home.write("in.csv", data::messy(1_500, 9));
        let more = ["--batch-size", "70", "--writers", "3"];
        let other = Db::fresh(db.engine);
        let whole = command(&home, &other, "import", "in.csv", "whole.csv").args(more).run().expect(0);
        let expected = listed(&home, &whole, "whole.csv");
        assert!(expected.lines().count() > 20, "{expected}");
        for point in ["import::after_commit=4*off->return", "import::before_commit=3*off->return", "import::before_finish=return"] {
            let killed = command(&home, &db, "import", "in.csv", "d.csv").args(more).failpoint(point).run();
            assert_eq!(killed.signal, Some(6), "{}", killed.told());
            db.settle();
            assert!(!home.path().join("d.csv").exists());
        }
        let done = command(&home, &db, "import", "in.csv", "d.csv").args(["--batch-size", "9"]).run().expect(0);
        assert!(done.count("resumed_rows") > 0, "{}", done.told());
        assert_eq!(listed(&home, &done, "d.csv"), expected);
    }
}
