//! Runs every import case of `tests/cases` on both engines.
//!
//! A case is a folder with its input bytes and an `expect.json`:
//!
//! * `args`: import options (region, delimiter, encoding, escape, sheet, header, skip_lines, map, type, max_name, batch,
//!   newer_by, input: `-` is standard input) and `steps`, several runs in turn; a step can be killed after so many
//!   records (`kill_after_records`), take another region, or run twice at once (`a.csv & a.csv`)
//! * `generate`: inputs that are made instead of kept: `{file: [{"text": …, "times": n}, …]}`
//! * `before`: recipients that exist before the import
//! * `stored`: every recipient of the list afterwards; `rejected`: `[{line, reason}]`, `any` for any reason
//! * `file_error`: null, or `code: explanation` when the whole file is refused
//! * `never`: phones that may not be stored under any policy; `confidence`: clear or debatable
//! * `counts`: a generated file of N rows, judged by its figures

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::case::Case;
use crate::common::engine::{Db, Engine};

/// Cases on which we decided otherwise, with the reason. Only `debatable` ones may stand here.
const DECIDED_OTHERWISE: &[(&str, &str)] = &[];

/// How many cases run at once.
const THREADS: usize = 3;

#[test]
fn every_case_holds_on_sqlite() {
    run_all(Engine::Sqlite);
}

#[test]
fn every_case_holds_on_postgres() {
    run_all(Engine::Postgres);
}

#[test]
fn a_decision_against_a_case_names_a_debatable_case() {
    for (name, reason) in DECIDED_OTHERWISE {
        let expect = expectation(&folder().join(name));
        assert_eq!(expect["confidence"], "debatable", "{name}");
        assert!(!reason.is_empty(), "{name}");
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn expectation(case: &Path) -> Value {
    let text = std::fs::read(case.join("expect.json")).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", case.display()))
}

/// Runs every case, a few at a time, and panics with all that failed.
fn run_all(engine: Engine) {
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the cases are there")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("expect.json").is_file())
        .collect();
    cases.sort();
    assert!(cases.len() > 100, "only {} cases found", cases.len());
    let shared = (engine == Engine::Postgres).then(|| Db::fresh(engine));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let problems = judge(&name, case, shared.as_ref());
                    if !problems.is_empty() {
                        failures.lock().expect("nobody panics with it").insert(name, problems);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nobody panicked with it");
    let list: Vec<String> =
        failures.iter().map(|(name, problems)| format!("{name}: {}", problems.join("; "))).collect();
    assert!(list.is_empty(), "{} of {} cases fail on {engine:?}:\n{}", list.len(), cases.len(), list.join("\n"));
}

/// What is wrong with a case, in the light of what was decided.
fn judge(name: &str, folder: &Path, shared: Option<&Db>) -> Vec<String> {
    let expect = expectation(folder);
    let own;
    let db = match shared {
        Some(db) => db,
        None => {
            own = Db::fresh(Engine::Sqlite);
            &own
        }
    };
    // A panic (a command that never ends) is the fault of this case, not of those behind it.
    let run = std::panic::AssertUnwindSafe(|| Case::new(name, folder, &expect, db).run());
    let problems = match std::panic::catch_unwind(run) {
        Ok(Ok(problems)) => problems,
        Ok(Err(problem)) => vec![problem],
        Err(panic) => vec![panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "it panicked".to_owned())],
    };
    if DECIDED_OTHERWISE.iter().any(|(case, _)| *case == name) {
        return problems.into_iter().filter(|problem| problem.starts_with("NEVER")).collect();
    }
    problems
}
