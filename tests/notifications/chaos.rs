//! Workers killed at random while many jobs end: every end is told, and accepted once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{drain, enlist, rows};
use crate::common::cli::{Home, Running};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::receiver::{Act, Receiver};
use crate::common::wait::let_pass;

const JOBS: usize = 500;

/// Makes `JOBS` jobs of one that was enqueued: the same file into lists of their own, as if each had been enqueued.
fn multiply(db: &Db) {
    let (list, number) = match db.engine {
        Engine::Sqlite => {
            ("printf('l%d', n)", "WITH RECURSIVE g(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM g WHERE n < 500)")
        }
        Engine::Postgres => ("'l' || n", "WITH g(n) AS (SELECT generate_series(2, 500))"),
    };
    db.execute(&format!(
        "{number} INSERT INTO lists (name, created_at) SELECT {list}, (SELECT created_at FROM lists LIMIT 1) FROM g ORDER BY n;
         INSERT INTO jobs (queue, kind, key, generation, direct, list_id, fingerprint, source, payload, rules_version,
             lanes, batch_rows, state, run_at, max_attempts, created_at)
           SELECT j.queue, j.kind, j.key || '-' || l.id, 1, j.direct, l.id, j.fingerprint, j.source, j.payload,
             j.rules_version, j.lanes, j.batch_rows, 'queued', j.run_at, 1000, j.created_at
           FROM jobs j, lists l WHERE l.id <> j.list_id ORDER BY l.id;
         INSERT INTO job_lanes (job_id, lane, byte, line)
           SELECT j.id, o.lane, o.byte, o.line FROM jobs j, job_lanes o WHERE o.job_id = 1 AND j.id <> 1;"
    ));
}

both! {
    fn every_end_of_500_jobs_is_accepted_once_whoever_is_killed(db: Db) {
        // Some answers are lost, some are refusals for now.
        let receiver = Receiver::deciding(|n| match n % 29 {
            7 => Act::AcceptAndDrop,
            11 => Act::Drop,
            17 => Act::Answer(429, vec!["Retry-After: 1".to_owned()]),
            23 => Act::status(500),
            _ => Act::Accept,
        });
        let home = Home::new();
        let file = home.write("a.csv", data::clean(10, 1));
        super::configure(&home, &receiver.url("/hook"), "");
        let options = ["--list", "l1", "--create-list", "--region", "TR", "--writers", "1", "--json"];
        enlist(&home, &db).arg("enqueue").arg(&file).args(options).run().expect(0);
        multiply(&db);
        let start = || -> Running { drain(&home, &db).args(["--concurrency", "2", "-q"]).spawn() };
        let (mut random, began) = (fastrand::Rng::with_seed(5), Instant::now());
        let mut workers = [start(), start()];
        let (mut kills, mut which) = (0, 0);
        loop {
            let delay = Duration::from_millis(random.u64(300..2_500));
            let_pass(delay, || workers[which].ended());
            let open = db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs WHERE state <> 'done'").unwrap_or(1);
            let untold = rows(&db, "state").iter().filter(|state| *state != "sent").count();
            if open == 0 && untold == 0 {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(400), "{open} jobs open, {untold} ends untold");
            if workers[which].kill9() {
                kills += 1;
            }
            // A rest after a death is for people; this is a race.
            db.execute("UPDATE jobs SET run_at = created_at WHERE state = 'queued'");
            db.execute("UPDATE notifications SET not_before = created_at WHERE state = 'pending'");
            workers[which] = start();
            which = 1 - which;
        }
        drop(workers);
        assert!(kills >= 3, "only {kills} workers were killed");
        let twice = "SELECT external_event_id FROM notifications GROUP BY external_event_id HAVING count(*) > 1";
        assert!(db.texts(twice).is_empty());
        let written: BTreeSet<String> = rows(&db, "external_event_id").into_iter().collect();
        let done = receiver.done();
        assert_eq!(written.len(), JOBS);
        assert_eq!(done.keys().cloned().collect::<BTreeSet<_>>(), written);
        assert!(done.values().all(|times| *times == 1));
        assert!(receiver.told().len() > JOBS, "nothing was ever called twice");
        eprintln!("{kills} kills, {} calls, {:?}", receiver.told().len(), began.elapsed());
    }
}
