//! A lane: folded parts in file order, each committed.
//!
//! Owns the order within a lane and the retries of a part (rules 6 and 17). It does not know the other
//! lanes. Invariant: a part is committed from the position at which the lane stands, or not at all.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::Receiver;

use crate::backoff::PART;
use crate::batch::FoldedPart;
use crate::import::reader::Message;
use crate::import::tally::Tally;
use crate::job::{JobId, JobKey};
use crate::position::{Position, Range};
use crate::run::{Counts, RunKey, count_of};
use crate::stop::Stop;
use crate::store::{Mended, PartWrite, Session, StoreError};

/// After so many empty parts a lane's position is written all the same, so that a resume does not read
/// far back for a lane that had nothing to do.
const EMPTY_PARTS_MAX: u32 = 16;

/// How often a part is tried again after a deadlock or a serialisation failure.
const RETRIES: u32 = 20;

/// One lane of a job in hand.
pub(crate) struct Lane {
    pub(crate) session: Arc<Session>,
    pub(crate) tally: Arc<Tally>,
    /// As many permits as writers.
    pub(crate) writers: Arc<Semaphore>,
    pub(crate) stop: Stop,
    pub(crate) key: JobKey,
    pub(crate) generation: u32,
    pub(crate) lane: u16,
    pub(crate) lanes: u16,
    /// The job whose refused rows the input brings back.
    pub(crate) mends: Option<JobId>,
    /// Where the lane stands.
    pub(crate) at: Position,
}

impl Lane {
    /// Commits what it is sent until the input or the sending ends. Returns where the lane stands.
    pub(crate) async fn run(mut self, mut parts: Receiver<Message>) -> Result<Position, StoreError> {
        let mut seen = self.at;
        let mut empty = 0;
        while let Some(message) = parts.recv().await {
            match message {
                // The lane was ahead of the others when this run began.
                Message::Part(range, _) if range.to.byte <= self.at.byte => {}
                Message::Part(range, part) => {
                    if range.from.byte != seen.byte {
                        let (from, to) = (seen.byte, range.from.byte);
                        return Err(StoreError::Corrupt(format!(
                            "lane {} was to jump from byte {from} to {to}",
                            self.lane
                        )));
                    }
                    seen = range.to;
                    if part.is_empty() && empty < EMPTY_PARTS_MAX {
                        empty += 1;
                        continue;
                    }
                    empty = 0;
                    self.commit(seen, part).await?;
                }
                Message::End(end) => {
                    if self.at.byte < end.byte {
                        self.commit(end, FoldedPart::default()).await?;
                    }
                }
            }
        }
        Ok(self.at)
    }

    async fn commit(&mut self, to: Position, part: FoldedPart) -> Result<(), StoreError> {
        let range = Range { from: self.at, to };
        let counts = Counts {
            rows: count_of(part.taken + part.rejects.len()),
            duplicates: count_of(part.duplicates()),
            rejected: count_of(part.rejects.len()),
            blank: part.blank,
            ..Counts::default()
        };
        let (taken, refused_again) = (part.mended, part.refused_again);
        let mended = self.mends.filter(|_| !taken.is_empty() || !refused_again.is_empty());
        let mended = mended.map(|origin| Mended { origin, taken, refused_again });
        let key = RunKey::new(&self.key, self.generation, self.lane, self.lanes, range);
        let write = PartWrite { key, lane: self.lane, range, waves: part.waves, rejects: part.rejects, mended, counts };
        let written = self.commit_with_retries(&write).await?;
        self.at = to;
        self.tally.add(self.lane, to, written);
        Ok(())
    }

    async fn commit_with_retries(&self, write: &PartWrite) -> Result<Counts, StoreError> {
        let mut failures = 0;
        loop {
            let outcome = {
                // Cannot fail: the semaphore is never closed.
                let _permit = self.writers.acquire().await;
                self.session.commit(write).await
            };
            match outcome {
                Ok(written) => return Ok(written.counts),
                Err(error @ StoreError::Busy(_)) => {
                    if self.stop.cause().is_some() {
                        return Err(error);
                    }
                    self.tally.note("waiting for another process that holds the database in a transaction");
                }
                Err(error @ StoreError::Retry(_)) => {
                    failures += 1;
                    if failures > RETRIES || self.stop.cause().is_some() {
                        return Err(error);
                    }
                    tracing::info!(lane = self.lane, failures, %error, "trying the part again");
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(PART.delay(failures.max(1), fastrand::f64())).await;
        }
    }
}
