//! Reading: from a position in the input to batches in the lanes.
//!
//! Owns the thread that decodes and normalises. It does not know what becomes of a batch. Invariant: only
//! whole batches of the frozen grid are handed on; a partly read one is dropped when reading stops (rule 5).

use std::collections::BTreeMap;

use tokio::sync::mpsc::Sender;

use crate::batch::Outcome;
use crate::batch::{Batch, Batcher, FoldedPart};
use crate::fault::{Code, Fault};
use crate::import::report::Budget;
use crate::import::rows::Rows;
use crate::job::{Grid, JobId};
use crate::phone::masked_cell;
use crate::position::{Position, Range};
use crate::reject::Reject;
use crate::row::Row;
use crate::run::{Counts, count_of};
use crate::settings::Settings;
use crate::source::Survey;
use crate::stop::Stop;

/// What a lane is sent.
#[derive(Debug)]
pub(crate) enum Message {
    /// Its share of a batch.
    Part(Range, FoldedPart),
    /// The input ends here.
    End(Position),
}

/// Why reading ended.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// At the end of the input.
    Input(Position),
    /// Somebody asked to stop.
    Stopped,
    /// A lane does not take any more; it knows why.
    LaneClosed,
    /// The input or the budget does not allow more.
    Fault(Fault),
}

/// Everything that reading needs.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) survey: Survey,
    pub(crate) settings: Settings,
    pub(crate) grid: Grid,
    /// Where each lane stands.
    pub(crate) lanes: BTreeMap<u16, Position>,
    /// What is committed already.
    pub(crate) committed: Counts,
    /// The job whose refused rows the input brings back.
    pub(crate) mends: Option<JobId>,
    pub(crate) budget: Option<Budget>,
    pub(crate) stop: Stop,
}

impl Reader {
    /// Reads from the smallest lane position to the end, and sends each lane its parts in file order.
    ///
    /// Blocks its thread while the lanes are busy, so that memory stays bounded.
    pub(crate) fn read(self, lanes: &[Sender<Message>]) -> ReadEnd {
        match self.try_read(lanes) {
            Ok(end) => end,
            // A read that waits for a server is given up, which is no fault of the input.
            Err(_) if self.stop.cause().is_some() => ReadEnd::Stopped,
            Err(fault) => ReadEnd::Fault(fault),
        }
    }

    fn try_read(&self, lanes: &[Sender<Message>]) -> Result<ReadEnd, Fault> {
        let start = self.lanes.values().min().copied().unwrap_or(self.settings.data_start);
        let mut rows = Rows::from(&self.survey, &self.settings, start)?;
        let mut batcher = Batcher::new(self.grid, start);
        let mut seen = Seen { rows: self.committed.rows, rejected: self.committed.rejected };
        let mut end = start;
        while let Some((row, outcome)) = rows.next_row()? {
            if self.stop.cause().is_some() {
                return Ok(ReadEnd::Stopped);
            }
            end = row.end;
            if let Outcome::Reject(reject) = &outcome {
                log_refused(row, reject, &self.settings);
            }
            if self.mends.is_some()
                && let Some(refused) = rows.refused_as()
            {
                batcher.was_refused(&outcome, refused);
            }
            if let Some(batch) = batcher.push(outcome, end) {
                self.count(&mut seen, &batch);
                self.check_budget(&seen, BatchPlace::Inner)?;
                if send(lanes, batch).is_err() {
                    return Ok(ReadEnd::LaneClosed);
                }
            }
        }
        let last = batcher.finish();
        if let Some(batch) = &last {
            self.count(&mut seen, batch);
        }
        self.check_budget(&seen, BatchPlace::Last)?;
        if let Some(batch) = last
            && send(lanes, batch).is_err()
        {
            return Ok(ReadEnd::LaneClosed);
        }
        for lane in lanes {
            if lane.blocking_send(Message::End(end)).is_err() {
                return Ok(ReadEnd::LaneClosed);
            }
        }
        Ok(ReadEnd::Input(end))
    }

    /// Counts what a batch adds to what its lanes have committed already.
    fn count(&self, seen: &mut Seen, batch: &Batch) {
        for ((_, stands), part) in self.lanes.iter().zip(&batch.parts) {
            if batch.range.to.byte > stands.byte {
                seen.rejected += count_of(part.rejects.len());
                seen.rows += count_of(part.rejects.len() + part.recipients.len());
            }
        }
    }

    fn check_budget(&self, seen: &Seen, place: BatchPlace) -> Result<(), Fault> {
        let exceeded = match self.budget {
            None => false,
            Some(Budget::Rows(most)) => seen.rejected > most,
            // A share of few rows says little; at the end it is what it is.
            Some(Budget::Percent(_)) if seen.rows < 1_000 && place == BatchPlace::Inner => false,
            Some(Budget::Percent(most)) => seen.rejected as f64 * 100.0 > most * seen.rows as f64,
        };
        if !exceeded {
            return Ok(());
        }
        let most = match self.budget {
            Some(Budget::Percent(most)) => format!("{most} %"),
            Some(Budget::Rows(most)) => most.to_string(),
            None => String::new(),
        };
        Err(Fault::new(
            Code::TooManyRejects,
            format!("{} of the first {} rows are refused, --max-rejects allows {most}", seen.rejected, seen.rows),
        ))
    }
}

/// The target under which the log says whether phones may be shown as they are.
pub const PLAIN_PHONES: &str = "plain_phones";

/// Names a refused row in the log, its phone cell masked unless somebody asked for it in full.
fn log_refused(row: &Row, reject: &Reject, settings: &Settings) {
    if !tracing::enabled!(tracing::Level::TRACE) {
        return;
    }
    let cell = String::from_utf8_lossy(row.cell(settings.columns.phone));
    let plain = tracing::enabled!(target: PLAIN_PHONES, tracing::Level::TRACE);
    let phone = if plain { cell.into_owned() } else { masked_cell(&cell) };
    tracing::trace!(line = reject.at.line, reason = reject.reason.code(), ?phone, "refused a row");
}

/// Whether more may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchPlace {
    Inner,
    Last,
}

/// Rows committed or about to be.
struct Seen {
    rows: u64,
    rejected: u64,
}

/// Folds a batch and hands it to its lanes; folded here, it costs the writers no time. An error means that a lane takes no more.
fn send(lanes: &[Sender<Message>], batch: Batch) -> Result<(), ()> {
    for (lane, part) in lanes.iter().zip(batch.parts) {
        lane.blocking_send(Message::Part(batch.range, part.fold())).map_err(drop)?;
    }
    Ok(())
}
