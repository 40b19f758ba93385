//! `enlist import`: a file into a list, now.
//!
//! Owns the options and what happens around an import: signals, progress, reject file, summary. It does
//! not know how rows are read or stored. Invariant: under `--json` the same object is given however the
//! import ends, from the first connection on.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::answer::{Context, Style, complain, object, print_line};
use crate::cli::config::{Origin, Valued};
use crate::cli::database::private_folder;
use crate::cli::jobs::find_id;
use crate::cli::output::{is_same_file, probe};
use crate::cli::progress::Progress;
use crate::cli::values::{self, JobRef, Sign};
use crate::cli::{alerting, notify, rejects, signals, summary};
use crate::delivery::deliver_own;
use crate::fault::{Code, Exit, Fault};
use crate::import::report::{Budget, Entry, Expected, NewList, Report, Request, Wait, Warning};
use crate::import::{check, import};
use crate::job::LANES_MAX;
use crate::location::Location;
use crate::settings::{Blank, ColumnRef, Field, HeaderRow, PhoneType, ShortRows, Wanted};
use crate::stop::Stop;
use crate::store::{Access, Store};

/// How long a holder may be silent when nobody says otherwise.
const LEASE: Duration = Duration::from_secs(30);

/// How long an import goes on trying to tell of its end before it leaves that to the workers.
const NOTIFY_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist import spring.csv --list spring --region TR
  enlist import old.csv --list old --encoding windows-1254 --map phone='Cep No' --map name=#2
  zcat big.csv.gz | enlist import - --list big --create-list --json
  enlist import s3://bucket/lists/spring.csv --list spring --region TR
  enlist import spring.csv --list spring --rejects refused.csv --max-rejects 2%

Run the same command again after a crash, a kill or a reboot: it goes on where it stopped.
A file that was imported before is not read again; --again does.")]
pub(crate) struct Args {
    /// The file, its address (http, https, s3, gs, az) or - for standard input: CSV, also compressed (gzip, zstd, bzip2, xz, zip), or a workbook (xlsx, xls, ods)
    pub(crate) file: PathBuf,
    /// The list to import into
    #[arg(long, value_name = "NAME")]
    pub(crate) list: String,
    /// Create the list when there is none of that name
    #[arg(long)]
    create_list: bool,
    /// Country in which numbers without a country code are read, for example TR
    #[arg(long, value_name = "REGION", value_parser = values::region)]
    region: Option<String>,
    /// Which column holds a field (phone, name, region): FIELD=HEADER or FIELD=#N
    #[arg(long, value_name = "FIELD=COLUMN", value_parser = values::mapping)]
    map: Vec<(Field, ColumnRef)>,
    /// Between cells: one character, or comma, semicolon, tab, pipe [default: found out]
    #[arg(long, value_name = "SIGN", value_parser = values::delimiter, allow_hyphen_values = true, help_heading = FORMAT)]
    delimiter: Option<u8>,
    /// Around cells: one character, or none [default: "]
    #[arg(long, value_name = "SIGN", value_parser = values::sign_or_none, help_heading = FORMAT)]
    quote: Option<Sign>,
    /// Before a quote inside a quoted cell: one character, backslash or none [default: none]
    #[arg(long, value_name = "SIGN", value_parser = values::sign_or_none, help_heading = FORMAT)]
    escape: Option<Sign>,
    /// Character set, for example windows-1254 [default: found out]
    #[arg(long, value_name = "NAME", help_heading = FORMAT)]
    encoding: Option<String>,
    /// The sheet of a workbook [default: the first]
    #[arg(long, value_name = "NAME", help_heading = FORMAT)]
    sheet: Option<String>,
    /// The first row is data; name the phone column with --map phone=#N
    #[arg(long, help_heading = FORMAT)]
    no_header: bool,
    /// Lines above the header
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = FORMAT)]
    skip_lines: u32,
    /// What to do with a row of too few cells: reject it, or fill it with empty ones
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, hide_possible_values = true, help_heading = FORMAT)]
    short_rows: ShortRowsWord,
    /// Which phones are taken: any valid number, or mobile
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t, hide_possible_values = true, help_heading = ROWS)]
    phone_type: TypeWord,
    /// Refuse rows with a longer name, in characters
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = ROWS)]
    max_name_length: Option<u32>,
    /// What an empty cell does to a stored value: keep or clear it
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, hide_possible_values = true, help_heading = ROWS)]
    blank: BlankWord,
    /// Column with a date or number that grows: older rows never replace newer ones
    #[arg(long, value_name = "COLUMN", value_parser = values::column, help_heading = ROWS)]
    newer_by: Option<ColumnRef>,
    /// Rejects that are acceptable: a number of rows or a share; more stop the import
    #[arg(long, value_name = "N|P%", value_parser = values::budget, help_heading = REJECTS)]
    pub(crate) max_rejects: Option<Budget>,
    /// Known people that may get another name, of a hundred; more stop the import [default: 50%]
    #[arg(long, value_name = "P%", value_parser = values::percent, help_heading = REJECTS)]
    max_changes: Option<f64>,
    /// Write the refused rows to this file when the run ends
    #[arg(long, value_name = "FILE", help_heading = REJECTS)]
    pub(crate) rejects: Option<PathBuf>,
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

const FORMAT: &str = "How the file is written";
const ROWS: &str = "What rows mean";
const REJECTS: &str = "Refused rows";
const RUN: &str = "How it runs";

/// Declares an option's words for a type of the settings, which knows no command line.
macro_rules! words {
    ($name:ident => $target:ident { $($(#[doc = $doc:literal])* $variant:ident,)* } default $default:ident) => {
        #[derive(Debug, Clone, Copy, clap::ValueEnum)]
        enum $name { $($(#[doc = $doc])* $variant,)* }

        impl Default for $name {
            fn default() -> Self { Self::$default }
        }

        impl From<$name> for $target {
            fn from(word: $name) -> Self {
                match word { $($name::$variant => Self::$variant,)* }
            }
        }
    };
}

words!(ShortRowsWord => ShortRows {
    /// refuse it
    Reject,
    /// its missing cells are empty
    Fill,
} default Reject);
words!(TypeWord => PhoneType {
    /// every valid number
    Any,
    /// numbers that can be mobile phones
    Mobile,
} default Any);
words!(BlankWord => Blank {
    /// nothing
    Keep,
    /// clears it
    Clear,
} default Keep);

impl Args {
    /// The request, apart from which job to continue.
    pub(crate) fn request(&self, context: &Context) -> Result<Request, Fault> {
        let config = &context.config;
        let wanted = self.wanted(config.region.as_ref())?;
        Ok(Request {
            input: Location::of(&self.file),
            list: self.list.clone(),
            new_list: if self.create_list { NewList::Create } else { NewList::Refuse },
            wanted,
            batch_rows: self.batch_size.or(config.batch_size.as_ref().map(|valued| valued.value)),
            writers: self.writers.or(config.writers.as_ref().map(|valued| valued.value)),
            max_rejects: self.max_rejects,
            expected: Expected { rows: self.expect_rows, sha256: self.expect_sha256.clone(), settle: self.settle },
            max_changes: self.max_changes,
            preview: 0,
            entry: if self.again { Entry::Again } else { Entry::Auto },
            wait: self.wait.unwrap_or(Wait::No),
            lease: self.lease.or(config.lease.as_ref().map(|valued| valued.value)).unwrap_or(LEASE),
            state_dir: context.state_dir(),
            notify: notify::destination(self.notify.as_deref(), config)?,
        })
    }

    fn wanted(&self, region: Option<&Valued<String>>) -> Result<Wanted, Fault> {
        let quote = self.quote.map(|sign| sign.0);
        let quote_sign = quote.unwrap_or(Some(b'"'));
        if self.delimiter.is_some() && self.delimiter == quote_sign {
            let message = "the delimiter and the quote are the same character";
            return Err(Fault::new(Code::Usage, message).hint("choose another --delimiter or --quote"));
        }
        // Doubling a quote is always understood, so an escape that is the quote says nothing new.
        let escape = self.escape.and_then(|sign| sign.0).filter(|escape| Some(*escape) != quote_sign);
        if escape.is_some() && escape == self.delimiter {
            let message = "the delimiter and the escape are the same character";
            return Err(Fault::new(Code::Usage, message).hint("choose another --delimiter or --escape"));
        }
        let mut wanted = Wanted {
            region: self.region.clone(),
            map: self.map.clone(),
            delimiter: self.delimiter,
            quote,
            escape,
            encoding: self.encoding.clone(),
            sheet: self.sheet.clone(),
            header: if self.no_header { HeaderRow::Absent } else { HeaderRow::Present },
            skip_lines: self.skip_lines,
            short_rows: self.short_rows.into(),
            phone_type: self.phone_type.into(),
            max_name_length: self.max_name_length,
            blank: self.blank.into(),
            newer_by: self.newer_by.clone(),
            ..Wanted::default()
        };
        if let (None, Some(Valued { value, origin })) = (&self.region, region) {
            wanted.region = Some(value.clone());
            if *origin != Origin::Default {
                wanted.origins.insert("region", origin.to_string());
            }
        }
        Ok(wanted)
    }

    /// Refuses the options that mean nothing for a job that a worker runs later.
    pub(crate) fn refuse_for_queue(&self) -> Result<(), Fault> {
        let given = [
            (self.rejects.is_some(), "--rejects", "'enlist rejects ID' writes the file when the job is done"),
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

    /// What is wrong with `--rejects`, before anything is read or written.
    pub(crate) fn check_rejects(&self) -> Result<(), Fault> {
        let Some(path) = &self.rejects else { return Ok(()) };
        if path.as_os_str() == "-" {
            let message = "--rejects takes a file, and '-' is none";
            return Err(Fault::new(Code::Usage, message).hint("'enlist rejects last' prints them"));
        }
        if let Location::Path(input) = Location::of(&self.file)
            && is_same_file(path, &input)
        {
            let message = format!("'{}' is the input itself", path.display());
            return Err(Fault::new(Code::RejectsIsInput, message));
        }
        probe(path)
    }
}

/// Runs the command; everything is said when it returns.
pub(crate) async fn run(context: &Context, args: &Args) -> Exit {
    let mut report = Report::new(&args.list);
    let mut rejects_file = None;
    if let Err(fault) = attempt(context, args, &mut report, &mut rejects_file).await {
        report.error = Some(fault);
    }
    let mut exit = report.exit(args.max_rejects);
    let told = summary::summary(&report, rejects_file.as_deref());
    if !told.is_empty() {
        context.note(&told);
    }
    if let Some(fault) = &report.error {
        complain(fault, context.paint);
    }
    if context.style == Style::Json {
        let body = summary::Answer::of(&report, rejects_file.as_deref());
        let printed = object(exit, report.error.as_ref(), &body).and_then(|line| print_line(&line));
        if let Err(fault) = printed {
            complain(&fault, context.paint);
            // The import is as it is, but whoever reads the answer did not get it.
            exit = if exit == Exit::Done { Exit::Failed } else { exit };
        }
    }
    exit
}

/// Imports. `report` and `rejects_file` tell what happened, also when a fault ends it early.
async fn attempt(
    context: &Context,
    args: &Args,
    report: &mut Report,
    rejects_file: &mut Option<PathBuf>,
) -> Result<(), Fault> {
    let mut request = args.request(context)?;
    check(&request)?;
    let bell = context.unlogged_bell()?;
    args.check_rejects()?;
    if !matches!(request.input, Location::Path(_)) {
        private_folder(&request.state_dir).map_err(|error| {
            let message = format!("the folder '{}' cannot be created: {error}", request.state_dir.display());
            Fault::new(Code::UnwritableFile, message)
        })?;
    }
    let caller = notify::caller(context)?;
    let store = context.open(Access::Create).await?;
    if let Some(job) = args.continue_job {
        request.entry = Entry::Continue(find_id(&store, job).await?);
    }
    let stop = Stop::new();
    signals::listen(stop.clone(), context.volume)?;
    let progress = Progress::start(context.display, context.volume);
    *report = import(&store, &request, &stop, &|event| progress.on_event(event)).await;
    progress.finish();
    if let Some(path) = &args.rejects {
        match write_rejects(&store, report, path).await {
            Ok(true) => *rejects_file = Some(path.clone()),
            Ok(false) => {}
            Err(fault) => blame(report, fault),
        }
    }
    report.warnings.extend(notify::plain_warning(request.notify.as_ref()));
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
