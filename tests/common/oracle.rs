//! What an import left behind, to be compared with what an uninterrupted run left.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::cli::{Home, Output};
use super::engine::Db;

/// The figures that an interrupted job must share with an uninterrupted one.
const COUNTS: [&str; 9] =
    ["rows", "inserted", "updated", "unchanged", "stale", "duplicates", "rejected", "blank", "opted_out"];

/// A list, the rejects of the last job and its figures, all as the command line tells them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// `export --format jsonl`.
    pub(crate) export: String,
    /// `rejects last`: a CSV file.
    pub(crate) rejects: String,
    /// The counts of the JSON summary.
    pub(crate) counts: Map<String, Value>,
}

impl Snapshot {
    /// What `list` holds now, and what `summary` (the output of `import --json`) said.
    pub(crate) fn take(home: &Home, db: &Db, list: &str, summary: &Output) -> Self {
        let export = home.enlist(db).args(["export", "--list", list, "--format", "jsonl"]).run().expect(0).text();
        let rejects = home.enlist(db).args(["rejects", "last"]).run().expect(0).text();
        let json = summary.json();
        let counts = COUNTS
            .iter()
            .map(|name| {
                let value = json.get(*name).unwrap_or_else(|| panic!("no '{name}': {}", summary.told()));
                ((*name).to_owned(), value.clone())
            })
            .collect();
        let snapshot = Self { export, rejects, counts };
        snapshot.check_sum();
        snapshot
    }

    /// Rule 14: each row ended in exactly one way.
    fn check_sum(&self) {
        let count = |name: &str| self.counts.get(name).and_then(Value::as_u64).expect("counts are numbers");
        let parts: u64 =
            ["inserted", "updated", "unchanged", "stale", "duplicates", "rejected"].map(count).iter().sum();
        assert_eq!(count("rows"), parts, "the figures do not add up: {:?}", self.counts);
    }

    /// Panics with what differs, unless both are equal byte for byte.
    #[track_caller]
    pub(crate) fn assert_same(&self, expected: &Self, when: &str) {
        let mut said = String::new();
        for (name, value) in &expected.counts {
            let got = self.counts.get(name).unwrap_or(&Value::Null);
            if got != value {
                let _ = writeln!(said, "  {name}: {got} instead of {value}");
            }
        }
        said += &difference("export", &self.export, &expected.export);
        said += &difference("rejects", &self.rejects, &expected.rejects);
        assert!(said.is_empty(), "{when}: not as after an uninterrupted run\n{said}");
    }
}

/// The first lines that only one of two texts has; empty when the texts are equal.
pub(crate) fn difference(what: &str, got: &str, expected: &str) -> String {
    if got == expected {
        return String::new();
    }
    let mut said = format!("  {what}: {} lines instead of {}\n", got.lines().count(), expected.lines().count());
    let only_in = |a: &str, b: &str| -> Vec<String> {
        let other: std::collections::HashSet<&str> = b.lines().collect();
        a.lines().filter(|line| !other.contains(line)).take(5).map(str::to_owned).collect()
    };
    let (extra, missing) = (only_in(got, expected), only_in(expected, got));
    for (mark, lines) in [('+', &extra), ('-', &missing)] {
        for line in lines {
            let _ = writeln!(said, "    {mark} {line}");
        }
    }
    if extra.is_empty() && missing.is_empty() {
        let at = got.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
        let _ = writeln!(said, "    the same lines in another order or number; they part at byte {at}");
    }
    said
}
