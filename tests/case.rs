//! One import case on one database: runs its steps and says what is wrong.
//!
//! `tests/cases.rs` tells what a case may hold. It does not know which cases there are.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::common::cli::{Enlist, Home, Output};
use crate::common::data;
use crate::common::engine::Db;
use crate::common::rejects::read_rejects;
use crate::common::wait::wait_until;

/// The longest that one command of a case may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// A recipient as `export` tells it or as a case wants it.
fn by_phone(recipients: &[Value]) -> BTreeMap<&str, &Value> {
    recipients.iter().filter_map(|r| Some((r["phone"].as_str()?, r))).collect()
}

/// One case on one database.
pub(crate) struct Case<'a> {
    expect: &'a Value,
    home: Home,
    db: &'a Db,
    list: String,
    /// The rejects of every run, in order.
    rejects: Vec<(u64, String)>,
    /// The error of the last run.
    error: Option<String>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(name: &str, folder: &Path, expect: &'a Value, db: &'a Db) -> Self {
        let home = Home::new();
        for entry in std::fs::read_dir(folder).expect("the case is there").flatten() {
            if entry.file_name() != "expect.json" {
                std::fs::copy(entry.path(), home.path().join(entry.file_name())).expect("inputs can be copied");
            }
        }
        for (file, parts) in expect["generate"].as_object().into_iter().flatten() {
            let text: String = array(parts)
                .iter()
                .map(|part| part["text"].as_str().expect("text").repeat(number(&part["times"])))
                .collect();
            home.write(file, text);
        }
        Self { expect, home, db, list: format!("cases-{name}"), rejects: Vec::new(), error: None }
    }

    fn args(&self) -> &'a Value {
        &self.expect["args"]
    }

    fn steps(&self) -> Vec<Value> {
        match self.args()["steps"].as_array() {
            Some(steps) => steps.clone(),
            None => {
                let first = self.expect["inputs"][0].as_str().unwrap_or("input.csv");
                vec![serde_json::json!({ "run": self.args()["input"].as_str().unwrap_or(first) })]
            }
        }
    }

    /// What is wrong; `Err` when it could not even be looked at.
    pub(crate) fn run(mut self) -> Result<Vec<String>, String> {
        if self.expect["counts"].is_object() {
            return self.run_generated();
        }
        let steps = self.steps();
        let killed = steps.iter().any(|step| step.get("kill_after_records").is_some());
        if killed && !cfg!(feature = "failpoints") {
            eprintln!("{}: needs --features failpoints, not run", self.list);
            return Ok(Vec::new());
        }
        self.store_before()?;
        for (n, step) in steps.iter().enumerate() {
            self.run_step(n, step)?;
        }
        let mut problems = Vec::new();
        let wanted_error = self.expect["file_error"].as_str().and_then(|e| e.split(':').next()).map(str::trim);
        if wanted_error != self.error.as_deref() {
            problems.push(format!("file error: want {wanted_error:?}, got {:?}", self.error));
        }
        let export = self.home.enlist(self.db).args(["export", "--list", &self.list, "--format", "jsonl"]).run();
        let recipients: Vec<Value> = if export.code == 0 {
            export
                .text()
                .lines()
                .map(serde_json::from_str)
                .collect::<Result<_, _>>()
                .map_err(|e| format!("export: {e}"))?
        } else if wanted_error.is_some() && array(&self.expect["before"]).is_empty() {
            Vec::new()
        } else {
            return Err(format!("export: {}", export.told()));
        };
        let stored = by_phone(&recipients);
        for phone in array(&self.expect["never"]).iter().filter_map(Value::as_str) {
            if stored.contains_key(phone) {
                problems.push(format!("NEVER {phone}"));
            }
        }
        if self.expect["stored_may_be_partial"].as_bool() == Some(true) {
            return Ok(problems);
        }
        problems.extend(compare_stored(array(&self.expect["stored"]), &stored));
        let parallel = steps.iter().any(|step| step["run"].as_str().is_some_and(|run| run.contains(" & ")));
        if wanted_error.is_none() && !parallel {
            problems.extend(self.compare_rejects(killed));
        }
        Ok(problems)
    }

    fn store_before(&self) -> Result<(), String> {
        for recipient in array(&self.expect["before"]) {
            let here = recipient["list_id"].as_i64().unwrap_or(1) == 1;
            let list = if here { self.list.clone() } else { format!("{}-other", self.list) };
            let phone = recipient["phone"].as_str().expect("a phone");
            let name = recipient["name"].as_str().unwrap_or_default();
            self.home.write("before.csv", format!("phone,name\n{phone},{name}\n"));
            let args = ["import", "before.csv", "--list", &list, "--create-list", "--region", "TR", "--json"];
            let imported = self.home.enlist(self.db).args(args).run();
            if imported.code != 0 {
                return Err(format!("before: {}", imported.told()));
            }
            if recipient["status"] == "opted_out" {
                let out = self.home.enlist(self.db).args(["opt-out", "--list", &list, phone]).run();
                if out.code != 0 {
                    return Err(format!("opt-out: {}", out.told()));
                }
            }
        }
        Ok(())
    }

    fn run_step(&mut self, n: usize, step: &Value) -> Result<(), String> {
        let text = step["run"].as_str().expect("a step runs a file");
        let rejects = format!("rejects-{n}.csv");
        if let Some((file, _)) = text.split_once(" & ") {
            return self.run_twice_at_once(file, step);
        }
        let source = if let Some((file, name)) = text.split_once(" as ") {
            let to = name.split(' ').next().unwrap_or(name);
            std::fs::copy(self.home.path().join(file), self.home.path().join(to)).expect("inputs can be copied");
            to
        } else if text.contains(" (") && !self.home.path().join(text).exists() {
            // A remark for the reader follows the name.
            text.split(' ').next().unwrap_or(text)
        } else {
            text
        };
        let mut command = self.import(source, step, &rejects);
        if source == "-" {
            let file = self.expect["inputs"][0].as_str().expect("an input");
            command = command.stdin_file(self.home.path().join(file));
        }
        if let Some(records) = step["kill_after_records"].as_u64() {
            let commits = records.div_ceil(self.args()["batch"].as_u64().unwrap_or(2));
            let point = format!("import::after_commit={}*off->return", commits.saturating_sub(1));
            let output = command.args(["--writers", "1"]).failpoint(&point).run();
            return match output.code {
                0 | 3 => Err("the crash point import::after_commit did not stop the run".to_owned()),
                _ => Ok(()),
            };
        }
        let appended = self.args()["how"].as_str().is_some_and(|how| how.contains("append"));
        let output = if appended {
            let running =
                command.args(["--batch-size", "1", "--writers", "1"]).failpoint("import::after_commit=1*sleep(1500)");
            self.append_while(running, source)
        } else {
            command.spawn().wait(DEADLINE)
        };
        self.read_summary(&output)?;
        self.rejects.extend(read_rejects(&self.home.path().join(rejects))?);
        Ok(())
    }

    /// Starts the import and appends to its file once something is committed.
    fn append_while(&self, command: Enlist, source: &str) -> Output {
        let before = self.db.committed_rows();
        let running = command.spawn();
        wait_until("the first batch is committed", DEADLINE, || self.db.committed_rows() > before);
        let more = self.home.read("append.bin");
        let mut file = std::fs::OpenOptions::new().append(true).open(self.home.path().join(source)).expect("the input");
        std::io::Write::write_all(&mut file, &more).expect("the input can grow");
        running.wait(DEADLINE)
    }

    fn run_twice_at_once(&self, file: &str, step: &Value) -> Result<(), String> {
        let both = [0, 1].map(|i| self.import(file, step, &format!("rejects-both-{i}.csv")).spawn());
        for output in both.map(|running| running.wait(DEADLINE)) {
            if !matches!(output.code, 0 | 3 | 75) {
                return Err(format!("of two runs at once: {}", output.told()));
            }
        }
        Ok(())
    }

    fn import(&self, file: &str, step: &Value, rejects: &str) -> Enlist {
        let args = self.args();
        let mut words: Vec<String> = ["import", file, "--list", &self.list, "--create-list", "--json"]
            .iter()
            .map(|word| (*word).to_owned())
            .collect();
        words.extend(["--rejects".to_owned(), rejects.to_owned()]);
        for (key, option) in [
            ("region", "--region"),
            ("delimiter", "--delimiter"),
            ("encoding", "--encoding"),
            ("escape", "--escape"),
            ("sheet", "--sheet"),
            ("skip_lines", "--skip-lines"),
            ("type", "--type"),
            ("max_name", "--max-name-length"),
            ("batch", "--batch-size"),
            ("newer_by", "--newer-by"),
        ] {
            let value = if key == "region" { step.get(key).or_else(|| args.get(key)) } else { args.get(key) };
            match value {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => words.extend([option.to_owned(), text.clone()]),
                Some(other) => words.extend([option.to_owned(), other.to_string()]),
            }
        }
        if args["header"].as_bool() == Some(false) {
            words.push("--no-header".to_owned());
        }
        for (field, column) in args["map"].as_object().into_iter().flatten() {
            let column = column.as_str().map_or_else(|| format!("#{column}"), str::to_owned);
            words.extend(["--map".to_owned(), format!("{field}={column}")]);
        }
        self.home.enlist(self.db).args(words)
    }

    fn read_summary(&mut self, output: &Output) -> Result<(), String> {
        let summary: Value =
            serde_json::from_slice(&output.stdout).map_err(|e| format!("no JSON summary ({e}): {}", output.told()))?;
        self.error = summary["error"]["code"].as_str().map(str::to_owned);
        if self.error.is_some() {
            return Ok(());
        }
        let count = |name: &str| summary[name].as_u64().unwrap_or(0);
        let parts: u64 =
            ["inserted", "updated", "unchanged", "stale", "duplicates", "rejected"].map(count).iter().sum();
        if count("rows") == parts { Ok(()) } else { Err(format!("the figures do not add up: {summary}")) }
    }

    fn compare_rejects(&self, killed: bool) -> Option<String> {
        let mut got = self.rejects.clone();
        got.sort();
        if killed {
            got.dedup();
        }
        let mut want: Vec<(u64, String)> = array(&self.expect["rejected"])
            .iter()
            .map(|r| (r["line"].as_u64().expect("a line"), r["reason"].as_str().expect("a reason").to_owned()))
            .collect();
        want.sort();
        let same = got.len() == want.len()
            && got.iter().zip(&want).all(|(got, want)| got.0 == want.0 && (want.1 == "any" || got.1 == want.1));
        (!same).then(|| format!("rejects {got:?}, want {want:?}"))
    }

    /// A file of many rows, judged by its figures.
    fn run_generated(self) -> Result<Vec<String>, String> {
        const ROWS: u64 = 20_000;
        self.home.write("big.csv", data::spellings(ROWS));
        let args = ["import", "big.csv", "--list", &self.list, "--create-list", "--region", "TR", "--json"];
        let output = self.home.enlist(self.db).args(args).run();
        let summary = output.json();
        let want = [
            ("rejected", ROWS / 1000),
            ("stored", ROWS - ROWS / 100),
            ("repeated", ROWS / 100 - ROWS / 1000),
            ("rows", ROWS),
        ];
        let count = |name: &str| summary[name].as_u64().unwrap_or(0);
        let got = |name: &str| match name {
            "stored" => count("inserted"),
            // In one part they fold; across two the second finds its row as it is.
            "repeated" => count("duplicates") + count("unchanged"),
            _ => count(name),
        };
        Ok(want
            .into_iter()
            .filter(|(name, wanted)| got(name) != *wanted)
            .map(|(name, wanted)| format!("{name} {}, want {wanted}: {}", got(name), output.told()))
            .collect())
    }
}

fn compare_stored(want: &[Value], have: &BTreeMap<&str, &Value>) -> Vec<String> {
    let want = by_phone(want);
    let mut problems = Vec::new();
    problems.extend(want.keys().filter(|phone| !have.contains_key(*phone)).map(|phone| format!("missing {phone}")));
    problems.extend(have.keys().filter(|phone| !want.contains_key(*phone)).map(|phone| format!("extra {phone}")));
    for (phone, want) in want {
        let Some(have) = have.get(phone) else { continue };
        if want["name"] != have["name"] {
            problems.push(format!("{phone} name {}, want {}", have["name"], want["name"]));
        }
        for (key, told) in [("status", "status"), ("extra", "attributes")] {
            if want.get(key).is_some_and(|value| *value != have[told]) {
                problems.push(format!("{phone} {told} {}, want {}", have[told], want[key]));
            }
        }
    }
    problems
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> usize {
    value.as_u64().and_then(|n| usize::try_from(n).ok()).expect("a number")
}
