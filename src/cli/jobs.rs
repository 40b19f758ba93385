//! `enlist jobs`: looking at jobs and steering them.
//!
//! Owns the command and how a job is found by what the user wrote. It does not know which changes of state
//! are allowed. Invariant: steering is one call to the store, which judges it.

mod body;

use body::{AttemptBody, JobBody, Jobs, NotificationBody, Shown, WhyBody};

pub(crate) use body::ReasonBody;

use crate::cli::answer::Context;
use crate::cli::text::{Align, bytes, counted, head, pairs, table, tail, thousands};
use crate::cli::values::{self, JobRef};
use crate::clock::Timestamp;
use crate::fault::{Code, Exit, Fault};
use crate::holder;
use crate::import::report::ReasonCount;
use crate::job::{JobId, State};
use crate::nearest::nearest;
use crate::queue::{self as outlook, Reason};
use crate::run::Counts;
use crate::store::{Access, AttemptRow, JobRow, NotificationRow, RejectsLeft, Store};

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  enlist jobs
  enlist jobs --state interrupted
  enlist jobs show last
  enlist jobs cancel 7"
)]
pub(crate) struct Args {
    /// Only jobs in this state
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<State>,
    /// At most so many, the newest first
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Everything about one job
    Show(Which),
    /// End a job; a running one ends after the batch in hand
    Cancel(Which),
    /// Hold a job back; a running one pauses after the batch in hand
    Pause(Which),
    /// Let a paused job go on
    Resume(Which),
    /// Let a failed or cancelled job be run again
    Retry(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The job, or last
    #[arg(value_name = "ID", value_parser = values::job)]
    job: JobRef,
}

fn state(text: &str) -> Result<State, String> {
    let words = State::ALL.iter().map(|state| state.as_str());
    State::from_word(text).ok_or_else(|| match nearest(text, words.clone()).first() {
        Some(near) => format!("'{text}' is no state; did you mean '{near}'?"),
        None => format!("'{text}' is no state; the states are {}", words.collect::<Vec<_>>().join(", ")),
    })
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let store = context.open(Access::Existing).await?;
    let row = match &args.action {
        None => return list(context, &store, args).await,
        Some(Action::Show(which)) => return show(context, &store, which.job).await,
        Some(Action::Cancel(which)) => store.cancel_job(rescued(&store, which.job).await?).await?,
        Some(Action::Pause(which)) => store.pause_job(rescued(&store, which.job).await?).await?,
        Some(Action::Resume(which)) => store.resume_job(find_id(&store, which.job).await?).await?,
        Some(Action::Retry(which)) => retried(&store, which.job).await?,
    };
    let asked = if row.state == State::Running { ", and stops after the batch in hand" } else { "" };
    context.answer(Exit::Done, &JobBody::of(&row), &format!("job {} is {}{asked}\n", row.id, row.state))
}

/// Gives a job back to the workers; one that a command began goes on when the command is run again.
async fn retried(store: &Store, which: JobRef) -> Result<JobRow, Fault> {
    let row = find(store, which).await?;
    if row.direct && matches!(row.state, State::Failed | State::Cancelled | State::Interrupted) {
        let message = format!("job {} was begun by 'enlist import', which also goes on with it", row.id);
        return Err(Fault::new(Code::JobState, message).hint("run the same import command again"));
    }
    if row.is_pruned() && matches!(row.state, State::Failed | State::Cancelled) {
        let message = format!("retention removed what job {} had recorded, so it cannot go on", row.id);
        return Err(Fault::new(Code::JobState, message).hint("enqueue the same file again: it begins anew"));
    }
    Ok(store.retry_job(row.id).await?)
}

/// The number that was meant; a job whose holder is gone is taken from it, for it would answer no request.
async fn rescued(store: &Store, job: JobRef) -> Result<JobId, Fault> {
    let id = find_id(store, job).await?;
    store.rescue_job(id, &holder::is_gone).await?;
    Ok(id)
}

/// The number that was meant.
///
/// # Errors
/// `last`, and there is no job yet.
pub(crate) async fn find_id(store: &Store, job: JobRef) -> Result<JobId, Fault> {
    match job {
        JobRef::Id(id) => Ok(id),
        JobRef::Last => {
            let missing = || Fault::new(Code::UnknownJob, "there is no job yet").hint("'enlist import' makes one");
            store.last_job().await?.ok_or_else(missing)
        }
    }
}

/// The job that was meant.
///
/// # Errors
/// There is no such job.
pub(crate) async fn find(store: &Store, job: JobRef) -> Result<JobRow, Fault> {
    let id = find_id(store, job).await?;
    let row = store.job(id).await?;
    row.ok_or_else(|| Fault::new(Code::UnknownJob, format!("there is no job '{id}'")))
}

async fn list(context: &Context, store: &Store, args: &Args) -> Result<Exit, Fault> {
    let rows = store.jobs(args.state, args.limit).await?;
    if rows.is_empty() {
        context.note("no jobs");
    } else if rows.len() >= args.limit as usize {
        context.note(&format!("the newest {}; --limit N shows more", counted(rows.len() as u64, "job", "jobs")));
    }
    let mut committed = Vec::new();
    for row in &rows {
        committed.push(match row.result {
            Some(counts) => counts.rows,
            None => store.committed(row.id).await?.rows,
        });
    }
    let body = Jobs { jobs: rows.iter().map(JobBody::of).collect() };
    context.answer(Exit::Done, &body, &jobs_table(&rows, &committed))
}

/// One job a line, within 80 columns.
fn jobs_table(rows: &[JobRow], committed: &[u64]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heading = [
        ("ID", Align::Right),
        ("STATE", Align::Left),
        ("LIST", Align::Left),
        ("ROWS", Align::Right),
        ("CREATED", Align::Left),
        ("FILE", Align::Left),
    ];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .zip(committed)
        .map(|(row, rows)| {
            let file = row.payload.source.rsplit('/').next().unwrap_or_default();
            vec![
                row.id.to_string(),
                row.state.to_string(),
                head(&row.list_name, 12),
                thousands(*rows),
                row.created_at.to_string(),
                tail(file, 16),
            ]
        })
        .collect();
    table(&heading, &cells)
}

async fn show(context: &Context, store: &Store, job: JobRef) -> Result<Exit, Fault> {
    let row = find(store, job).await?;
    let counts = match row.result {
        Some(counts) => counts,
        None => store.committed(row.id).await?,
    };
    let attempts = store.attempts(row.id).await?;
    let reasons = store.reason_counts(row.id).await?;
    let notifications = store.notifications(row.id).await?;
    let why = outlook::reasons(&row, &store.outlook(&row).await?);
    let left = store.rejects_left(row.id).await?;
    let body = Shown {
        job: JobBody::of(&row),
        why: why.iter().map(|reason| WhyBody { code: reason.code, message: &reason.message }).collect(),
        counts,
        rejects: left.all,
        rejects_open: left.open,
        settings: row.payload.settings.named().into_iter().collect(),
        attempts: attempts.iter().map(AttemptBody::of).collect(),
        reasons: reasons.iter().map(ReasonBody::of).collect(),
        notify: row.payload.notify.as_ref().map(|to| to.url.to_string()),
        notifications: notifications.iter().map(NotificationBody::of).collect(),
    };
    let mut text = shown_text(&row, &why, counts, left, &attempts, &reasons);
    text.push_str(&notifications_table(&notifications));
    context.answer(Exit::Done, &body, &text)
}

fn shown_text(
    row: &JobRow,
    why: &[Reason],
    counts: Counts,
    left: RejectsLeft,
    attempts: &[AttemptRow],
    reasons: &[ReasonCount],
) -> String {
    let when = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let fixed = [
        ("job", Some(row.id.to_string())),
        ("state", Some(row.state.to_string())),
        (
            "because",
            (!why.is_empty()).then(|| why.iter().map(|r| r.message.as_str()).collect::<Vec<_>>().join("; and ")),
        ),
        ("error", row.error.as_ref().map(|error| format!("{}: {}", error.code, error.message))),
        ("list", Some(row.list_name.clone())),
        ("file", Some(row.payload.source.clone())),
        ("size", Some(bytes(row.payload.bytes))),
        ("fingerprint", Some(row.fingerprint.short().to_owned())),
        ("generation", Some(row.generation.to_string())),
        (
            "batches",
            Some(format!(
                "{} in {}",
                counted(row.grid.batch_rows.into(), "row", "rows"),
                counted(row.grid.lanes.into(), "lane", "lanes")
            )),
        ),
        ("rules", Some(row.rules_version.clone())),
        ("queue", (!row.direct).then(|| row.queue.clone())),
        ("attempts", (!row.direct).then(|| format!("{} of {} charged", row.attempts, row.max_attempts))),
        ("rescues", (row.rescues > 0).then(|| row.rescues.to_string())),
        ("created", Some(row.created_at.to_string())),
        ("started", when(row.started_at)),
        ("finished", when(row.finished_at)),
        ("notify", row.payload.notify.as_ref().map(|to| format!("{} ({})", to.url, to.receiver.as_str()))),
        ("held until", when(row.lease_until)),
        ("cancel asked", when(row.cancel_requested_at)),
        ("rows", Some(thousands(counts.rows))),
        ("new", Some(thousands(counts.inserted))),
        ("changed", Some(thousands(counts.updated))),
        ("unchanged", Some(thousands(counts.unchanged))),
        ("stale", Some(thousands(counts.stale))),
        ("duplicates", Some(thousands(counts.duplicates))),
        ("refused", Some(thousands(counts.rejected))),
        ("still open", (left.all > 0).then(|| thousands(left.open))),
        ("blank", Some(thousands(counts.blank))),
        ("opted out", Some(thousands(counts.opted_out))),
    ];
    let known = fixed.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let settings = row.payload.settings.named().into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut out = pairs(&known.chain(settings).collect::<Vec<_>>());
    if !reasons.is_empty() {
        let rows: Vec<_> = reasons
            .iter()
            .map(|count| vec![count.reason.to_string(), thousands(count.rows), thousands(count.first_line)])
            .collect();
        out.push('\n');
        out.push_str(&table(&[("REASON", Align::Left), ("ROWS", Align::Right), ("FIRST LINE", Align::Right)], &rows));
    }
    if !attempts.is_empty() {
        let rows: Vec<_> = attempts
            .iter()
            .map(|attempt| {
                vec![
                    attempt.fence.to_string(),
                    attempt.started_at.to_string(),
                    when(attempt.ended_at).unwrap_or_else(|| "-".to_owned()),
                    attempt.outcome.clone().unwrap_or_else(|| "-".to_owned()),
                ]
            })
            .collect();
        let heading =
            [("ATTEMPT", Align::Right), ("STARTED", Align::Left), ("ENDED", Align::Left), ("OUTCOME", Align::Left)];
        out.push('\n');
        out.push_str(&table(&heading, &rows));
    }
    out
}

/// What was told of the job's ends; nothing where nobody is to be told.
fn notifications_table(rows: &[NotificationRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heading = [
        ("NOTIFICATION", Align::Left),
        ("STATE", Align::Left),
        ("ATTEMPTS", Align::Right),
        ("HOLDS", Align::Right),
        ("LAST", Align::Left),
    ];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let status = row.last_status.map(|status| status.to_string());
            let last = row.last_error.clone().or(status).unwrap_or_else(|| "-".to_owned());
            vec![
                row.key.clone(),
                row.stage.as_str().to_owned(),
                row.tried.attempts.to_string(),
                row.tried.holds.to_string(),
                last,
            ]
        })
        .collect();
    format!("\n{}", table(&heading, &cells))
}
