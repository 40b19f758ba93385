//! What a list states about its size is put right, once per window.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::common::cli::{Home, Running};
use crate::common::data;
use crate::common::engine::Db;
use crate::common::wait::wait_until;
use crate::passes::{import, kill_import, pass, rows};
use crate::queue::{PATIENCE, end, worker};

fn stated(db: &Db) -> i64 {
    db.number("SELECT CAST(recipient_count AS BIGINT) FROM lists WHERE name = 'l'").expect("a list")
}

both! {
    fn a_drift_is_put_right_and_told_with_old_and_new(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(120, 1));
        import(&home, &db, "a.csv", &[]).expect(0);
        assert_eq!(stated(&db), 120);
        let result = pass(&home, &db, "reconcile");
        assert_eq!((&result["lists"], &result["drifted"]), (&1.into(), &0.into()), "{result}");
        home.enlist(&db).args(["opt-out", "--list", "l", "+306900000012"]).run().expect(0);
        let result = pass(&home, &db, "reconcile");
        assert_eq!(result["drifts"], serde_json::json!([{ "list": "l", "stated": 120, "counted": 121 }]));
        assert_eq!((stated(&db), rows(&db, "lists WHERE counted_at IS NOT NULL")), (121, 1));
        let told = home.enlist(&db).args(["pass", "reconcile"]).run().expect(0).text();
        assert!(told.contains("no drifts") && told.contains("lists 1"), "{told}");
    }

    fn a_list_with_an_import_on_its_way_is_left_until_that_has_ended(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(500, 2));
        kill_import(&home, &db, "a.csv", 3, &["--batch-size", "50"]);
        assert_eq!(stated(&db), 0, "what is committed is counted at the end");
        let result = pass(&home, &db, "reconcile");
        assert_eq!((&result["lists"], &result["busy"]), (&0.into(), &1.into()), "{result}");
        assert_eq!((stated(&db), rows(&db, "lists WHERE counted_at IS NOT NULL")), (0, 0));
        import(&home, &db, "a.csv", &[]).expect(0);
        let result = pass(&home, &db, "reconcile");
        assert_eq!((&result["lists"], &result["drifted"]), (&1.into(), &0.into()), "{result}");
        assert_eq!(stated(&db), 500);
    }

    fn writers_go_on_while_a_list_is_counted_and_an_old_count_is_not_written_over_theirs(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(60, 1));
        home.write("b.csv", data::clean(90, 2));
        import(&home, &db, "a.csv", &[]).expect(0);
        let slow = home.enlist(&db).args(["pass", "reconcile", "--json", "-v"]);
        let mut slow = slow.failpoint("reconcile::counted=sleep(6000)").spawn();
        wait_until("it counts", PATIENCE, || slow.stderr_so_far().contains("counting a list"));
        import(&home, &db, "b.csv", &[]).expect(0);
        assert!(!slow.ended(), "the import waited for the count");
        let result = slow.wait(PATIENCE).expect(0).json()["result"].clone();
        assert_eq!((&result["lists"], &result["busy"]), (&0.into(), &1.into()), "{result}");
        assert_eq!(stated(&db), 90);
        assert_eq!(pass(&home, &db, "reconcile")["drifted"], 0);
    }

    fn lists_counted_longest_ago_come_first(db: Db) {
        let home = Home::new();
        home.enlist(&db).arg("migrate").run().expect(0);
        for name in ["a", "b", "c"] {
            home.enlist(&db).args(["lists", "create", name]).run().expect(0);
        }
        db.execute("UPDATE lists SET recipient_count = 9");
        let result = pass(&home, &db, "reconcile");
        let order = |result: &Value| -> Vec<String> {
            let drifts = result["drifts"].as_array().cloned().unwrap_or_default();
            drifts.iter().filter_map(|drift| drift["list"].as_str().map(str::to_owned)).collect()
        };
        assert_eq!(order(&result), ["a", "b", "c"]);
        db.execute("UPDATE lists SET recipient_count = 9, counted_at = CASE WHEN name = 'b' THEN NULL ELSE counted_at END");
        db.execute(&format!("UPDATE lists SET counted_at = {} WHERE name = 'c'", crate::passes::ago(&db, 600)));
        assert_eq!(order(&pass(&home, &db, "reconcile")), ["b", "c", "a"]);
    }

    fn two_replicas_and_a_third_count_once_per_window(db: Db) {
        let home = Home::new();
        home.write("config/enlist/enlist.toml", "[passes]\nreconcile = '4s'\n");
        home.write("a.csv", data::clean(50, 3));
        import(&home, &db, "a.csv", &[]).expect(0);
        db.execute("UPDATE lists SET recipient_count = 7");
        let replica = || -> Running { worker(&home, &db).args(["-v", "--log-format", "json"]).spawn() };
        let ended = || rows(&db, "schedule_runs WHERE name = 'reconcile' AND finished_at IS NOT NULL");
        let mut replicas = vec![replica(), replica()];
        wait_until("a window was counted", PATIENCE, || ended() >= 1);
        replicas.push(replica());
        wait_until("three windows more were counted", Duration::from_secs(60), || ended() >= 4);
        let outputs: Vec<_> = replicas.into_iter().map(end).collect();
        let lines: Vec<Value> = outputs
            .iter()
            .flat_map(|output| output.stderr.lines())
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let mut counted: BTreeMap<String, u32> = BTreeMap::new();
        for line in &lines {
            let fields = &line["fields"];
            if fields["message"] == "the pass ran" && fields["pass"] == "reconcile" {
                *counted.entry(fields["window"].as_str().expect("a window").to_owned()).or_default() += 1;
            }
        }
        assert!(counted.len() >= 4 && counted.values().all(|times| *times == 1), "{counted:?}");
        let windows = rows(&db, "schedule_runs WHERE name = 'reconcile'");
        assert!(windows == counted.len() as i64 || windows == counted.len() as i64 + 1, "{windows}, {counted:?}");
        let mended = lines.iter().filter(|line| line["fields"]["message"].as_str().is_some_and(|m| m.contains("put right")));
        assert_eq!((mended.count(), stated(&db)), (1, 50), "one of them put it right");
        let health = home.enlist(&db).args(["doctor", "--json"]).run().expect(0).json();
        let shown = health["passes"].as_array().expect("passes").iter().find(|pass| pass["pass"] == "reconcile");
        let shown = shown.expect("it is shown").clone();
        assert_eq!((&shown["health"], &shown["every_ms"]), (&"ran".into(), &4_000.into()), "{shown}");
        assert_eq!(shown["last"]["result"]["lists"], 1, "{shown}");
    }
}
