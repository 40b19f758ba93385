//! The harness itself: that a test can rely on what it stands on.

use std::time::Duration;

use crate::common::cli::Home;
use crate::common::data;
use crate::common::engine::Db;
use crate::common::oracle::difference;
use crate::common::postgres::{self, GUARDED, Server};
use crate::common::proxy::Proxy;
use crate::common::wait::wait_until;

/// `select` on `url`, or the error.
async fn try_select(url: &str) -> Result<i32, sqlx::Error> {
    use sqlx::Connection;
    let mut connection = sqlx::PgConnection::connect(url).await?;
    sqlx::query_scalar("SELECT 1").fetch_one(&mut connection).await
}

both! {
    fn a_fresh_database_takes_statements_and_answers(db: Db) {
        db.execute("CREATE TABLE t (n BIGINT, s TEXT); INSERT INTO t VALUES (1, 'a'), (2, NULL)");
        assert_eq!(db.number("SELECT CAST(sum(n) AS BIGINT) FROM t"), Some(3));
        assert_eq!(db.texts("SELECT s FROM t ORDER BY n"), [Some("a".to_owned()), None]);
        assert_eq!(db.committed_rows(), 0);
        db.settle();
    }

    async fn an_asynchronous_test_can_ask_its_database(db: Db) {
        db.execute("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (7)");
        assert_eq!(db.number("SELECT n FROM t"), Some(7));
    }
}

#[test]
fn a_url_keeps_its_options_when_the_database_changes() {
    assert_eq!(postgres::with_database("postgres://a:b@h:1/old?x=1", "new"), "postgres://a:b@h:1/new?x=1");
    assert_eq!(postgres::with_database("postgres://h", "new"), "postgres://h/new");
}

#[tokio::test]
async fn a_private_server_can_crash_and_come_back_and_asks_for_a_password() {
    let server = Server::start();
    let db = Db::on(&server);
    db.execute("CREATE TABLE t (n BIGINT); INSERT INTO t VALUES (1)");
    server.kill_immediate();
    assert!(try_select(&db.url).await.is_err());
    server.restart();
    assert_eq!(db.number("SELECT n FROM t"), Some(1));
    assert!(try_select(&server.guarded_url("postgres", GUARDED.1)).await.is_ok());
    assert!(try_select(&server.guarded_url("postgres", "wrong")).await.is_err());
    let folder = server.folder().to_owned();
    drop(server);
    assert!(!folder.exists(), "{} stays behind", folder.display());
}

#[tokio::test]
async fn a_line_that_is_cut_after_commit_has_committed() {
    use sqlx::{Connection, Executor};
    let server = Server::start();
    let db = Db::on(&server);
    db.execute("CREATE TABLE t (n BIGINT)");
    let proxy = Proxy::to_server_of(&db.url);
    let url = proxy.url(&db.url);
    proxy.cut_after("COMMIT", 2);
    for round in 1..=3_i64 {
        let mut connection = sqlx::PgConnection::connect(&url).await.expect("the proxy passes");
        let mut work = connection.begin().await.expect("it begins");
        work.execute(sqlx::query("INSERT INTO t VALUES ($1)").bind(round)).await.expect("it inserts");
        assert_eq!(work.commit().await.is_err(), round == 2, "round {round}");
    }
    proxy.wait_for_cut(1);
    assert_eq!(proxy.cuts(), 1);
    let all = || db.number("SELECT CAST(count(*) AS BIGINT) FROM t") == Some(3);
    wait_until("the cut commit shows", Duration::from_secs(10), all);
    proxy.hang();
    assert!(tokio::time::timeout(Duration::from_millis(300), try_select(&url)).await.is_err(), "nothing comes through");
    proxy.pass();
    assert!(try_select(&url).await.is_ok());
}

#[test]
fn the_binary_runs_in_a_home_of_its_own() {
    let home = Home::new();
    home.write("deep/file.csv", "phone\n");
    assert_eq!(home.read("deep/file.csv"), b"phone\n");
    let output = home.bare().arg("--version").run();
    assert_eq!((output.code, output.signal), (0, None), "{}", output.told());
}

#[test]
fn the_generators_are_deterministic_and_their_numbers_valid() {
    assert_eq!(data::messy(500, 3), data::messy(500, 3));
    assert_ne!(data::clean(500, 3), data::clean(500, 4));
    for k in 0..5_000 {
        let number = rlibphonenumber::PHONE_NUMBER_UTIL.parse(data::phone(k), None).expect("a number");
        assert!(number.is_valid(), "{}", data::phone(k));
    }
    let csv = data::repeated(100, 5, 1);
    assert_eq!(csv.lines().count(), 501);
    assert_eq!(data::last_names(&csv).len(), 100);
}

#[test]
fn a_difference_names_the_lines_that_only_one_side_has() {
    assert_eq!(difference("x", "a\n", "a\n"), "");
    let said = difference("x", "a\nb\n", "a\nc\n");
    assert!(said.contains("+ b") && said.contains("- c"), "{said}");
    assert!(difference("x", "a\nb\n", "b\na\n").contains("another order"));
}
