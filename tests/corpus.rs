//! Runs what fuzzing kept through the properties that fuzzing checks.
//!
//! `tests/corpus/TARGET` holds the smallest inputs that together reach what each target reaches, and those that
//! once broke a property. `make fuzz` looks for more.

mod properties;

use std::path::Path;
use std::time::{Duration, Instant};

/// How long one input may take, in a build that is not optimised and on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls the property with every input of the target.
fn run(target: &str, property: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder).expect("the corpus").flatten().map(|e| e.path()).collect();
    inputs.sort();
    assert!(inputs.len() > 20, "only {} inputs in {}", inputs.len(), folder.display());
    for input in inputs {
        let bytes = std::fs::read(&input).expect("an input");
        let started = Instant::now();
        if std::panic::catch_unwind(|| property(&bytes)).is_err() {
            panic!("a property does not hold for {}", input.display());
        }
        assert!(started.elapsed() < PATIENCE, "{} took {:?}", input.display(), started.elapsed());
    }
}

#[test]
fn what_fuzzing_kept_of_sources_holds_their_properties() {
    run("source", properties::source);
}

#[test]
fn what_fuzzing_kept_of_texts_holds_their_properties() {
    run("decode", properties::decode);
}

#[test]
fn what_fuzzing_kept_of_rows_holds_their_properties() {
    run("normalise", properties::normalise);
}

#[test]
fn the_corpus_is_small() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let folders = std::fs::read_dir(root).expect("the corpus").flatten().filter(|entry| entry.path().is_dir());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).expect("a folder").flatten());
    let bytes: u64 = files.map(|file| file.metadata().expect("a file").len()).sum();
    assert!(bytes < 200_000, "{bytes} bytes: minimise it, see fuzz/run.sh");
}
