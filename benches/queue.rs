//! How fast the queue is: small jobs per second, and claims beside a million finished jobs.
//!
//! Real worker processes on SQLite and on a PostgreSQL of its own. `ENLIST_BENCH_JOBS` sets the number of jobs
//! (10,000). Prints a table; `make bench-queue` runs it.

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

use std::time::{Duration, Instant};

use enlist::holder;
use enlist::import::enqueue;
use enlist::import::report::{Entry, Expected, NewList, Request, Wait};
use enlist::job::QueueName;
use enlist::location::Location;
use enlist::settings::Wanted;
use enlist::stop::Stop;
use enlist::store::{Access, Options, QueueTerms, Store, Target};

use common::cli::Home;
use common::engine::{Db, Engine};

/// Lists that the jobs are spread over: jobs of one list run one at a time.
const LISTS: usize = 100;

/// Claims of which the median is taken.
const CLAIMS: usize = 300;

fn main() {
    let jobs = std::env::var("ENLIST_BENCH_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("{:<12}{:>9}{:>9}{:>12}", "engine", "workers", "jobs", "jobs/s");
    for engine in Engine::BOTH {
        for workers in [1, 4, 8] {
            let (home, db) = (Home::new(), Db::fresh(engine));
            runtime.block_on(fill(&home, &db, jobs));
            let begun = Instant::now();
            let running: Vec<_> =
                (0..workers).map(|_| home.enlist(&db).args(["-q", "work", "--drain", "--json"]).spawn()).collect();
            let done: i64 =
                running.into_iter().map(|worker| worker.wait(Duration::from_secs(3_600)).expect(0).count("done")).sum();
            assert_eq!(usize::try_from(done), Ok(jobs));
            let rate = jobs as f64 / begun.elapsed().as_secs_f64();
            println!("{:<12}{workers:>9}{jobs:>9}{rate:>12.1}", format!("{engine:?}"));
        }
    }
    println!("\n{:<12}{:>16}{:>22}{:>9}", "engine", "claim, ms", "beside 1,000,000, ms", "ratio");
    for engine in Engine::BOTH {
        let (home, db) = (Home::new(), Db::fresh(engine));
        let (alone, beside) = runtime.block_on(async {
            fill(&home, &db, 2 * CLAIMS).await;
            let alone = claims(&db).await;
            finished(&db);
            (alone, claims(&db).await)
        });
        println!("{:<12}{alone:>16.3}{beside:>22.3}{:>9.2}", format!("{engine:?}"), beside / alone);
    }
}

async fn store(db: &Db) -> Store {
    Store::open(&Target::parse(&db.url).expect("a URL"), Access::Create, &Options::default()).await.expect("it opens")
}

/// Queues `jobs` imports of ten rows each.
async fn fill(home: &Home, db: &Db, jobs: usize) {
    let store = store(db).await;
    for n in 0..jobs {
        let rows: String = (0..10).map(|row| format!("+90532{:07},name {n}\n", (n * 10 + row) % 10_000_000)).collect();
        let path = home.write(&format!("{n}.csv"), format!("phone,name\n{rows}"));
        let request = Request {
            input: Location::Path(path),
            list: format!("list-{}", n % LISTS),
            new_list: NewList::Create,
            wanted: Wanted::default(),
            batch_rows: None,
            writers: Some(1),
            max_rejects: None,
            expected: Expected::default(),
            max_changes: None,
            duplicates: None,
            preview: 0,
            entry: Entry::Auto,
            wait: Wait::No,
            lease: Duration::from_secs(30),
            state_dir: home.path().join("state"),
            notify: None,
        };
        let terms = QueueTerms { queue: QueueName::default(), priority: 0, run_at: None, max_attempts: 5 };
        enqueue(&store, &request, &terms, &Stop::new(), &|_| {}).await.expect("it is queued");
    }
    store.close().await;
}

/// The median time of a claim, in milliseconds. Each claimed job is done at once, so that its list is free.
async fn claims(db: &Db) -> f64 {
    let store = store(db).await;
    let mut times = Vec::new();
    for _ in 0..CLAIMS {
        let begun = Instant::now();
        let claimed = store.claim(&QueueName::default(), &holder::claim_owner(), Duration::from_secs(600)).await;
        times.push(begun.elapsed());
        let job = claimed.expect("it answers").expect("it is ready").job.id;
        db.execute(&format!(
            "UPDATE jobs SET state = 'done', result = '{{}}', owner = NULL, lease_until = NULL, finished_at = run_at
             WHERE id = {job}"
        ));
    }
    store.close().await;
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1_000.0
}

/// Adds a million finished jobs, as those that are done already.
fn finished(db: &Db) {
    let numbers = match db.engine {
        Engine::Postgres => "generate_series(1, 1000000) AS g(n)",
        Engine::Sqlite => {
            "(WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 1000000) SELECT n FROM g) AS g"
        }
    };
    db.execute(&format!(
        "INSERT INTO jobs (kind, key, generation, direct, list_id, fingerprint, source, payload, rules_version, lanes,
           batch_rows, state, run_at, created_at, finished_at, result)
         SELECT 'import', 'old ' || n, 1, d.direct, d.list_id, 'old ' || n, d.source, d.payload, d.rules_version, 1, 1,
           'done', d.run_at, d.created_at, d.run_at, '{{}}'
         FROM {numbers} CROSS JOIN (SELECT * FROM jobs WHERE state = 'done' ORDER BY id LIMIT 1) AS d"
    ));
    if db.engine == Engine::Postgres {
        db.execute("ANALYZE");
    }
}
