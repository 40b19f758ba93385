//! Processes that die in the middle of a handler, and what the next call makes of it.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use enlist::once::{HandlerError, Once, Terms};
use enlist::store::Store;

use super::inside::{add, added, make_table};
use super::{DEADLINE, column, done, key, short};
use crate::common::engine::{Db, Engine};
use crate::common::wait::wait_until;
use crate::store::open;

/// Long enough for a machine that is busy; others wait for so long after a crash.
const LEASE_MS: u64 = 2_000;

/// The effect outside the database: a line in a file.
fn effect(file: &Path, line: &str) -> Result<(), HandlerError> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).map_err(HandlerError::transient)?;
    writeln!(file, "{line}").map_err(HandlerError::transient)
}

async fn outside(store: &Store, file: &Path) -> Once<String> {
    let answer = store.once(key("pay"), &7, short(LEASE_MS), async |attempt| {
        effect(file, &format!("{} attempt {}", attempt.key, attempt.number))?;
        Ok("paid".to_owned())
    });
    answer.await.expect("an answer")
}

async fn inside(store: &Store, file: &Path) -> Once<String> {
    let answer = store.once_in(key("pay"), &7, short(LEASE_MS), async |mut inside, attempt| {
        effect(file, &format!("{} attempt {}", attempt.key, attempt.number))?;
        add(&mut inside, 1).await?;
        Ok("paid".to_owned())
    });
    answer.await.expect("an answer")
}

/// The other process: this very test, asked for by name.
#[tokio::test]
#[ignore = "the process that dies; the tests below start it"]
async fn a_process_that_runs_one_handler() {
    let told = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("the tests below set {name}"));
    let (url, kind, file) = (told("ONCE_URL"), told("ONCE_KIND"), told("ONCE_FILE"));
    let engine = if url.starts_with("sqlite:") { Engine::Sqlite } else { Engine::Postgres };
    let store = open(&Db::seen(engine, &url)).await;
    let _crash_points = fail::FailScenario::setup();
    let answer =
        if kind == "inside" { inside(&store, file.as_ref()).await } else { outside(&store, file.as_ref()).await };
    panic!("it was to die: {answer:?}");
}

/// Runs that process until it dies at `point`.
fn die_at(db: &Db, kind: &str, point: &str, file: &Path) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "once::crash::a_process_that_runs_one_handler", "--nocapture"])
        .env("ONCE_URL", &db.url)
        .env("ONCE_KIND", kind)
        .env("ONCE_FILE", file)
        .env("FAILPOINTS", format!("{point}=return"))
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{point}: {}\n{said}", String::from_utf8_lossy(&output.stdout));
}

/// Calls again until nobody else seems to be at it.
async fn next_answer(call: impl AsyncFn() -> Once<String>) -> Once<String> {
    let started = std::time::Instant::now();
    loop {
        match call().await {
            Once::Running { retry_after } => {
                assert!(retry_after <= Duration::from_millis(LEASE_MS), "{retry_after:?}");
                assert!(started.elapsed() < DEADLINE, "the dead process's lease does not end");
                tokio::task::yield_now().await;
            }
            answer => return answer,
        }
    }
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

both! {
    async fn a_handler_killed_after_its_work_and_before_its_answer_runs_again_with_the_same_key(db: Db) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("effects");
        let store = open(&db).await;
        die_at(&db, "outside", "once::after_work", &file);
        assert_eq!(lines(&file), ["pay attempt 1"]);
        assert_eq!(column(&db, "status").as_deref(), Some("running"), "nobody knows that it is dead");
        assert_eq!(next_answer(async || outside(&store, &file).await).await, done("paid".to_owned(), false));
        // Twice, with one key: whoever is called can tell.
        assert_eq!(lines(&file), ["pay attempt 1", "pay attempt 2"]);
        assert_eq!(outside(&store, &file).await, done("paid".to_owned(), true));
        assert_eq!(lines(&file).len(), 2);
    }

    async fn inside_the_transaction_nothing_of_a_dead_handler_remains_and_it_happens_exactly_once(db: Db) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("effects");
        let store = open(&db).await;
        make_table(&db);
        for deaths in 1..=2 {
            die_at(&db, "inside", "once::before_commit", &file);
            assert_eq!(lines(&file).len(), deaths, "it did run");
            assert_eq!(added(&db), [Some(0), Some(0)]);
            assert_eq!(db.texts("SELECT key FROM job_runs"), []);
        }
        assert_eq!(inside(&store, &file).await, done("paid".to_owned(), false), "at once, without waiting for a lease");
        assert_eq!(inside(&store, &file).await, done("paid".to_owned(), true));
        assert_eq!(added(&db), [Some(1), Some(0)]);
    }

    async fn a_process_killed_after_its_commit_has_done_the_work(db: Db) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("effects");
        let store = open(&db).await;
        make_table(&db);
        die_at(&db, "inside", "once::after_commit", &file);
        assert_eq!(inside(&store, &file).await, done("paid".to_owned(), true));
        assert_eq!((added(&db), lines(&file).len()), ([Some(1), Some(0)], 1));
    }

    async fn a_handler_killed_by_the_system_is_taken_over_after_its_lease(db: Db) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("effects");
        let store = open(&db).await;
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "once::crash::a_process_that_runs_one_handler", "--nocapture"])
            .env("ONCE_URL", &db.url)
            .env("ONCE_KIND", "outside")
            .env("ONCE_FILE", &file)
            .env("FAILPOINTS", "once::after_work=sleep(60000)")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        wait_until("it has worked", DEADLINE, || !lines(&file).is_empty());
        let told = store.once(key("pay"), &7, Terms::default(), async |_| Ok(String::new())).await.expect("an answer");
        assert!(matches!(told, Once::Running { .. }), "{told:?}");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert_eq!(next_answer(async || outside(&store, &file).await).await, done("paid".to_owned(), false));
        assert_eq!(lines(&file), ["pay attempt 1", "pay attempt 2"]);
    }
}
