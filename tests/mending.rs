//! Refused rows that are mended: which of a job's are still open.

use crate::common::cli::{Home, Output};
use crate::common::data;
use crate::common::engine::Db;

fn import(home: &Home, db: &Db, file: &str, more: &[&str]) -> Output {
    home.enlist(db).args(["import", file, "--list", "x", "--create-list", "--region", "TR", "--json"]).args(more).run()
}

/// All and still open refused rows of a job.
fn left(home: &Home, db: &Db, job: &str) -> (i64, i64) {
    let shown = home.enlist(db).args(["jobs", "show", job, "--json"]).run().expect(0);
    (shown.count("rejects"), shown.count("rejects_open"))
}

/// Writes a job's reject file with some of its text replaced.
fn mend(home: &Home, db: &Db, job: &str, file: &str, changes: &[(&str, &str)]) {
    let mut text = home.enlist(db).args(["rejects", job]).run().expect(0).text();
    for (from, to) in changes {
        assert!(text.contains(from), "'{from}' is not in {text}");
        text = text.replace(from, to);
    }
    home.write(file, text);
}

const LIST: &str = "phone,name\n05320000011,Ayşe\nyok,Can\nhiç,Ece\n,Su\n05320000015,\"Oya\" x\n";

both! {
    fn a_row_is_open_until_a_later_import_takes_it_however_often_it_was_refused(db: Db) {
        let home = Home::new();
        home.write("in.csv", LIST);
        import(&home, &db, "in.csv", &[]).expect(3);
        assert_eq!(left(&home, &db, "1"), (4, 4));
        let text = home.enlist(&db).args(["jobs", "show", "1"]).run().expect(0).text();
        assert!(text.lines().any(|line| line.starts_with("still open") && line.ends_with(" 4")), "{text}");
        // As it is, one row is mended by being written well; the person mends another, and one becomes worse.
        mend(&home, &db, "1", "first.csv", &[("yok,", "05320000012,"), ("hiç,", "05320000013x,")]);
        let first = import(&home, &db, "first.csv", &[]).expect(3);
        assert_eq!((first.count("inserted"), first.count("rejected")), (2, 2), "{}", first.told());
        assert_eq!((left(&home, &db, "1"), left(&home, &db, "2")), ((4, 2), (2, 2)));
        // A row that somebody added says nothing about refused ones.
        mend(&home, &db, "2", "second.csv", &[("05320000013x", "05320000013")]);
        let mut text = String::from_utf8(home.read("second.csv")).expect("UTF-8");
        text.push_str("05320000019,New,,,,\n");
        home.write("second.csv", text);
        let second = import(&home, &db, "second.csv", &[]).expect(3);
        assert_eq!(second.count("inserted"), 2, "{}", second.told());
        assert_eq!((left(&home, &db, "1"), left(&home, &db, "2"), left(&home, &db, "3")), ((4, 1), (2, 1), (1, 1)));
        mend(&home, &db, "3", "third.csv", &[(",Su", "05320000014,Su")]);
        let third = import(&home, &db, "third.csv", &[]).expect(0);
        assert_eq!(third.count("rejected"), 0, "{}", third.told());
        for job in ["1", "2", "3"] {
            assert_eq!(left(&home, &db, job).1, 0, "job {job}");
        }
        // Once more is no news.
        import(&home, &db, "third.csv", &["--again"]).expect(0);
        assert_eq!(left(&home, &db, "1"), (4, 0));
    }

    fn rows_of_another_list_and_rows_that_do_not_say_where_they_come_from_mend_nothing(db: Db) {
        let home = Home::new();
        home.write("in.csv", LIST);
        import(&home, &db, "in.csv", &[]).expect(3);
        mend(&home, &db, "1", "other.csv", &[("yok,", "05320000012,"), ("hiç,", "05320000013,")]);
        home.enlist(&db).args(["import", "other.csv", "--list", "y", "--create-list", "--region", "TR"]).run().expect(3);
        assert_eq!(left(&home, &db, "1"), (4, 4));
        mend(&home, &db, "1", "edited.csv", &[("yok,", "05320000012,"), ("phone_not_a_number", "mended")]);
        import(&home, &db, "edited.csv", &[]).expect(3);
        assert_eq!(left(&home, &db, "1"), (4, 4));
        // Rows of two files put together mend those of the first alone, never what stands on the same line.
        let rows: String = (0..120).map(|k| format!("x{},p\n", data::phone(k))).collect();
        let good: String = (200..205).map(|k| format!("{},q\n", data::phone(k))).collect();
        home.write("many.csv", format!("phone,name\n{good}{rows}"));
        let many = import(&home, &db, "many.csv", &[]).expect(3).json()["job"].to_string();
        mend(&home, &db, &many, "together.csv", &[("x+", "+")]);
        let rest = home.enlist(&db).args(["rejects", "1"]).run().expect(0).text().replace("yok,", "05320000012,");
        let together = String::from_utf8(home.read("together.csv")).expect("UTF-8") + rest.split_once('\n').expect("rows").1;
        home.write("together.csv", together);
        import(&home, &db, "together.csv", &[]).expect(3);
        assert_eq!((left(&home, &db, &many), left(&home, &db, "1")), ((120, 0), (4, 4)));
        // Only the list's own columns count without the four.
        home.write("plain.csv", "phone,name\n05320000012,Can\n");
        import(&home, &db, "plain.csv", &[]).expect(0);
        assert_eq!(left(&home, &db, "1"), (4, 4));
    }

    fn of_two_imports_that_refused_the_same_rows_the_newer_one_is_mended(db: Db) {
        let home = Home::new();
        home.write("in.csv", LIST);
        import(&home, &db, "in.csv", &[]).expect(3);
        home.write("longer.csv", format!("{LIST}yok,Deniz\n"));
        import(&home, &db, "longer.csv", &[]).expect(3);
        mend(&home, &db, "1", "mended.csv", &[("yok,", "05320000012,"), ("hiç,", "05320000013,")]);
        import(&home, &db, "mended.csv", &[]).expect(3);
        assert_eq!(left(&home, &db, "1"), (4, 4));
        assert_eq!(left(&home, &db, "2"), (5, 2));
    }
}

#[cfg(feature = "failpoints")]
both! {
    fn rows_are_mended_with_the_part_that_stores_them(db: Db) {
        let home = Home::new();
        let rows: String = (0..60).map(|k| format!("x{},person {k}\n", data::phone(k))).collect();
        home.write("in.csv", format!("phone,name\n{},x\n{rows}", data::phone(99)));
        import(&home, &db, "in.csv", &[]).expect(3);
        assert_eq!(left(&home, &db, "1"), (60, 60));
        mend(&home, &db, "1", "mended.csv", &[("x+", "+")]);
        let line = ["import", "mended.csv", "--list", "x", "--region", "TR", "--json", "--batch-size", "10", "--writers", "3"];
        for point in ["import::before_commit=return", "import::after_commit=3*off->return"] {
            let killed = home.enlist(&db).args(line).failpoint(point).run();
            assert_eq!(killed.signal, Some(6), "{}", killed.told());
            db.settle();
            let stored = db.committed_rows() - 61;
            assert_eq!(left(&home, &db, "1"), (60, 60 - stored), "after {point}");
        }
        let done = import(&home, &db, "mended.csv", &[]).expect(0);
        assert!(done.count("resumed_rows") > 0 && done.count("inserted") == 60, "{}", done.told());
        assert_eq!(left(&home, &db, "1"), (60, 0));
    }
}
