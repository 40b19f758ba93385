//! The last row of a number in the file wins, whatever the number of writers and whatever happened in between.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::wait::wait_until;

const LIST: &str = "lanes";
const PHONES: usize = 10_000;
const TIMES: usize = 5;

fn input() -> String {
    data::repeated(PHONES, TIMES, 42)
}

fn import(home: &Home, db: &Db, writers: u16) -> Enlist {
    let writers = writers.to_string();
    home.enlist(db).args(["import", "input.csv", "--list", LIST, "--create-list", "--region", "TR", "--json"]).args([
        "--batch-size",
        "500",
        "--writers",
        &writers,
    ])
}

fn export(home: &Home, db: &Db) -> String {
    home.enlist(db).args(["export", "--list", LIST, "--format", "jsonl"]).run().expect(0).text()
}

/// Names by phone, as exported.
fn names(export: &str) -> BTreeMap<String, String> {
    export
        .lines()
        .map(|line| {
            let recipient: serde_json::Value = serde_json::from_str(line).expect("a JSON object a line");
            let text = |key: &str| recipient[key].as_str().unwrap_or_default().to_owned();
            (text("phone"), text("name"))
        })
        .collect()
}

#[track_caller]
fn check_figures(output: &Output) {
    let (phones, rows) = (i64::try_from(PHONES).expect("small"), i64::try_from(PHONES * TIMES).expect("small"));
    assert_eq!(output.code, 0, "{}", output.told());
    assert_eq!(output.count("rows"), rows, "{}", output.told());
    assert_eq!(output.count("inserted"), phones, "{}", output.told());
    let later = ["updated", "unchanged", "duplicates"].map(|name| output.count(name)).iter().sum::<i64>();
    assert_eq!(later, rows - phones, "{}", output.told());
}

#[track_caller]
fn check_names(csv: &str, export: &str, when: &str) {
    let (want, got) = (data::last_names(csv), names(export));
    let wrong: Vec<_> = want.iter().filter(|(phone, name)| got.get(*phone) != Some(name)).take(5).collect();
    assert!(wrong.is_empty(), "{when}: not the last row of the file: {wrong:?}");
    assert_eq!(got.len(), want.len(), "{when}");
}

/// The same table with any number of writers.
fn same_table(engine: Engine) {
    let csv = input();
    let mut tables = Vec::new();
    for writers in [1, 2, 4, 8] {
        let (home, db) = (Home::new(), Db::fresh(engine));
        home.write("input.csv", &csv);
        check_figures(&import(&home, &db, writers).run());
        let table = export(&home, &db);
        check_names(&csv, &table, &format!("{writers} writers"));
        tables.push(table);
    }
    assert!(tables.windows(2).all(|pair| pair[0] == pair[1]), "the exports differ");
}

#[test]
fn any_number_of_writers_makes_the_same_table_on_sqlite() {
    same_table(Engine::Sqlite);
}

#[test]
fn any_number_of_writers_makes_the_same_table_on_postgres() {
    same_table(Engine::Postgres);
}

both! {
    fn the_last_row_wins_after_a_kill_and_with_other_writers(db: Db) {
        let csv = input();
        let home = Home::new();
        home.write("input.csv", &csv);
        for (writers, rows) in [(4, 5_000), (8, 20_000), (1, 30_000)] {
            let mut running = import(&home, &db, writers).spawn();
            let mut ended = false;
            wait_until("enough rows are committed", Duration::from_secs(120), || {
                ended = running.ended();
                ended || db.committed_rows() >= rows
            });
            assert!(!ended && running.kill9(), "it ended before {rows} rows were committed: {}", running.stderr_so_far());
            db.settle();
        }
        let committed = db.committed_rows();
        let output = import(&home, &db, 2).run();
        check_figures(&output);
        assert_eq!(output.count("resumed_rows"), committed, "{}", output.told());
        check_names(&csv, &export(&home, &db), "after three kills");
    }
}
