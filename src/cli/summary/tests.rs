//! Tests of the summary's wording and of the object's fields.

use std::time::Duration;

use super::*;
use crate::cli::answer::object;
use crate::fault::{Exit, Fault};
use crate::import::report::{ReasonCount, Warning};
use crate::reject::Reason;
use crate::run::Counts;

fn rejects_in(name: &str) -> Files {
    Files { rejects: Some(name.into()), ..Files::default() }
}

fn report() -> Report {
    let mut report = Report::new("spring");
    report.job = Some(JobId(7));
    report.state = Some(State::Done);
    report.elapsed = Duration::from_millis(12_345);
    report.attempt = 1;
    report.counts = Counts {
        rows: 1_000_000,
        inserted: 900_000,
        unchanged: 90_000,
        duplicates: 5_000,
        rejected: 5_000,
        blank: 2,
        opted_out: 31,
        ..Counts::default()
    };
    report.this_run_rows = 1_000_000;
    report.reasons = vec![
        ReasonCount {
            reason: Reason::PhoneInvalid,
            rows: 4_900,
            first_line: 1_017,
            first_detail: "too short for TR".to_owned(),
        },
        ReasonCount { reason: Reason::PhoneMissing, rows: 100, first_line: 9, first_detail: String::new() },
    ];
    report
}

#[test]
fn a_finished_import_tells_its_figures_its_reasons_and_what_to_do() {
    assert_eq!(
        summary(&report(), &Files::default()),
        "list 'spring', job 7: done after 12 s\n\
         \x20 1,000,000 rows\n\
         \x20     900,000 new\n\
         \x20      90,000 the same as before\n\
         \x20       5,000 repeated in the file, folded into the last of each phone\n\
         \x20       5,000 refused\n\
         \x20     4,900 phone_invalid, first on line 1,017: too short for TR\n\
         \x20       100 phone_missing, first on line 9\n\
         \x20 2 blank rows skipped\n\
         \x20 31 rows belong to people who opted out and stay so\n\
         next: enlist rejects 7 -o rejects.csv\n\
         \x20     enlist explain phone_invalid"
    );
}

#[test]
fn a_replay_says_that_nothing_was_read() {
    let mut replayed = report();
    replayed.replayed = true;
    replayed.resumed_rows = 1_000_000;
    replayed.this_run_rows = 0;
    let text = summary(&replayed, &rejects_in("refused.csv"));
    assert!(text.starts_with("list 'spring', job 7: already imported, nothing was read"), "{text}");
    assert!(text.contains("refused rows: refused.csv"), "{text}");
    assert!(!text.contains("-o rejects.csv") && !text.contains("resumed"), "{text}");
    assert!(text.ends_with("the same command with --again, to import it anew"), "{text}");
}

#[test]
fn a_stopped_import_says_where_it_was_and_how_to_go_on() {
    let mut stopped = report();
    stopped.state = Some(State::Interrupted);
    stopped.counts = Counts { rows: 1, inserted: 1, ..Counts::default() };
    stopped.reasons.clear();
    stopped.list_created = true;
    stopped.resumed_rows = 1_234;
    stopped.this_run_rows = 5_000;
    stopped.error = Some(Fault::new(Code::Interrupted, "stopped"));
    stopped.warnings.push(Warning::new("slow", "the disk is slow"));
    assert_eq!(
        summary(&stopped, &Files::default()),
        "new list 'spring', job 7: interrupted after 12 s\n\
         \x20 1 row\n\
         \x20   1 new\n\
         \x20 resumed after 1,234 rows of an earlier run; this run did 5,000\n\
         warning: the disk is slow\n\
         next: the same command again, to go on"
    );
}

#[test]
fn without_a_job_there_is_nothing_to_sum_up() {
    let mut failed = Report::new("spring");
    failed.error = Some(Fault::new(Code::NotFound, "there is no 'x.csv'"));
    assert_eq!(summary(&failed, &Files::default()), "");
}

#[test]
fn the_object_has_the_fields_of_the_contract_in_their_order() {
    let mut report = report();
    report.warnings.push(Warning::new("slow", "the disk is slow"));
    let line = object(Exit::Found, None, &Answer::of(&report, &rejects_in("r.csv"))).unwrap();
    assert_eq!(
        line,
        r#"{"schema":1,"job":7,"list":"spring","list_created":false,"state":"done","rows":1000000,"inserted":900000,"updated":0,"unchanged":90000,"stale":0,"duplicates":5000,"rejected":5000,"blank":2,"opted_out":31,"resumed_rows":0,"this_run":{"rows":1000000},"replayed":false,"attempt":1,"elapsed_ms":12345,"rejects_file":"r.csv","duplicates_file":null,"warnings":[{"code":"slow","message":"the disk is slow"}],"exit_code":3,"retryable":false,"error":null}"#
    );
}
