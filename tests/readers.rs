//! Other readers of CSV are asked the same question: on well-formed files all see the same cells.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use enlist::decode::Decoder;
use enlist::position::Position;
use enlist::row::Row;
use enlist::settings::Dialect;

use crate::common::engine::{Db, Engine};

/// Cells with everything that may stand between quotes.
fn table(random: &mut fastrand::Rng, columns: usize) -> Vec<Vec<String>> {
    const SIGNS: [&str; 14] = ["a", "b ", " c", ",", ";", "\"", "\"\"", "\n", "\r\n", "ş", "Ω", "0532", "\\", "'"];
    let cell =
        |random: &mut fastrand::Rng| (0..random.usize(0..6)).map(|_| SIGNS[random.usize(0..SIGNS.len())]).collect();
    (0..random.usize(1..12))
        .map(|n| (0..columns).map(|column| if column == 0 { format!("row {n}") } else { cell(random) }).collect())
        .collect()
}

/// Writes a table as RFC 4180 has it.
fn written(table: &[Vec<String>], delimiter: char) -> String {
    let mut text = String::new();
    for row in table {
        let cells: Vec<String> = row.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
        let _ = write!(text, "{}\r\n", cells.join(&delimiter.to_string()));
    }
    text
}

fn ours(text: &str, delimiter: u8) -> Vec<Vec<String>> {
    let dialect = Dialect { delimiter, quote: Some(b'"'), escape: None };
    let mut decoder = Decoder::new(text.as_bytes(), dialect, Position::START);
    let (mut rows, mut row) = (Vec::new(), Row::default());
    while decoder.next(&mut row).expect("memory does not fail") {
        assert!(row.fault.is_none(), "{:?}", row.fault);
        let cells = (0..row.cells.len()).map(|at| String::from_utf8(row.cell(at).to_vec()).expect("it was text"));
        rows.push(cells.collect());
    }
    rows
}

fn pythons(path: &std::path::Path, delimiter: char) -> Vec<Vec<String>> {
    let script = "import csv, json, sys\nwith open(sys.argv[1], newline='', encoding='utf-8') as f:\n    print(json.dumps(list(csv.reader(f, delimiter=sys.argv[2]))))";
    let delimiter = delimiter.to_string();
    let output =
        Command::new("python3").args(["-c", script]).arg(path).arg(delimiter).stderr(Stdio::inherit()).output();
    serde_json::from_slice(&output.expect("python3 runs").stdout).expect("a table")
}

#[test]
fn well_formed_files_read_as_python_reads_them() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let delimiter = [',', ';', '\t'][random.usize(0..3)];
        let table = table(&mut random, 3);
        let text = written(&table, delimiter);
        let path = folder.path().join("t.csv");
        std::fs::write(&path, &text).expect("written");
        assert_eq!(ours(&text, delimiter as u8), table, "seed {seed}");
        assert_eq!(pythons(&path, delimiter), table, "seed {seed}");
    }
}

#[test]
fn well_formed_files_read_as_postgres_copies_them() {
    let db = Db::fresh(Engine::Postgres);
    db.execute("CREATE TABLE copied (n bigint GENERATED ALWAYS AS IDENTITY, a text, b text, c text)");
    for seed in 100..130 {
        let mut random = fastrand::Rng::with_seed(seed);
        let delimiter = [',', ';', '\t'][random.usize(0..3)];
        let table = table(&mut random, 3);
        let text = written(&table, delimiter);
        db.execute("TRUNCATE copied");
        copy(&db, &text, delimiter);
        let mut copied = Vec::new();
        for column in ["a", "b", "c"] {
            copied.push(db.texts(&format!("SELECT {column} FROM copied ORDER BY n")));
        }
        let rows = copied.first().map_or(0, Vec::len);
        let theirs: Vec<Vec<String>> =
            (0..rows).map(|n| copied.iter().map(|column| column[n].clone().unwrap_or_default()).collect()).collect();
        assert_eq!(ours(&text, delimiter as u8), theirs, "seed {seed}");
    }
}

/// Copies through psql, as an administrator would.
fn copy(db: &Db, text: &str, delimiter: char) {
    use std::io::Write;
    let statement = format!(
        "\\copy public.copied (a, b, c) FROM STDIN WITH (FORMAT csv, DELIMITER E'{}')",
        delimiter.escape_default()
    );
    let mut psql = Command::new("psql")
        .args(["-q", "-v", "ON_ERROR_STOP=1", "-d", &db.url, "-c", &statement])
        .stdin(Stdio::piped())
        .spawn()
        .expect("psql runs");
    psql.stdin.take().expect("piped").write_all(text.as_bytes()).expect("sent");
    assert!(psql.wait().expect("it ends").success());
}
