//! `enlist config`: each setting and where it came from.
//!
//! Owns the command. It does not know how settings are read. Invariant: no password is shown, and no
//! database is opened.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::answer::{Context, Display, Paint};
use crate::cli::config::Valued;
use crate::cli::notify;
use crate::cli::text::{Align, duration_word, table};
use crate::fault::{Exit, Fault};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist config
  enlist config --config ./enlist.toml --json

An option wins over a variable, a variable over the configuration file. Keys of the file: database_url,
database_url_file, claims_url, region, batch_size, writers, lease, max_connections, log_format, color, progress;
[alerts] window, webhook, webhook_file, command, email, kinds; [notify] url, receiver, lookup_url, secret_file,
give_up, timeout; [passes] sweep, reconcile, prune, audit; [retention] keys, rejects, jobs.")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Body<'a> {
    config_file: Option<String>,
    settings: BTreeMap<&'a str, ValueBody<'a>>,
}

#[derive(Serialize)]
struct ValueBody<'a> {
    value: &'a str,
    origin: &'a str,
}

/// Runs the command.
pub(crate) fn run(context: &Context, _args: &Args) -> Result<Exit, Fault> {
    let rows = rows(context)?;
    let body = Body {
        config_file: context.config.file.as_ref().map(|path| path.display().to_string()),
        settings: rows.iter().map(|[key, value, origin]| (key.as_str(), ValueBody { value, origin })).collect(),
    };
    let heading = [("SETTING", Align::Left), ("VALUE", Align::Left), ("FROM", Align::Left)];
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
    context.answer(Exit::Done, &body, &table(&heading, &cells))
}

fn rows(context: &Context) -> Result<Vec<[String; 3]>, Fault> {
    let choice = context.database.as_ref().map_err(Clone::clone)?;
    let config = &context.config;
    let on = |yes: bool| if yes { "on" } else { "off" }.to_owned();
    let mut origin = choice.origin.to_string();
    if choice.is_shared() {
        origin.push_str(" (only if it holds enlist's tables)");
    }
    let given = &context.given;
    let alerts_origin = config.alerts.origin.to_string();
    let mut rows = vec![
        ["database".to_owned(), choice.target.to_string(), origin],
        context.claims_row()?,
        ["alerts".to_owned(), context.bell()?.sinks().told(), alerts_origin],
        row("region", config.region.as_ref(), "none", Clone::clone),
        row("batch_size", config.batch_size.as_ref(), "by engine", ToString::to_string),
        row("writers", config.writers.as_ref(), "by engine", ToString::to_string),
        row("lease", config.lease.as_ref(), "30s", |lease| duration_word(*lease)),
        row("max_connections", given.max_connections.as_ref(), "by engine", ToString::to_string),
        row("log_format", given.log_format.as_ref(), "text", |format| format!("{format:?}").to_lowercase()),
        row("color", given.color.as_ref(), &format!("auto, {}", on(context.paint == Paint::Colors)), |color| {
            format!("{color:?}").to_lowercase()
        }),
        row("progress", given.progress.as_ref(), &on(context.display == Display::Progress), |progress| on(*progress)),
    ];
    rows.extend(notify::rows(&context.variables, &config.notify));
    rows.extend(config.passes.rows());
    Ok(rows)
}

fn row<T>(key: &str, valued: Option<&Valued<T>>, default: &str, text: impl Fn(&T) -> String) -> [String; 3] {
    match valued {
        Some(valued) => [key.to_owned(), text(&valued.value), valued.origin.to_string()],
        None => [key.to_owned(), default.to_owned(), "default".to_owned()],
    }
}
