//! What the options about reading a file become, and which are refused.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn args(line: &[&str]) -> Options {
    Line::parse_from(["import"].iter().chain(line)).options
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
fn a_switch_can_be_taken_back() {
    assert_eq!(args(&["--no-header"]).wanted(None).unwrap().header, HeaderRow::Absent);
    assert_eq!(args(&["--no-header=false"]).wanted(None).unwrap().header, HeaderRow::Present);
    assert_eq!(args(&[]), Options::default());
}

#[test]
fn constants_are_a_field_and_a_value() {
    let set = args(&["--set", "source=web=1", "--set", " Name =Ayşe"]).wanted(None).unwrap().set;
    assert_eq!(set, [("source".to_owned(), "web=1".to_owned()), (" Name ".to_owned(), "Ayşe".to_owned())]);
}
