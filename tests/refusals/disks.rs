//! Disks that are full or cannot be written.

use std::os::unix::fs::MetadataExt;

use crate::common::cli::{Enlist, Home};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::halt::Halted;
use crate::common::mount::{Tmpfs, can_mount};
use crate::common::oracle::Snapshot;
use crate::common::postgres::Server;

const MIB: u64 = 1024 * 1024;

fn import(home: &Home, db: &Db) -> Enlist {
    home.enlist(db).args(["import", "in.csv", "--list", "x", "--region", "TR", "--batch-size", "500", "--json"])
}

fn home_with(csv: &str) -> Home {
    let home = Home::new();
    home.write("in.csv", csv);
    home
}

/// Imports until the disk is full, makes room, and compares with an import that nobody disturbed.
fn survive_a_full_disk(db: &Db, disk: &Tmpfs) {
    let csv = data::messy(60_000, 21);
    let (home, whole) = (home_with(&csv), Db::fresh(db.engine));
    let expected = Snapshot::take(&home, &whole, "x", &import(&home, &whole).run().expect(3));
    for full in 1..=2 {
        let output = import(&home, db).run();
        output.stopped(4, "disk_full");
        // To write down that it stopped takes room as well, and there may be none.
        let state = output.json()["state"].as_str().map(str::to_owned).expect("it has one");
        assert!(["interrupted", "running"].contains(&&*state), "full for the {full}. time: {}", output.told());
        assert!(output.count("rows") > 0 && output.count("rows") < 60_000, "{}", output.told());
        assert_eq!(output.count("rows"), db.committed_rows(), "{}", output.told());
    }
    disk.grow(500 * MIB);
    let output = import(&home, db).run().expect(3);
    assert!(output.count("resumed_rows") > 0, "{}", output.told());
    Snapshot::take(&home, db, "x", &output).assert_same(&expected, "after the disk was full");
}

#[test]
fn a_full_disk_stops_an_import_into_sqlite_and_room_lets_it_go_on() {
    if !can_mount() {
        return;
    }
    let disk = Tmpfs::of(3 * MIB);
    let db = Db::fresh(Engine::Sqlite).via(format!("sqlite:{}", disk.path().join("x.db").display()));
    survive_a_full_disk(&db, &disk);
}

#[test]
fn a_full_disk_stops_an_import_into_postgres_and_room_lets_it_go_on() {
    if !can_mount() {
        return;
    }
    let disk = Tmpfs::of(6 * MIB);
    let server = Server::start();
    let admin = Db::on(&server);
    let folder = disk.path().join("small");
    std::fs::create_dir(&folder).unwrap();
    let server_user = std::fs::metadata(server.folder()).unwrap().uid();
    std::os::unix::fs::chown(&folder, Some(server_user), None).unwrap();
    admin.execute(&format!("CREATE TABLESPACE small LOCATION '{}'", folder.display()));
    admin.execute("CREATE DATABASE cramped TEMPLATE template0 TABLESPACE small");
    survive_a_full_disk(&admin.via(server.url("cramped")), &disk);
}

#[test]
fn a_disk_that_is_full_from_the_start_leaves_nothing_behind() {
    if !can_mount() {
        return;
    }
    let home = home_with(&data::clean(10, 1));
    // From no room for a file's first page to almost enough for all tables.
    for kib in [4, 8, 40, 64, 100, 140] {
        let disk = Tmpfs::of(kib * 1024);
        let db = Db::fresh(Engine::Sqlite).via(format!("sqlite:{}", disk.path().join("x.db").display()));
        import(&home, &db).run().stopped(4, "disk_full");
        disk.grow(20 * MIB);
        let output = import(&home, &db).run().expect(0);
        assert_eq!(output.count("inserted"), 10, "{kib} KiB: {}", output.told());
    }
}

#[test]
fn no_room_for_the_copy_of_standard_input_is_told_and_leaves_no_copy() {
    if !can_mount() {
        return;
    }
    let disk = Tmpfs::of(MIB);
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    let csv = data::clean(40_000, 2);
    let from_stdin = || {
        let line = ["import", "-", "--list", "x", "--json"];
        home.enlist(&db).args(line).env("XDG_STATE_HOME", disk.path()).stdin_bytes(csv.clone()).run()
    };
    from_stdin().refused(4, "disk_full");
    let spool = disk.path().join("enlist/spool");
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0, "half a copy stays behind");
    assert!(home.enlist(&db).args(["jobs", "--json"]).run().expect(0).json()["jobs"].as_array().unwrap().is_empty());
    disk.grow(50 * MIB);
    assert_eq!(from_stdin().expect(0).count("inserted"), 40_000);
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0, "the copy stays behind");
}

#[test]
fn no_room_for_the_reject_file_is_told_and_the_next_run_writes_it() {
    if !can_mount() {
        return;
    }
    let disk = Tmpfs::of(64 * 1024);
    let db = Db::fresh(Engine::Sqlite);
    let home = home_with(&format!("phone,name\n{},a\n{}", data::phone(1), "no number,somebody\n".repeat(5_000)));
    let file = disk.path().join("r.csv");
    std::fs::write(&file, "old\n").unwrap();
    let with_file = || import(&home, &db).arg("--rejects").arg(&file).run();
    let output = with_file();
    output.stopped(4, "disk_full");
    assert_eq!((output.count("rejected"), output.json()["state"].as_str()), (5_000, Some("done")), "{}", output.told());
    home.enlist(&db).args(["rejects", "last", "--json", "-o"]).arg(&file).run().refused(4, "disk_full");
    assert_eq!(std::fs::read(&file).unwrap(), b"old\n", "the old file is gone");
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 1, "half a file stays behind");
    disk.grow(MIB * 8);
    let again = with_file();
    assert_eq!((again.code, again.json()["replayed"].as_bool()), (3, Some(true)), "{}", again.told());
    let text = home.enlist(&db).args(["rejects", "last"]).run().expect(0).stdout;
    assert_eq!(std::fs::read(&file).unwrap(), text);
}

#[test]
fn a_database_on_a_read_only_disk_is_refused() {
    if !can_mount() {
        return;
    }
    let disk = Tmpfs::of(20 * MIB);
    let db = Db::fresh(Engine::Sqlite).via(format!("sqlite:{}", disk.path().join("x.db").display()));
    let home = home_with(&data::clean(10, 1));
    import(&home, &db).run().expect(0);
    home.write("in.csv", data::clean(20, 2));
    disk.freeze();
    import(&home, &db).run().refused(2, "database_read_only");
    let absent = db.via(format!("sqlite:{}", disk.path().join("y.db").display()));
    import(&home, &absent).run().refused(2, "database_read_only");
    let rejects = disk.path().join("r.csv");
    import(&home, &db).arg("--rejects").arg(rejects).run().refused(2, "unwritable_file");
}

/// What `export`, `lists` and `jobs` answer from a database.
fn read_all(home: &Home, db: &Db, nobody: bool) {
    let enlist = || if nobody { home.as_nobody(db) } else { home.enlist(db) };
    let export = enlist().args(["export", "--list", "x"]).run().expect(0);
    assert_eq!(export.text().lines().count(), 11, "{}", export.told());
    let lists = enlist().args(["lists", "--json"]).run().expect(0);
    assert_eq!(lists.json()["lists"][0]["recipients"], 10, "{}", lists.told());
    let jobs = enlist().args(["jobs", "--json"]).run().expect(0);
    assert_eq!(jobs.json()["jobs"].as_array().map(Vec::len), Some(1), "{}", jobs.told());
    let phone = data::phone(1);
    enlist().args(["opt-out", "--list", "x", &phone, "--json"]).run().refused(2, "database_read_only");
}

#[test]
fn a_database_that_cannot_be_written_can_be_read() {
    if !can_mount() {
        return;
    }
    let disk = Tmpfs::of(20 * MIB);
    let db = Db::fresh(Engine::Sqlite).via(format!("sqlite:{}", disk.path().join("x.db").display()));
    let home = home_with(&data::clean(10, 1));
    import(&home, &db).run().expect(0);
    disk.freeze();
    read_all(&home, &db, false);
    let absent = db.via(format!("sqlite:{}", disk.path().join("y.db").display()));
    home.enlist(&absent).args(["lists", "--json"]).run().refused(2, "database_not_found");
    // A folder, and a file in an open folder, that another user may not write.
    for open_folder in [false, true] {
        let folder = home.path().join(if open_folder { "open" } else { "shut" });
        std::fs::create_dir(&folder).unwrap();
        let theirs = db.via(format!("sqlite:{}", folder.join("x.db").display()));
        import(&home, &theirs).arg("--again").run().expect(0);
        let mode = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("it is ours");
        };
        mode(&folder.join("x.db"), 0o644);
        mode(&folder, if open_folder { 0o777 } else { 0o755 });
        read_all(&home, &theirs, true);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "something was left beside the database");
    }
}

#[test]
fn a_log_that_cannot_be_read_without_writing_is_no_silent_loss() {
    if !can_mount() {
        return;
    }
    let disk = Tmpfs::of(20 * MIB);
    let db = Db::fresh(Engine::Sqlite).via(format!("sqlite:{}", disk.path().join("x.db").display()));
    let home = home_with(&data::clean(10, 1));
    import(&home, &db).run().expect(0);
    // A writer that is killed leaves its last commits in the log.
    home.write("more.csv", data::clean(20_000, 2));
    let line = ["import", "more.csv", "--list", "x", "--writers", "1", "--batch-size", "500", "--json"];
    Halted::after(home.enlist(&db).args(line), &db, 1, 500).kill(&db);
    let log = disk.path().join("x.db-wal");
    assert!(std::fs::metadata(&log).is_ok_and(|found| found.len() > 0), "the killed writer left no log");
    // What is read without the log would be older than what was committed.
    let _ = std::fs::remove_file(disk.path().join("x.db-shm"));
    disk.freeze();
    let output = home.enlist(&db).args(["export", "--list", "x", "-o", "out.csv", "--json"]).run();
    output.refused(2, "database_read_only");
}
