//! Chaos: workers are killed, frozen and replaced, the server crashes twice, clocks are wrong; what is left is what
//! a calm run leaves.

use std::time::{Duration, Instant};

use crate::common::cli::{Enlist, Home, Running};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::oracle::difference;
use crate::common::postgres::Server;
use crate::common::wait::let_pass;
use crate::queue::{drain, enqueue};

const WORKERS: usize = 4;
const JOBS: u64 = 40;
const ROWS: usize = 20_000;
const LISTS: u64 = 8;

/// Between two blows.
const BLOW: Duration = Duration::from_secs(2);

/// How long a frozen worker stays frozen: longer than its lease.
const FREEZE: Duration = Duration::from_secs(5);

/// When all must be over.
const DEADLINE: Duration = Duration::from_secs(900);

/// What the jobs left: by list the export, by job its state, figures and rejects.
#[derive(Debug)]
struct Left {
    exports: Vec<String>,
    results: String,
    rejects: String,
}

impl Left {
    fn take(home: &Home, db: &Db) -> Self {
        let export = |n: u64| {
            let list = format!("list-{n}");
            home.enlist(db).args(["export", "--list", &list, "--format", "jsonl"]).run().expect(0).text()
        };
        let joined = |sql: &str| db.texts(sql).into_iter().flatten().collect::<Vec<_>>().join("\n");
        Self {
            exports: (0..LISTS).map(export).collect(),
            results: joined("SELECT id || ' ' || state || ' ' || CAST(result AS TEXT) FROM jobs ORDER BY id"),
            rejects: joined(
                "SELECT job_id || ' ' || byte || ' ' || line || ' ' || reason || ' ' || detail FROM rejects ORDER BY job_id, byte",
            ),
        }
    }

    fn assert_same(&self, calm: &Self) {
        let mut said = difference("results", &self.results, &calm.results);
        said += &difference("rejects", &self.rejects, &calm.rejects);
        for (n, (got, wanted)) in self.exports.iter().zip(&calm.exports).enumerate() {
            said += &difference(&format!("list {n}"), got, wanted);
        }
        assert!(said.is_empty(), "not as after a calm run:\n{said}");
    }
}

/// A home with the files of every job and passes that come often, and the jobs queued in `db`.
fn queued(home: &Home, db: &Db) {
    for n in 0..JOBS {
        let file = format!("{n}.csv");
        if !home.path().join(&file).exists() {
            home.write(&file, data::messy(ROWS, n));
        }
        enqueue(home, db, &file, &format!("list-{}", n % LISTS))
            .args(["--max-attempts", "1000", "--batch-size", "1000", "--max-changes", "100%"])
            .run()
            .expect(0);
    }
}

/// The `n`th worker; two of them have a wrong clock where a server's clock counts.
fn worker(home: &Home, db: &Db, n: usize) -> Running {
    let worker: Enlist = home.enlist(db).args(["work", "--lease", "3s", "--grace", "60s", "--log-format", "json"]);
    match (db.engine, n) {
        (Engine::Postgres, 1) => shifted(worker, "+10m").spawn(),
        (Engine::Postgres, 2) => shifted(worker, "-10m").spawn(),
        _ => worker.spawn(),
    }
}

/// The same with a clock that is wrong by `by`.
fn shifted(worker: Enlist, by: &str) -> Enlist {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/lib64"];
    let library = folders
        .iter()
        .map(|folder| format!("{folder}/faketime/libfaketime.so.1"))
        .find(|path| std::path::Path::new(path).exists())
        .expect("libfaketime is installed: 'make faketime'");
    worker.env("LD_PRELOAD", library).env("FAKETIME", by).env("DONT_FAKE_MONOTONIC", "1")
}

fn unfinished(db: &Db) -> i64 {
    db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs WHERE state <> 'done'").unwrap_or(JOBS as i64)
}

/// Strikes workers until every job is done. Returns the log of all of them.
fn strike(home: &Home, db: &Db, server: Option<&Server>, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut log = String::new();
    let mut workers: Vec<Running> = (0..WORKERS).map(|n| worker(home, db, n)).collect();
    let mut frozen: Option<(usize, Instant)> = None;
    let begun = Instant::now();
    let mut blows = 0_u32;
    loop {
        let calm = let_pass(BLOW, || false);
        assert!(calm && begun.elapsed() < DEADLINE, "{} jobs are left\n{log}", unfinished(db));
        if let Some((n, since)) = frozen
            && since.elapsed() >= FREEZE
        {
            workers[n].cont();
            frozen = None;
        }
        if unfinished(db) == 0 {
            break;
        }
        blows += 1;
        if let Some(server) = server.filter(|_| blows == 4 || blows == 9) {
            server.kill_immediate();
            server.restart();
            continue;
        }
        let n = random.usize(..WORKERS);
        if frozen.is_some_and(|(held, _)| held == n) {
            continue;
        }
        match random.u8(..3) {
            0 => {
                workers[n].kill9();
                log += &workers[n].stderr_so_far();
                workers[n] = worker(home, db, n);
            }
            1 => {
                let old = std::mem::replace(&mut workers[n], worker(home, db, n));
                old.term();
                let output = old.wait(Duration::from_secs(120));
                assert_eq!(output.code, 0, "SIGTERM: {}", output.told());
                log += &output.stderr;
            }
            _ if frozen.is_none() => {
                workers[n].stop();
                frozen = Some((n, Instant::now()));
            }
            _ => {}
        }
    }
    if let Some((n, _)) = frozen {
        workers[n].cont();
    }
    for worker in workers {
        worker.term();
        let output = worker.wait(Duration::from_secs(120));
        assert_eq!(output.code, 0, "{}", output.told());
        log += &output.stderr;
    }
    assert!(blows >= 5, "it was over after {blows} blows: that shows nothing");
    log
}

/// The log must tell each job's story by its number: received at least once, done exactly once or never told
/// because its teller was killed.
fn assert_told(log: &str) {
    let lines: Vec<serde_json::Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let count = |job: u64, message: &str| {
        lines
            .iter()
            .filter(|line| line["span"]["job"].as_u64() == Some(job) && line["fields"]["message"] == message)
            .count()
    };
    for job in 1..=JOBS {
        assert!(count(job, "job received") >= 1, "job {job} was never received");
        assert!(count(job, "job done") <= 1, "job {job} was done more than once");
    }
}

fn chaos(engine: Engine) {
    let home = Home::new();
    home.write("config/enlist/enlist.toml", "[passes]\nsweep = \"1s\"\n");
    let calm_db = Db::fresh(engine);
    queued(&home, &calm_db);
    drain(&home, &calm_db).spawn().wait(DEADLINE).expect(0);
    let calm = Left::take(&home, &calm_db);

    let server = (engine == Engine::Postgres).then(Server::start);
    let db = server.as_ref().map_or_else(|| Db::fresh(engine), Db::on);
    queued(&home, &db);
    let seed = fastrand::u64(..);
    eprintln!("chaos on {engine:?}: seed {seed}");
    let log = strike(&home, &db, server.as_ref(), seed);
    Left::take(&home, &db).assert_same(&calm);
    assert_told(&log);
    let audit = "SELECT CAST(count(*) AS BIGINT) FROM job_attempts WHERE outcome = 'done'";
    assert_eq!(db.number(audit), Some(JOBS as i64), "each job is finished by one attempt");
    let fences = "SELECT CAST(count(*) AS BIGINT) FROM
        (SELECT job_id, fence FROM job_attempts GROUP BY job_id, fence HAVING count(*) > 1) twice";
    assert_eq!(db.number(fences), Some(0), "no fence is handed out twice");
}

#[test]
fn whatever_happens_to_workers_and_server_the_tables_are_those_of_a_calm_run_on_postgres() {
    chaos(Engine::Postgres);
}

#[test]
fn whatever_happens_to_workers_the_tables_are_those_of_a_calm_run_on_sqlite() {
    chaos(Engine::Sqlite);
}
