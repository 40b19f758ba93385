//! What is refused: in one clear line, with the right exit code, and with nothing half done.

mod databases;
mod disks;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use crate::common::cli::{Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::mount::can_mount;
use crate::common::wait::wait_until;

/// A home with a list `spring` of three recipients in `db`.
fn home_with_list(db: &Db) -> Home {
    let home = Home::new();
    home.write("in.csv", data::clean(3, 1));
    home.enlist(db).args(["import", "in.csv", "--list", "spring", "--json"]).run().expect(0);
    home.write("in.csv", data::clean(5, 2));
    home
}

/// Everything that the database tells: lists and jobs.
fn told_by(home: &Home, db: &Db) -> String {
    ["lists", "jobs"].map(|what| home.enlist(db).args([what, "--json"]).run().expect(0).text()).concat()
}

/// What is written after `import`, and what becomes of it.
type Refused<'a> = (&'a [&'a str], i32, &'a str, &'a str);

/// Imports with each of `lines`; each must be refused with a message that holds the word, and leave nothing.
fn refuse_each(db: &Db, lines: &[Refused<'_>]) {
    let home = home_with_list(db);
    let before = told_by(&home, db);
    for (words, exit, code, says) in lines {
        let output = home.enlist(db).arg("import").args(*words).arg("--json").run();
        output.refused(*exit, code);
        assert!(output.stderr.contains(says), "no '{says}': {}", output.told());
        assert_eq!(told_by(&home, db), before, "something was left by {}", output.told());
    }
}

both! {
    fn a_list_name_that_cannot_be_one_or_is_not_there_is_refused(db: Db) {
        let long = "a".repeat(1_000);
        refuse_each(&db, &[
            (&["in.csv", "--list", &long], 2, "bad_list_name", "1000 characters"),
            (&["in.csv", "--list", &long, "--create-list"], 2, "bad_list_name", "1000 characters"),
            (&["in.csv", "--list", ""], 2, "bad_list_name", "empty"),
            (&["in.csv", "--list", " \u{a0}\t"], 2, "bad_list_name", "empty"),
            (&["in.csv", "--list", "a\nb", "--create-list"], 2, "bad_list_name", "control"),
            (&["in.csv", "--list", "a\u{1b}[31mb", "--create-list"], 2, "bad_list_name", "control"),
            (&["in.csv", "--list", "a\u{202e}b", "--create-list"], 2, "bad_list_name", "invisible"),
            (&["in.csv", "--list", "sprnig"], 2, "unknown_list", "'spring'"),
            (&["in.csv", "--list", "Spring"], 2, "unknown_list", "'spring'"),
        ]);
    }

    fn a_file_that_cannot_be_read_is_refused(db: Db) {
        refuse_each(&db, &[
            (&["nowhere.csv", "--list", "spring"], 1, "not_found", "nowhere.csv"),
            (&["in.csv/x", "--list", "spring"], 1, "not_found", "in.csv/x"),
            (&["", "--list", "spring"], 2, "usage", "<FILE>"),
            (&[".", "--list", "spring"], 1, "is_directory", "folder"),
            (&["in.csv", "--list", "spring", "--continue", "999"], 2, "unknown_job", "'999'"),
        ]);
    }

    fn a_setting_that_names_nothing_is_refused_before_anything_is_made(db: Db) {
        refuse_each(&db, &[
            (&["in.csv", "--list", "new", "--create-list", "--region", "XX"], 2, "usage", "'XX'"),
            (&["in.csv", "--list", "new", "--create-list", "--encoding", "klingon"], 2, "usage", "'klingon'"),
            (&["in.csv", "--list", "new", "--create-list", "--map", "phone=Cep"], 1, "unknown_column", "phone=Cep"),
            (&["in.csv", "--list", "new", "--create-list", "--map", "phone=#9"], 1, "unknown_column", "#9"),
            (&["in.csv", "--list", "new", "--create-list", "--newer-by", "when"], 1, "unknown_column", "when"),
            (&["in.csv", "--list", "new", "--create-list", "--delimiter", "\""], 2, "usage", "--delimiter"),
        ]);
    }
}

#[test]
fn a_wrong_option_is_refused_in_one_line_that_names_its_help() {
    let db = Db::fresh(Engine::Sqlite);
    let home = Home::new();
    home.write("in.csv", data::clean(3, 1));
    let wrong: &[&[&str]] = &[
        &["--lease", "0s"],
        &["--lease", "10"],
        &["--batch-size", "0"],
        &["--writers", "65"],
        &["--max-rejects", "101%"],
        &["--max-rejects", "-1"],
        &["--map", "phone"],
        &["--map", "email=x"],
        &["--map", "phone=#0"],
        &["--delimiter", "||"],
        &["--region", "TUR"],
        &["--short-rows", "maybe"],
        &["--wait=soon"],
        &["--continue", "0"],
        &["--again", "--continue", "1"],
        &["--colour", "never"],
    ];
    for words in wrong {
        let output = home.enlist(&db).args(["import", "in.csv", "--list", "x", "--json"]).args(*words).run();
        output.refused(2, "usage");
        assert!(output.stderr.contains("'enlist import --help'"), "{}", output.told());
    }
    for line in [&["impotr"][..], &[], &["jobs", "show"], &["--frobnicate"]] {
        home.bare().args(line).arg("--json").run().refused(2, "usage");
    }
    assert!(!db.file().unwrap().exists(), "a wrong command line has made a database");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "a wrong command line has left something");
}

#[test]
fn a_refusal_that_needs_no_database_makes_none() {
    let home = Home::new();
    home.write("in.csv", data::clean(3, 1));
    for words in [["--region", "XX"], ["--encoding", "klingon"], ["--rejects", "in.csv"], ["--list", ""]] {
        let list = if words[0] == "--list" { &[][..] } else { &["--list", "x"] };
        let output = home.bare().args(["import", "in.csv", "--json"]).args(words).args(list).run();
        assert_eq!(output.code, 2, "{}", output.told());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "something was left by {}", output.told());
    }
}

#[test]
fn a_region_is_understood_in_small_letters() {
    let db = Db::fresh(Engine::Sqlite);
    let home = Home::new();
    home.write("in.csv", "phone\n05320000011\n");
    let output = home.enlist(&db).args(["import", "in.csv", "--list", "x", "--region", "tr", "--json"]).run();
    assert_eq!((output.code, output.count("inserted")), (0, 1), "{}", output.told());
}

#[test]
fn a_reject_file_that_is_the_input_under_any_name_is_refused() {
    let db = Db::fresh(Engine::Sqlite);
    let home = Home::new();
    let text = "phone\nbad\n";
    let input = home.write("in.csv", text);
    std::fs::create_dir(home.path().join("sub")).unwrap();
    symlink(&input, home.path().join("soft.csv")).unwrap();
    std::fs::hard_link(&input, home.path().join("hard.csv")).unwrap();
    let absolute = input.to_string_lossy().into_owned();
    for name in ["in.csv", "./in.csv", "sub/../in.csv", "soft.csv", "hard.csv", &absolute] {
        let line = ["import", "in.csv", "--list", "x", "--json", "--rejects", name];
        home.enlist(&db).args(line).run().refused(2, "rejects_is_input");
        assert_eq!(home.read("in.csv"), text.as_bytes(), "{name}");
    }
    let line = ["import", "soft.csv", "--list", "x", "--json", "--rejects", "in.csv"];
    home.enlist(&db).args(line).run().refused(2, "rejects_is_input");
    assert!(!db.file().unwrap().exists());
    home.enlist(&db).args(["import", "in.csv", "--list", "x"]).run().expect(1);
    home.enlist(&db).args(["rejects", "last", "--json", "-o", "hard.csv"]).run().refused(2, "rejects_is_input");
    assert_eq!(home.read("in.csv"), text.as_bytes());
}

#[test]
fn a_reject_file_that_cannot_be_written_is_refused_before_the_import() {
    let db = Db::fresh(Engine::Sqlite);
    let home = Home::new();
    home.write("in.csv", data::clean(3, 1));
    std::fs::create_dir(home.path().join("folder")).unwrap();
    for name in ["none/r.csv", "in.csv/r.csv", "folder", "-"] {
        let output = home.enlist(&db).args(["import", "in.csv", "--list", "x", "--json", "--rejects", name]).run();
        output.refused(2, if name == "-" { "usage" } else { "unwritable_file" });
        assert!(!output.stderr.contains(".enlist-"), "a temporary name is shown: {}", output.told());
        assert!(!db.file().unwrap().exists(), "{name}");
    }
}

#[test]
fn what_another_user_may_not_read_or_write_is_refused() {
    if !can_mount() {
        return;
    }
    let db = Db::fresh(Engine::Sqlite);
    let home = home_with_list(&db);
    let db = db.via(format!("sqlite:{}", home.path().join("their.db").display()));
    home.enlist(&db).args(["import", "in.csv", "--list", "spring"]).run().expect(0);
    home.write("other.csv", data::clean(4, 3));
    let mode = |name: &str, mode| {
        std::fs::set_permissions(home.path().join(name), PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    for name in ["in.csv", "other.csv"] {
        mode(name, 0o600);
    }
    let import = |name: &str| home.as_nobody(&db).args(["import", name, "--list", "spring", "--json"]);
    // The folder may be entered, the database is its owner's alone.
    import("in.csv").run().refused(2, "database_read_only");
    mode("their.db", 0o644);
    import("in.csv").run().refused(2, "database_read_only");
    home.as_nobody(&db)
        .args(["opt-out", "--list", "spring", data::phone(1).as_str(), "--json"])
        .run()
        .refused(2, "database_read_only");
    import("in.csv").args(["--rejects", "r.csv"]).run().refused(2, "unwritable_file");
    let own = home.path().join("own");
    std::fs::create_dir(&own).unwrap();
    mode("own", 0o777);
    let theirs = db.via(format!("sqlite:{}", own.join("own.db").display()));
    home.as_nobody(&theirs).args(["import", "other.csv", "--list", "x", "--json"]).run().refused(1, "unreadable_file");
    mode("other.csv", 0o644);
    home.as_nobody(&theirs).args(["import", "other.csv", "--list", "x", "--json"]).run().expect(0);
}

/// An import that is held in its middle while its file is disturbed.
fn disturb(db: &Db, disturbance: impl Fn(&Home)) -> (Home, Output) {
    let home = Home::new();
    home.write("in.csv", data::clean(120_000, 4));
    let line = ["import", "in.csv", "--list", "x", "--batch-size", "200", "--json"];
    let mut running = home.enlist(db).args(line).spawn();
    wait_until("rows are committed", Duration::from_secs(60), || running.ended() || db.committed_rows() > 0);
    running.stop();
    disturbance(&home);
    running.cont();
    let output = running.wait(Duration::from_secs(120));
    (home, output)
}

both! {
    fn a_file_that_is_cut_in_mid_import_stops_it_and_its_rest_is_never_stored(db: Db) {
        let (home, output) = disturb(&db, |home| {
            let file = std::fs::OpenOptions::new().write(true).open(home.path().join("in.csv")).unwrap();
            file.set_len(3_000_000).unwrap();
        });
        output.stopped(5, "file_changed");
        assert_eq!(output.json()["state"], "interrupted", "{}", output.told());
        home.write("in.csv", data::clean(120_000, 4));
        let again = home.enlist(&db).args(["import", "in.csv", "--list", "x", "--json"]).run().expect(0);
        assert_eq!(again.count("inserted"), 120_000, "{}", again.told());
        assert!(again.count("resumed_rows") > 0, "{}", again.told());
    }
}

#[cfg(not(feature = "remote"))]
#[test]
fn an_address_is_refused_by_a_program_that_cannot_read_it() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    let output = home.enlist(&db).args(["import", "https://host/a.csv?sig=s3cret", "--list", "x", "--json"]).run();
    output.refused(2, "remote_not_built");
    assert!(output.stderr.contains("--features remote") && !output.stderr.contains("s3cret"), "{}", output.told());
    assert!(db.file().is_some_and(|file| !file.exists()), "a database was made");
}
