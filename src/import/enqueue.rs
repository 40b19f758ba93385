//! Giving an import to the workers: read the input once, settle what decides the outcome, put it into the queue.
//!
//! Owns the sentence of `enqueue`. It does not know who will run it. Invariant: nothing is queued that could not
//! be read here, and what is queued is frozen: the worker reads it under these settings or not at all.

use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;

use crate::fault::{Code, Fault};
use crate::holder;
use crate::import::report::{Event, Request};
use crate::import::{entrance, forward, mending, opening, remove_sheet};
use crate::limits::Limits;
use crate::list::ListName;
use crate::source::SpoolFolder;
use crate::stop::Stop;
use crate::store::{Admission, JobRow, QueueTerms, Store};

/// What became of it.
#[derive(Debug)]
pub struct Enqueued {
    /// The job, as it stands.
    pub job: JobRow,
    /// Whether it was there before.
    pub standing: Standing,
}

/// Whether a job is new to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits for a worker because of this call.
    New,
    /// It was queued, running, paused or done already.
    Existing,
}

/// How often a job whose holder is gone is rescued and asked for again.
const TRIES: u32 = 5;

/// Puts an import into a queue. The same import again is the same job.
///
/// # Errors
/// Whatever would stop an import before its first row: the input, the list, the settings.
pub async fn enqueue(
    store: &Store,
    request: &Request,
    terms: &QueueTerms,
    stop: &Stop,
    on_event: &(dyn Fn(Event) + Send + Sync),
) -> Result<Enqueued, Fault> {
    let name = ListName::parse(&request.list)?;
    entrance::check_list(store, &name, request.new_list).await?;
    let spools = SpoolFolder::new(request.state_dir.join("spool"), &store.place(), name.as_str());
    let (events, mut incoming) = unbounded_channel();
    let opening = opening::open(request, None, spools, stop, &events);
    let (opened, settings, _) = forward(opening, &mut incoming, on_event).await?;
    let settling = async {
        let (list, _) = entrance::enter_list(store, &name, request.new_list).await?;
        Ok::<_, Fault>((list, mending::origin(store, list, &opened.survey, &settings).await?))
    };
    let settled = settling.await;
    // The worker makes the text of a sheet again, where it runs.
    remove_sheet(opened.survey.sheet_spool());
    let (list, mends) = settled?;
    let grid = entrance::new_grid(store.engine(), request);
    let mut ask = entrance::new_ask(list, &opened, settings, mends, grid, request);
    ask.payload.limits =
        Limits { max_rejects: request.max_rejects, max_changes: request.max_changes, writers: request.writers };
    for _ in 0..TRIES {
        match store.enqueue(&ask, terms, &holder::is_gone).await? {
            Admission::Queued(job) => return Ok(Enqueued { job: *job, standing: Standing::New }),
            Admission::Waiting(job) | Admission::Held(job) | Admission::Paused(job) | Admission::Replay(job) => {
                return Ok(Enqueued { job: *job, standing: Standing::Existing });
            }
            Admission::TakeOver(job) => {
                store.rescue_job(job.id, &holder::is_gone).await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => return Err(entrance::refusal(other, &ask, request)),
        }
    }
    Err(Fault::new(Code::Held, "the job of this file changes hands all the time").hint("run the same command again"))
}
