//! What the options of `enlist import` become, and which are refused.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Whole {
    #[command(flatten)]
    args: Args,
}

fn args(line: &[&str]) -> Args {
    Whole::parse_from(["import", "a.csv", "--list", "x"].iter().chain(line)).args
}

#[test]
fn how_to_wait_is_a_duration_or_for_ever() {
    assert_eq!(args(&["--wait"]).wait, Some(Wait::Forever));
    assert_eq!(args(&["--wait=10m"]).wait, Some(Wait::Until(Duration::from_secs(600))));
}

#[test]
fn a_reject_file_never_lands_on_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let (input, hard) = (folder.path().join("in.csv"), folder.path().join("hard.csv"));
    std::fs::write(&input, "phone\n").unwrap();
    std::fs::hard_link(&input, &hard).unwrap();
    let mut args = args(&[]);
    args.file = input;
    args.rejects = Some(hard);
    assert_eq!(args.check_outputs().unwrap_err().code, Code::RejectsIsInput);
    args.rejects = Some(folder.path().join("out.csv"));
    assert!(args.check_outputs().is_ok());
    args.rejects = Some(folder.path().join("none/out.csv"));
    assert_eq!(args.check_outputs().unwrap_err().code, Code::UnwritableFile);
}
