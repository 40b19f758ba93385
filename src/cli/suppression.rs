//! `enlist opt-out` and `enlist opt-in`: who must not, and who may again, be written to.
//!
//! Owns the two commands and the reading of their phones. It does not know what a valid phone is. Invariant:
//! no phone appears in a message; a phone that is refused is counted and never guessed.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::answer::Context;
use crate::cli::lists::find;
use crate::cli::text::{counted, thousands};
use crate::cli::values;
use crate::fault::{Code, Exit, Fault, REGION_HINT};
use crate::job::ListId;
use crate::mapping::names_a_phone;
use crate::phone::{Phone, PhoneRules};
use crate::quoting::{PLAIN, split_cells};
use crate::reject::Refusal;
use crate::row::RECORD_MAX;
use crate::settings::{Dialect, PhoneType, is_invisible, trim};
use crate::store::{Access, Status, Store};

/// How many phones go to the store at once.
const BATCH: usize = 1000;

/// How many refusals are told one by one.
const TOLD: usize = 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist opt-out --list spring +905320000011 +306900000012
  enlist opt-out --list spring --region TR --file stop.csv
  enlist opt-in --list spring +905320000011

The file holds one phone a line, or phones in its first column; - is standard input.
An unknown phone is stored as well, so that an opt-out before an import holds.")]
pub(crate) struct Args {
    /// The list
    #[arg(long, value_name = "NAME")]
    list: String,
    /// The phones
    #[arg(value_name = "PHONE", required_unless_present = "file", conflicts_with = "file")]
    phones: Vec<String>,
    /// File with the phones
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Country in which numbers without a country code are read, for example TR
    #[arg(long, value_name = "REGION", value_parser = values::region)]
    region: Option<String>,
}

#[derive(Debug, Default)]
struct Tally {
    phones: u64,
    changed: u64,
    created: u64,
    already: u64,
    refused: u64,
    told: Vec<Told>,
}

#[derive(Debug, Serialize)]
struct Told {
    place: String,
    reason: &'static str,
    detail: String,
}

#[derive(Serialize)]
struct Body<'a> {
    list: &'a str,
    status: &'static str,
    phones: u64,
    changed: u64,
    created: u64,
    already: u64,
    refused: u64,
    refusals: &'a [Told],
}

/// Runs `opt-out`.
pub(crate) async fn opt_out(context: &Context, args: &Args) -> Result<Exit, Fault> {
    run(context, args, Status::OptedOut).await
}

/// Runs `opt-in`.
pub(crate) async fn opt_in(context: &Context, args: &Args) -> Result<Exit, Fault> {
    run(context, args, Status::Active).await
}

async fn run(context: &Context, args: &Args, status: Status) -> Result<Exit, Fault> {
    let region = args.region.as_deref().or(context.config.region.as_ref().map(|valued| valued.value.as_str()));
    let rules =
        PhoneRules::new(region, PhoneType::Any).map_err(|why| Fault::new(Code::Usage, why).hint(REGION_HINT))?;
    let mut lines = args.file.as_deref().map(Lines::open).transpose()?;
    let store = context.open(Access::Existing).await?;
    let list = find(&store, &args.list).await?;
    let mut batch = Batch { store: &store, list: list.id, status, phones: Vec::new(), tally: Tally::default() };
    for (n, phone) in args.phones.iter().enumerate() {
        batch.take(rules.read(phone, None), || format!("argument {}", n + 1)).await?;
    }
    while let Some(lines) = &mut lines
        && let Some((line, cell)) = lines.next_cell()?
    {
        batch.take(rules.read(&cell, None), || format!("line {line}")).await?;
    }
    batch.flush().await?;
    let tally = batch.tally;
    for told in &tally.told {
        context.note(&format!("{}: {}: {}", told.place, told.reason, told.detail));
    }
    let exit = if tally.refused > 0 { Exit::Found } else { Exit::Done };
    let body = Body {
        list: &list.name,
        status: status.as_str(),
        phones: tally.phones,
        changed: tally.changed,
        created: tally.created,
        already: tally.already,
        refused: tally.refused,
        refusals: &tally.told,
    };
    context.answer(exit, &body, &sentence(&tally, &list.name, status))
}

fn sentence(tally: &Tally, list: &str, status: Status) -> String {
    let word = match status {
        Status::OptedOut => "opted out",
        Status::Active => "opted in",
    };
    format!(
        "list '{list}': {} now {word}, {} of them new here, {} already, {} refused\n",
        counted(tally.changed + tally.created, "phone is", "phones are"),
        thousands(tally.created),
        thousands(tally.already),
        thousands(tally.refused)
    )
}

/// Phones on their way to the store.
struct Batch<'a> {
    store: &'a Store,
    list: ListId,
    status: Status,
    phones: Vec<Phone>,
    tally: Tally,
}

impl Batch<'_> {
    async fn take(&mut self, read: Result<Phone, Refusal>, place: impl Fn() -> String) -> Result<(), Fault> {
        self.tally.phones += 1;
        match read {
            Ok(phone) => self.phones.push(phone),
            Err(refusal) => {
                self.tally.refused += 1;
                if self.tally.told.len() < TOLD {
                    let (reason, detail) = (refusal.reason.code(), refusal.detail);
                    self.tally.told.push(Told { place: place(), reason, detail });
                }
            }
        }
        if self.phones.len() >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Fault> {
        if self.phones.is_empty() {
            return Ok(());
        }
        // One statement cannot name a phone twice.
        let given = self.phones.len();
        self.phones.sort();
        self.phones.dedup();
        let repeated = given - self.phones.len();
        let change = self.store.set_status(self.list, &self.phones, self.status).await?;
        self.phones.clear();
        self.tally.changed += change.changed;
        self.tally.created += change.created;
        self.tally.already += change.already + repeated as u64;
        Ok(())
    }
}

/// The phones of a file, one a line.
struct Lines {
    input: Box<dyn BufRead>,
    path: PathBuf,
    line: u64,
    /// Which column the header calls the phone, and what stands between columns.
    named: Option<(Dialect, usize)>,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, Fault> {
        let input: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            Box::new(BufReader::new(std::fs::File::open(path).map_err(|error| unreadable(path, &error))?))
        };
        Ok(Self { input, path: path.to_owned(), line: 0, named: None })
    }

    /// The next cell that holds something, with its line; a header is passed over.
    fn next_cell(&mut self) -> Result<Option<(u64, String)>, Fault> {
        loop {
            let mut bytes = Vec::new();
            let limit = RECORD_MAX as u64;
            let read = self.input.by_ref().take(limit).read_until(b'\n', &mut bytes);
            if read.map_err(|error| unreadable(&self.path, &error))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if bytes.len() as u64 == limit {
                let message = format!("line {} of '{}' is longer than 1 MiB", self.line, self.path.display());
                return Err(Fault::new(Code::LineTooLong, message));
            }
            let text = String::from_utf8_lossy(&bytes);
            let text = text.trim_end_matches(['\r', '\n']);
            if self.line == 1 && !first_cell(text).chars().any(char::is_numeric) {
                self.named = phone_column(text);
                continue;
            }
            let cell = match &self.named {
                Some((dialect, column)) => {
                    let cells = split_cells(text.as_bytes(), dialect);
                    let cell = cells.get(*column).map(|cell| String::from_utf8_lossy(cell).into_owned());
                    trim(&cell.unwrap_or_default()).to_owned()
                }
                None => first_cell(text).to_owned(),
            };
            // A line that says something, but no phone, is refused and not passed over.
            let is_blank = text.chars().all(|c| c.is_whitespace() || is_invisible(c) || ",;\t|\"".contains(c));
            if !is_blank {
                return Ok(Some((self.line, cell)));
            }
        }
    }
}

/// The column that a header calls the phone, when it names one.
fn phone_column(header: &str) -> Option<(Dialect, usize)> {
    let text = trim(header);
    [b',', b';', b'\t', b'|'].into_iter().find_map(|delimiter| {
        let dialect = Dialect { delimiter, ..PLAIN };
        let cells = split_cells(text.as_bytes(), &dialect);
        let names = cells.iter().map(|cell| String::from_utf8_lossy(cell).into_owned());
        let column = names.map(|name| [name]).position(|name| names_a_phone(&name))?;
        (cells.len() > 1).then_some((dialect, column))
    })
}

/// What stands before the first delimiter, without quotes and white space around it.
fn first_cell(line: &str) -> &str {
    let line = line.trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c));
    let cell = match line.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => line.split([',', ';', '\t', '|']).next(),
    };
    trim(cell.unwrap_or_default())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Fault {
    let (code, what) = match error.kind() {
        std::io::ErrorKind::NotFound => (Code::NotFound, "is not there".to_owned()),
        std::io::ErrorKind::IsADirectory => (Code::IsDirectory, "is a folder".to_owned()),
        _ => (Code::UnreadableFile, format!("cannot be read: {error}")),
    };
    Fault::new(code, format!("'{}' {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cell_of_a_line_is_the_phone() {
        assert_eq!(first_cell("0532 000 00 11\r\n"), "0532 000 00 11");
        assert_eq!(first_cell("\u{feff}+90532;Ayşe"), "+90532");
        assert_eq!(first_cell("\"+90,532\",x"), "+90,532");
        assert_eq!(first_cell("  \n"), "");
    }

    #[test]
    fn a_file_is_read_without_its_header_and_blank_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stop.csv");
        std::fs::write(&path, "phone,name\n\n+905320000011,a\n+905320000012").unwrap();
        let mut lines = Lines::open(&path).unwrap();
        assert_eq!(lines.next_cell().unwrap(), Some((3, "+905320000011".to_owned())));
        assert_eq!(lines.next_cell().unwrap(), Some((4, "+905320000012".to_owned())));
        assert_eq!(lines.next_cell().unwrap(), None);
        std::fs::write(&path, "id;Cep Telefonu\n5321112201;\"+905320000011\"\n;\n7;\n").unwrap();
        let mut lines = Lines::open(&path).unwrap();
        assert_eq!(lines.next_cell().unwrap(), Some((2, "+905320000011".to_owned())));
        assert_eq!(lines.next_cell().unwrap(), Some((4, String::new())));
        assert_eq!(lines.next_cell().unwrap(), None);
        assert_eq!(Lines::open(&folder.path().join("none")).err().unwrap().code, Code::NotFound);
        std::fs::write(&path, vec![b'1'; RECORD_MAX + 1]).unwrap();
        assert_eq!(Lines::open(&path).unwrap().next_cell().unwrap_err().code, Code::LineTooLong);
    }

    #[test]
    fn the_sentence_counts_every_phone_once() {
        let tally = Tally { phones: 5, changed: 1, created: 1, already: 2, refused: 1, told: Vec::new() };
        assert_eq!(
            sentence(&tally, "spring", Status::OptedOut),
            "list 'spring': 2 phones are now opted out, 1 of them new here, 2 already, 1 refused\n"
        );
    }
}
