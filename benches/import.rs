//! What an import costs, beside what a user would write by hand: `make bench`.
//!
//! Real processes on a PostgreSQL of its own with the settings below and on SQLite files. Everything that is compared
//! runs in turn in the same minutes; medians and their ratios are printed and written to `target/bench.json`.
//! `ENLIST_BENCH_ROWS` (1,000,000), `ENLIST_BENCH_ROUNDS` (3) and `ENLIST_BENCH_LARGE` (10,000,000; 0 leaves those
//! lists out) change what is measured.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is a program for people"
)]

#[allow(dead_code, unused_imports, unused_macros, reason = "a toolbox that is shared with the tests")]
#[path = "../tests/common/mod.rs"]
#[macro_use]
mod common;

#[path = "import/baseline.rs"]
mod baseline;
#[path = "import/figures.rs"]
mod figures;
#[path = "import/lists.rs"]
mod lists;
#[path = "import/ours.rs"]
mod ours;

use common::cli::Home;
use common::engine::{Db, Engine};
use common::postgres::Server;
use figures::{Bound, Figures};
use ours::Import;

/// The settings that the figures in the README were taken with.
const SERVER: &str = "shared_buffers = 1GB
max_wal_size = 4GB
checkpoint_timeout = 15min
fsync = on
synchronous_commit = on";

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn main() {
    let rows = number("ENLIST_BENCH_ROWS", 1_000_000);
    let rounds = number("ENLIST_BENCH_ROUNDS", 3);
    let large = number("ENLIST_BENCH_LARGE", 10_000_000);
    let home = Home::new();
    let (clean, messy, ready) =
        (home.path().join("clean.csv"), home.path().join("messy.csv"), home.path().join("b.csv"));
    lists::write(&clean, lists::Kind::Clean, rows, 0);
    lists::write(&messy, lists::Kind::Messy, rows, 0);
    lists::write(&ready, lists::Kind::Table, rows, 0);
    let server = Server::start_with(SERVER);
    let mut figures = Figures::new(rows, rounds, SERVER);

    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}: PostgreSQL");
        baseline::upsert(&server, &clean, &mut figures);
        ours::postgres(&home, &server, &messy, rows, &mut figures);
        baseline::copy(&server, &ready, &mut figures);
        eprintln!("round {round} of {rounds}: SQLite");
        baseline::sqlite(&home, &clean, &mut figures);
        ours::sqlite(&home, &messy, rows, &mut figures);
        ours::check(&home, &messy, &mut figures);
    }
    if large > 0 {
        eprintln!("{large} rows");
        ours::large(&home, &server, large, &messy, &mut figures);
    }

    let f = &mut figures;
    f.ratio("first import, PostgreSQL, to (a)", "postgres first", "a first", Bound::AtMost(0.38));
    f.ratio("first import, PostgreSQL, to (b)", "postgres first", "b", Bound::AtMost(1.0));
    f.ratio("first import, SQLite, to (c)", "sqlite first", "c", Bound::AtMost(0.5));
    f.ratio("the same again, PostgreSQL, to first", "postgres replay", "postgres first", Bound::AtMost(0.03));
    f.ratio("the same again, SQLite, to first", "sqlite replay", "sqlite first", Bound::AtMost(0.03));
    f.ratio("--again, nothing new, PostgreSQL, to (a) again", "postgres again", "a again", Bound::AtMost(0.33));
    f.ratio("--again, nothing new, SQLite, to first", "sqlite again", "sqlite first", Bound::None);
    f.ratio(
        "resume after a kill at 90 %, PostgreSQL, to first",
        "postgres resume",
        "postgres first",
        Bound::AtMost(0.15),
    );
    f.ratio("resume after a kill at 90 %, SQLite, to first", "sqlite resume", "sqlite first", Bound::AtMost(0.15));
    f.ratio("database size, PostgreSQL, to (a)", "postgres size", "a size", Bound::AtMost(1.2));
    f.ratio("WAL, PostgreSQL, to (a)", "postgres wal", "a wal", Bound::AtMost(1.25));
    f.value("dead rows after a first import", "postgres dead", Bound::AtMost(0.0));
    f.value("enlist check, rows per second", "check rate", Bound::AtLeast(1_000_000.0));
    f.value("peak memory, PostgreSQL, MB", "postgres peak", Bound::None);
    f.value("peak memory, SQLite, MB", "sqlite peak", Bound::None);
    if large > 0 {
        for engine in Engine::BOTH {
            let name = ours::name(engine);
            f.ratio(
                &format!("rows per second, {large} rows to {rows}, {name}"),
                &format!("{name} large rate"),
                &format!("{name} rate"),
                Bound::AtLeast(0.8),
            );
            f.ratio(
                &format!("peak memory, {large} rows to {rows}, {name}"),
                &format!("{name} large peak"),
                &format!("{name} peak"),
                Bound::AtMost(1.1),
            );
            f.value(
                &format!("peak memory, {large} rows, {name}, MB"),
                &format!("{name} large peak"),
                Bound::AtMost(120.0),
            );
            f.ratio(
                &format!("rows per second into a list of {large}, {name}"),
                &format!("{name} into large rate"),
                &format!("{name} rate"),
                Bound::AtLeast(0.6),
            );
        }
    }
    figures.print();
    figures.save(concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench.json"));
}

/// A SQLite database in the home, and not yet there.
fn sqlite_in(home: &Home, name: &str) -> Db {
    Db::seen(Engine::Sqlite, &format!("sqlite:{}", home.path().join(name).display()))
}

/// Removes a SQLite database with everything beside it.
fn remove(home: &Home, name: &str) {
    for ending in ["", "-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(home.path().join(format!("{name}{ending}")));
    }
}

/// The import of `file` into the list that every figure is about.
fn import<'a>(home: &'a Home, db: &'a Db, file: &'a std::path::Path) -> Import<'a> {
    Import { home, db, file }
}
