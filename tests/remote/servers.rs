//! Servers that refuse, are busy, break off, or know no parts.

use std::time::Duration;

use super::{Home, LIST, Site, check_no_copies, check_same, import, parts, undisturbed, wide};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::wait::wait_until;

fn fresh(content: impl Into<Vec<u8>>) -> (Home, Db, Site) {
    (Home::new(), Db::fresh(Engine::Sqlite), Site::with(content))
}

#[test]
fn an_answer_that_breaks_off_is_gone_on_with_from_the_byte_reached() {
    let csv = wide(2_500);
    let (home, db, site) = fresh(csv.as_bytes());
    site.behave(|manners| manners.breaks = 3);
    let output = import(&home, &db, &site.url()).run();
    check_same(&home, &db, &output, &undisturbed(db.engine, &csv));
    let parts = parts(&site.asked());
    let inside: Vec<_> = parts.iter().filter(|(from, _)| from % (1 << 20) != 0).collect();
    assert_eq!(inside.len(), 3, "{parts:?}");
}

#[test]
fn a_server_that_is_busy_for_a_moment_is_asked_again() {
    let csv = data::clean(100, 1);
    let (home, db, site) = fresh(csv.as_bytes());
    site.behave(|manners| manners.busy = 2);
    let output = import(&home, &db, &site.url()).run();
    check_same(&home, &db, &output, &undisturbed(db.engine, &csv));
}

#[test]
fn a_server_that_reads_no_parts_is_copied_and_the_copy_goes() {
    let csv = data::messy(20_000, 5);
    let (home, db, site) = fresh(csv.as_bytes());
    site.behave(|manners| manners.parts = false);
    let output = import(&home, &db, &site.url()).run();
    check_same(&home, &db, &output, &undisturbed(db.engine, &csv));
    check_no_copies(&home);
    let shown = home.enlist(&db).args(["jobs", "show", "last", "--json"]).run().expect(0).text();
    assert!(shown.contains(&site.url()), "{shown}");
}

#[test]
fn a_server_that_does_not_say_how_long_the_file_is_is_refused() {
    let (home, db, site) = fresh(data::clean(10, 1));
    site.behave(|manners| (manners.parts, manners.length) = (false, false));
    let output = import(&home, &db, &site.url()).run();
    output.refused(1, "remote_unmeasured");
    assert!(output.stderr.contains("curl"), "{}", output.told());
}

#[test]
fn an_empty_file_is_called_empty() {
    let (home, db, site) = fresh("");
    let output = import(&home, &db, &site.url()).run();
    output.refused(1, "empty_file");
    assert!(output.stderr.contains(&site.url()), "{}", output.told());
    check_no_copies(&home);
}

#[test]
fn what_a_server_refuses_is_told_with_what_to_do() {
    for (status, exit, code, says) in [
        ("404 Not Found", 1, "not_found", "there is no file"),
        ("410 Gone", 1, "not_found", "there is no file"),
        ("403 Forbidden", 2, "remote_refused", "USER:PASSWORD@"),
        ("401 Unauthorized", 2, "remote_refused", "status 401"),
        ("400 Bad Request", 2, "remote_refused", "status 400"),
    ] {
        let (home, db, site) = fresh(data::clean(10, 1));
        site.behave(|manners| manners.refuses = Some(status));
        let output = import(&home, &db, &site.url()).run();
        output.refused(exit, code);
        assert!(output.stderr.contains(says), "{}", output.told());
        let lists = home.enlist(&db).args(["lists", "--json"]).run().expect(0).text();
        assert!(!lists.contains(LIST), "a list was made: {lists}");
    }
}

#[test]
fn a_server_that_is_away_is_a_matter_for_later() {
    let (home, db, site) = fresh(data::clean(10, 1));
    site.set_away(true);
    let output = import(&home, &db, &site.url()).args(["--lease", "1s"]).run();
    output.refused(75, "remote_unreachable");
    // A port on which nobody listens.
    let output = import(&home, &db, "http://127.0.0.1:9/a.csv").args(["--lease", "1s"]).run();
    output.refused(75, "remote_unreachable");
    assert!(output.stderr.contains("refused"), "{}", output.told());
}

#[test]
fn addresses_that_are_not_read_are_refused_before_anything_is_asked() {
    let (home, db) = (Home::new(), Db::fresh(Engine::Sqlite));
    for address in ["ftp://host/a.csv", "s3://bucket", "https:///a.csv", "s3://bucket/a.csv?versionId=1"] {
        import(&home, &db, address).run().refused(2, "usage");
    }
    assert!(db.file().is_some_and(|file| !file.exists()), "a database was made");
}

#[test]
fn a_digest_and_a_number_of_rows_are_compared_with_what_the_server_has() {
    let csv = data::clean(50, 2);
    let (home, db, site) = fresh(csv.as_bytes());
    let input = home.write("same.csv", &csv);
    let sum = std::process::Command::new("sha256sum").arg(input).output().expect("sha256sum");
    let sum = String::from_utf8_lossy(&sum.stdout).chars().take(64).collect::<String>();
    let expecting = |rows: &str, sum: &str| {
        import(&home, &db, &site.url()).args(["--expect-rows", rows, "--expect-sha256", sum]).run()
    };
    expecting("51", &sum).refused(5, "unexpected_input");
    expecting("50", &"0".repeat(64)).refused(5, "unexpected_input");
    expecting("50", &sum).expect(0);
}

#[test]
fn a_file_is_waited_for_until_its_last_change_lies_back_far_enough() {
    let csv = data::clean(50, 2);
    let (home, db, site) = fresh(csv.as_bytes());
    // Changed long ago: there is nothing to wait for.
    import(&home, &db, &site.url()).args(["--settle", "1h"]).run().expect(0);
    let (home, db, site) = fresh(csv.as_bytes());
    // The server does not say since when: it is watched.
    site.behave(|manners| manners.modified = None);
    let running = import(&home, &db, &site.url()).args(["--settle", "3s"]).spawn();
    wait_until("the file is looked at", Duration::from_secs(30), || !site.asked().is_empty());
    site.replace(data::clean(60, 2));
    site.behave(|manners| manners.tag = Some("\"two\""));
    let output = running.wait(Duration::from_secs(60)).expect(0);
    assert_eq!(output.count("rows"), 60, "{}", output.told());
}

#[test]
fn a_check_reads_an_address_and_writes_nothing() {
    let (home, db, site) = fresh(data::clean(50, 2));
    let line = ["check", &site.url(), "--list", LIST, "--json"];
    let output = home.enlist(&db).args(line).run().expect(0);
    assert_eq!(output.count("rows"), 50, "{}", output.told());
    assert!(db.file().is_some_and(|file| !file.exists()), "a database was made");
}

/// A file of some 270 MB passes through, and what is held of it stays small.
#[test]
fn memory_does_not_grow_with_the_file() {
    const MOST: u64 = 96 << 20;
    let (home, db, site) = fresh(data::clean(4_000_000, 1));
    let wrong = "0".repeat(64);
    let mut running = import(&home, &db, &site.url()).args(["--expect-sha256", &wrong]).spawn();
    let mut peak = 0;
    wait_until("the file is read", Duration::from_secs(120), || {
        peak = running.peak().unwrap_or(0).max(peak);
        running.ended()
    });
    running.wait(Duration::from_secs(10)).refused(5, "unexpected_input");
    assert!(peak > 0 && peak < MOST, "{} MiB were used", peak >> 20);
}
