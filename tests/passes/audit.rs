//! The audit finds each impossibility that is planted, and nothing where nothing is.

use std::collections::BTreeSet;

use crate::common::cli::{Home, Output};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::passes::{ago, backdate, import, kill_import, pass};

fn audit(home: &Home, db: &Db) -> Output {
    home.enlist(db).args(["audit", "--json"]).run()
}

/// Code and subject of each finding.
fn findings(output: &Output) -> BTreeSet<(String, String)> {
    let found = output.json()["findings"].as_array().cloned().unwrap_or_default();
    let word = |finding: &serde_json::Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    found.iter().map(|finding| (word(finding, "code"), word(finding, "subject"))).collect()
}

fn set(expected: &[(&str, String)]) -> BTreeSet<(String, String)> {
    expected.iter().map(|(code, subject)| ((*code).to_owned(), subject.clone())).collect()
}

/// Three finished jobs: with rejects and a resume, in four lanes, and with header only.
fn healthy(home: &Home, db: &Db) -> [i64; 3] {
    home.write("a.csv", data::messy(600, 1));
    home.write("b.csv", data::messy(800, 2));
    home.write("c.csv", "phone,name\n");
    kill_import(home, db, "a.csv", 3, &["--batch-size", "40", "--writers", "1"]);
    let a = import(home, db, "a.csv", &[]).expect(3).count("job");
    kill_import(home, db, "b.csv", 7, &["--batch-size", "30", "--writers", "4"]);
    let b = import(home, db, "b.csv", &["--writers", "2"]).expect(3).count("job");
    let c = import(home, db, "c.csv", &[]).expect(0).count("job");
    [a, b, c]
}

both! {
    fn a_healthy_database_has_no_findings_before_and_after_retention(db: Db) {
        let home = Home::new();
        let jobs = healthy(&home, &db);
        let clean = audit(&home, &db).expect(0);
        assert_eq!((clean.count("jobs"), clean.count("untold")), (3, 0), "{}", clean.told());
        assert!(clean.count("recipients") > 500, "{}", clean.told());
        for (job, days) in jobs.into_iter().zip([31, 91, 10]) {
            backdate(&db, job, days);
        }
        pass(&home, &db, "prune");
        audit(&home, &db).expect(0);
        let text = home.enlist(&db).arg("audit").run().expect(0).text();
        assert!(text.starts_with("nothing is wrong\nlooked at 3 finished jobs and "), "{text}");
    }

    fn a_notification_key_on_two_rows_is_found_and_the_scheduled_audit_rings(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(20, 1));
        let enqueue = ["enqueue", "a.csv", "--list", "l", "--create-list", "--notify", "http://127.0.0.1:9/", "--json"];
        let job = home.enlist(&db).args(enqueue).run().expect(0).count("job").to_string();
        home.enlist(&db).args(["jobs", "cancel", &job]).run().expect(0);
        audit(&home, &db).expect(0);
        // As after a restore in parts: the rows are there, the unique index is not.
        db.execute(
            "CREATE TABLE again AS SELECT * FROM notifications; DROP TABLE notifications;
             ALTER TABLE again RENAME TO notifications; INSERT INTO notifications SELECT * FROM notifications",
        );
        let found = audit(&home, &db).expect(3);
        let codes: Vec<String> = findings(&found).into_iter().map(|(code, _)| code).collect();
        assert_eq!(codes, ["notification_twice"], "{}", found.told());
        pass(&home, &db, "audit");
        let rung = "SELECT CAST(count(*) AS BIGINT) FROM alert_outbox WHERE kind = 'audit_findings'";
        assert_eq!(db.number(rung), Some(1));
    }

    fn each_impossibility_is_found(db: Db) {
        let home = Home::new();
        let [a, b, _] = healthy(&home, &db);
        let (job_a, job_b) = (format!("job {a}"), format!("job {b}"));
        let mut expected = Vec::new();
        let mut plant = |sql: &str, more: &[(&'static str, String)]| {
            db.execute(sql);
            expected.extend_from_slice(more);
            let output = audit(&home, &db);
            assert_eq!((output.code, findings(&output)), (3, set(&expected)), "after {sql}: {}", output.told());
            output
        };
        plant(
            &format!("DELETE FROM rejects WHERE job_id = {a} AND byte = (SELECT max(byte) FROM rejects WHERE job_id = {a})"),
            &[("rejects_differ", job_a.clone())],
        );
        // In a middle of a lane: the bytes that nothing covers are named.
        let middle = format!(
            "DELETE FROM job_runs WHERE key = (SELECT key FROM job_runs WHERE job_id = {b} AND key LIKE '%/2of4/%'
             ORDER BY length(key), key LIMIT 1 OFFSET 2)"
        );
        let gap = plant(&middle, &[("ranges_incomplete", job_b.clone()), ("counts_differ", job_b.clone())]);
        assert!(gap.text().contains("lane 2 of 4: nothing covers bytes "), "{}", gap.told());
        plant(
            &format!("DELETE FROM job_lanes WHERE job_id = {b} AND lane = 3"),
            &[("lanes_incomplete", job_b)],
        );
        let result = match db.engine {
            Engine::Sqlite => "json_set(result, '$.rows', 1)",
            Engine::Postgres => "jsonb_set(result, '{rows}', '1')",
        };
        plant(
            &format!("UPDATE jobs SET result = {result} WHERE id = {a}"),
            &[("counts_do_not_add_up", job_a.clone()), ("counts_differ", job_a)],
        );
        let phone = data::phone(3);
        let planted = plant(
            &format!("UPDATE recipients SET phone = substr(phone, 2) WHERE phone = '{phone}'"),
            &[("phone_not_e164", "list 'l'".to_owned())],
        );
        assert!(!planted.told().contains(&phone[1..]) && planted.text().contains("*****"), "{}", planted.told());
        let (old, now) = (ago(&db, 700), ago(&db, 0));
        plant(
            &format!("INSERT INTO job_runs (key, status, created_at, lease_until) VALUES ('once:k', 'running', {old}, {old})"),
            &[("key_stuck", "key 'once:k'".to_owned())],
        );
        plant(
            &format!("UPDATE jobs SET state = 'running', owner = 'x', lease_until = {old}, finished_at = {now} WHERE id = 3"),
            &[("job_stuck", "job 3".to_owned())],
        );
    }

    fn a_stretch_that_is_covered_twice_is_found(db: Db) {
        let home = Home::new();
        let [a, ..] = healthy(&home, &db);
        let text = |what: &str| {
            db.texts(&format!("SELECT key FROM job_runs WHERE job_id = {a} ORDER BY length(key), key LIMIT 1 OFFSET {what}"))
                .into_iter().flatten().next().expect("a key")
        };
        let (first, second) = (text("0"), text("1"));
        let (start, _) = first.rsplit_once('-').expect("a range");
        let (_, end) = second.rsplit_once('-').expect("a range");
        db.execute(&format!("UPDATE job_runs SET key = '{start}-{end}' WHERE key = '{first}'"));
        let found = audit(&home, &db).expect(3);
        assert_eq!(findings(&found), set(&[("ranges_incomplete", format!("job {a}"))]), "{}", found.told());
        assert!(found.text().contains("are covered more than once"), "{}", found.told());
    }

    fn an_audit_that_cannot_look_fails_and_does_not_say_that_nothing_is_wrong(db: Db) {
        let home = Home::new();
        healthy(&home, &db);
        db.execute("ALTER TABLE rejects RENAME TO rejects_gone");
        let output = audit(&home, &db);
        assert_eq!((output.code, output.error().as_deref()), (1, Some("not_audited")), "{}", output.told());
        let text = home.enlist(&db).arg("audit").run().expect(1);
        assert!(!text.text().contains("nothing is wrong"), "{}", text.told());
        if db.engine == Engine::Postgres {
            let away = db.via("postgres://nobody@127.0.0.1:1/none".to_owned());
            audit(&home, &away).stopped(1, "not_audited");
        }
    }
}
