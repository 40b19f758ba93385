//! The course of a job in hand: passes under a beating heart, in spite of servers that go away and come back.
//!
//! Owns when a pass begins and when it is given up. It does not know how rows are read or written. Invariant: a
//! pass runs only while the lease is known to be held; between two passes nothing is written, and the next one
//! begins after a heartbeat was answered.

use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::backoff::CONNECTION;
use crate::clock::Stopwatch;
use crate::fault::{Code, Fault};
use crate::import::entrance::stop_fault;
use crate::import::pass::{PassEnd, Work};
use crate::import::pulse::{PulseEnd, beat_while_held};
use crate::run::Counts;
use crate::store::{Beat, Session, Store, StoreError};

/// How many leases long a database may be away before the import stops, resumable: with the usual lease a
/// minute, in which a server restarts. Longer than one lease, because an expired lease that nobody has taken
/// can still be renewed.
const OUTAGE_LEASES: u32 = 2;

/// How a pass and the finish after it ended.
enum Attempt {
    Done(Counts),
    Fault(Fault),
    Stopped,
    /// The job is not held under this lease any more.
    Lost,
    /// The database is away, or its positions are not those that were thought.
    Away(StoreError),
}

/// A database that is away, or was and has committed nothing since.
struct Outage {
    since: Stopwatch,
    failures: u32,
}

/// Passes until the job is done. `claimed` began before the lease was last renewed.
///
/// `work.session` may be another one afterwards.
pub(crate) async fn to_the_end(store: &Store, work: &mut Work, claimed: Stopwatch) -> Result<Counts, Fault> {
    let mut renewed = claimed;
    let mut outage: Option<Outage> = None;
    loop {
        let parts = work.tally.parts();
        let error = match attempt(work, renewed).await {
            Attempt::Done(counts) => return Ok(counts),
            Attempt::Fault(fault) => return Err(fault),
            Attempt::Stopped => return Err(stopped(work)),
            Attempt::Lost => return not_held(&work.session).await,
            Attempt::Away(error) => error,
        };
        // Whatever was committed in between shows that the database is there.
        if work.tally.parts() > parts {
            outage = None;
        }
        let outage = outage.get_or_insert_with(|| Outage { since: Stopwatch::start(), failures: 0 });
        match come_back(store, work, outage, error).await? {
            Some(now) => renewed = now,
            None => return not_held(&work.session).await,
        }
    }
}

/// One pass and the finish, as long as the heart beats.
async fn attempt(work: &Work, renewed: Stopwatch) -> Attempt {
    // A task of its own: nothing that holds this one up may hold up the heartbeats.
    let pulse = beat_while_held(work.session.clone(), work.tally.clone(), work.stop.clone(), renewed);
    let mut pulse = Aborting(tokio::spawn(pulse.in_current_span()));
    tokio::select! {
        attempt = pass_and_finish(work) => attempt,
        ended = &mut pulse.0 => match ended {
            Ok(PulseEnd::Lost) => Attempt::Lost,
            Ok(PulseEnd::Unrenewed(error)) => {
                work.tally.note("the lease ended before a heartbeat was answered");
                of_error(error)
            }
            Err(error) => Attempt::Fault(Fault::new(Code::Internal, format!("the heartbeat ended early: {error}"))),
        },
    }
}

async fn pass_and_finish(work: &Work) -> Attempt {
    match work.pass().await {
        PassEnd::Input(end) => match work.session.finish(end).await {
            Ok(counts) => Attempt::Done(counts),
            Err(error) => of_error(error),
        },
        PassEnd::Stopped => Attempt::Stopped,
        PassEnd::Fault(fault) => Attempt::Fault(fault),
        PassEnd::Store(error) => of_error(error),
    }
}

fn of_error(error: StoreError) -> Attempt {
    match error {
        StoreError::LeaseLost => Attempt::Lost,
        error if error.is_reconnectable() => Attempt::Away(error),
        error => Attempt::Fault(error.into_fault_midway()),
    }
}

/// Connects anew until a heartbeat is answered. The moment before it was sent, or `None` when the job is not
/// held any more.
async fn come_back(
    store: &Store,
    work: &mut Work,
    outage: &mut Outage,
    mut error: StoreError,
) -> Result<Option<Stopwatch>, Fault> {
    let lease = work.session.lease().duration;
    loop {
        if let Some(fault) = stop_fault(&work.stop) {
            return Err(fault);
        }
        outage.failures += 1;
        let failures = outage.failures;
        if outage.since.worked() >= lease * OUTAGE_LEASES {
            return Err(error.into_fault_midway());
        }
        tracing::info!(job = work.session.lease().job.0, failures, %error, "connecting again");
        if failures == 1 {
            work.tally.note(format!("{error}; going on from the last commit"));
        }
        tokio::time::sleep(CONNECTION.delay(failures, fastrand::f64())).await;
        let asked = Stopwatch::start();
        error = match tokio::time::timeout(lease, reach(store, work)).await {
            Ok(Ok(Beat::Lost)) => return Ok(None),
            Ok(Ok(Beat::Held | Beat::CancelRequested | Beat::PauseRequested)) => return Ok(Some(asked)),
            Ok(Err(error)) if error.is_reconnectable() => error,
            Ok(Err(error)) => return Err(error.into_fault_midway()),
            Err(_) => StoreError::Silent,
        };
    }
}

/// Takes new connections and asks whether the job is still held.
async fn reach(store: &Store, work: &mut Work) -> Result<Beat, StoreError> {
    work.session = store.session_again(&work.session, work.writers).await?.into();
    work.session.beat(&work.tally.counts()).await
}

/// The job is not held any more: because this very process finished it and the answer was lost, or because
/// another one has it.
async fn not_held(session: &Session) -> Result<Counts, Fault> {
    if session.was_finished().await.map_err(StoreError::into_fault_midway)? {
        return session.committed().await.map_err(StoreError::into_fault_midway);
    }
    Err(Fault::new(Code::LeaseLost, "another process took this import over; nothing more was written here"))
}

fn stopped(work: &Work) -> Fault {
    stop_fault(&work.stop).unwrap_or_else(|| Fault::new(Code::Internal, "stopped without a cause"))
}

/// A task that ends with the value.
struct Aborting<T>(JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
