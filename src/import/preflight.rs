//! A look at the first rows of a new import, before anything of it is written.
//!
//! Owns the two signs of a wrong file: every row refused, and nearly everybody renamed. It does not know how
//! rows are written. Invariant: it reads only, and what it does not see it does not judge.

use std::collections::HashMap;

use crate::batch::Outcome;
use crate::fault::{Code, Fault};
use crate::import::report::Request;
use crate::import::rows::Rows;
use crate::job::ListId;
use crate::recipient::Recipient;
use crate::reject::{Reason, Reject};
use crate::settings::Settings;
use crate::source::Survey;
use crate::store::{Store, StoreError};

/// How many rows are looked at: refused ones alone say enough after a thousand.
const REFUSED_ROWS: usize = 1_000;

/// How many taken rows are compared with what is stored.
const COMPARED_ROWS: usize = 10_000;

/// How much text is looked at, in bytes; a few huge rows say as much as many small ones.
const LOOKED_AT: u64 = 8 * 1024 * 1024;

/// In lists up to this size a person sees what happens.
const SMALL_LIST: u64 = 1_000;

/// Fewer known people than this say nothing about the file.
const KNOWN_PEOPLE: usize = 100;

/// The share of renamed people that is taken for an accident when nothing else is said, in percent.
const MAX_CHANGES: f64 = 50.0;

/// Refuses a file whose first rows show that it, or what was said about it, is wrong.
///
/// # Errors
/// `too_many_rejects` when the first thousand rows are all refused and no `--max-rejects` was given;
/// `too_many_changes` when more than `--max-changes` percent of the people it knows would get another name.
pub(crate) async fn check(
    store: &Store,
    list: ListId,
    request: &Request,
    survey: &Survey,
    settings: &Settings,
) -> Result<(), Fault> {
    let (store, list) = store.judging(list);
    let (survey, settings_read) = (survey.clone(), settings.clone());
    let reading = tokio::task::spawn_blocking(move || look(&survey, &settings_read));
    let seen =
        reading.await.map_err(|error| Fault::new(Code::Internal, format!("the reading ended early: {error}")))??;
    if request.max_rejects.is_none() && seen.taken.is_empty() && seen.refused.len() >= REFUSED_ROWS {
        return Err(all_refused(&seen.refused, settings));
    }
    let most = request.max_changes.unwrap_or(MAX_CHANGES);
    if settings.names_people() && most < 100.0 {
        refuse_renaming(store, list, &seen.taken, most).await?;
    }
    Ok(())
}

/// The first rows, judged.
struct Seen {
    taken: Vec<Recipient>,
    refused: Vec<Reject>,
}

fn look(survey: &Survey, settings: &Settings) -> Result<Seen, Fault> {
    let start = settings.data_start;
    let mut rows = Rows::from(survey, settings, start)?;
    let mut seen = Seen { taken: Vec::new(), refused: Vec::new() };
    while let Some((row, outcome)) = rows.next_row()? {
        let read = row.end.byte - start.byte;
        match outcome {
            Outcome::Blank => {}
            Outcome::Recipient(recipient) => seen.taken.push(recipient),
            // The text of a refused row is not needed and may be large.
            Outcome::Reject(reject) => seen.refused.push(Reject { raw: Vec::new(), ..reject }),
        }
        let all_refused = seen.taken.is_empty() && seen.refused.len() >= REFUSED_ROWS;
        let enough = seen.taken.len() + seen.refused.len() >= COMPARED_ROWS || read >= LOOKED_AT;
        if all_refused || enough {
            break;
        }
    }
    Ok(seen)
}

fn all_refused(refused: &[Reject], settings: &Settings) -> Fault {
    let mut counts: HashMap<(Reason, Option<&str>), usize> = HashMap::new();
    for reject in refused {
        *counts.entry((reject.reason, reject.column.as_deref())).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|((reason, _), count)| (*count, std::cmp::Reverse(*reason)));
    let Some(((reason, column), count)) = most else {
        return Fault::new(Code::TooManyRejects, "every row is refused");
    };
    let place = column.map(|column| format!(" in the column '{column}'")).unwrap_or_default();
    let phone = settings.header.get(settings.columns.phone).cloned().unwrap_or_default();
    Fault::new(
        Code::TooManyRejects,
        format!("the first {} rows are all refused, {count} of them with {reason}{place}", refused.len()),
    )
    .hint(format!(
        "phones were read from '{phone}': check --map phone=…, --region and --delimiter, or pass --max-rejects to import all the same"
    ))
}

async fn refuse_renaming(store: &Store, list: ListId, taken: &[Recipient], most: f64) -> Result<(), Fault> {
    if store.recipients_up_to(list, SMALL_LIST + 1).await? <= SMALL_LIST {
        return Ok(());
    }
    // The last name that the file gives a phone is the one that would be stored.
    let said: HashMap<&str, &str> = taken
        .iter()
        .filter_map(|recipient| {
            Some((recipient.phone.as_str(), recipient.name.as_deref().filter(|name| !name.is_empty())?))
        })
        .collect();
    let phones: Vec<&str> = said.keys().copied().collect();
    let known = store.known_names(list, &phones).await.map_err(StoreError::into_fault_midway)?;
    // What an unfinished import wrote meanwhile is not what the list has been: it counts as no change.
    let renamed = known
        .iter()
        .filter(|(phone, stored, settled)| *settled == 1 && said.get(phone.as_str()).is_some_and(|said| said != stored))
        .count();
    if known.len() < KNOWN_PEOPLE || renamed as f64 * 100.0 <= most * known.len() as f64 {
        return Ok(());
    }
    Err(Fault::new(
        Code::TooManyChanges,
        format!("{renamed} of the first {} known people would get another name; nothing was written", known.len()),
    ))
}
