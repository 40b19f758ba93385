//! How fast rows are decoded and judged, without a database: `make bench-rows`.

#![allow(clippy::expect_used, clippy::print_stderr, missing_docs, reason = "a benchmark is a program for people")]

#[allow(dead_code, unused_imports, unused_macros, reason = "a toolbox that is shared with the tests")]
#[path = "../tests/common/mod.rs"]
#[macro_use]
mod common;

#[path = "rows/fixed.rs"]
mod fixed;
#[allow(dead_code, reason = "the other kinds are for imports")]
#[path = "import/lists.rs"]
mod lists;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const ROWS: usize = 100_000;

fn steps(criterion: &mut Criterion) {
    let fixed = fixed::Fixed::new(ROWS);
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Bytes(fixed.text.len() as u64));
    group.bench_function("messy", |bencher| bencher.iter(|| fixed.decode()));
    group.finish();
    let mut group = criterion.benchmark_group("normalise");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("messy", |bencher| bencher.iter(|| fixed.normalise()));
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
