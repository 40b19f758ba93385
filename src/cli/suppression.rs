//! `enlist opt-out` and `enlist opt-in`: who must not, and who may again, be written to.
//!
//! Owns the two commands. It does not know how a file is read or what a valid phone is. Invariant:
//! no phone appears in a message; a phone that is refused is counted and never guessed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

use crate::cli::answer::Context;
use crate::cli::lists::find;
use crate::cli::phone_file::{PhoneFile, PhoneRead};
use crate::cli::text::{counted, thousands};
use crate::cli::values;
use crate::fault::{Code, Exit, Fault, REGION_HINT};
use crate::job::ListId;
use crate::phone::{Phone, PhoneRules};
use crate::settings::{ColumnRef, Field, PhoneType, Wanted};
use crate::source::{SpoolFolder, check_encoding};
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

The file may be anything that an import reads: CSV, packed, a workbook; - is standard input. Phones are taken
from the column that its header or --map names, else from the first. An unknown phone is stored by opt-out, so
that an opt-out before an import holds; opt-in reports it and changes nothing.")]
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
    /// Which column of the file holds the phones: phone=HEADER or phone=#N
    #[arg(long, value_name = "phone=COLUMN", value_parser = values::mapping, requires = "file")]
    map: Vec<(Field, ColumnRef)>,
    /// Character set of the file, for example windows-1254 [default: found out]
    #[arg(long, value_name = "NAME", requires = "file")]
    encoding: Option<String>,
    /// Sheet of a workbook [default: the first]
    #[arg(long, value_name = "NAME", requires = "file")]
    sheet: Option<String>,
}

#[derive(Debug, Default)]
struct Tally {
    phones: u64,
    changed: u64,
    created: u64,
    already: u64,
    unknown: u64,
    refused: u64,
    told: Vec<Told>,
    /// Where the first unknown phones stand.
    strangers: Vec<String>,
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
    unknown: u64,
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
    let mut file = match &args.file {
        Some(_) => Some(open(context, args, region)?),
        None => None,
    };
    let store = context.open(Access::Existing).await?;
    let list = find(&store, &args.list).await?;
    let mut batch = Batch { store: &store, list: list.id, status, phones: Vec::new(), tally: Tally::default() };
    for (n, phone) in args.phones.iter().enumerate() {
        batch.take(rules.read(phone, None), format!("argument {}", n + 1)).await?;
    }
    while let Some(file) = &mut file
        && let Some((line, read)) = file.next()?
    {
        batch.take(read, format!("line {line}")).await?;
    }
    batch.flush().await?;
    let tally = batch.tally;
    for told in &tally.told {
        context.note(&format!("{}: {}: {}", told.place, told.reason, told.detail));
    }
    context.note(&and_more(tally.refused, tally.told.len(), "refused"));
    for place in &tally.strangers {
        context.note(&format!("{place}: not on list '{}', so there is nothing to take back", list.name));
    }
    context.note(&and_more(tally.unknown, tally.strangers.len(), "unknown"));
    let exit = if tally.refused + tally.unknown > 0 { Exit::Found } else { Exit::Done };
    let body = Body {
        list: &list.name,
        status: status.as_str(),
        phones: tally.phones,
        changed: tally.changed,
        created: tally.created,
        already: tally.already,
        unknown: tally.unknown,
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
    let created = match status {
        Status::OptedOut => format!("{} of them new here, ", thousands(tally.created)),
        Status::Active => format!("{} not on the list, ", thousands(tally.unknown)),
    };
    format!(
        "list '{list}': {} now {word}, {created}{} already, {} refused\n",
        counted(tally.changed + tally.created, "phone is", "phones are"),
        thousands(tally.already),
        thousands(tally.refused)
    )
}

/// How many of them were not told one by one; nothing when all were.
fn and_more(all: u64, told: usize, what: &str) -> String {
    match all.saturating_sub(told as u64) {
        0 => String::new(),
        more => format!("and {} more {what}", thousands(more)),
    }
}

/// The file with the phones.
fn open(context: &Context, args: &Args, region: Option<&str>) -> Result<PhoneFile, Fault> {
    args.encoding.as_deref().map_or(Ok(()), check_encoding)?;
    if args.map.iter().any(|(field, _)| *field != Field::Phone) {
        return Err(Fault::new(Code::Usage, "only the phones are read, so --map names no other field")
            .hint("pass --map phone=COLUMN"));
    }
    let wanted = Wanted {
        region: region.map(str::to_owned),
        map: args.map.clone(),
        encoding: args.encoding.clone(),
        sheet: args.sheet.clone(),
        ..Wanted::default()
    };
    // A copy of its own: an import of the same file may be going on, and removes its copy when it is done.
    let place = format!("{} opt-out {}", args.list, std::process::id());
    let spools = SpoolFolder::new(context.state_dir().join("spool"), "", &place);
    PhoneFile::open(args.file.as_deref().unwrap_or(std::path::Path::new("-")), &wanted, &spools)
}

/// Phones on their way to the store.
struct Batch<'a> {
    store: &'a Store,
    list: ListId,
    status: Status,
    /// Each with the place where it stands.
    phones: Vec<(Phone, String)>,
    tally: Tally,
}

impl Batch<'_> {
    async fn take(&mut self, read: PhoneRead, place: String) -> Result<(), Fault> {
        self.tally.phones += 1;
        match read {
            Ok(phone) => self.phones.push((phone, place)),
            Err(refusal) => {
                self.tally.refused += 1;
                if self.tally.told.len() < TOLD {
                    let (reason, detail) = (refusal.reason.code(), refusal.detail);
                    self.tally.told.push(Told { place, reason, detail });
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
        let phones: BTreeSet<&Phone> = self.phones.iter().map(|(phone, _)| phone).collect();
        let phones: Vec<Phone> = phones.into_iter().cloned().collect();
        let change = self.store.set_status(self.list, &phones, self.status).await?;
        let unknown: BTreeSet<&Phone> = change.unknown.iter().collect();
        let strangers = self.phones.iter().filter(|(phone, _)| unknown.contains(phone));
        let before = self.tally.unknown;
        for (_, place) in strangers {
            self.tally.unknown += 1;
            if self.tally.strangers.len() < TOLD {
                self.tally.strangers.push(place.clone());
            }
        }
        self.tally.changed += change.changed;
        self.tally.created += change.created;
        self.tally.already +=
            self.phones.len() as u64 - (self.tally.unknown - before) - change.changed - change.created;
        self.phones.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_counts_every_phone_once() {
        let tally = Tally { phones: 6, changed: 1, created: 1, already: 2, unknown: 1, refused: 1, ..Tally::default() };
        assert_eq!(
            sentence(&tally, "spring", Status::OptedOut),
            "list 'spring': 2 phones are now opted out, 1 of them new here, 2 already, 1 refused\n"
        );
        let tally = Tally { created: 0, ..tally };
        assert_eq!(
            sentence(&tally, "spring", Status::Active),
            "list 'spring': 1 phone is now opted in, 1 not on the list, 2 already, 1 refused\n"
        );
        assert_eq!(
            (and_more(20, 20, "refused"), and_more(1_021, 20, "refused")),
            (String::new(), "and 1,001 more refused".to_owned())
        );
    }
}
