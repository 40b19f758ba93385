//! `once`: one replica runs the command, the others say who, and a claim store that is away stops nothing.

use std::time::Duration;

use crate::alerts::{Place, Shared, places};
use crate::common::cli::Enlist;
use crate::common::wait::wait_until;
use crate::common::webhook::Silent;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn runs(shared: &Shared) -> usize {
    let path = shared.home.path().join("ran");
    if path.exists() { String::from_utf8_lossy(&shared.home.read("ran")).lines().count() } else { 0 }
}

places! {
    fn two_replicas_at_once_and_a_third_in_the_window_run_the_command_once(place: Place) {
        let shared = Shared::new(place);
        let start = || shared.once("k", &["--json"], "echo to standard output; echo x >> ran");
        let running: Vec<_> = vec![start(), start()].into_iter().map(Enlist::spawn).collect();
        let mut outputs: Vec<_> = running.into_iter().map(|one| one.wait(PATIENCE).expect(0)).collect();
        outputs.push(start().run().expect(0));
        assert_eq!(runs(&shared), 1);
        let ran: Vec<_> = outputs.iter().filter(|output| output.json()["ran"] == true).collect();
        assert_eq!(ran.len(), 1);
        assert_eq!(ran[0].json()["why"], "new");
        assert!(ran[0].stderr.contains("to standard output"), "{}", ran[0].told());
        for skipped in outputs.iter().filter(|output| output.json()["ran"] == false) {
            assert_eq!(skipped.json()["why"], "suppressed");
            assert!(skipped.json()["held_by"].as_str().is_some_and(|by| by.starts_with("process ")));
            assert!(skipped.stderr.contains("skipped: process "), "{}", skipped.told());
        }
        shared.once("other", &[], "echo x >> ran").run().expect(0);
        assert_eq!(runs(&shared), 2);
    }

    fn the_command_keeps_its_streams_its_exit_status_and_its_signals(place: Place) {
        let shared = Shared::new(place);
        let output = shared.once("a", &[], "read line; echo got $line; exit 7").stdin_bytes("hello\n").run();
        assert_eq!((output.code, output.text().as_str()), (7, "got hello\n"), "{}", output.told());
        shared.once("a", &[], "exit 7").run().expect(0);
        let output = shared.once("b", &["--json"], "exit 7").run().expect(7);
        assert_eq!(output.count("exit_code"), 7);
        for (key, options, code, signal) in [("c", &[][..], 143, Some(15)), ("d", &["--json"][..], 143, None)] {
            let running = shared.once(key, options, "echo x >> ran; exec sleep 60").spawn();
            let before = if key == "c" { 1 } else { 2 };
            wait_until("it runs", PATIENCE, || runs(&shared) == before);
            running.term();
            let output = running.wait(PATIENCE).expect(code);
            assert_eq!(output.signal, signal, "{}", output.told());
        }
    }

    fn a_command_that_cannot_be_started_gives_its_window_back(place: Place) {
        let shared = Shared::new(place);
        for options in [&["--json"][..], &[]] {
            let line = [&["once", "k", "--window", "300d"], options, &["--", "/nonexistent/program"]].concat();
            let failed = shared.enlist().args(line).run().expect(2);
            assert!(failed.stderr.contains("'/nonexistent/program' cannot be started"), "{}", failed.told());
        }
        shared.once("k", &[], "echo x >> ran").run().expect(0);
        assert_eq!(runs(&shared), 1);
    }

    #[doc = "The claim ends with its window, not with the command; the next window is free."]
    fn the_next_window_runs_it_again(place: Place) {
        let shared = Shared::new(place);
        let start = || shared.enlist().args(["once", "k", "--window", "2s", "--json", "--", "true"]).run().expect(0);
        let mut ran = 0;
        wait_until("a second window begins", PATIENCE, || {
            ran += i32::from(start().json()["ran"] == true);
            ran == 2
        });
    }
}

#[test]
fn with_the_store_down_or_silent_or_missing_it_runs_unless_it_is_to_fail_closed() {
    let mut shared = Shared::new(Place::Redis);
    shared.redis.as_mut().unwrap().stop();
    let silent = Silent::start();
    let hangs = format!("redis://{}", silent.address());
    let down = shared.redis.as_ref().unwrap().url();
    for (n, claims) in [&["--claims-url", &hangs][..], &["--claims-url", &down], &[]].into_iter().enumerate() {
        let line = |options: &[&str]| {
            let once = ["once", "k", "--window", "300d", "--json"];
            shared.home.bare().args(claims).args(once).args(options).args(["--", "sh", "-c", "echo x >> ran"])
        };
        let output = line(&[]).run().expect(0);
        assert_eq!(
            (output.json()["ran"].clone(), output.json()["why"].clone()),
            (true.into(), "store_unavailable".into())
        );
        assert!(output.stderr.contains("warning: claims cannot be asked"), "{}", output.told());
        line(&["--fail", "closed"]).run().stopped(75, "claims_unavailable");
        assert_eq!(runs(&shared), n + 1);
    }
}
