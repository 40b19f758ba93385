//! One alert, several replicas: it rings once, and never not at all.

use std::time::{Duration, Instant};

use crate::alerts::{Place, Shared, places};
use crate::common::cli::{Enlist, Output, SECRET};
use crate::common::postgres::Server;
use crate::common::wait::{let_pass, wait_for};
use crate::common::webhook::Silent;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The claim lease, less what the clocks of a busy machine may differ.
const LEASE: Duration = Duration::from_secs(19);

fn why(output: &Output) -> (bool, String) {
    let json = output.json();
    (json["rung"] == true, json["why"].as_str().unwrap_or_default().to_owned())
}

fn rung(why: &str) -> (bool, String) {
    (true, why.to_owned())
}

fn held_back() -> (bool, String) {
    (false, "suppressed".to_owned())
}

/// Starts all of them before it waits for any.
fn at_once(commands: Vec<Enlist>) -> Vec<Output> {
    let running: Vec<_> = commands.into_iter().map(Enlist::spawn).collect();
    running.into_iter().map(|one| one.wait(PATIENCE).expect(0)).collect()
}

places! {
    fn two_replicas_at_once_and_a_third_after_the_deploy_ring_once(place: Place) {
        let shared = Shared::new(place);
        let first = at_once(vec![shared.alert("k"), shared.alert("k")]);
        let third = shared.alert("k").run().expect(0);
        let mut told: Vec<_> = first.iter().map(why).collect();
        told.sort();
        assert_eq!(told, [held_back(), rung("new")]);
        assert_eq!(why(&third), held_back());
        assert!(third.json()["held_by"].as_str().is_some_and(|by| by.starts_with("process ")), "{}", third.told());
        assert_eq!(shared.receiver.count("k"), 1);
        assert_eq!(shared.suppressed("alert/k"), Some(2));
        assert_eq!(why(&shared.alert("other").run().expect(0)), rung("new"));
        assert_eq!(shared.receiver.count("other"), 1);
        let p0 = || shared.alert("k").args(["--severity", "p0"]);
        for output in at_once(vec![p0(), p0()]) {
            assert_eq!(why(&output), rung("p0"));
        }
        assert_eq!(shared.receiver.count("k"), 3);
        assert_eq!(why(&shared.alert("k").run().expect(0)), held_back());
    }

    fn what_arrives_says_what_happened_where_and_how_urgent_it_is(place: Place) {
        let shared = Shared::new(place);
        let output = shared.alert("disk şüphe").args(["--severity", "P2", "-vv"]).run().expect(0);
        let got = shared.receiver.wait_for("disk şüphe", PATIENCE).body;
        assert_eq!((&got["text"], &got["severity"]), (&"[p2] it happened".into(), &"p2".into()));
        assert_eq!(got["message"], "it happened");
        assert!(got["at"].as_str().is_some_and(|at| at.ends_with('Z')) && got["host"].is_string(), "{got}");
        assert!(!output.stderr.contains(SECRET), "{}", output.stderr);
    }

    #[doc = "Hits every few hundred milliseconds do not move the end of a window of 3 s."]
    fn a_hit_that_is_held_back_extends_no_window(place: Place) {
        let shared = Shared::new(place);
        let hit = || why(&shared.alert("k").args(["--window", "3s"]).run().expect(0));
        assert_eq!(hit(), rung("new"));
        let began = Instant::now();
        let again = wait_for("it rings again", PATIENCE, || {
            let_pass(Duration::from_millis(300), || false);
            (hit() == rung("new")).then(Instant::now)
        });
        assert!(again - began >= Duration::from_millis(2_500), "{:?}", again - began);
        assert_eq!(shared.receiver.count("k"), 2);
    }

    fn a_sender_killed_between_claim_and_send_delays_the_alert_by_its_claim_and_swallows_nothing(place: Place) {
        let shared = Shared::new(place);
        let died = shared.alert("k").failpoint("alert::after_claim=return").spawn();
        let died = died.wait(PATIENCE);
        let began = Instant::now();
        assert_eq!((died.signal, shared.receiver.count("k")), (Some(6), 0), "{}", died.told());
        assert_eq!(why(&shared.alert("k").run().expect(0)), held_back());
        wait_for("it rings", PATIENCE, || {
            let_pass(Duration::from_millis(700), || false);
            (why(&shared.alert("k").run().expect(0)) == rung("new")).then_some(())
        });
        assert!(began.elapsed() >= LEASE - Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(why(&shared.alert("k").run().expect(0)), held_back());
        assert_eq!(shared.receiver.count("k"), 1);
    }

    fn an_alert_that_no_receiver_took_is_not_held_back_the_next_time(place: Place) {
        let shared = Shared::new(place);
        shared.receiver.answer(503);
        let refused = shared.alert("k").run();
        assert_eq!((refused.code, refused.error().as_deref()), (75, Some("alert_undelivered")), "{}", refused.told());
        assert!(refused.stderr.contains("webhook at 127.0.0.1: it answered 503"), "{}", refused.told());
        shared.receiver.answer(302);
        shared.alert("k").run().expect(75);
        shared.receiver.answer(200);
        assert_eq!(why(&shared.alert("k").run().expect(0)), rung("new"));
        assert_eq!(shared.receiver.count("k"), 1);
    }
}

#[test]
fn with_redis_stopped_it_arrives_and_once_redis_is_back_it_rings_once_again() {
    let mut shared = Shared::new(Place::Redis);
    shared.redis.as_mut().unwrap().stop();
    let output = shared.alert("k").run().expect(0);
    assert_eq!(why(&output), rung("store_unavailable"));
    assert!(output.stderr.contains("claims cannot be asked"), "{}", output.told());
    assert_eq!(shared.receiver.count("k"), 1);
    shared.redis.as_mut().unwrap().restart();
    assert_eq!(why(&shared.alert("k").run().expect(0)), rung("new"));
    assert_eq!(why(&shared.alert("k").run().expect(0)), held_back());
}

#[test]
fn with_postgres_stopped_it_arrives() {
    let server = Server::start();
    let mut shared = Shared::new(Place::Sqlite);
    shared.db = Some(crate::common::engine::Db::on(&server));
    shared.enlist().arg("migrate").run().expect(0);
    assert_eq!(why(&shared.alert("k").run().expect(0)), rung("new"));
    server.kill_immediate();
    assert_eq!(why(&shared.alert("k").run().expect(0)), rung("store_unavailable"));
    server.restart();
    assert_eq!(why(&shared.alert("k").run().expect(0)), held_back());
    assert_eq!(shared.receiver.count("k"), 2);
}

#[test]
fn without_any_database_it_arrives_with_a_warning_and_makes_none() {
    let mut shared = Shared::new(Place::Sqlite);
    shared.db = None;
    for _ in 0..2 {
        let output = shared.alert("k").run().expect(0);
        assert_eq!(why(&output), rung("store_unavailable"));
        assert!(output.stderr.contains("there is no file"), "{}", output.told());
    }
    assert!(!shared.home.path().join("data").exists());
}

#[test]
fn with_a_store_that_accepts_and_never_answers_it_arrives_in_under_2_5_seconds() {
    let (shared, silent) = (Shared::new(Place::Sqlite), Silent::start());
    for (n, url) in ["redis", "rediss", "postgres"].into_iter().enumerate() {
        let key = format!("k{n}");
        let address = silent.address();
        let option = if url == "postgres" { "--database-url" } else { "--claims-url" };
        let url = if url == "postgres" { format!("postgres://a@{address}/a") } else { format!("{url}://{address}") };
        let began = Instant::now();
        let output = shared.home.bare().args([option, &url, "alert", &key, "--message", "m", "--json"]).run().expect(0);
        assert_eq!(why(&output), rung("store_unavailable"), "{}", output.told());
        let arrived = shared.receiver.wait_for(&key, PATIENCE).at - began;
        assert!(arrived < Duration::from_millis(2_500), "{url}: {arrived:?}");
    }
}

#[test]
fn a_key_is_refused_before_anything_is_sent() {
    let shared = Shared::new(Place::Sqlite);
    for key in ["", "a\nb", &"x".repeat(201)] {
        shared.alert(key).run().refused(2, "usage");
    }
    let wrong = shared.home.bare().args(["--claims-url", "redsi://:geheimes-wort@h", "alert", "k", "--message", "m"]);
    wrong.arg("--json").run().refused(2, "config");
    assert!(shared.receiver.received().is_empty());
}
