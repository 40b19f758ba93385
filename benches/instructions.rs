//! A guard that no clock disturbs: how many instructions it takes to decode and to judge a fixed list.
//!
//! `make bench-check` runs it: it starts itself under `valgrind --tool=callgrind`, which counts the instructions
//! within one function, and compares the counts with `benches/instructions.txt`. More than five in a hundred away,
//! either way, it ends with 1: after a change that is meant, `make bench-record` writes the new counts.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is a program for people"
)]

#[allow(dead_code, unused_imports, unused_macros, reason = "a toolbox that is shared with the tests")]
#[path = "../tests/common/mod.rs"]
#[macro_use]
mod common;

#[path = "rows/fixed.rs"]
mod fixed;
#[allow(dead_code, reason = "the other kinds are for imports")]
#[path = "import/lists.rs"]
mod lists;

use std::process::{Command, ExitCode};

const ROWS: usize = 10_000;

/// What is counted.
const STEPS: [&str; 2] = ["decode", "normalise"];

/// How far a count may be from the recorded one, in percent: compilers and processors differ a little.
const TOLERANCE: f64 = 5.0;

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    match arguments.next().as_deref() {
        Some("run") => {
            let fixed = fixed::Fixed::new(ROWS);
            let done = match arguments.next().as_deref() {
                Some("decode") => counted_decode(&fixed),
                Some("normalise") => counted_normalise(&fixed),
                other => panic!("there is no step {other:?}"),
            };
            assert_eq!(done, ROWS);
            ExitCode::SUCCESS
        }
        Some("record") => {
            let lines: String = STEPS.iter().map(|step| format!("{step} {}\n", count(step))).collect();
            std::fs::write(RECORD, lines).expect("the record can be written");
            ExitCode::SUCCESS
        }
        _ => check(),
    }
}

/// The name of this function and the next is what valgrind is told to count.
#[inline(never)]
fn counted_decode(fixed: &fixed::Fixed) -> usize {
    fixed.decode()
}

#[inline(never)]
fn counted_normalise(fixed: &fixed::Fixed) -> usize {
    fixed.normalise()
}

fn check() -> ExitCode {
    let record = std::fs::read_to_string(RECORD).expect("make bench-record writes it");
    let mut code = ExitCode::SUCCESS;
    for step in STEPS {
        let recorded: u64 = record
            .lines()
            .find_map(|line| line.strip_prefix(step)?.trim().parse().ok())
            .unwrap_or_else(|| panic!("{RECORD} has no count of '{step}'"));
        let counted = count(step);
        let away = (counted as f64 / recorded as f64 - 1.0) * 100.0;
        let verdict = if away.abs() <= TOLERANCE { "ok" } else { "CHANGED" };
        println!("{step:<12}{counted:>14} instructions for {ROWS} rows, recorded {recorded}: {away:+.2} % {verdict}");
        if away.abs() > TOLERANCE {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// How many instructions a step takes.
fn count(step: &str) -> u64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("callgrind.out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", &format!("--toggle-collect=*counted_{step}*")])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().expect("it is running"))
        .args(["run", step])
        .output()
        .expect("valgrind is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counted = std::fs::read_to_string(out).expect("callgrind writes it");
    let summary = counted.lines().find_map(|line| line.strip_prefix("summary:").or(line.strip_prefix("totals:")));
    let count = summary.and_then(|count| count.trim().parse().ok()).expect("callgrind writes a sum");
    assert!(count > 0, "nothing was counted: has the function another name?");
    count
}
