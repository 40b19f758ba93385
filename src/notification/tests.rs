//! What answers make of a notification, over every receiver and stage.

use super::*;

const RECEIVERS: &[Receiver] = Receiver::ALL;

fn answered(status: u16) -> Outcome {
    Outcome::Answered { status, retry_after: None }
}

#[test]
fn every_judgement_is_an_edge_and_nothing_comes_after_the_end() {
    let outcomes = (100..=599).map(answered).chain([Outcome::Unreached, Outcome::Unanswered]);
    for outcome in outcomes {
        for receiver in RECEIVERS {
            let judged = judge(*receiver, outcome, Tried::default(), 0.5);
            assert!(Stage::Sending.may_become(judged.next), "{receiver:?} {outcome:?}");
            assert_ne!(judged.next, Stage::Sending, "{receiver:?} {outcome:?}");
            assert_eq!(judged.rest.is_zero(), judged.next.is_over(), "{receiver:?} {outcome:?}");
        }
        if let Some(judged) = judge_lookup(outcome, Tried::default(), 0.5) {
            assert!(Stage::Sending.may_become(judged.next) && judged.next != Stage::Unknown, "{outcome:?}");
        }
    }
    for from in Stage::ALL {
        assert_eq!(Stage::from_word(from.as_str()), Some(*from));
        for to in Stage::ALL {
            let allowed = from.may_become(*to);
            assert!(!(allowed && from.is_over()), "{from:?} is over, and becomes {to:?}");
            // Only a claim begins, and only a sender ends.
            assert!(!allowed || *from == Stage::Sending || *to == Stage::Sending, "{from:?} → {to:?}");
        }
    }
}

#[test]
fn answers_are_told_apart() {
    for (status, next, charge) in [
        (200, Stage::Sent, Charge::Free),
        (204, Stage::Sent, Charge::Free),
        (302, Stage::Failed, Charge::Attempt),
        (400, Stage::Failed, Charge::Attempt),
        (404, Stage::Failed, Charge::Attempt),
        (408, Stage::Pending, Charge::Attempt),
        (409, Stage::Pending, Charge::Attempt),
        (429, Stage::Held, Charge::Hold),
        (500, Stage::Pending, Charge::Attempt),
        (502, Stage::Pending, Charge::Attempt),
        (503, Stage::Held, Charge::Hold),
    ] {
        let judged = judge(Receiver::Keys, answered(status), Tried::default(), 0.5);
        assert_eq!((judged.next, judged.charge), (next, charge), "{status}");
    }
}

#[test]
fn a_receiver_without_keys_is_called_again_only_after_a_call_that_did_nothing() {
    let mut again = Vec::new();
    for status in 100..=599 {
        if !judge(Receiver::None, answered(status), Tried::default(), 0.5).next.is_over() {
            again.push(status);
        }
    }
    assert_eq!(again, [429]);
    assert!(!judge(Receiver::None, Outcome::Unreached, Tried::default(), 0.5).next.is_over());
    assert_eq!(judge(Receiver::None, Outcome::Unanswered, Tried::default(), 0.5).next, Stage::Unknown);
    assert_eq!(first_step(Receiver::None, Found::Abandoned, 0), Step::GiveUp);
}

#[test]
fn the_first_step_follows_from_what_may_have_happened() {
    for receiver in RECEIVERS {
        assert_eq!(first_step(*receiver, Found::Waiting, 0), Step::Send, "{receiver:?}");
        assert_eq!(first_step(*receiver, Found::TooLate, 0), Step::GiveUp, "{receiver:?}");
    }
    assert_eq!(first_step(Receiver::Keys, Found::Abandoned, 3), Step::Send);
    assert_eq!(first_step(Receiver::Lookup, Found::Abandoned, 0), Step::LookUp);
    assert_eq!(first_step(Receiver::Lookup, Found::Waiting, 1), Step::LookUp);
    assert_eq!(judge_lookup(answered(404), Tried::default(), 0.5), None);
    assert_eq!(judge_lookup(answered(200), Tried::default(), 0.5).map(|judged| judged.next), Some(Stage::Sent));
    assert_eq!(judge_lookup(answered(500), Tried::default(), 0.5).map(|judged| judged.next), Some(Stage::Pending));
}

#[test]
fn holds_last_as_asked_within_bounds_and_grow_where_nothing_is_asked() {
    let rest = |seconds: Option<u64>, holds| {
        let outcome = Outcome::Answered { status: 429, retry_after: seconds.map(Duration::from_secs) };
        judge(Receiver::Keys, outcome, Tried { attempts: 0, holds }, 1.0).rest
    };
    assert_eq!(rest(Some(2), 9), Duration::from_secs(2));
    assert_eq!(rest(Some(0), 0), HOLD_LEAST);
    assert_eq!(rest(Some(1_000_000), 0), HOLD_MOST);
    assert!(rest(None, 0) < rest(None, 1));
}

#[test]
fn each_end_has_a_key_of_its_own() {
    assert_eq!(event_id("0a1b", 2, 1, "failed"), "0a1b.2.1.failed");
    assert_ne!(event_id("0a1b", 2, 1, "cancelled"), event_id("0a1b", 2, 2, "cancelled"));
}
