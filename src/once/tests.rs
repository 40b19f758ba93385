//! The words alone: keys, hashes, terms, states.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn seen(state: KeyState, left: Option<Duration>) -> Seen {
    let request_hash = RequestHash::of("request").expect("a hash").as_str().to_owned();
    Seen { state, request_hash, result: Value::Null, owner: None, attempts: 0, left }
}

#[test]
fn a_key_has_1_to_200_bytes_and_no_control_characters() {
    for good in ["a", "order 7/ödeme", &"x".repeat(200)] {
        assert_eq!(OnceKey::parse(good).map(|key| key.as_str().to_owned()).as_deref(), Ok(good));
    }
    assert_eq!(OnceKey::parse(""), Err(BadKey::Empty));
    assert_eq!(OnceKey::parse("ö".repeat(101)), Err(BadKey::TooLong(202)));
    for bad in ["a\nb", "a\0", "\u{85}"] {
        assert_eq!(OnceKey::parse(bad), Err(BadKey::ControlCharacter), "{bad:?}");
    }
}

#[test]
fn a_stored_key_is_never_a_run_key_of_an_import() {
    let stored = OnceKey::parse("00000000000000000000000000000000.1/0of1/0-10").expect("a key").stored();
    assert!(!stored.starts_with(|c: char| c.is_ascii_hexdigit()), "{stored}");
    assert!(PREFIX < stored.as_str() && stored.as_str() < BEHIND_PREFIX);
    let last = OnceKey::parse("\u{10FFFF}").expect("a key").stored();
    assert!(last.as_str() < BEHIND_PREFIX);
}

#[test]
fn the_order_of_a_requests_members_does_not_matter_and_everything_else_does() {
    let of = |text: &str| RequestHash::of(&serde_json::from_str::<Value>(text).expect("JSON")).expect("a hash");
    assert_eq!(of(r#"{"a":1,"b":{"x":[1,2],"y":null}}"#), of(r#" {"b": {"y": null, "x": [1, 2]}, "a": 1} "#));
    let different = [r#"{"a":1}"#, r#"{"a":1.0}"#, r#"{"a":"1"}"#, r#"{"a":[1]}"#, r#"{"a":null}"#, "{}", "[]", "null"];
    for (n, one) in different.iter().enumerate() {
        for other in different.iter().skip(n + 1) {
            assert_ne!(of(one), of(other), "{one} {other}");
        }
    }
    let map: HashMap<String, u32> = (0..50).map(|n| (format!("k{n}"), n)).collect();
    let again: HashMap<String, u32> = map.iter().map(|(key, n)| (key.clone(), *n)).collect();
    assert_eq!(RequestHash::of(&map).expect("a hash"), RequestHash::of(&again).expect("a hash"));
    assert!(RequestHash::of(&HashMap::from([((1, 2), 3)])).is_err(), "such a map is no JSON");
}

#[test]
fn done_and_failed_are_final_and_done_comes_from_running_only() {
    for from in KeyState::ALL {
        assert_eq!(KeyState::from_word(from.as_str()), Some(*from));
        for to in KeyState::ALL {
            let allowed = from.may_become(*to);
            match (from, to) {
                (KeyState::Done | KeyState::Failed, _) => assert!(!allowed, "{from:?} is final"),
                (KeyState::Running, _) => assert!(allowed, "{from:?} → {to:?}"),
                (KeyState::Pending, KeyState::Running | KeyState::Failed) => assert!(allowed, "{from:?} → {to:?}"),
                (KeyState::Pending, _) => assert!(!allowed, "{from:?} → {to:?}"),
            }
        }
    }
}

#[test]
fn a_failure_leads_where_its_severity_and_the_number_of_attempts_say() {
    for number in 1..=4 {
        let exhausted = if number >= 3 { (KeyState::Failed, Some(Why::Exhausted)) } else { (KeyState::Pending, None) };
        assert_eq!(after_failure(Severity::Transient, number, 3), exhausted);
        assert_eq!(after_failure(Severity::Conflict, number, 3), exhausted);
        assert_eq!(after_failure(Severity::Permanent, number, 3), (KeyState::Failed, Some(Why::Permanent)));
    }
    for severity in [Severity::Transient, Severity::Permanent] {
        assert!(KeyState::Running.may_become(after_failure(severity, 1, 1).0));
    }
}

#[test]
fn a_call_is_told_what_the_key_says() {
    let hash = RequestHash::of("request").expect("a hash");
    let minute = Duration::from_secs(60);
    for (key, told) in [
        (None, Told::Free),
        (Some(seen(KeyState::Pending, None)), Told::Free),
        (Some(seen(KeyState::Running, Some(minute))), Told::Running(minute)),
        (Some(seen(KeyState::Running, Some(Duration::ZERO))), Told::Running(Duration::from_secs(1))),
        (Some(seen(KeyState::Running, None)), Told::Free),
        (Some(seen(KeyState::Done, None)), Told::Done),
        (Some(seen(KeyState::Failed, None)), Told::Failed),
    ] {
        assert_eq!(tell(key.as_ref(), &hash), told, "{key:?}");
        let other = RequestHash::of("another").expect("a hash");
        assert_eq!(tell(key.as_ref(), &other), if key.is_some() { Told::KeyReused } else { Told::Free }, "{key:?}");
    }
}

#[test]
fn results_that_an_engine_cannot_keep_are_refused_on_both() {
    assert_eq!(unkeepable(&json!({"a": ["b", 1, null]})), None);
    for bad in [json!("a\0"), json!([{"a\0": 1}]), json!("x".repeat(RESULT_BYTES_MAX))] {
        assert!(unkeepable(&bad).is_some());
    }
}

#[test]
fn an_error_text_can_be_stored_whatever_the_handler_says() {
    let error = HandlerError::transient(format!("a\0{}", "ö".repeat(2_000)));
    assert!(error.to_string().starts_with("a\u{FFFD}ö"));
    assert_eq!(error.to_string().chars().count(), 1_000);
}

#[test]
fn terms_are_kept_within_what_can_work() {
    let bounded = Terms { lease: Duration::ZERO, max_attempts: 0 }.bounded();
    assert_eq!(bounded, Terms { lease: Duration::from_millis(200), max_attempts: 1 });
    assert_eq!(Terms::default().bounded(), Terms::default());
}
