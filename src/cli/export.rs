//! `enlist export`: the recipients of a list, by phone.
//!
//! Owns the command and the two formats. It does not know how recipients are stored. Invariant: memory does
//! not grow with the list.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::answer::{Context, Style};
use crate::cli::lists::find;
use crate::cli::output::{Reader, Sink};
use crate::cli::paging::Pages;
use crate::cli::text::counted;
use crate::fault::{Code, Exit, Fault};
use crate::quoting::{PLAIN, push_record};
use crate::store::{Access, Member};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist export --list spring -o spring-clean.csv
  enlist export --list spring --format jsonl | jq .phone

CSV columns: phone, name, status, source_version, then the attributes by name; an attribute that is named
like one of the first four is called attributes.NAME.")]
pub(crate) struct Args {
    /// The list
    #[arg(long, value_name = "NAME")]
    list: String,
    /// How it is written: csv or jsonl [default: by the file's name, else csv]
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    format: Option<Format>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A header and one line a recipient
    Csv,
    /// One JSON object a line
    Jsonl,
}

impl Format {
    /// What was asked for, else what the file's name says.
    fn choose(asked: Option<Self>, path: Option<&Path>) -> Self {
        let extension = path.and_then(Path::extension).and_then(|extension| extension.to_str());
        asked.unwrap_or(match extension {
            Some("jsonl" | "ndjson") => Self::Jsonl,
            _ => Self::Csv,
        })
    }
}

#[derive(Serialize)]
struct Body<'a> {
    list: &'a str,
    recipients: u64,
    file: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    output.map_or(Ok(()), |path| context.check_output(path))?;
    if context.style == Style::Json && output.is_none() {
        let message = "--json answers with one object, and the recipients would be more";
        let hint = "pass -o FILE as well, or --format jsonl without --json";
        return Err(Fault::new(Code::Usage, message).hint(hint));
    }
    let store = context.open(Access::Existing).await?;
    let list = find(&store, &args.list).await?;
    let format = Format::choose(args.format, output);
    let keys = match format {
        Format::Csv => store.member_keys(list.id).await?,
        Format::Jsonl => Vec::new(),
    };
    let mut sink = Sink::open(output)?;
    let mut text = Vec::new();
    if format == Format::Csv {
        push_header(&mut text, &keys);
    }
    let mut pages = Pages::new();
    let mut after: Option<String> = None;
    let mut written = 0_u64;
    while sink.write(&text)? == Reader::There {
        text.clear();
        let page = store.members_after(list.id, after.as_deref(), pages.rows()).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.phone.clone());
        written += page.len() as u64;
        for member in &page {
            match format {
                Format::Csv => push_row(&mut text, member, &keys),
                Format::Jsonl => push_object(&mut text, member)?,
            }
        }
        pages.learn(page.len(), text.len());
    }
    sink.finish()?;
    if let (Style::Text, Some(path)) = (context.style, output) {
        let recipients = counted(written, "recipient", "recipients");
        context.note(&format!("{recipients} of list '{}' are in '{}'", list.name, path.display()));
    }
    let file = output.map(|path| path.display().to_string());
    context.answer(Exit::Done, &Body { list: &list.name, recipients: written, file }, "")
}

/// The columns before the attributes.
const COLUMNS: [&str; 4] = ["phone", "name", "status", "source_version"];

fn push_header(out: &mut Vec<u8>, keys: &[String]) {
    let attributes = keys.iter().map(|key| {
        // Two columns of one name would hide one of them from most readers.
        let mut name = key.clone();
        while COLUMNS.contains(&name.as_str()) || (name != *key && keys.contains(&name)) {
            name = format!("attributes.{name}");
        }
        name
    });
    let cells: Vec<String> = COLUMNS.iter().map(|name| (*name).to_owned()).chain(attributes).collect();
    push_record(out, cells.iter().map(String::as_bytes), &PLAIN);
}

fn push_row(out: &mut Vec<u8>, member: &Member, keys: &[String]) {
    let version = member.source_version.map(|version| version.to_string()).unwrap_or_default();
    let name = member.name.as_deref().unwrap_or_default();
    let fixed = [member.phone.as_str(), name, member.status.as_str(), &version];
    let attributes = keys.iter().map(|key| member.attributes.get(key).map(String::as_str).unwrap_or_default());
    push_record(out, fixed.into_iter().chain(attributes).map(str::as_bytes), &PLAIN);
}

#[derive(Serialize)]
struct Line<'a> {
    phone: &'a str,
    name: Option<&'a str>,
    status: &'static str,
    attributes: &'a BTreeMap<String, String>,
    source_version: Option<i64>,
}

fn push_object(out: &mut Vec<u8>, member: &Member) -> Result<(), Fault> {
    let line = Line {
        phone: &member.phone,
        name: member.name.as_deref(),
        status: member.status.as_str(),
        attributes: &member.attributes,
        source_version: member.source_version,
    };
    serde_json::to_writer(&mut *out, &line)
        .map_err(|error| Fault::new(Code::Internal, format!("a recipient cannot be written as JSON: {error}")))?;
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Status;

    fn member() -> Member {
        let attributes = [("status", "vip"), ("city", "İzmir, TR")];
        Member {
            phone: "+905320000011".to_owned(),
            name: None,
            status: Status::OptedOut,
            attributes: attributes.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            source_version: Some(3),
        }
    }

    #[test]
    fn csv_has_the_fixed_columns_first_and_no_name_twice() {
        let keys = ["city".to_owned(), "code".to_owned(), "status".to_owned()];
        let mut out = Vec::new();
        push_header(&mut out, &keys);
        push_row(&mut out, &member(), &keys);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "phone,name,status,source_version,city,code,attributes.status\n\
             +905320000011,,opted_out,3,\"İzmir, TR\",,vip\n"
        );
    }

    #[test]
    fn jsonl_has_one_object_a_line_with_sorted_attributes() {
        let mut out = Vec::new();
        push_object(&mut out, &member()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"phone\":\"+905320000011\",\"name\":null,\"status\":\"opted_out\",\
             \"attributes\":{\"city\":\"İzmir, TR\",\"status\":\"vip\"},\"source_version\":3}\n"
        );
    }

    #[test]
    fn the_format_is_what_was_asked_for_or_what_the_name_says() {
        assert_eq!(Format::choose(None, Some(Path::new("a.jsonl"))), Format::Jsonl);
        assert_eq!(Format::choose(Some(Format::Csv), Some(Path::new("a.jsonl"))), Format::Csv);
        assert_eq!(Format::choose(None, None), Format::Csv);
    }
}
