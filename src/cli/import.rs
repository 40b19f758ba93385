//! `enlist import`: a file into a list, now.
//!
//! Owns the options and what happens around an import: signals, progress, reject file, summary. It does
//! not know how rows are read or stored. Invariant: under `--json` the same object is given however the
//! import ends, from the first connection on.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::answer::{Context, Style, complain, object, print_line};
use crate::cli::check::run as look;
use crate::cli::database::private_folder;
use crate::cli::duplicates::DuplicatesFile;
use crate::cli::jobs::find_id;
use crate::cli::output::{is_same_file, probe};
use crate::cli::progress::Progress;
use crate::cli::reading::{Layered, Options, REJECTS};
use crate::cli::summary::Files;
use crate::cli::values::{self, JobRef};
use crate::cli::{alerting, notify, profiles, rejects, signals, summary};
use crate::delivery::deliver_own;
use crate::fault::{Code, Exit, Fault};
use crate::import::report::{Budget, Entry, Expected, NewList, Report, Request, Wait, Warning};
use crate::import::{check, import};
use crate::job::LANES_MAX;
use crate::location::Location;
use crate::stop::Stop;
use crate::store::{Access, Store};

/// How long a holder may be silent when nobody says otherwise.
const LEASE: Duration = Duration::from_secs(30);

/// How long an import goes on trying to tell of its end before it leaves that to the workers.
const NOTIFY_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "\
Examples:
  enlist import spring.csv --list spring --region TR
  enlist import old.csv --list old --encoding windows-1254 --map phone='Cep No' --map name=#2
  zcat big.csv.gz | enlist import - --list big --create-list --json
  enlist import s3://bucket/lists/spring.csv --list spring --region TR
  enlist import spring.csv --list spring --rejects refused.csv --max-rejects 2%

Run the same command again after a crash, a kill or a reboot: it goes on where it stopped.
A file that was imported before is not read again; --again does.")]
pub(crate) struct Line {
    #[command(flatten)]
    args: Args,
    /// Write nothing and say what the import would do: the same as 'enlist check'
    #[arg(long, help_heading = RUN)]
    dry_run: bool,
}

/// What an import can be told; `check` and `enqueue` take the same.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file, its address (http, https, s3, gs, az) or - for standard input: CSV, also compressed (gzip, zstd, bzip2, xz, zip), or a workbook (xlsx, xls, ods)
    pub(crate) file: PathBuf,
    /// The list to import into
    #[arg(long, value_name = "NAME")]
    pub(crate) list: String,
    /// Create the list when there is none of that name
    #[arg(long)]
    create_list: bool,
    /// Take the options that 'enlist profiles save' kept under this name; those given here win
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) reading: Options,
    /// Write the refused rows to this file when the run ends
    #[arg(long, value_name = "FILE", help_heading = REJECTS)]
    pub(crate) rejects: Option<PathBuf>,
    /// Write the rows that were folded into a later row of their phone to this CSV file: line, phone, winning line, columns replaced
    ///
    /// As many as the summary counts: rows of one phone that stand in one batch. Rows of one phone in different
    /// batches are written one after another and count as changed or the same. Written when the import is done, by
    /// reading the input once more, and on a replay too.
    #[arg(long, value_name = "FILE", help_heading = RUN)]
    pub(crate) duplicates: Option<PathBuf>,
    /// Refuse a file with more or fewer rows before anything is written
    #[arg(long, value_name = "N", help_heading = RUN)]
    expect_rows: Option<u64>,
    /// Refuse a file with another SHA-256 before anything is written
    #[arg(long, value_name = "HEX", value_parser = values::sha256, help_heading = RUN)]
    expect_sha256: Option<String>,
    /// Wait until the file has not changed for so long: an upload may still be going on
    #[arg(long, value_name = "DURATION", value_parser = values::duration, help_heading = RUN)]
    settle: Option<Duration>,
    /// Rows of a batch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = RUN)]
    batch_size: Option<u32>,
    /// Writers at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(LANES_MAX)), help_heading = RUN)]
    writers: Option<u16>,
    /// Import again from the start, although it is done or was begun
    #[arg(long, conflicts_with = "continue_job", help_heading = RUN)]
    again: bool,
    /// Go on with this job as it began, whatever the options say
    #[arg(long = "continue", value_name = "ID", value_parser = values::job, help_heading = RUN)]
    continue_job: Option<JobRef>,
    /// Wait for another process that runs this import [default: forever]
    #[arg(long, value_name = "DURATION", value_parser = values::wait, num_args = 0..=1, require_equals = true,
        default_missing_value = "forever", help_heading = RUN)]
    wait: Option<Wait>,
    /// How long this process may be silent before another may take over [default: 30s]
    ///
    /// An import waits twice as long for a database that went away, then it stops, resumable.
    #[arg(long, value_name = "DURATION", value_parser = values::lease, help_heading = RUN)]
    lease: Option<Duration>,
    /// Tell this address how the job ended, with one POST under one key; none tells nobody
    #[arg(long, value_name = "URL", help_heading = RUN)]
    notify: Option<String>,
}

const RUN: &str = "How it runs";

impl Args {
    /// The options of the command line alone.
    pub(crate) fn given(&self) -> Layered {
        Layered { options: self.reading.clone(), ..Layered::default() }
    }

    /// Opens the database, and lays the options over those of the profile, which only a database that is there has.
    pub(crate) async fn open(&self, context: &Context) -> Result<(Store, Layered), Fault> {
        match &self.profile {
            None => Ok((context.open(Access::Create).await?, self.given())),
            Some(name) => {
                let store = context.open(Access::Existing).await?;
                let layered = profiles::under(&store, name, &self.reading).await?;
                Ok((store, layered))
            }
        }
    }

    /// The request by these options, apart from which job to continue.
    pub(crate) fn request(&self, context: &Context, layered: &Layered) -> Result<Request, Fault> {
        let config = &context.config;
        let mut wanted = layered.options.wanted(config.region.as_ref())?;
        wanted.origins.extend(layered.origins.clone());
        Ok(Request {
            input: Location::of(&self.file),
            list: self.list.clone(),
            new_list: if self.create_list { NewList::Create } else { NewList::Refuse },
            wanted,
            batch_rows: self.batch_size.or(config.batch_size.as_ref().map(|valued| valued.value)),
            writers: self.writers.or(config.writers.as_ref().map(|valued| valued.value)),
            max_rejects: layered.options.max_rejects,
            expected: Expected { rows: self.expect_rows, sha256: self.expect_sha256.clone(), settle: self.settle },
            max_changes: layered.options.max_changes,
            duplicates: None,
            preview: 0,
            entry: if self.again { Entry::Again } else { Entry::Auto },
            wait: self.wait.unwrap_or(Wait::No),
            lease: self.lease.or(config.lease.as_ref().map(|valued| valued.value)).unwrap_or(LEASE),
            state_dir: context.state_dir(),
            notify: notify::destination(self.notify.as_deref(), config)?,
        })
    }

    /// Refuses the options that mean nothing for a job that a worker runs later.
    pub(crate) fn refuse_for_queue(&self) -> Result<(), Fault> {
        let given = [
            (self.rejects.is_some(), "--rejects", "'enlist rejects ID' writes the file when the job is done"),
            (self.duplicates.is_some(), "--duplicates", "'enlist import' writes the file when the job is done"),
            (self.wait.is_some(), "--wait", "leave it out: the job waits by itself"),
            (self.continue_job.is_some(), "--continue", "'enlist jobs retry ID' gives a job back to the workers"),
            (self.lease.is_some(), "--lease", "it is an option of 'enlist work'"),
        ];
        match given.into_iter().find(|(given, _, _)| *given) {
            Some((_, option, hint)) => {
                Err(Fault::new(Code::Usage, format!("{option} means nothing for a queued job")).hint(hint))
            }
            None => Ok(()),
        }
    }

    /// What is wrong with `--rejects` and `--duplicates`, before anything is read or written.
    pub(crate) fn check_outputs(&self) -> Result<(), Fault> {
        let is_input = |path| matches!(Location::of(&self.file), Location::Path(input) if is_same_file(path, &input));
        if let Some(path) = &self.rejects {
            if path.as_os_str() == "-" {
                let message = "--rejects takes a file, and '-' is none";
                return Err(Fault::new(Code::Usage, message).hint("'enlist rejects last' prints them"));
            }
            if is_input(path) {
                let message = format!("'{}' is the input itself", path.display());
                return Err(Fault::new(Code::RejectsIsInput, message));
            }
            probe(path)?;
        }
        let Some(path) = &self.duplicates else { return Ok(()) };
        let wrong =
            |message: String| Err(Fault::new(Code::Usage, message).hint("choose another path for --duplicates"));
        if path.as_os_str() == "-" {
            return wrong("--duplicates takes a file, and '-' is none".to_owned());
        }
        if is_input(path) {
            return wrong(format!("'{}' is the input itself", path.display()));
        }
        if self.rejects.as_ref().is_some_and(|rejects| is_same_file(path, rejects)) {
            return wrong(format!("'{}' is the reject file as well", path.display()));
        }
        probe(path)
    }
}

/// Runs the command; everything is said when it returns.
pub(crate) async fn run(context: &Context, line: &Line) -> Exit {
    let args = &line.args;
    if line.dry_run {
        return look(context, args).await;
    }
    let mut ended =
        Ended { report: Report::new(&args.list), files: Files::default(), budget: args.reading.max_rejects };
    if let Err(fault) = attempt(context, args, &mut ended).await {
        ended.report.error = Some(fault);
    }
    let Ended { report, files, budget } = ended;
    let mut exit = report.exit(budget);
    let told = summary::summary(&report, &files);
    if !told.is_empty() {
        context.note(&told);
    }
    if let Some(fault) = &report.error {
        complain(fault, context.paint);
    }
    if context.style == Style::Json {
        let body = summary::Answer::of(&report, &files);
        let printed = object(exit, report.error.as_ref(), &body).and_then(|line| print_line(&line));
        if let Err(fault) = printed {
            complain(&fault, context.paint);
            // The import is as it is, but whoever reads the answer did not get it.
            exit = if exit == Exit::Done { Exit::Failed } else { exit };
        }
    }
    exit
}

/// What happened, also when a fault ends it early.
struct Ended {
    report: Report,
    files: Files,
    /// `--max-rejects`, or what the profile says.
    budget: Option<Budget>,
}

/// Imports.
async fn attempt(context: &Context, args: &Args, ended: &mut Ended) -> Result<(), Fault> {
    args.rejects.as_deref().map_or(Ok(()), |path| context.check_output(path))?;
    args.check_outputs()?;
    if args.profile.is_none() {
        check(&args.request(context, &args.given())?)?;
    }
    let (store, layered) = args.open(context).await?;
    let mut request = args.request(context, &layered)?;
    check(&request)?;
    ended.budget = request.max_rejects;
    let bell = context.unlogged_bell()?;
    if !matches!(request.input, Location::Path(_)) {
        private_folder(&request.state_dir).map_err(|error| {
            let message = format!("the folder '{}' cannot be created: {error}", request.state_dir.display());
            Fault::new(Code::UnwritableFile, message)
        })?;
    }
    let caller = notify::caller(context)?;
    if let Some(job) = args.continue_job {
        request.entry = Entry::Continue(find_id(&store, job).await?);
    }
    let stop = Stop::new();
    signals::listen(stop.clone(), context.volume)?;
    let progress = Progress::start(context.display, context.volume);
    let duplicates = args.duplicates.as_deref().map(DuplicatesFile::begin).map(|(sender, file)| {
        request.duplicates = Some(sender);
        file
    });
    ended.report = import(&store, &request, &stop, &|event| progress.on_event(event)).await;
    progress.finish();
    let plain = notify::plain_warning(request.notify.as_ref());
    drop(request);
    if let Some(file) = duplicates {
        match file.end().await {
            Ok(path) => ended.files.duplicates = path,
            Err(fault) if ended.report.error.is_none() => ended.report.error = Some(fault),
            Err(fault) => ended.report.warnings.push(Warning::new("duplicates_file", fault.message)),
        }
    }
    if let Some(path) = &args.rejects {
        match write_rejects(&store, &ended.report, path).await {
            Ok(true) => ended.files.rejects = Some(path.clone()),
            Ok(false) => {}
            Err(fault) => blame(&mut ended.report, fault),
        }
    }
    let report = &mut ended.report;
    report.warnings.extend(plain);
    if let Some(job) = report.job.filter(|_| report.state.is_some_and(|state| !state.is_unfinished())) {
        match deliver_own(&store, &caller, job, NOTIFY_PATIENCE, &stop).await {
            Ok(warning) => report.warnings.extend(warning),
            Err(error) => tracing::warn!(%error, "the notification is left to the workers"),
        }
    }
    alerting::ring_of_job(&store, &bell, report).await;
    store.close().await;
    Ok(())
}

/// Writes the reject file of the job that this run worked on or answered from.
///
/// A run that did nothing, because another process holds the job for example, leaves the file to the other;
/// one whose database went away leaves it to the run that resumes.
async fn write_rejects(store: &Store, report: &Report, path: &std::path::Path) -> Result<bool, Fault> {
    let idle = [
        Code::Held,
        Code::Paused,
        Code::SettingsChanged,
        Code::LeaseLost,
        Code::Superseded,
        Code::JobState,
        Code::DatabaseStopped,
    ];
    if report.error.as_ref().is_some_and(|fault| idle.contains(&fault.code)) {
        return Ok(false);
    }
    let Some(job) = report.job else { return Ok(false) };
    let settings = match &report.settings {
        Some(settings) => settings.clone(),
        None => match store.job(job).await? {
            Some(row) => row.payload.settings,
            None => return Ok(false),
        },
    };
    rejects::write(store, job, &settings, Some(path)).await.map(|_| true)
}

/// Tells that the reject file could not be written, without hiding why the import itself stopped.
fn blame(report: &mut Report, fault: Fault) {
    if report.error.is_some() {
        report.warnings.push(Warning::new("rejects_file", format!("the reject file is missing: {fault}")));
    } else {
        let hint =
            report.job.map_or(fault.hint, |job| format!("'enlist rejects {job} -o FILE' writes it again").into());
        report.error = Some(Fault { hint, ..fault });
    }
}

#[cfg(test)]
mod tests;
