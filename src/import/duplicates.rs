//! Which rows were folded into a later row of the same phone.
//!
//! Owns the second reading of an input whose import is done. It does not know where the rows are written.
//! Invariant: folding happens within a part, and parts are a function of the input, the frozen settings and the
//! frozen grid; so what is told here is what was folded, however often the import was interrupted, and as many
//! rows as the job's own figure says.

use tokio::sync::mpsc::Sender;

use crate::batch::{Batch, Batcher, winners};
use crate::fault::{Code, Fault};
use crate::import::entrance::stop_fault;
use crate::import::report::{DuplicateRow, Listed};
use crate::import::rows::Rows;
use crate::job::{Grid, lane_of};
use crate::normalise::Outcome;
use crate::recipient::Recipient;
use crate::run::count_of;
use crate::settings::{Origin, RULES_VERSION, Settings};
use crate::source::Survey;
use crate::stop::Stop;
use crate::store::JobRow;

/// Reads the input of `job`, which is done, once more and sends its folded rows, then `End`.
///
/// Holds one batch in memory. A receiver that is gone ends it without a fault.
///
/// # Errors
/// `job_state` when the job was done under other rules of the program; what reading the input brings, for example
/// `file_changed`; what `stop` amounts to.
pub(crate) async fn list(
    survey: Survey,
    job: &JobRow,
    expected: u64,
    to: &Sender<Listed>,
    stop: &Stop,
) -> Result<(), Fault> {
    if job.rules_version != RULES_VERSION {
        let message = format!(
            "job {} was done by another version of enlist ({}), so its repeated rows cannot be told",
            job.id, job.rules_version
        );
        return Err(Fault::new(Code::JobState, message).hint("import the file anew with --again"));
    }
    let (settings, grid, to, stop) = (job.payload.settings.clone(), job.grid, to.clone(), stop.clone());
    let reading = tokio::task::spawn_blocking(move || read(&survey, &settings, grid, expected, &to, &stop));
    reading.await.map_err(|error| Fault::new(Code::Internal, format!("the reading ended early: {error}")))?
}

fn read(
    survey: &Survey,
    settings: &Settings,
    grid: Grid,
    expected: u64,
    to: &Sender<Listed>,
    stop: &Stop,
) -> Result<(), Fault> {
    let mut rows = Rows::from(survey, settings, settings.data_start)?;
    let mut batcher = Batcher::new(grid, settings.data_start);
    let names = column_names(settings);
    let mut lines = Lines::new(grid);
    let mut told = 0;
    // Whether the receiver is still there.
    let mut tell = |batch: &Batch, lines: &mut Lines| {
        let found = folded(batch, lines, &names);
        told += count_of(found.len());
        found.is_empty() || to.blocking_send(Listed::Rows(found)).is_ok()
    };
    while let Some((row, outcome)) = rows.next_row()? {
        lines.note(&outcome, row.start.line);
        if let Some(batch) = batcher.push(outcome, row.end) {
            if let Some(fault) = stop_fault(stop) {
                return Err(fault);
            }
            if !tell(&batch, &mut lines) {
                return Ok(());
            }
        }
    }
    if let Some(batch) = batcher.finish()
        && !tell(&batch, &mut lines)
    {
        return Ok(());
    }
    if told != expected {
        let message = format!("{told} repeated rows were found where {expected} were folded");
        return Err(Fault::new(Code::Internal, message));
    }
    // Nobody there any more is for the receiver to explain.
    let _ = to.blocking_send(Listed::End);
    Ok(())
}

/// The lines of the rows that a batch takes, by lane.
struct Lines(Vec<Vec<u64>>);

impl Lines {
    fn new(grid: Grid) -> Self {
        Self(vec![Vec::new(); usize::from(grid.lanes.max(1))])
    }

    fn note(&mut self, outcome: &Outcome, line: u64) {
        if let Outcome::Recipient(recipient) = outcome
            && let Ok(lanes) = u16::try_from(self.0.len())
            && let Some(lane) = self.0.get_mut(usize::from(lane_of(recipient.phone.as_str(), lanes)))
        {
            lane.push(line);
        }
    }
}

/// What each value of a row is called in the file: the name first, then the attributes.
fn column_names(settings: &Settings) -> Vec<String> {
    let header = |at: usize| settings.header.get(at).cloned();
    let name = settings.columns.name.and_then(header).unwrap_or_else(|| "name".to_owned());
    let attributes = settings.attributes().into_iter().map(|(key, origin)| match origin {
        Origin::Column(at) => header(at).unwrap_or_else(|| key.to_owned()),
        Origin::Constant(_) => key.to_owned(),
    });
    std::iter::once(name).chain(attributes).collect()
}

/// The folded rows of a batch in file order. Takes the lines.
fn folded(batch: &Batch, lines: &mut Lines, names: &[String]) -> Vec<DuplicateRow> {
    let mut found = Vec::new();
    for (part, lines) in batch.parts.iter().zip(&mut lines.0) {
        let lines = std::mem::take(lines);
        let winners = winners(&part.recipients);
        // What the rows that are folded into one row say together, as it is stored.
        let mut kept: std::collections::HashMap<usize, Recipient> = std::collections::HashMap::new();
        for (at, row) in part.recipients.iter().enumerate() {
            let winner = winners.get(at).copied().flatten().unwrap_or(at);
            if winner == at && !kept.contains_key(&at) {
                continue;
            }
            match kept.get_mut(&winner) {
                Some(kept) => kept.fold(row.clone()),
                None => drop(kept.insert(winner, row.clone())),
            }
        }
        for (at, row) in part.recipients.iter().enumerate() {
            let Some(winner) = winners.get(at).copied().flatten() else { continue };
            let (Some(line), Some(winning_line), Some(kept)) = (lines.get(at), lines.get(winner), kept.get(&winner))
            else {
                continue;
            };
            found.push(DuplicateRow {
                line: *line,
                phone: row.phone.as_str().to_owned(),
                winning_line: *winning_line,
                replaced: replaced(row, kept, names),
            });
        }
    }
    found.sort_unstable_by_key(|row| row.line);
    found
}

/// The columns in which a row said something that was not kept.
fn replaced(row: &Recipient, kept: &Recipient, names: &[String]) -> Vec<String> {
    let said = std::iter::once(row.name.as_deref()).chain(row.attributes.iter());
    let stands = std::iter::once(kept.name.as_deref()).chain(kept.attributes.iter());
    let pairs = names.iter().zip(said.zip(stands));
    pairs.filter(|(_, (said, stands))| said.is_some() && said != stands).map(|(name, _)| name.clone()).collect()
}
