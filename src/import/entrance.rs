//! Getting hold of the job: the input, the list, the claim.
//!
//! Owns everything that happens before the first row is read. It does not write rows. Invariant: nothing is
//! created, not even the list, before the input was read once and understood.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::clock::Stopwatch;
use crate::fault::{Code, Fault};
use crate::holder;
use crate::import::expect;
use crate::import::intake::{self, Intake};
use crate::import::plan::plan;
use crate::import::report::{Entry, Event, NewList, Request, Wait, Warning};
use crate::job::{Grid, JobId, JobKey, LANES_MAX, ListId};
use crate::limits::Limits;
use crate::list::ListName;
use crate::nearest::unknown_list;
use crate::owner::Owner;
use crate::settings::Settings;
use crate::source::{self, Reading, Spool, SpoolFolder, Survey};
use crate::stop::Stop;
use crate::store::{Admission, Ask, Created, Engine, JobRow, Lease, Payload, Store, StoreError};

/// How long to wait for a database that another process holds, before answering `database_busy`.
const BUSY_PATIENCE: Duration = Duration::from_secs(60);

/// What to do about a list name that was right.
const CREATE_HINT: &str = "pass --create-list to create it";

/// Between two looks at a job that somebody else holds.
const HELD_PAUSE: Duration = Duration::from_millis(250);

/// An input that was read once.
pub(crate) struct Opened {
    pub(crate) survey: Survey,
    /// What `jobs.payload.source` says.
    pub(crate) source: String,
    /// The spool file, when the input cannot be read twice.
    pub(crate) spool: Option<Spool>,
}

/// What the import was let in for.
pub(crate) enum Entered {
    /// The job is held now.
    Begun(Lease, Box<JobRow>),
    /// The stored result answers.
    Replay(Box<JobRow>),
}

/// Opens the input and reads it once.
pub(crate) fn open_input(
    request: &Request,
    continued: Option<&JobRow>,
    spools: &SpoolFolder,
    stop: &Stop,
    events: &UnboundedSender<Event>,
) -> Result<Opened, Fault> {
    let intake = intake::take(request, continued, spools, stop)?;
    let (encoding, sheet) = match continued.map(|job| &job.payload.settings) {
        Some(settings) => (Some(settings.encoding.as_str()), settings.sheet.as_deref()),
        None => (request.wanted.encoding.as_deref(), request.wanted.sheet.as_deref()),
    };
    let region = request.wanted.region.as_deref();
    let named = |fault| intake.name(fault);
    expect::check_digest(&intake.origin, &request.expected, &|| stop_fault(stop)).map_err(named)?;
    let reading = Reading { encoding, region, sheet, spools, stopped: &|| stop_fault(stop) };
    let survey = source::survey(&intake.origin, &reading, &mut |bytes, total| {
        // Nobody listening any more is no reason to stop.
        let _ = events.send(Event::Surveyed { bytes, total });
    })
    .map_err(named)?;
    let Intake { source, spool, .. } = intake;
    Ok(Opened { survey, source, spool })
}

/// The settings to run under: those of the job that `--continue` names, else what the head says.
pub(crate) fn settings(request: &Request, opened: &Opened, continued: Option<&JobRow>) -> Result<Settings, Fault> {
    match continued {
        Some(job) if job.fingerprint == opened.survey.fingerprint => Ok(job.payload.settings.clone()),
        Some(job) => Err(other_input(job, &opened.source)),
        None => plan(&opened.survey, &request.wanted),
    }
}

/// Finds the list, or creates it where that is allowed.
pub(crate) async fn enter_list(store: &Store, name: &ListName, new_list: NewList) -> Result<(ListId, Created), Fault> {
    if let Some(id) = store.list_id(name.as_str()).await? {
        return Ok((id, Created::Existing));
    }
    let names = store.list_names().await?;
    if new_list == NewList::Refuse && !names.is_empty() {
        return Err(unknown_list(name.as_str(), &names, CREATE_HINT));
    }
    Ok(store.create_list(name).await?)
}

/// Refuses an unknown list before the input is read, which may take long.
pub(crate) async fn check_list(store: &Store, name: &ListName, new_list: NewList) -> Result<(), Fault> {
    if new_list == NewList::Create || store.list_id(name.as_str()).await?.is_some() {
        return Ok(());
    }
    let names = store.list_names().await?;
    if names.is_empty() { Ok(()) } else { Err(unknown_list(name.as_str(), &names, CREATE_HINT)) }
}

/// Asks the store until the job is held, replayed or refused.
pub(crate) async fn enter(
    store: &Store,
    request: &Request,
    ask: &mut Ask,
    stop: &Stop,
    events: &UnboundedSender<Event>,
) -> Result<Entered, Fault> {
    let waited = Stopwatch::start();
    let mut busy_since: Option<Stopwatch> = None;
    let mut told = Told::default();
    let note = |text: String| {
        let _ = events.send(Event::Note(text));
    };
    loop {
        if let Some(fault) = stop_fault(stop) {
            return Err(fault);
        }
        ask.owner = holder::claim_owner();
        let admission = match store.admit(ask, &holder::is_gone).await {
            Ok(admission) => admission,
            Err(error @ (StoreError::Busy(_) | StoreError::Retry(_))) => {
                let since = busy_since.get_or_insert_with(Stopwatch::start);
                if since.worked() >= BUSY_PATIENCE {
                    return Err(error.into());
                }
                if told.busy.is_none() {
                    told.busy = Some(());
                    note("waiting for another process that holds the database in a transaction".to_owned());
                }
                tokio::time::sleep(HELD_PAUSE).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match admission {
            Admission::Begun(lease, job) => return Ok(Entered::Begun(lease, job)),
            Admission::Replay(job) => return Ok(Entered::Replay(job)),
            Admission::TakeOver(job) => {
                let holder = holder_of(&job);
                let gone = job.owner.as_deref().is_some_and(|owner| holder::is_gone(&Owner::from_text(owner)));
                if let Some(lease) = store.take_over(&job, &ask.owner, ask.lease).await? {
                    let why = if gone { "which is gone" } else { "whose lease ended" };
                    note(format!("job {} was left by {holder}, {why}; going on from its last commit", job.id));
                    return Ok(Entered::Begun(lease, job));
                }
            }
            Admission::Held(job) => {
                let patience = match request.wait {
                    Wait::No => Some(Duration::ZERO),
                    Wait::Until(patience) => Some(patience),
                    Wait::Forever => None,
                };
                if patience.is_some_and(|patience| waited.worked() >= patience) {
                    return Err(held(&job));
                }
                if told.held.is_none() {
                    told.held = Some(());
                    note(format!("job {} is being run by {}; waiting for it", job.id, holder_of(&job)));
                }
                tokio::time::sleep(HELD_PAUSE).await;
            }
            refused => return Err(refusal(refused, ask, request)),
        }
    }
}

/// Why an import is not let in.
pub(crate) fn refusal(admission: Admission, ask: &Ask, request: &Request) -> Fault {
    match admission {
        Admission::Held(job) => held(&job),
        Admission::Paused(job) => Fault::new(Code::Paused, format!("job {} is paused", job.id))
            .hint(format!("'enlist jobs resume {}' lets it go on", job.id)),
        Admission::SettingsChanged(job) => settings_changed(&job, &ask.payload.settings, request),
        Admission::OtherInput(job) => other_input(&job, &ask.payload.source),
        Admission::Replaced(job) => {
            Fault::new(Code::JobState, format!("job {} was superseded by a newer import", job.id))
                .hint("import the file again without --continue")
        }
        Admission::Unknown(id) => Fault::new(Code::UnknownJob, format!("there is no job '{id}' of this list")),
        let_in => Fault::new(Code::Internal, format!("an import was let in and not begun: {let_in:?}")),
    }
}

/// What a person was told already, so that it is told once.
#[derive(Default)]
struct Told {
    busy: Option<()>,
    held: Option<()>,
}

fn holder_of(job: &JobRow) -> String {
    job.owner.as_deref().map_or_else(|| "nobody".to_owned(), |owner| Owner::from_text(owner).to_string())
}

fn held(job: &JobRow) -> Fault {
    Fault::new(Code::Held, format!("job {} is being run by {}", job.id, holder_of(job)))
        .hint("pass --wait to wait for it, or run the same command later")
}

fn other_input(job: &JobRow, source: &str) -> Fault {
    Fault::new(
        Code::FileChanged,
        format!(
            "job {} was begun with another content (BLAKE3 {}…) than '{source}' has now",
            job.id,
            job.fingerprint.short()
        ),
    )
}

fn settings_changed(job: &JobRow, now: &Settings, request: &Request) -> Fault {
    let told: Vec<String> = job
        .payload
        .settings
        .differences(now)
        .into_iter()
        .map(|(name, then, now)| {
            let origin = request.wanted.origins.get(name).map(|origin| format!(" (from {origin})")).unwrap_or_default();
            format!("{name} '{then}', now it is '{now}'{origin}")
        })
        .collect();
    Fault::new(Code::SettingsChanged, format!("job {} is unfinished and was begun with {}", job.id, told.join("; ")))
        .hint(format!("finish it as it began with --continue {}, or begin anew with --again", job.id))
}

/// The fault that a wish to stop amounts to before anything was begun.
pub(crate) fn stop_fault(stop: &Stop) -> Option<Fault> {
    use crate::stop::StopCause;
    let (code, message) = match stop.cause()? {
        StopCause::Interrupt => (Code::Interrupted, "stopped by SIGINT"),
        StopCause::Terminate => (Code::Terminated, "stopped by SIGTERM"),
        StopCause::Cancel => (Code::Cancelled, "the job was cancelled"),
        StopCause::Pause => (Code::Paused, "the job was paused"),
    };
    Some(Fault::new(code, message))
}

/// The records of a batch when nobody says otherwise.
pub fn batch_rows(engine: Engine) -> u32 {
    match engine {
        // Each part changes most pages of the index of phones, whatever its size; 50,000 rows are what memory allows.
        Engine::Sqlite => 50_000,
        // Shared by two lanes and more, in parts of 10,000 or less (measured: half of it 5 % slower).
        Engine::Postgres => 20_000,
    }
}

/// The grid of a new job.
pub(crate) fn new_grid(engine: Engine, request: &Request) -> Grid {
    let cores = std::thread::available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(1));
    let lanes = match engine {
        // One writer.
        Engine::Sqlite => 1,
        Engine::Postgres => cores.min(4),
    };
    Grid {
        lanes: request.writers.unwrap_or(lanes).clamp(1, LANES_MAX),
        batch_rows: request.batch_rows.unwrap_or(batch_rows(engine)).max(1),
    }
}

/// What is to be said about options that do not apply to a job that was created with others.
pub(crate) fn grid_warnings(request: &Request, grid: Grid) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(rows) = request.batch_rows.filter(|rows| *rows != grid.batch_rows) {
        let message =
            format!("--batch-size {rows} is for new jobs; this one keeps its batches of {} rows", grid.batch_rows);
        warnings.push(Warning::new("batch_size_kept", message));
    }
    if let Some(writers) = request.writers.filter(|writers| *writers > grid.lanes) {
        let message =
            format!("--writers {writers}: this job was created with {} lanes, so so many write at once", grid.lanes);
        warnings.push(Warning::new("lanes_kept", message));
    }
    warnings
}

/// A new question to the store.
pub(crate) fn new_ask(
    list: ListId,
    opened: &Opened,
    settings: Settings,
    mends: Option<JobId>,
    grid: Grid,
    request: &Request,
) -> Ask {
    Ask {
        list,
        key: JobKey::import(list, &opened.survey.fingerprint, &settings),
        fingerprint: opened.survey.fingerprint.clone(),
        payload: Payload {
            source: opened.source.clone(),
            bytes: opened.survey.raw_bytes,
            settings,
            limits: Limits::default(),
            notify: request.notify.clone(),
            mends,
        },
        grid,
        entry: request.entry,
        owner: holder::claim_owner(),
        lease: request.lease,
    }
}

/// The job that `--continue` names.
pub(crate) async fn continued(store: &Store, entry: Entry) -> Result<Option<JobRow>, Fault> {
    match entry {
        Entry::Auto | Entry::Again => Ok(None),
        Entry::Continue(id) => match store.job(id).await? {
            Some(job) => Ok(Some(job)),
            None => Err(StoreError::UnknownJob(id).into()),
        },
    }
}
