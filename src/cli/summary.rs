//! What an import says at its end, for people and for programs.
//!
//! Owns the wording and the fields. It does not know where either is printed. Invariant: pure functions of
//! the report; every figure in them is a figure of the report.

use std::path::PathBuf;

use serde::Serialize;

use crate::cli::text::{counted, elapsed, thousands};
use crate::fault::{Code, Warning};
use crate::import::report::{REJECTS_REMOVED, Report};
use crate::job::{JobId, State};

/// How many reasons are shown.
const REASONS: usize = 5;

/// The files that a run wrote besides the database.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// `--rejects`.
    pub(crate) rejects: Option<PathBuf>,
    /// `--duplicates`.
    pub(crate) duplicates: Option<PathBuf>,
}

/// The fields of an import's object, in their order, between `schema` and `exit_code`.
#[derive(Debug, Serialize)]
pub(crate) struct Answer<'a> {
    job: Option<JobId>,
    list: &'a str,
    list_created: bool,
    state: Option<State>,
    rows: u64,
    inserted: u64,
    updated: u64,
    unchanged: u64,
    stale: u64,
    duplicates: u64,
    rejected: u64,
    blank: u64,
    opted_out: u64,
    resumed_rows: u64,
    this_run: ThisRun,
    replayed: bool,
    attempt: u32,
    elapsed_ms: u64,
    rejects_file: Option<String>,
    duplicates_file: Option<String>,
    warnings: Vec<Warned<'a>>,
}

#[derive(Debug, Serialize)]
struct ThisRun {
    rows: u64,
}

/// A warning as programs read it.
#[derive(Debug, Serialize)]
pub(crate) struct Warned<'a> {
    code: &'static str,
    message: &'a str,
}

impl<'a> Warned<'a> {
    pub(crate) fn of(warning: &'a Warning) -> Self {
        Self { code: warning.code, message: &warning.message }
    }
}

impl<'a> Answer<'a> {
    /// The fields of this report.
    pub(crate) fn of(report: &'a Report, files: &Files) -> Self {
        let counts = report.counts;
        let warnings = report.warnings.iter();
        Self {
            job: report.job,
            list: &report.list,
            list_created: report.list_created,
            state: report.state,
            rows: counts.rows,
            inserted: counts.inserted,
            updated: counts.updated,
            unchanged: counts.unchanged,
            stale: counts.stale,
            duplicates: counts.duplicates,
            rejected: counts.rejected,
            blank: counts.blank,
            opted_out: counts.opted_out,
            resumed_rows: report.resumed_rows,
            this_run: ThisRun { rows: report.this_run_rows },
            replayed: report.replayed,
            attempt: report.attempt,
            elapsed_ms: u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX),
            rejects_file: files.rejects.as_ref().map(|path| path.display().to_string()),
            duplicates_file: files.duplicates.as_ref().map(|path| path.display().to_string()),
            warnings: warnings.map(Warned::of).collect(),
        }
    }
}

/// The summary for a person, some lines; nothing but the warnings when there is no job.
pub(crate) fn summary(report: &Report, files: &Files) -> String {
    let mut lines = Vec::new();
    if let Some(job) = report.job {
        lines.push(headline(report, job));
        lines.extend(figures(report));
        lines.extend(reasons(report));
        lines.extend(remarks(report, files));
    }
    lines.extend(report.warnings.iter().map(|warning| format!("warning: {}", warning.message)));
    if let Some(job) = report.job {
        for (n, next) in advice(report, job, files).iter().enumerate() {
            lines.push(format!("{} {next}", if n == 0 { "next:" } else { "     " }));
        }
    }
    lines.join("\n")
}

fn headline(report: &Report, job: JobId) -> String {
    let state = report.state.map_or("not begun", State::as_str);
    let list = if report.list_created { "new list" } else { "list" };
    if report.replayed {
        return format!("{list} '{}', job {job}: already imported, nothing was read; the result was", report.list);
    }
    format!("{list} '{}', job {job}: {state} after {}", report.list, elapsed(report.elapsed))
}

pub(crate) fn figures(report: &Report) -> Vec<String> {
    let counts = report.counts;
    let all = [
        (counts.rows, "rows", true),
        (counts.inserted, "new", true),
        (counts.updated, "changed", false),
        (counts.unchanged, "the same as before", false),
        (counts.stale, "older than what is stored, ignored", false),
        (counts.duplicates, "repeated in the file, folded into the last of each phone", false),
        (counts.rejected, "refused", false),
    ];
    let width = thousands(counts.rows).len();
    all.into_iter()
        .filter(|(n, _, always)| *always || *n > 0)
        .enumerate()
        .map(|(line, (n, what, _))| {
            let (indent, what) = match (line, n) {
                (0, 1) => ("  ", "row"),
                (0, _) => ("  ", what),
                _ => ("    ", what),
            };
            format!("{indent}{:>width$} {what}", thousands(n))
        })
        .collect()
}

pub(crate) fn reasons(report: &Report) -> Vec<String> {
    let shown = report.reasons.iter().take(REASONS);
    let width = shown.clone().map(|count| thousands(count.rows).len()).max().unwrap_or(0);
    let mut lines: Vec<String> = shown
        .map(|count| {
            let detail =
                if count.first_detail.is_empty() { String::new() } else { format!(": {}", count.first_detail) };
            format!(
                "      {:>width$} {}, first on line {}{detail}",
                thousands(count.rows),
                count.reason,
                thousands(count.first_line)
            )
        })
        .collect();
    let rest = report.reasons.len().saturating_sub(REASONS);
    if rest > 0 {
        lines.push(format!("      and {}", counted(rest as u64, "other reason", "other reasons")));
    }
    lines
}

fn remarks(report: &Report, files: &Files) -> Vec<String> {
    let counts = report.counts;
    let mut lines = Vec::new();
    if counts.blank > 0 {
        lines.push(format!("  {} skipped", counted(counts.blank, "blank row", "blank rows")));
    }
    if counts.opted_out > 0 {
        lines.push(format!(
            "  {} to people who opted out and stay so",
            counted(counts.opted_out, "row belongs", "rows belong")
        ));
    }
    if report.resumed_rows > 0 && !report.replayed {
        lines.push(format!(
            "  resumed after {} of an earlier run; this run did {}",
            counted(report.resumed_rows, "row", "rows"),
            thousands(report.this_run_rows)
        ));
    }
    if let Some(path) = &files.rejects {
        lines.push(format!("  refused rows: {}", path.display()));
    }
    if let Some(path) = &files.duplicates {
        lines.push(format!("  repeated rows: {}", path.display()));
    }
    lines
}

/// The commands that make sense now.
fn advice(report: &Report, job: JobId, files: &Files) -> Vec<String> {
    let mut next = Vec::new();
    let code = report.error.as_ref().map(|fault| fault.code);
    if matches!(code, Some(Code::Interrupted | Code::Terminated)) {
        next.push("the same command again, to go on".to_owned());
    }
    let removed = report.warnings.iter().any(|warning| warning.code == REJECTS_REMOVED);
    if report.counts.rejected > 0 && !removed {
        if files.rejects.is_none() {
            next.push(format!("enlist rejects {job} -o rejects.csv"));
        }
        if let Some(count) = report.reasons.first() {
            next.push(format!("enlist explain {}", count.reason));
        }
    }
    if report.replayed {
        next.push("the same command with --again, to import it anew".to_owned());
    }
    next
}

#[cfg(test)]
mod tests;
