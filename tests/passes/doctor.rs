//! Doctor tells how each pass runs, and when one does not.

use std::time::Duration;

use serde_json::Value;

use crate::common::cli::{Home, Output};
use crate::common::engine::Db;
use crate::common::wait::wait_until;
use crate::passes::ago;
use crate::queue::{PATIENCE, end, worker};

fn doctor(home: &Home, db: &Db) -> Output {
    home.enlist(db).args(["doctor", "--json"]).run()
}

fn healths(output: &Output) -> Vec<(String, String)> {
    let word = |pass: &Value, field: &str| pass[field].as_str().unwrap_or_default().to_owned();
    let passes = output.json()["passes"].as_array().cloned().unwrap_or_default();
    passes.iter().map(|pass| (word(pass, "pass"), word(pass, "health"))).collect()
}

fn all(health: &str) -> Vec<(String, String)> {
    ["sweep", "reconcile", "prune", "audit"].map(|pass| (pass.to_owned(), health.to_owned())).to_vec()
}

both! {
    fn passes_are_missed_only_where_workers_were(db: Db) {
        let home = Home::new();
        home.enlist(&db).arg("migrate").run().expect(0);
        let none = doctor(&home, &db);
        assert_eq!((none.code, healths(&none)), (0, all("no_worker")), "{}", none.told());
        let worker = worker(&home, &db).spawn();
        wait_until("every pass ran", PATIENCE, || healths(&doctor(&home, &db)) == all("ran"));
        let text = home.enlist(&db).arg("doctor").run().expect(0).text();
        assert!(text.contains("pass 'prune'") && text.contains("every 1h, last "), "{text}");
        assert!(text.contains("keys 0") && text.contains("findings 0"), "{text}");
        end(worker);

        // Nobody was there for a day: nothing is overdue, the passes are only old.
        db.execute(&format!("UPDATE workers SET started_at = {0}, seen_at = {0}", ago(&db, 90_000)));
        db.execute(&format!("UPDATE schedule_runs SET started_at = {0}, finished_at = {0}", ago(&db, 86_400)));
        assert_eq!(doctor(&home, &db).code, 0);

        // A worker was there for ten minutes, and nothing ran.
        db.execute(&format!("UPDATE workers SET started_at = {}, seen_at = {}", ago(&db, 600), ago(&db, 1)));
        let late = doctor(&home, &db);
        let expected = [("sweep", "overdue"), ("reconcile", "overdue"), ("prune", "ran"), ("audit", "ran")];
        assert_eq!(healths(&late), expected.map(|(pass, health)| (pass.to_owned(), health.to_owned())), "{}", late.told());
        assert_eq!(late.code, 3, "{}", late.told());
        assert_eq!(late.json()["findings"][0]["code"], "pass_overdue", "{}", late.told());

        // Never, though workers are there.
        db.execute("DELETE FROM schedule_runs");
        assert_eq!(healths(&doctor(&home, &db)), all("overdue"));
        home.write("config/enlist/enlist.toml", "[passes]\nsweep = 'off'\nprune = 'off'\nreconcile = 'off'\naudit = 'off'\n");
        let off = doctor(&home, &db);
        assert_eq!((off.code, healths(&off)), (0, all("off")), "{}", off.told());
    }

    fn what_a_scheduled_audit_found_is_told_until_the_next_finds_nothing(db: Db) {
        let home = Home::new();
        home.write("config/enlist/enlist.toml", "[passes]\naudit = '2s'\n");
        home.enlist(&db).arg("migrate").run().expect(0);
        let now = ago(&db, 0);
        db.execute(&format!(
            "INSERT INTO recipients (list_id, phone, created_at, updated_at) VALUES (1, '905320000011', {now}, {now})"
        ));
        let worker = worker(&home, &db).spawn();
        let found = || doctor(&home, &db).json()["findings"][0]["code"] == "audit_found";
        wait_until("the audit found it", PATIENCE, found);
        db.execute("DELETE FROM recipients");
        wait_until("the next audit found nothing", Duration::from_secs(60), || doctor(&home, &db).code == 0);
        let told = end(worker);
        assert!(told.stderr.contains("phone_not_e164") && !told.stderr.contains("905320000011"), "{}", told.told());
    }
}
