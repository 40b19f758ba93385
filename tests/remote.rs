//! Lists behind addresses: the same table as from a file, whatever server and network do meanwhile.

mod kinds;
mod moto;
mod queued;
mod secrets;
mod servers;
mod site;

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::halt::Halted;
use crate::common::oracle::Snapshot;
use site::{Asked, Site};

const LIST: &str = "remote";
const BATCH: i64 = 1_000;
/// Rows of more than a first range, and of more than what is asked for ahead as well.
const SEVERAL_BLOCKS: usize = 6_000;
const SEVERAL_RANGES: usize = 24_000;
/// In every row of the other content, and in no row of the first.
const FOREIGN: &str = "@FOREIGN";

/// `import` of what `input` names, with one writer.
fn import(home: &Home, db: &Db, input: &str) -> Enlist {
    home.enlist(db).args(["import", input, "--list", LIST, "--create-list", "--region", "TR", "--json"]).args([
        "--batch-size",
        &BATCH.to_string(),
        "--writers",
        "1",
    ])
}

/// A list of about a kilobyte a row.
fn wide(rows: usize) -> String {
    let mut text = String::new();
    for (n, line) in data::clean(rows, 11).lines().enumerate() {
        let note = if n == 0 { "note".to_owned() } else { format!("{n} ").repeat(1_000 / (n.to_string().len() + 1)) };
        text += &format!("{line},{note}\n");
    }
    text
}

/// What an import of a local file leaves that nobody disturbs.
fn undisturbed(engine: Engine, bytes: impl AsRef<[u8]>) -> Snapshot {
    let (home, db) = (Home::new(), Db::fresh(engine));
    home.write("input.csv", bytes);
    let output = import(&home, &db, "input.csv").run();
    assert!(matches!(output.code, 0 | 3), "{}", output.told());
    Snapshot::take(&home, &db, LIST, &output)
}

#[track_caller]
fn check_same(home: &Home, db: &Db, output: &Output, expected: &Snapshot) {
    assert!(matches!(output.code, 0 | 3), "{}", output.told());
    Snapshot::take(home, db, LIST, output).assert_same(expected, "from an address");
}

/// Nothing was left under the folder of copies.
#[track_caller]
fn check_no_copies(home: &Home) {
    let Ok(folder) = std::fs::read_dir(home.path().join("state/enlist/spool")) else { return };
    let names: Vec<_> = folder.flatten().map(|entry| entry.file_name()).collect();
    assert!(names.is_empty(), "copies stayed behind: {names:?}");
}

/// The parts that were asked for, those for a look at the head left out.
fn parts(asked: &[Asked]) -> Vec<(usize, usize)> {
    asked.iter().filter_map(|asked| asked.part).filter(|(from, to)| to - from >= 1024).collect()
}

both! {
    fn an_import_from_a_web_server_leaves_what_one_from_the_file_leaves(db: Db) {
        let csv = data::messy(30_000, 3);
        let (home, site) = (Home::new(), Site::with(csv.as_bytes()));
        let output = import(&home, &db, &site.url()).run();
        check_same(&home, &db, &output, &undisturbed(db.engine, &csv));
        let asked = site.asked();
        assert!(asked.iter().all(|asked| asked.method == "GET" && asked.part.is_some()), "{asked:?}");
        assert!(asked[1..].iter().all(|asked| asked.if_match.as_deref() == Some("\"one\"")), "{asked:?}");
        let again = import(&home, &db, &site.url()).run();
        assert!(again.json()["replayed"] == true, "{}", again.told());
    }

    fn a_killed_import_goes_on_with_a_range_from_where_it_stood(db: Db) {
        let csv = wide(SEVERAL_BLOCKS);
        let (home, site) = (Home::new(), Site::with(csv.as_bytes()));
        Halted::after(import(&home, &db, &site.url()), &db, 5, 5 * BATCH).kill(&db);
        site.asked();
        let output = import(&home, &db, &site.url()).run();
        assert_eq!(output.count("resumed_rows"), 5 * BATCH, "{}", output.told());
        check_same(&home, &db, &output, &undisturbed(db.engine, &csv));
        // The fingerprint and the header are read from the start; the rest from the block that holds the checkpoint.
        let parts = parts(&site.asked());
        let jumps: Vec<_> = parts.windows(2).filter(|two| two[1].0 != two[0].1 + 1).map(|two| two[1].0).collect();
        let (last, before) = jumps.split_last().expect("it jumps to the checkpoint");
        assert!(*last > 2 << 20 && last % (1 << 20) == 0 && before.iter().all(|from| *from == 0), "{parts:?}");
        let start = parts.iter().rposition(|(from, _)| from == last).expect("it was found");
        assert!(parts[start..].iter().all(|(from, _)| from >= last), "{parts:?}");
    }

    fn a_file_that_is_replaced_midway_leaves_no_foreign_row(db: Db) {
        let own = wide(SEVERAL_RANGES);
        let (home, site) = (Home::new(), Site::with(own.as_bytes()));
        let halted = Halted::after(import(&home, &db, &site.url()), &db, 1, BATCH);
        site.replace(own.replace("@example", FOREIGN));
        site.behave(|manners| manners.tag = Some("\"two\""));
        halted.finish().stopped(5, "file_changed");
        check_no_foreign_row(&home, &db);
        // The new file is another import, which replaces the unfinished one.
        let output = import(&home, &db, &site.url()).run().expect(0);
        assert_eq!(output.count("rows"), i64::try_from(SEVERAL_RANGES).expect("small"));
        let states = db.texts("SELECT CAST(state AS TEXT) FROM jobs ORDER BY id");
        assert_eq!(states, [Some("superseded".to_owned()), Some("done".to_owned())]);
    }

    fn a_server_that_goes_away_midway_leaves_an_import_that_resumes(db: Db) {
        let csv = wide(SEVERAL_RANGES);
        let (home, site) = (Home::new(), Site::with(csv.as_bytes()));
        let halted = Halted::after(import(&home, &db, &site.url()).args(["--lease", "2s"]), &db, 1, BATCH);
        site.set_away(true);
        halted.finish().stopped(4, "remote_stopped");
        site.set_away(false);
        let output = import(&home, &db, &site.url()).run();
        assert!(output.count("resumed_rows") >= BATCH, "{}", output.told());
        check_same(&home, &db, &output, &undisturbed(db.engine, &csv));
    }
}

#[track_caller]
fn check_no_foreign_row(home: &Home, db: &Db) {
    let export = home.enlist(db).args(["export", "--list", LIST, "--format", "jsonl"]).run().expect(0).text();
    assert!(!export.contains(FOREIGN), "rows of another content are stored");
    assert_eq!(i64::try_from(export.lines().count()).expect("small"), db.committed_rows());
}

/// However little a server tells about its versions, what it has of another file is not stored.
#[test]
fn a_replaced_file_is_noticed_on_servers_that_compare_nothing() {
    let own = wide(SEVERAL_RANGES);
    for (tag, next_tag, modified) in [
        (Some("\"one\""), Some("\"two\""), true),
        (Some("W/\"one\""), Some("W/\"two\""), true),
        (None, None, true),
        (None, None, false),
    ] {
        let (home, db, site) = (Home::new(), Db::fresh(Engine::Sqlite), Site::with(own.as_bytes()));
        site.behave(|manners| {
            (manners.tag, manners.compares) = (tag, false);
            manners.modified = manners.modified.take().filter(|_| modified);
        });
        let halted = Halted::after(import(&home, &db, &site.url()), &db, 1, BATCH);
        site.replace(own.replace("@example", FOREIGN));
        site.behave(|manners| manners.tag = next_tag);
        halted.finish().stopped(5, "file_changed");
        check_no_foreign_row(&home, &db);
    }
}

/// A signal ends the waiting for a server within moments, and the import resumes.
#[test]
fn a_signal_is_heard_while_a_server_is_silent() {
    let csv = wide(SEVERAL_RANGES);
    let (home, db, site) = (Home::new(), Db::fresh(Engine::Sqlite), Site::with(csv.as_bytes()));
    let halted = Halted::after(import(&home, &db, &site.url()), &db, 1, BATCH);
    site.set_away(true);
    let running = halted.resume();
    running.term();
    let output = running.wait(std::time::Duration::from_secs(20));
    output.stopped(143, "terminated");
    site.set_away(false);
    check_same(&home, &db, &import(&home, &db, &site.url()).run(), &undisturbed(db.engine, &csv));
}
