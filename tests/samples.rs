//! Runs every row of the table in `samples/README.md` on both engines and compares what it promises.

use std::path::Path;

use crate::common::cli::{Home, Output};
use crate::common::engine::{Db, Engine};
use crate::common::rejects::read_rejects;

/// A row of the table.
struct Sample {
    file: String,
    commands: Vec<Vec<String>>,
    exit: i32,
    /// Field (a JSON pointer without its first slash) and value.
    figures: Vec<(String, String)>,
    refused: Vec<(u64, String)>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn table() -> Vec<Sample> {
    let readme = std::fs::read_to_string(root().join("samples/README.md")).expect("samples/README.md");
    let rows: Vec<Sample> = readme.lines().filter(|line| line.starts_with("| `")).map(sample).collect();
    assert!(rows.len() > 10, "only {} samples found", rows.len());
    rows
}

fn sample(line: &str) -> Sample {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [file, _shows, commands, exit, figures, refused] = cells[..] else {
        panic!("a row of samples/README.md has {} cells: {line}", cells.len())
    };
    let pairs = |cell: &str| -> Vec<(String, String)> {
        cell.split(", ")
            .filter(|pair| *pair != "none")
            .map(|pair| pair.split_once(' ').unwrap_or_else(|| panic!("'{pair}' is no pair: {line}")))
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect()
    };
    Sample {
        file: file.trim_matches('`').to_owned(),
        commands: commands.split('`').filter_map(|command| command.trim().strip_prefix("enlist ")).map(words).collect(),
        exit: exit.parse().unwrap_or_else(|_| panic!("'{exit}' is no exit code: {line}")),
        figures: pairs(figures),
        refused: pairs(refused).into_iter().map(|(n, reason)| (n.parse().expect("a line number"), reason)).collect(),
    }
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

fn run(sample: &Sample, db: &Db) -> Vec<String> {
    let home = Home::new();
    let mut last: Option<Output> = None;
    for command in &sample.commands {
        let rejects = home.path().join("rejects.csv");
        let _ = std::fs::remove_file(&rejects);
        let output = home.enlist(db).current_dir(root()).args(command).arg("--json").arg("--rejects").arg(&rejects);
        last = Some(output.run());
    }
    let Some(output) = last else { return vec![format!("{}: no command", sample.file)] };
    let mut problems = Vec::new();
    if output.code != sample.exit {
        problems.push(format!("{}: exit {}, want {}: {}", sample.file, output.code, sample.exit, output.told()));
    }
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else {
        problems.push(format!("{}: no JSON: {}", sample.file, output.told()));
        return problems;
    };
    for (field, want) in &sample.figures {
        let pointer = if field == "error" { "/error/code".to_owned() } else { format!("/{field}") };
        let got =
            json.pointer(&pointer).map_or("nothing".to_owned(), |v| v.as_str().map_or(v.to_string(), str::to_owned));
        if got != *want {
            problems.push(format!("{}: {field} {got}, want {want}", sample.file));
        }
    }
    match read_rejects(&home.path().join("rejects.csv")) {
        Ok(got) if got == sample.refused => {}
        Ok(got) => problems.push(format!("{}: refused {got:?}, want {:?}", sample.file, sample.refused)),
        Err(problem) => problems.push(format!("{}: {problem}", sample.file)),
    }
    problems
}

fn run_all(engine: Engine) {
    let problems: Vec<String> = table().iter().flat_map(|sample| run(sample, &Db::fresh(engine))).collect();
    assert!(problems.is_empty(), "{engine:?}:\n{}", problems.join("\n"));
}

#[test]
fn every_sample_does_on_sqlite_what_its_readme_says() {
    run_all(Engine::Sqlite);
}

#[test]
fn every_sample_does_on_postgres_what_its_readme_says() {
    run_all(Engine::Postgres);
}
