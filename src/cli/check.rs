//! `enlist check`: what an import would do, told without doing it.
//!
//! Owns the scratch store around the same import, and the telling. It does not know how rows are judged.
//! Invariant: the real database is only read, and nothing stays behind.

use serde::Serialize;

use crate::batch::Outcome;
use crate::cli::answer::{Context, Style, complain, object, print, print_line};
use crate::cli::duplicates::DuplicatesFile;
use crate::cli::progress::Progress;
use crate::cli::summary::Files;
use crate::cli::text::{head, pairs};
use crate::cli::{import, profiles, rejects, signals, summary};
use crate::fault::{Code, Exit, Fault};
use crate::import::report::{Budget, Entry, NewList, PreviewRow, Report, Request};
use crate::import::{batch_rows, check, import as run_import};
use crate::list::ListName;
use crate::nearest::unknown_list;
use crate::settings::{HeaderRow, Settings, Wanted, visible};
use crate::stop::Stop;
use crate::store::{Access, Store, StoreError};

/// How many of the first rows are shown.
const SHOWN_ROWS: usize = 5;

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "\
Examples:
  enlist check spring.csv --list spring --region TR
  enlist check spring.csv --list spring --region TR --rejects refused.csv
  enlist check spring.csv --list spring --map phone='Cep No' --json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) import: import::Args,
}

/// What is told besides the figures of an import.
#[derive(Debug, Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    figures: summary::Answer<'a>,
    settings: Option<Vec<Choice>>,
    preview: Vec<Shown>,
}

/// A setting, its value and how it was found.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Choice {
    name: &'static str,
    value: String,
    because: String,
}

/// One of the first rows.
#[derive(Debug, Serialize)]
struct Shown {
    line: u64,
    cells: Vec<String>,
    stored: Option<Stored>,
    reason: Option<&'static str>,
    detail: Option<String>,
}

#[derive(Debug, Serialize)]
struct Stored {
    phone: String,
    name: Option<String>,
    attributes: serde_json::Map<String, serde_json::Value>,
}

/// Runs the command; everything is said when it returns.
pub(crate) async fn run(context: &Context, args: &import::Args) -> Exit {
    let mut report = Report::new(&args.list);
    let (mut wanted, mut budget) = (Wanted::default(), args.reading.max_rejects);
    let mut files = Files::default();
    if let Err(fault) = attempt(context, args, &mut report, &mut wanted, &mut budget, &mut files).await {
        report.error = Some(fault);
    }
    // What the scratch store calls it means nothing outside.
    (report.job, report.state, report.attempt) = (None, None, 0);
    let would_stop = report.warnings.iter().any(|warning| Code::from_code(warning.code).is_some());
    let exit = match report.exit(budget) {
        Exit::Done | Exit::Failed if would_stop && report.error.is_none() => Exit::Found,
        exit => exit,
    };
    let settings = report.settings.as_ref().map(|settings| choices(settings, &wanted));
    let preview = preview(&report);
    let printed = match context.style {
        Style::Json => {
            let figures = summary::Answer::of(&report, &files);
            object(exit, report.error.as_ref(), &Body { figures, settings, preview }).and_then(|line| print_line(&line))
        }
        Style::Text => print(&text(&report, settings.as_deref().unwrap_or_default(), &preview)),
    };
    for fault in report.error.iter().chain(printed.as_ref().err()) {
        complain(fault, context.paint);
    }
    if printed.is_err() && exit == Exit::Done { Exit::Failed } else { exit }
}

async fn attempt(
    context: &Context,
    args: &import::Args,
    report: &mut Report,
    wanted: &mut Wanted,
    budget: &mut Option<Budget>,
    files: &mut Files,
) -> Result<(), Fault> {
    let profile = args.profile.as_deref();
    args.rejects.as_deref().map_or(Ok(()), |path| context.check_output(path))?;
    args.check_outputs()?;
    if profile.is_none() {
        check(&args.request(context, &args.given())?)?;
    }
    // There may be no database yet: then everything would be new.
    let real = match context.open(Access::Existing).await {
        Ok(store) => Some(store),
        Err(fault) if fault.code == Code::DatabaseNotFound => None,
        Err(fault) => return Err(fault),
    };
    let layered = match (profile, &real) {
        (None, _) => args.given(),
        (Some(name), None) => return Err(profiles::no_profile(name)),
        (Some(name), Some(store)) => profiles::under(store, name, &args.reading).await?,
    };
    let given = args.request(context, &layered)?;
    check(&given)?;
    wanted.clone_from(&given.wanted);
    *budget = given.max_rejects;
    let name = ListName::parse(&given.list)?;
    let list = match &real {
        None => None,
        Some(store) => match store.list_id(name.as_str()).await? {
            Some(id) => Some(id),
            None => {
                let names = store.list_names().await?;
                if given.new_list == NewList::Refuse && !names.is_empty() {
                    return Err(unknown_list(name.as_str(), &names, "pass --create-list to create it"));
                }
                None
            }
        },
    };
    let failed = |error: std::io::Error| Fault::new(Code::UnwritableFile, format!("no scratch folder: {error}"));
    let folder = tempfile::Builder::new().prefix("enlist-check-").tempdir().map_err(failed)?;
    let scratch =
        Store::scratch(folder.path(), real.as_ref().zip(list)).await.map_err(StoreError::into_fault_midway)?;
    // The scratch store's own batches may be larger, and what is folded depends on them.
    let engine = match (&real, &context.database) {
        (Some(store), _) => store.engine(),
        (None, Ok(choice)) => choice.target.engine(),
        (None, Err(fault)) => return Err(fault.clone()),
    };
    let (duplicates, file) = args.duplicates.as_deref().map(DuplicatesFile::begin).unzip();
    let request = Request {
        batch_rows: given.batch_rows.or(Some(batch_rows(engine))),
        duplicates,
        new_list: NewList::Create,
        entry: Entry::Auto,
        preview: SHOWN_ROWS,
        state_dir: folder.path().to_path_buf(),
        // What did not happen is told to nobody.
        notify: None,
        ..given
    };
    let stop = Stop::new();
    signals::listen(stop.clone(), context.volume)?;
    let progress = Progress::start(context.display, context.volume);
    *report = run_import(&scratch, &request, &stop, &|event| progress.on_event(event)).await;
    progress.finish();
    drop(request);
    if let Some(file) = file {
        files.duplicates = file.end().await?;
    }
    report.list_created = list.is_none();
    if let (Some(path), Some(job), Some(settings)) = (&args.rejects, report.job, &report.settings) {
        rejects::write(&scratch, job, settings, Some(path)).await?;
        files.rejects = Some(path.clone());
    }
    scratch.close().await;
    if let Some(store) = real {
        store.close().await;
    }
    Ok(())
}

/// How the file was understood, and why so.
fn choices(settings: &Settings, wanted: &Wanted) -> Vec<Choice> {
    let why = |given: bool| if given { "as you said" } else { "found in the file" };
    let because = |name: &str| match name {
        "delimiter" => why(wanted.delimiter.is_some()),
        "encoding" => why(wanted.encoding.is_some()),
        "map phone" | "map name" | "map region" => {
            let field = name.trim_start_matches("map ");
            why(wanted.map.iter().any(|(mapped, _)| mapped.as_str() == field))
        }
        "set" => why(true),
        "region" => {
            if wanted.region.is_some() {
                "as you said"
            } else {
                "none was given"
            }
        }
        _ => "",
    };
    let shown = ["delimiter", "encoding", "map phone", "map name", "map region", "newer-by", "region", "set"];
    settings
        .named()
        .into_iter()
        .filter(|(name, value)| shown.contains(name) && (value != "none" || *name == "region" || *name == "map name"))
        .map(|(name, value)| {
            let because = match wanted.origins.get(name) {
                Some(origin) => format!("from {origin}"),
                None => because(name).to_owned(),
            };
            Choice { name, value, because }
        })
        .collect()
}

fn preview(report: &Report) -> Vec<Shown> {
    let Some(settings) = &report.settings else { return Vec::new() };
    report.preview.iter().map(|row| shown(row, settings)).collect()
}

fn shown(row: &PreviewRow, settings: &Settings) -> Shown {
    let (stored, reason, detail) = match &row.outcome {
        Outcome::Blank => (None, None, None),
        Outcome::Reject(reject) => (None, Some(reject.reason.code()), Some(reject.detail.clone())),
        Outcome::Recipient(recipient) => {
            let said = settings.attribute_keys().zip(recipient.attributes.iter());
            let attributes = said.filter_map(|(key, value)| Some((key.to_owned(), value?.into()))).collect();
            let phone = recipient.phone.as_str().to_owned();
            (Some(Stored { phone, name: recipient.name.clone(), attributes }), None, None)
        }
    };
    Shown { line: row.line, cells: row.cells.clone(), stored, reason, detail }
}

fn text(report: &Report, choices: &[Choice], preview: &[Shown]) -> String {
    let mut out = String::new();
    if let Some(settings) = &report.settings {
        let rows: Vec<(String, String)> = choices
            .iter()
            .map(|choice| {
                let because = if choice.because.is_empty() { String::new() } else { format!(" ({})", choice.because) };
                (choice.name.to_owned(), format!("{}{because}", choice.value))
            })
            .collect();
        out.push_str("how the file is read\n");
        out.push_str(&pairs(&rows));
        if settings.header_row == HeaderRow::Present {
            let attributes: Vec<&str> = settings.attribute_keys().collect();
            let attributes = if attributes.is_empty() { "none".to_owned() } else { attributes.join(", ") };
            out.push_str(&pairs(&[("attributes".to_owned(), attributes)]));
        }
    }
    if !preview.is_empty() {
        out.push_str("\nthe first rows\n");
    }
    let delimiter = report.settings.as_ref().map_or_else(String::new, |s| visible(s.dialect.delimiter as char));
    for row in preview {
        let cells = row.cells.join(if delimiter == "tab" { " | " } else { &delimiter });
        out.push_str(&format!("  line {}: {}\n", row.line, head(&cells, 70)));
        match (&row.stored, row.reason) {
            (Some(stored), _) => {
                let name = stored.name.as_deref().unwrap_or("no name");
                out.push_str(&format!(
                    "    → {} {name} {}\n",
                    stored.phone,
                    serde_json::Value::from(stored.attributes.clone())
                ));
            }
            (None, Some(reason)) => {
                out.push_str(&format!("    → refused: {reason}: {}\n", row.detail.as_deref().unwrap_or_default()));
            }
            (None, None) => {}
        }
    }
    if report.error.is_none() {
        let list = if report.list_created { "a new list" } else { "the list" };
        out.push_str(&format!("\nan import into {list} '{}' now would find\n", report.list));
        for line in summary::figures(report).into_iter().chain(summary::reasons(report)) {
            out.push_str(&line);
            out.push('\n');
        }
        for warning in report.warnings.iter().filter(|warning| warning.code != "nothing_stored") {
            out.push_str(&format!("warning: {}\n", warning.message));
        }
        out.push_str("nothing was written\n");
    }
    out
}
