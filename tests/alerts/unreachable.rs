//! A worker whose database is away: somebody is told, once per outage.

use std::time::Duration;

use crate::common::cli::Home;
use crate::common::engine::Db;
use crate::common::postgres::Server;
use crate::common::wait::wait_until;
use crate::common::webhook::Webhook;
use crate::queue::{end, worker};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn an_outage_rings_p0_once_and_the_next_one_again() {
    let (home, receiver, server) = (Home::new(), Webhook::start(), Server::start());
    let db = Db::on(&server);
    let lines =
        format!("[alerts]\nwebhook = '{}'\n[alerts.kinds.database_unreachable]\nafter = '1s'\n", receiver.url());
    home.write("config/enlist/enlist.toml", lines);
    home.enlist(&db).arg("migrate").run().expect(0);
    let worker = worker(&home, &db).spawn();
    let said = |text: &str| worker.stderr_so_far().matches(text).count();
    wait_until("it works", PATIENCE, || said("worker started") == 1);
    for outage in 1..=2 {
        server.kill_immediate();
        wait_until("it rings", PATIENCE, || receiver.received().len() == outage);
        let failures = said("the database does not answer");
        wait_until("it goes on trying", PATIENCE, || said("the database does not answer") > failures);
        assert_eq!(receiver.received().len(), outage, "once per outage");
        server.restart();
        wait_until("it is back", PATIENCE, || said("the database is back") == outage);
    }
    for one in receiver.received() {
        assert_eq!(one.body["severity"], "p0", "{}", one.body);
        assert!(one.body["key"].as_str().is_some_and(|key| key.starts_with("database_unreachable/")), "{}", one.body);
    }
    end(worker);
}
