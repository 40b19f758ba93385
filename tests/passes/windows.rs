//! Windows in the store: one gets each, and those that were missed follow the policy.

use std::time::Duration;

use enlist::holder;
use enlist::store::{Schedule, Store};
use enlist::window::{CATCH_UP_MOST, CatchUp};

use crate::passes::{ago, rows};
use crate::store::open;

fn hourly(name: &str, catch_up: CatchUp) -> Schedule {
    Schedule { name: name.to_owned(), every: Duration::from_secs(3_600), catch_up }
}

both! {
    async fn of_many_that_ask_for_a_window_one_gets_it(db: Db) {
        let first = open(&db).await;
        let schedule = hourly("prune", CatchUp::Latest);
        first.ensure_schedule(&schedule).await.expect("it is known");
        let mut stores: Vec<Store> = vec![first];
        for _ in 0..5 {
            stores.push(open(&db).await);
        }
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..30 {
            let (store, schedule) = (stores[n % stores.len()].clone(), schedule.clone());
            tasks.spawn(async move { store.claim_windows(&schedule, &holder::claim_owner()).await.expect("an answer").starts.len() });
        }
        let got: usize = tasks.join_all().await.into_iter().sum();
        // The hour may turn meanwhile.
        let windows = rows(&db, "schedule_runs");
        assert!((1..=2).contains(&windows) && got as i64 == windows, "{got} were given, {windows} are on record");
    }

    async fn missed_windows_follow_the_policy_of_the_schedule(db: Db) {
        let store = open(&db).await;
        let owner = holder::claim_owner();
        for (name, catch_up, hours) in [
            ("skip", CatchUp::Skip, 10),
            ("latest", CatchUp::Latest, 10),
            ("all", CatchUp::All, 10),
            ("capped", CatchUp::All, 100),
        ] {
            let schedule = hourly(name, catch_up);
            store.ensure_schedule(&schedule).await.expect("it is known");
            db.execute(&format!("UPDATE schedules SET high_water = {} WHERE name = '{name}'", ago(&db, hours * 3_600)));
            let claimed = store.claim_windows(&schedule, &owner).await.expect("an answer");
            let (run, skipped) = (claimed.starts.len() as i64, claimed.skipped as i64);
            assert!((hours..=hours + 1).contains(&(run + skipped)), "{name}: {run} run, {skipped} skipped");
            match name {
                "skip" => assert!(run <= 1, "{run}"),
                "latest" => assert_eq!(run, 1),
                "all" => assert_eq!(skipped, 0),
                _ => assert_eq!(run, CATCH_UP_MOST as i64),
            }
            assert!(claimed.starts.is_sorted());
            assert_eq!(rows(&db, &format!("schedule_runs WHERE name = '{name}'")), run);
            let kept = db.number(&format!("SELECT CAST(skipped AS BIGINT) FROM schedules WHERE name = '{name}'"));
            assert_eq!(kept, Some(skipped));
            let again = store.claim_windows(&schedule, &owner).await.expect("an answer");
            assert!(again.starts.len() <= 1, "{name}: they come once");
        }
    }
}
