//! Ten thousand heartbeats leave the table of jobs as small as it was.

use std::time::Duration;

use enlist::holder;
use enlist::job::QueueName;
use enlist::run::Counts;
use enlist::settings::Blank;
use enlist::store::{Admission, Beat, QueueTerms};

use crate::common::engine::{Db, Engine};
use crate::common::postgres::Server;
use crate::common::wait::wait_until;
use crate::store::{ask, list, open, settings};

const BEATS: i64 = 10_000;

async fn beat(db: &Db) {
    let store = open(db).await;
    let list = list(&store, "a").await;
    let ask = ask(list, "content", settings(Blank::Keep, None), 1);
    let terms = QueueTerms { queue: QueueName::default(), priority: 0, run_at: None, max_attempts: 5 };
    let queued = store.enqueue(&ask, &terms, &holder::is_gone).await.expect("it is new");
    assert!(matches!(queued, Admission::Queued(_)));
    let claimed = store.claim(&QueueName::default(), &holder::claim_owner(), Duration::from_secs(600)).await;
    let lease = claimed.expect("it answers").expect("it is ready").lease;
    let session = store.session(lease, &settings(Blank::Keep, None), 1).await.expect("it opens");
    let mut counts = Counts::default();
    for _ in 0..BEATS {
        counts.rows += 1;
        assert_eq!(session.beat(&counts).await.expect("it answers"), Beat::Held);
    }
    session.close().await;
    store.close().await;
}

#[tokio::test]
async fn ten_thousand_heartbeats_are_hot_and_the_table_of_jobs_does_not_grow_on_postgres() {
    // Nothing else may hold an old snapshot of the database: while one is open a full page cannot be tidied, and the
    // server's own look at its tables, or a busy machine, would decide what is counted here.
    let server = Server::start_with("autovacuum = off");
    let db = Db::on(&server);
    beat(&db).await;
    let stat = |column: &str| {
        db.number(&format!("SELECT CAST({column} AS BIGINT) FROM pg_stat_user_tables WHERE relname = 'jobs'"))
            .unwrap_or_default()
    };
    wait_until("the statistics are in", Duration::from_secs(30), || stat("n_tup_upd") > BEATS);
    let (all, hot) = (stat("n_tup_upd"), stat("n_tup_hot_upd"));
    assert!(hot * 100 >= all * 99, "{hot} of {all} updates were HOT");
    let pages = db.number("SELECT CAST(pg_relation_size('enlist.jobs') / 8192 AS BIGINT)").unwrap_or_default();
    assert!(pages <= 8, "one job takes {pages} pages after {BEATS} heartbeats");
}

#[tokio::test]
async fn ten_thousand_heartbeats_do_not_grow_the_file_on_sqlite() {
    let db = Db::fresh(Engine::Sqlite);
    open(&db).await.close().await;
    let pages = |db: &Db| db.number("SELECT page_count FROM pragma_page_count()").unwrap_or_default();
    let before = pages(&db);
    beat(&db).await;
    assert!(pages(&db) <= before + 2, "{} pages instead of {before}", pages(&db));
}
