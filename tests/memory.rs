//! Resident memory does not grow with the file, with its rejects, or with one endless line.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::wait::wait_until;

const MIB: u64 = 1024 * 1024;

/// What an import may take, whatever it reads.
const MOST: u64 = 150 * MIB;

/// Runs a command and returns the most memory that it took; panics where that is more than `MOST`.
#[track_caller]
fn run_within(enlist: Enlist, what: &str) -> (Output, u64) {
    let mut running = enlist.spawn();
    let mut peak = 0;
    wait_until(what, Duration::from_secs(600), || {
        peak = running.peak().unwrap_or(peak);
        running.ended()
    });
    let output = running.wait(Duration::from_secs(10));
    assert!(peak > MIB, "{what}: the memory was not measured: {}", output.told());
    assert!(peak < MOST, "{what}: it took {} MiB, at most {} are allowed", peak / MIB, MOST / MIB);
    (output, peak)
}

fn write_lines(home: &Home, name: &str, mut line: impl FnMut(usize, &mut String) -> bool) {
    let mut file = BufWriter::new(File::create(home.path().join(name)).unwrap());
    let mut text = String::new();
    for n in 0.. {
        text.clear();
        let more = line(n, &mut text);
        file.write_all(text.as_bytes()).unwrap();
        if !more {
            break;
        }
    }
    file.flush().unwrap();
}

both! {
    fn a_long_file_is_imported_exported_and_repeated_in_constant_memory(db: Db) {
        const ROWS: usize = 500_000;
        let home = Home::new();
        write_lines(&home, "in.csv", |n, text| {
            if n == 0 {
                text.push_str("phone,name,email,city,segment\n");
            }
            let _ = writeln!(text, "{},Kişi {n},user{n}@example.com,\"Şişli, İstanbul\",{}", data::phone(n), n % 4);
            n + 1 < ROWS
        });
        let import = |words: &[&str]| home.enlist(&db).args(["import", "in.csv", "--list", "x", "--json"]).args(words);
        let (output, _) = run_within(import(&[]), "the first import");
        assert_eq!(output.expect(0).count("inserted"), 500_000);
        // Every row meets what is stored.
        let (output, _) = run_within(import(&["--again"]), "the same rows again");
        assert_eq!(output.expect(0).count("unchanged"), 500_000);
        let (output, _) = run_within(home.enlist(&db).args(["export", "--list", "x", "-o", "out.csv"]), "the export");
        output.expect(0);
    }

    fn many_large_rejects_are_stored_and_written_in_constant_memory(db: Db) {
        const ROWS: usize = 300;
        let home = Home::new();
        let note = "x".repeat(900_000);
        write_lines(&home, "in.csv", |n, text| {
            if n == 0 {
                text.push_str("phone,note\n");
                let _ = writeln!(text, "{},short", data::phone(1));
            }
            let _ = writeln!(text, "hatalı {n},{note}");
            n + 1 < ROWS
        });
        let line = ["import", "in.csv", "--list", "x", "--json", "--rejects", "r.csv"];
        let (output, _) = run_within(home.enlist(&db).args(line), "the import");
        assert_eq!(output.expect(3).count("rejected"), 300);
        let (output, _) = run_within(home.enlist(&db).args(["rejects", "last", "-o", "r2.csv"]), "rejects -o");
        output.expect(0);
        let size = |name: &str| std::fs::metadata(home.path().join(name)).unwrap().len();
        assert!(size("r.csv") > 300 * 900_000);
        assert_eq!(size("r.csv"), size("r2.csv"));
    }

    fn a_record_without_end_is_refused_in_constant_memory(db: Db) {
        let home = Home::new();
        let piece = "x".repeat(1_000_000);
        // Once on one line, once inside quotes over many lines; the rows around it are stored.
        write_lines(&home, "in.csv", |n, text| {
            match n {
                0 => {
                    let _ = write!(text, "phone,note\n{},before\n{},", data::phone(1), data::phone(2));
                }
                1..=50 => text.push_str(&piece),
                _ => {
                    let _ = write!(text, "\n{},after\n", data::phone(3));
                }
            }
            n <= 50
        });
        let line = ["import", "in.csv", "--list", "x", "--json", "--rejects", "r.csv"];
        let (output, _) = run_within(home.enlist(&db).args(line), "a line of 50 MB");
        let output = output.expect(3);
        assert_eq!((output.count("inserted"), output.count("rejected")), (2, 1), "{}", output.told());
        write_lines(&home, "first.csv", |n, text| {
            text.push_str(&piece);
            n < 50
        });
        let (output, _) = run_within(home.enlist(&db).args(["import", "first.csv", "--list", "x", "--json"]), "a header of 50 MB");
        output.stopped(1, "line_too_long");
    }
}
