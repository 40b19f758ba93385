//! What the options of `enlist import` become, and which are refused.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(line: &[&str]) -> Args {
    Line::parse_from(["import", "a.csv", "--list", "x"].iter().chain(line)).args
}

#[test]
fn options_become_what_is_wanted() {
    let line = ["--region", "tr", "--map", "phone=#2", "--quote", "none", "--type", "mobile", "--delimiter", "-"];
    let wanted = args(&line).wanted(None).unwrap();
    assert_eq!(wanted.region.as_deref(), Some("TR"));
    assert_eq!(wanted.map, [(Field::Phone, ColumnRef::Number(2))]);
    assert_eq!(wanted.quote, Some(None));
    assert_eq!(wanted.phone_type, PhoneType::Mobile);
    assert_eq!(wanted.delimiter, Some(b'-'));
    assert_eq!(wanted.short_rows, ShortRows::Reject);
    assert_eq!(args(&["--wait"]).wait, Some(Wait::Forever));
    assert_eq!(args(&["--wait=10m"]).wait, Some(Wait::Until(Duration::from_secs(600))));
    assert_eq!(args(&["--max-rejects", "2%"]).max_rejects, Some(Budget::Percent(2.0)));
}

#[test]
fn the_region_of_the_configuration_counts_unless_one_is_given_and_is_named() {
    let config = Valued::new("GR".to_owned(), Origin::File("/etc/enlist/enlist.toml".into()));
    let wanted = args(&[]).wanted(Some(&config)).unwrap();
    assert_eq!(wanted.region.as_deref(), Some("GR"));
    assert_eq!(wanted.origins.get("region").map(String::as_str), Some("/etc/enlist/enlist.toml"));
    let wanted = args(&["--region", "TR"]).wanted(Some(&config)).unwrap();
    assert_eq!((wanted.region.as_deref(), wanted.origins.len()), (Some("TR"), 0));
}

#[test]
fn signs_that_cannot_be_told_apart_are_refused() {
    assert!(args(&["--delimiter", "'", "--quote", "'"]).wanted(None).is_err());
    assert!(args(&["--delimiter", "\""]).wanted(None).is_err());
    assert!(args(&["--delimiter", "pipe", "--escape", "|"]).wanted(None).is_err());
    assert_eq!(args(&["--escape", "\""]).wanted(None).unwrap().escape, None);
    assert_eq!(args(&["--escape", "backslash"]).wanted(None).unwrap().escape, Some(b'\\'));
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
    assert_eq!(args.check_rejects().unwrap_err().code, Code::RejectsIsInput);
    args.rejects = Some(folder.path().join("out.csv"));
    assert!(args.check_rejects().is_ok());
    args.rejects = Some(folder.path().join("none/out.csv"));
    assert_eq!(args.check_rejects().unwrap_err().code, Code::UnwritableFile);
}
