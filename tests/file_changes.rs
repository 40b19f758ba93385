//! The input changes, goes or comes back while it is imported: never a foreign row, never a skipped one.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::halt::Halted;
use crate::common::oracle::Snapshot;

const LIST: &str = "changes";
const BATCH: i64 = 500;
/// Rows of a file of several blocks of 1 MiB, and of one that fits into the first.
const LARGE: usize = 50_000;
const SMALL: usize = 5_000;
/// In every row of the other content, and in no row of the first.
const FOREIGN: &str = "@FOREIGN";

fn import(home: &Home, db: &Db, input: &str) -> Enlist {
    home.enlist(db).args(["import", input, "--list", LIST, "--create-list", "--region", "TR", "--json"]).args([
        "--batch-size",
        &BATCH.to_string(),
        "--writers",
        "1",
    ])
}

/// A list and another one of the same length.
fn contents(rows: usize) -> (String, String) {
    let own = data::clean(rows, 9);
    let foreign = own.replace("@example", FOREIGN);
    assert!(own.len() == foreign.len() && (rows == SMALL || own.len() > 3 << 20));
    (own, foreign)
}

/// What an import of `bytes` leaves that nobody disturbs.
fn undisturbed(engine: Engine, bytes: impl AsRef<[u8]>) -> Snapshot {
    let (home, db) = (Home::new(), Db::fresh(engine));
    home.write("input.csv", bytes);
    let output = import(&home, &db, "input.csv").run();
    assert!(matches!(output.code, 0 | 3), "{}", output.told());
    Snapshot::take(&home, &db, LIST, &output)
}

fn export(home: &Home, db: &Db) -> String {
    home.enlist(db).args(["export", "--list", LIST, "--format", "jsonl"]).run().expect(0).text()
}

fn state(db: &Db, job: i64) -> String {
    db.texts(&format!("SELECT CAST(state AS TEXT) FROM jobs WHERE id = {job}")).remove(0).unwrap_or_default()
}

#[track_caller]
fn check_no_foreign_row(home: &Home, db: &Db, when: &str) {
    let export = export(home, db);
    assert!(!export.contains(FOREIGN), "{when}: rows of another content are stored");
    assert_eq!(i64::try_from(export.lines().count()).expect("small"), db.committed_rows(), "{when}");
}

/// Ways in which a file becomes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Its bytes are overwritten, its length stays.
    Overwritten,
    /// Rows are added at its end.
    Grown,
    /// Its second half is cut off.
    Cut,
    /// It is written anew, cut to nothing first.
    Rewritten,
    /// Another file takes its name.
    Replaced,
    /// It is gone.
    Deleted,
}

fn change(path: &Path, change: Change, foreign: &str) {
    let open = || OpenOptions::new().write(true).open(path).expect("the input is there");
    match change {
        Change::Overwritten => open().write_all_at(foreign.as_bytes(), 0).expect("it is written"),
        Change::Grown => {
            let end = open().metadata().expect("it is there").len();
            let rows: String = (0..1_000).map(|k| format!("{},x,x{FOREIGN},x,1\n", data::phone(k))).collect();
            open().write_all_at(rows.as_bytes(), end).expect("it is written");
        }
        Change::Cut => open().set_len(foreign.len() as u64 / 2).expect("it is cut"),
        Change::Rewritten => std::fs::write(path, foreign).expect("it is written"),
        Change::Replaced => {
            let aside = path.with_extension("new");
            std::fs::write(&aside, foreign).and_then(|()| std::fs::rename(&aside, path)).expect("it is replaced");
        }
        Change::Deleted => std::fs::remove_file(path).expect("it was there"),
    }
}

/// Whether the reading notices. What is read already, or opened, is imported as it was.
fn is_noticed(rows: usize, change: Change) -> bool {
    match change {
        Change::Overwritten | Change::Cut | Change::Rewritten => rows == LARGE,
        Change::Grown => true,
        Change::Replaced | Change::Deleted => false,
    }
}

both! {
    fn a_file_that_changes_in_mid_import_brings_no_foreign_row_and_skips_none(db: Db) {
        for rows in [LARGE, SMALL] {
            let (own, foreign) = contents(rows);
            let expected = undisturbed(db.engine, &own);
            for how in [Change::Overwritten, Change::Grown, Change::Cut, Change::Rewritten, Change::Replaced, Change::Deleted] {
                // Rewritten twice the size of the matrix tells nothing new about small files.
                if rows == SMALL && how == Change::Rewritten {
                    continue;
                }
                let when = format!("{rows} rows, {how:?}");
                let (home, db) = (Home::new(), Db::fresh(db.engine));
                let path = home.write("input.csv", &own);
                let halted = Halted::after(import(&home, &db, "input.csv"), &db, 2, 2 * BATCH);
                change(&path, how, &foreign);
                let output = halted.finish();
                check_no_foreign_row(&home, &db, &when);
                if is_noticed(rows, how) {
                    assert_eq!((output.code, output.error().as_deref()), (5, Some("file_changed")), "{when}: {}", output.told());
                    assert_eq!(output.json()["state"], "interrupted", "{when}");
                    std::fs::write(&path, &own).expect("it is restored");
                    let again = import(&home, &db, "input.csv").run().expect(0);
                    assert_eq!(again.count("resumed_rows"), output.count("rows"), "{when}: {}", again.told());
                    Snapshot::take(&home, &db, LIST, &again).assert_same(&expected, &when);
                } else {
                    assert_eq!(output.code, 0, "{when}: {}", output.told());
                    Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, &when);
                }
            }
        }
    }

    fn new_content_at_the_path_supersedes_the_unfinished_import(db: Db) {
        let (own, foreign) = contents(SMALL);
        for how in [Change::Overwritten, Change::Grown, Change::Cut, Change::Replaced] {
            let (home, db) = (Home::new(), Db::fresh(db.engine));
            let path = home.write("input.csv", &own);
            let halted = Halted::after(import(&home, &db, "input.csv"), &db, 2, 2 * BATCH);
            halted.kill(&db);
            change(&path, how, &foreign);
            let output = import(&home, &db, "input.csv").run();
            assert!(matches!(output.code, 0 | 3), "{how:?}: {}", output.told());
            assert_eq!((output.count("job"), output.count("resumed_rows")), (2, 0), "{how:?}: {}", output.told());
            assert_eq!(state(&db, 1), "superseded", "{how:?}");
            let rows = std::fs::read_to_string(&path).expect("it is there").lines().count() - 1;
            assert_eq!(output.count("rows"), i64::try_from(rows).expect("small"), "{how:?}: {}", output.told());
            let refused = import(&home, &db, "input.csv").args(["--continue", "1"]).run();
            assert_eq!(refused.error().as_deref(), Some("file_changed"), "{how:?}: {}", refused.told());
            if how == Change::Replaced {
                assert_eq!(export(&home, &db).matches(FOREIGN).count(), SMALL);
            }
            // The first content again is another import once more, from its start.
            std::fs::write(&path, &own).expect("it is restored");
            let back = import(&home, &db, "input.csv").run().expect(0);
            assert_eq!((back.count("job"), back.count("resumed_rows")), (3, 0), "{how:?}: {}", back.told());
            assert_eq!(back.count("rows"), i64::try_from(SMALL).expect("small"), "{how:?}");
        }
    }

    fn a_file_that_is_gone_is_said_to_be_gone_and_resumes_when_it_is_back(db: Db) {
        let (own, _) = contents(SMALL);
        let expected = undisturbed(db.engine, &own);
        let home = Home::new();
        let path = home.write("input.csv", &own);
        Halted::after(import(&home, &db, "input.csv"), &db, 2, 2 * BATCH).kill(&db);
        change(&path, Change::Deleted, "");
        for line in [&[][..], &["--continue", "1"], &["--again"]] {
            let gone = import(&home, &db, "input.csv").args(line).run().expect(1);
            assert_eq!(gone.error().as_deref(), Some("not_found"), "{}", gone.told());
        }
        assert_eq!(db.committed_rows(), 2 * BATCH);
        home.write("elsewhere.csv", &own);
        // The content is what counts, not the path.
        let output = import(&home, &db, "elsewhere.csv").run().expect(0);
        assert_eq!((output.count("job"), output.count("resumed_rows")), (1, 2 * BATCH), "{}", output.told());
        Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, "imported from elsewhere");
    }
}

/// The spool files of this home.
fn spools(home: &Home) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                assert_eq!(mode(&path), 0o700, "{}", path.display());
                walk(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&home.path().join("state/enlist/spool"), &mut found);
    found
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Two batches are committed and the process is dead; its input is kept.
#[track_caller]
fn kill_piped(home: &Home, db: &Db, import: Enlist, bytes: &str) {
    let output = import.stdin_bytes(bytes).failpoint("import::after_commit=1*off->return").run();
    assert_eq!(output.signal, Some(6), "{}", output.told());
    db.settle();
    let kept = spools(home);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(mode(&kept[0]), 0o600);
}

#[track_caller]
fn check_resumed(home: &Home, db: &Db, output: &Output, expected: &Snapshot) {
    assert_eq!((output.code, output.count("resumed_rows")), (0, 2 * BATCH), "{}", output.told());
    Snapshot::take(home, db, LIST, output).assert_same(expected, "resumed");
    assert!(spools(home).is_empty(), "{:?} stays behind", spools(home));
}

both! {
    fn standard_input_is_resumed_when_it_is_piped_again(db: Db) {
        let (own, foreign) = contents(SMALL);
        let expected = undisturbed(db.engine, &own);
        let home = Home::new();
        kill_piped(&home, &db, import(&home, &db, "-"), &own);
        let output = import(&home, &db, "-").stdin_bytes(own.clone()).run();
        check_resumed(&home, &db, &output, &expected);
        let replay = import(&home, &db, "-").stdin_bytes(own).run().expect(0);
        assert_eq!(replay.json()["replayed"], true, "{}", replay.told());
        assert!(spools(&home).is_empty());
        // Other standard input is another import and supersedes nothing.
        kill_piped(&home, &db, import(&home, &db, "-"), &foreign);
        let third = foreign.replace(FOREIGN, "@another");
        import(&home, &db, "-").stdin_bytes(third).run().expect(0);
        assert_eq!(state(&db, 2), "running");
        let output = import(&home, &db, "-").args(["--continue", "2"]).run().expect(0);
        assert_eq!(output.count("resumed_rows"), 2 * BATCH, "{}", output.told());
    }

    fn standard_input_is_resumed_without_the_data_from_what_was_kept(db: Db) {
        let (own, _) = contents(SMALL);
        let expected = undisturbed(db.engine, &own);
        let home = Home::new();
        kill_piped(&home, &db, import(&home, &db, "-"), &own);
        let output = import(&home, &db, "-").args(["--continue", "1"]).run();
        check_resumed(&home, &db, &output, &expected);
    }

    fn the_same_standard_input_for_two_lists_at_once_is_two_imports(db: Db) {
        let (own, _) = contents(LARGE);
        let home = Home::new();
        let into = |list: &'static str| {
            let line = ["import", "-", "--list", list, "--create-list", "--json", "--batch-size", "500", "--writers", "1"];
            home.enlist(&db).args(line).stdin_bytes(own.clone())
        };
        let whole = i64::try_from(LARGE).expect("small");
        let halted = Halted::after(into("one"), &db, 1, BATCH);
        assert_eq!(into("two").run().expect(0).count("rows"), whole);
        halted.kill(&db);
        // What the second did not need any more is still there for the first.
        let line = ["import", "-", "--list", "one", "--continue", "1", "--json"];
        let output = home.enlist(&db).args(line).run().expect(0);
        assert_eq!((output.count("rows"), output.count("resumed_rows")), (whole, BATCH), "{}", output.told());
        assert!(spools(&home).is_empty(), "{:?} stays behind", spools(&home));
    }

    fn the_same_standard_input_twice_at_once_is_one_import(db: Db) {
        let (own, _) = contents(SMALL);
        let home = Home::new();
        let piped = || import(&home, &db, "-").stdin_bytes(own.clone());
        let halted = Halted::after(piped(), &db, 1, BATCH);
        let held = piped().run().expect(75);
        assert_eq!(held.error().as_deref(), Some("held"), "{}", held.told());
        let again = piped().args(["--again", "--wait"]).spawn();
        crate::common::wait::wait_until("it waits", std::time::Duration::from_secs(60), || {
            again.stderr_so_far().contains("waiting for it")
        });
        let whole = i64::try_from(SMALL).expect("small");
        assert_eq!(halted.finish().expect(0).count("inserted"), whole);
        let again = again.wait(std::time::Duration::from_secs(60)).expect(0);
        assert_eq!((again.count("job"), again.count("unchanged")), (2, whole), "{}", again.told());
        assert!(spools(&home).is_empty(), "{:?} stays behind", spools(&home));
    }

    fn a_named_pipe_is_resumed_like_standard_input(db: Db) {
        let (own, _) = contents(SMALL);
        let expected = undisturbed(db.engine, &own);
        let home = Home::new();
        let pipe = home.path().join("input.pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        let fed = |import: Enlist| {
            let (pipe, own) = (pipe.clone(), own.clone());
            // Opening waits for the program to open the other end.
            let writer = std::thread::spawn(move || std::fs::write(pipe, own));
            let output = import.run();
            assert!(writer.join().expect("it does not panic").is_ok());
            output
        };
        let killed = fed(import(&home, &db, "input.pipe").failpoint("import::after_commit=1*off->return"));
        assert_eq!(killed.signal, Some(6), "{}", killed.told());
        db.settle();
        let output = fed(import(&home, &db, "input.pipe"));
        check_resumed(&home, &db, &output, &expected);
    }

    fn packed_and_converted_inputs_resume_where_they_stopped(db: Db) {
        // No letter that windows-1254 lacks; line breaks in cells, refused rows and blank ones included.
        let latin: String = data::messy(12_000, 21).chars().map(|c| if c > '\u{17f}' { 'x' } else { c }).collect();
        let half = latin.len() / 2;
        let half = (half..).find(|at| latin.is_char_boundary(*at)).expect("its end is one");
        let gzip = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).expect("memory takes it")
        };
        let (legacy, _, lossy) = encoding_rs::WINDOWS_1254.encode(&latin);
        assert!(!lossy);
        let utf16: Vec<u8> = "\u{feff}".encode_utf16().chain(latin.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let utf16_be: Vec<u8> = "\u{feff}".encode_utf16().chain(latin.encode_utf16()).flat_map(u16::to_be_bytes).collect();
        let kinds: [(&str, Vec<u8>); 7] = [
            ("utf-8", latin.clone().into_bytes()),
            ("utf-8 with a mark", format!("\u{feff}{latin}").into_bytes()),
            ("gzip", gzip(&latin)),
            ("gzip of two members", [gzip(&latin[..half]), gzip(&latin[half..])].concat()),
            ("windows-1254", legacy.into_owned()),
            ("utf-16, low byte first", utf16),
            ("utf-16, high byte first", utf16_be),
        ];
        let expected = undisturbed(db.engine, &latin);
        for (name, bytes) in kinds {
            let (home, db) = (Home::new(), Db::fresh(db.engine));
            home.write("input.csv", &bytes);
            for kills in [2, 9] {
                let killed = import(&home, &db, "input.csv").failpoint(&format!("import::after_commit={kills}*off->return")).run();
                assert_eq!(killed.signal, Some(6), "{name}: {}", killed.told());
                db.settle();
            }
            let committed = db.committed_rows();
            let output = import(&home, &db, "input.csv").run().expect(3);
            assert_eq!(output.count("resumed_rows"), committed, "{name}: {}", output.told());
            Snapshot::take(&home, &db, LIST, &output).assert_same(&expected, name);
        }
    }
}
