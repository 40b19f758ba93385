//! `enlist rejects`: the refused rows of an import, ready to be mended and imported again.
//!
//! Owns the command and the way rejects take from the store to a file. It does not know the file's layout.
//! Invariant: memory does not grow with the number of rejects, and the input is never overwritten.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::answer::{Context, Style};
use crate::cli::jobs::{ReasonBody, find};
use crate::cli::output::{Reader, Sink, is_same_file};
use crate::cli::paging::Pages;
use crate::cli::sheet::Sheet;
use crate::cli::values::{self, JobRef};
use crate::fault::{Code, Exit, Fault};
use crate::job::JobId;
use crate::reject::Reject;
use crate::reject_file::RejectFile;
use crate::settings::Settings;
use crate::store::{Access, Store};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist rejects last -o refused.csv
  enlist rejects last -o refused.xlsx
  enlist rejects 7 | less
  enlist rejects 7 --json

The file holds the rows as they were, with _line, _column, _reason and _detail behind them. Mend it and
import it as it is: those four columns are ignored. With --json and no -o the reasons are counted.")]
pub(crate) struct Args {
    /// The job, or last
    #[arg(value_name = "ID", value_parser = values::job)]
    job: JobRef,
    /// Write to this file instead of standard output; a workbook when it ends in .xlsx
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Serialize)]
struct Body {
    job: JobId,
    rejected: u64,
    reasons: Vec<ReasonBody>,
    file: Option<String>,
    /// When retention began to remove them.
    removed_at: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let store = context.open(Access::Existing).await?;
    let job = find(&store, args.job).await?;
    let output = args.output.as_deref().filter(|path| *path != Path::new("-"));
    output.map_or(Ok(()), |path| context.check_output(path))?;
    if let Some(path) = output
        && is_same_file(path, Path::new(&job.payload.source))
    {
        let message = format!("'{}' is the file that was imported", path.display());
        return Err(Fault::new(Code::RejectsIsInput, message).hint("choose another path for -o"));
    }
    let removed_at = job.rejects_pruned_at.map(|at| at.to_string());
    if let Some(at) = &removed_at {
        context.note(&format!("retention removed the refused rows of job {} at {at}", job.id));
    }
    if context.style == Style::Text || output.is_some() {
        let written = write(&store, job.id, &job.payload.settings, output).await?;
        if context.style == Style::Text {
            if let Some(path) = output {
                context.note(&format!("{written} refused rows of job {} are in '{}'", job.id, path.display()));
            }
            return Ok(Exit::Done);
        }
    }
    let reasons: Vec<ReasonBody> = store.reason_counts(job.id).await?.iter().map(ReasonBody::of).collect();
    let rejected = reasons.iter().map(|reason| reason.rows).sum();
    let file = output.map(|path| path.display().to_string());
    context.answer(Exit::Done, &Body { job: job.id, rejected, reasons, file, removed_at }, "")
}

/// Writes a job's reject file to `path`, or to standard output; returns how many rows it holds.
///
/// # Errors
/// The store fails, or the file cannot be written; what stood under its name is then still there.
pub(crate) async fn write(store: &Store, job: JobId, settings: &Settings, path: Option<&Path>) -> Result<u64, Fault> {
    let mut file = RejectFile::new(settings);
    let mut pages = RejectPages::of(store, job);
    while let Some(page) = pages.next().await? {
        page.iter().for_each(|reject| file.make_room(reject));
    }
    if let Some(path) = path.filter(|path| is_workbook(path)) {
        return workbook(store, job, &file, path).await;
    }
    let mut sink = Sink::open(path)?;
    let mut text = Vec::new();
    file.push_header(&mut text);
    let mut reader = sink.write(&text)?;
    let mut written = 0;
    let mut pages = RejectPages::of(store, job);
    while reader == Reader::There
        && let Some(page) = pages.next().await?
    {
        for reject in &page {
            text.clear();
            file.push_row(reject, &mut text);
            reader = sink.write(&text)?;
            written += 1;
        }
    }
    sink.finish()?;
    Ok(written)
}

/// Whether a path names an Excel workbook.
fn is_workbook(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xlsx"))
}

/// The same as a workbook of text cells, which a spreadsheet leaves as they are.
async fn workbook(store: &Store, job: JobId, file: &RejectFile, path: &Path) -> Result<u64, Fault> {
    let mut sheet = Sheet::begin()?;
    sheet.push(file.header_cells())?;
    let mut written = 0;
    let mut pages = RejectPages::of(store, job);
    while let Some(page) = pages.next().await? {
        for reject in &page {
            sheet.push(file.row_cells(reject).iter().map(String::as_str))?;
            written += 1;
        }
    }
    let mut sink = Sink::open(Some(path))?;
    sheet.finish(|bytes| sink.write(bytes).map(drop))?;
    sink.finish()?;
    Ok(written)
}

/// A job's rejects in file order, page by page.
struct RejectPages<'a> {
    store: &'a Store,
    job: JobId,
    after: Option<u64>,
    pages: Pages,
}

impl<'a> RejectPages<'a> {
    fn of(store: &'a Store, job: JobId) -> Self {
        Self { store, job, after: None, pages: Pages::new() }
    }

    /// The next page; a short one need not be the last, an empty one is.
    async fn next(&mut self) -> Result<Option<Vec<Reject>>, Fault> {
        let page = self.store.rejects_after(self.job, self.after, self.pages.rows()).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = Some(last.at.byte);
        self.pages.learn(page.len(), page.iter().map(|reject| reject.raw.len() + reject.detail.len()).sum());
        Ok(Some(page))
    }
}
