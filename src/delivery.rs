//! Delivering one notification: claim, call, mark.
//!
//! Owns the order of the three. It does not know which jobs end, nor when somebody looks for notifications.
//! Invariant: nothing is called that is not claimed, and no call begins that could outlast its lease; a process
//! that dies between the call and the mark leaves a row that says so.

use std::time::Duration;

use crate::backoff::CONNECTION;
use crate::clock::Stopwatch;
use crate::crash;
use crate::destination::Endpoint;
use crate::fault::Warning;
use crate::holder;
use crate::job::JobId;
use crate::notification::{
    FAILED_CODE, Found, GIVEN_UP, Judged, Outcome, Stage, Step, UNKNOWN_CODE, WAITING_CODE, first_step, judge,
    judge_lookup,
};
use crate::notify::{Caller, Reply};
use crate::stop::Stop;
use crate::store::{ClaimedNotification, Kept, NotificationRow, Store, StoreError};

/// What a lease has left when its last call must have ended: for marking it.
const MARGIN: Duration = Duration::from_secs(10);

/// Between two looks at a notification that rests.
const LOOK: Duration = Duration::from_millis(100);

/// A notification in this process's hand.
#[derive(Debug)]
pub struct InHand {
    claimed: ClaimedNotification,
    since: Stopwatch,
    lease: Duration,
}

/// A way of calling: the address, the key, the body.
type Call = fn(&Caller, &Endpoint, &str, &str) -> Reply;

/// Claims the next notification that is due, of `job` alone or of any. `None`: nothing is due.
pub async fn claim(store: &Store, caller: &Caller, job: Option<JobId>) -> Result<Option<InHand>, StoreError> {
    let since = Stopwatch::start();
    // It may ask and then tell.
    let lease = caller.patience() * 2 + MARGIN * 2;
    let claimed = store.claim_notification(&holder::claim_owner(), lease, job).await?;
    Ok(claimed.map(|claimed| InHand { claimed, since, lease }))
}

/// Calls the receiver and writes down how it ended. `None`: the notification is left to whoever comes when the
/// lease has ended.
///
/// After a crash in here the next sender finds it abandoned: it is told again with the same key, or asked about,
/// or ends as unknown, as the receiver's kind says.
pub async fn deliver(store: &Store, caller: &Caller, hand: InHand) -> Option<Stage> {
    let claimed = &hand.claimed;
    let (judged, reply) = match first_step(claimed.receiver, claimed.found, claimed.tried.attempts) {
        Step::GiveUp => (GIVEN_UP, None),
        Step::Send => tell(caller, &hand).await?,
        Step::LookUp => {
            let asked = claimed.lookup_url.clone().unwrap_or_else(|| claimed.endpoint.clone());
            let reply = call(caller, &hand, asked, |caller, to, key, _| caller.ask(to, key)).await?;
            match judge_lookup(reply.outcome, claimed.tried, fastrand::f64()) {
                Some(judged) => (judged, Some(reply)),
                None => tell(caller, &hand).await?,
            }
        }
    };
    let trouble = trouble(claimed, judged.next, reply.as_ref());
    let status = reply.as_ref().and_then(|reply| match reply.outcome {
        Outcome::Answered { status, .. } => Some(status),
        Outcome::Unreached | Outcome::Unanswered => None,
    });
    let response = reply.as_ref().and_then(|reply| reply.response.as_deref());
    let kept = Kept { response, status, trouble: trouble.as_deref() };
    let marked = mark(store, &hand, judged, kept).await;
    let (job, key, endpoint, state) = (claimed.job.0, &claimed.key, &claimed.endpoint, judged.next.as_str());
    let why = trouble.as_deref().unwrap_or("-");
    match (&marked, judged.next) {
        (Err(error), _) => tracing::warn!(job, key, %endpoint, %error, "a notification could not be marked {state}"),
        (Ok(()), Stage::Sent) => tracing::info!(job, key, %endpoint, status, "notification sent"),
        (Ok(()), Stage::Pending | Stage::Held) => {
            tracing::info!(job, key, %endpoint, status, why, rest = ?judged.rest, "notification {state}");
        }
        (Ok(()), _) => tracing::error!(job, key, %endpoint, status, why, "notification {state}"),
    }
    marked.ok().map(|()| judged.next)
}

/// Tells the receiver, and judges its answer.
async fn tell(caller: &Caller, hand: &InHand) -> Option<(Judged, Option<Reply>)> {
    let claimed = &hand.claimed;
    let reply = call(caller, hand, claimed.endpoint.clone(), Caller::tell).await?;
    crash::point("notify::after_send");
    Some((judge(claimed.receiver, reply.outcome, claimed.tried, fastrand::f64()), Some(reply)))
}

/// Makes a call, unless it could outlast the lease: this process may have been frozen since the claim.
async fn call(caller: &Caller, hand: &InHand, to: Endpoint, how: Call) -> Option<Reply> {
    let (caller, key, body) = (caller.clone(), hand.claimed.key.clone(), hand.claimed.payload.clone());
    let (since, lease) = (hand.since, hand.lease);
    let called = tokio::task::spawn_blocking(move || {
        let in_time = since.elapsed() + caller.patience() + MARGIN <= lease;
        in_time.then(|| how(&caller, &to, &key, &body))
    });
    let reply = called.await.ok().flatten();
    if reply.is_none() {
        tracing::warn!(key = %hand.claimed.key, "too late to begin a call; the notification is left to its lease");
    }
    reply
}

/// Writes down how it ended, again while the database is away and the lease lasts.
async fn mark(store: &Store, hand: &InHand, judged: Judged, kept: Kept<'_>) -> Result<(), StoreError> {
    let mut failures = 0;
    loop {
        match store.mark_notification(&hand.claimed, judged, kept).await {
            Err(error) if error.is_reconnectable() && hand.since.elapsed() < hand.lease => {
                failures += 1;
                tokio::time::sleep(CONNECTION.delay(failures, fastrand::f64())).await;
            }
            outcome => return outcome,
        }
    }
}

/// Why it did not go well, in words.
fn trouble(claimed: &ClaimedNotification, next: Stage, reply: Option<&Reply>) -> Option<String> {
    match (reply, claimed.found) {
        (None, Found::TooLate) => Some("the time in which its key is remembered is over".to_owned()),
        (None, _) => Some("its sender died in between, and the receiver takes no key".to_owned()),
        (Some(reply), _) => reply.trouble.clone().or_else(|| match reply.outcome {
            Outcome::Answered { status, .. } if next != Stage::Sent => Some(format!("it answers {status}")),
            _ => None,
        }),
    }
}

/// Delivers what `job` has to tell, for about as long as `patience`; what is left is for the workers.
///
/// A warning says what did not get through.
pub async fn deliver_own(
    store: &Store,
    caller: &Caller,
    job: JobId,
    patience: Duration,
    stop: &Stop,
) -> Result<Option<Warning>, StoreError> {
    let watch = Stopwatch::start();
    store.free_notifications(&holder::is_gone).await?;
    loop {
        let rows = store.notifications(job).await?;
        let Some(open) = rows.iter().find(|row| !row.stage.is_over()) else {
            return Ok(rows.last().and_then(warning));
        };
        let rest = open.not_before.since(open.now);
        if stop.cause().is_some() || watch.worked() + rest >= patience {
            return Ok(warning(open));
        }
        match claim(store, caller, Some(job)).await? {
            Some(hand) => {
                deliver(store, caller, hand).await;
            }
            // It rests, or a worker has it.
            None => tokio::time::sleep(rest.clamp(LOOK, LOOK * 5)).await,
        }
    }
}

/// What a person should know about a notification that was not sent.
fn warning(row: &NotificationRow) -> Option<Warning> {
    let why = row.last_error.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    let to = &row.endpoint;
    Some(match row.stage {
        Stage::Sent => return None,
        Stage::Failed => Warning::new(FAILED_CODE, format!("{to} refused the notification{why}")),
        Stage::Unknown => Warning::new(UNKNOWN_CODE, format!("nobody knows whether {to} took the notification{why}")),
        Stage::Pending | Stage::Held | Stage::Sending => Warning::new(
            WAITING_CODE,
            format!("{to} was not told yet{why}; a worker ('enlist work') goes on with the same key"),
        ),
    })
}
