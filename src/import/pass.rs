//! One pass over what is left of an input: read the positions, read from the smallest, commit to the end.
//!
//! Owns starting and ending the reader and the lanes together. It does not know leases or reports.
//! Invariant: when a pass ends or is dropped, no lane of it runs any more, and everything in memory is
//! forgotten; the next pass begins from the stored positions (rule 2).

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::channel;
use tokio::task::JoinSet;
use tracing::{Instrument, Span};

use crate::fault::Fault;
use crate::import::lane::Lane;
use crate::import::reader::{ReadEnd, Reader};
use crate::import::report::Budget;
use crate::import::tally::Tally;
use crate::job::Grid;
use crate::job::{JobId, JobKey};
use crate::position::Position;
use crate::settings::Settings;
use crate::source::Survey;
use crate::stop::Stop;
use crate::store::{Session, StoreError};

/// Parts that wait for a lane besides the one in hand: enough to keep it busy, little to hold in memory.
const QUEUED_PARTS: usize = 1;

/// A job in hand and its input.
pub(crate) struct Work {
    pub(crate) session: Arc<Session>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) survey: Survey,
    pub(crate) settings: Settings,
    pub(crate) grid: Grid,
    pub(crate) key: JobKey,
    pub(crate) generation: u32,
    pub(crate) writers: u16,
    pub(crate) mends: Option<JobId>,
    pub(crate) budget: Option<Budget>,
    pub(crate) stop: Stop,
}

/// How a pass ended.
#[derive(Debug)]
pub(crate) enum PassEnd {
    /// Every lane stands at the end of the input.
    Input(Position),
    /// Somebody asked to stop; what was in hand is committed.
    Stopped,
    /// The input or the budget does not allow more.
    Fault(Fault),
    /// The store does not.
    Store(StoreError),
}

impl Work {
    /// Runs one pass.
    pub(crate) async fn pass(&self) -> PassEnd {
        match self.try_pass().await {
            Ok(end) => end,
            Err(error) => PassEnd::Store(error),
        }
    }

    async fn try_pass(&self) -> Result<PassEnd, StoreError> {
        let lanes = self.session.lanes().await?;
        if lanes.len() != usize::from(self.grid.lanes) {
            return Err(StoreError::Corrupt(format!("the job has {} lanes, not {}", lanes.len(), self.grid.lanes)));
        }
        let committed = self.session.committed().await?;
        self.tally.correct(committed, &lanes);

        let writers = Arc::new(Semaphore::new(usize::from(self.writers.clamp(1, self.grid.lanes))));
        let mut senders = Vec::new();
        let mut running = JoinSet::new();
        for (lane, at) in &lanes {
            let (sender, parts) = channel(QUEUED_PARTS);
            senders.push(sender);
            let lane = Lane {
                session: self.session.clone(),
                tally: self.tally.clone(),
                writers: writers.clone(),
                stop: self.stop.clone(),
                key: self.key.clone(),
                generation: self.generation,
                lane: *lane,
                lanes: self.grid.lanes,
                mends: self.mends,
                at: *at,
            };
            running.spawn(lane.run(parts).in_current_span());
        }
        let reader = Reader {
            survey: self.survey.clone(),
            settings: self.settings.clone(),
            grid: self.grid,
            lanes,
            committed,
            mends: self.mends,
            budget: self.budget,
            stop: self.stop.clone(),
        };
        // A panic in the reader is a fault of ours; the lanes then see their channels closed.
        let span = Span::current();
        let reading = tokio::task::spawn_blocking(move || span.in_scope(|| reader.read(&senders)));

        let mut failure: Option<StoreError> = None;
        while let Some(joined) = running.join_next().await {
            let outcome =
                joined.unwrap_or_else(|error| Err(StoreError::Corrupt(format!("a lane ended early: {error}"))));
            if let Err(error) = outcome {
                failure = Some(match failure {
                    Some(first) if severity(&first) >= severity(&error) => first,
                    _ => error,
                });
            }
        }
        let read = reading.await.map_err(|error| StoreError::Corrupt(format!("the reader ended early: {error}")))?;
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(match read {
            ReadEnd::Input(end) => PassEnd::Input(end),
            ReadEnd::Fault(fault) => PassEnd::Fault(fault),
            ReadEnd::Stopped => PassEnd::Stopped,
            ReadEnd::LaneClosed => return Err(StoreError::Corrupt("a lane closed without saying why".to_owned())),
        })
    }
}

/// Which of several errors is the one to act on: what forbids writing comes before what can be tried again.
fn severity(error: &StoreError) -> u8 {
    match error {
        StoreError::LeaseLost => 3,
        error if !error.is_reconnectable() => 2,
        _ => 1,
    }
}
