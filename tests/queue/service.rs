//! A worker as a service: its log, the service manager, the rows it keeps renewing.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::common::cli::Home;
use crate::common::data;
use crate::common::wait::wait_for;
use crate::queue::{PATIENCE, drain, end, enqueue, wait_for_state, worker};

both! {
    fn every_log_line_of_a_job_carries_its_number_attempt_fence_key_and_list(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::messy(500, 1));
        let job = enqueue(&home, &db, "a.csv", "müşteri").run().expect(0).count("job");
        let worked = drain(&home, &db).args(["-v", "--log-format", "json"]).run().expect(0);
        let lines: Vec<serde_json::Value> =
            worked.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let of_the_job: Vec<_> = lines.iter().filter(|line| line["span"]["name"] == "job").collect();
        let said = |text: &str| of_the_job.iter().filter(|line| line["fields"]["message"] == text).count();
        assert_eq!((said("job received"), said("job done")), (1, 1), "{}", worked.told());
        for line in of_the_job {
            let span = &line["span"];
            assert_eq!((span["job"].as_i64(), span["attempt"].as_i64(), span["fence"].as_i64()), (Some(job), Some(1), Some(1)));
            assert_eq!((span["list"].as_str(), span["key"].as_str().map(str::len)), (Some("müşteri"), Some(32)), "{line}");
        }
        let digits = data::national(3);
        assert!(!worked.stderr.contains(&digits), "a phone stands in the log");
    }

    fn the_service_manager_hears_ready_alive_and_stopping(db: Db) {
        let home = Home::new();
        home.enlist(&db).arg("migrate").run().expect(0);
        let path = home.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_nonblocking(true).expect("it can be asked without waiting");
        let worker = worker(&home, &db).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "600000").spawn();
        let hear = |what: &str| {
            wait_for(what, PATIENCE, || {
                let mut buffer = [0; 512];
                let length = socket.recv(&mut buffer).ok()?;
                String::from_utf8_lossy(&buffer[..length]).contains(what).then_some(())
            });
        };
        hear("READY=1");
        hear("WATCHDOG=1");
        hear("WATCHDOG=1");
        worker.term();
        hear("STOPPING=1");
        worker.wait(Duration::from_secs(30)).expect(0);
    }

    fn a_worker_outlives_a_database_that_has_no_work_and_is_seen(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(20, 1));
        home.enlist(&db).arg("migrate").run().expect(0);
        let worker = worker(&home, &db).spawn();
        let seen = "SELECT CAST(count(*) AS BIGINT) FROM workers WHERE left_at IS NULL";
        wait_for("it is seen", PATIENCE, || (db.number(seen) == Some(1)).then_some(()));
        let job = enqueue(&home, &db, "a.csv", "l").run().expect(0).count("job");
        wait_for_state(&db, job, "done");
        end(worker);
        assert_eq!(db.number(seen), Some(0), "it said goodbye");
    }
}
