//! The options that every command takes.
//!
//! Owns their grammar and what becomes of them. It does not know the commands. Invariant: an option wins
//! over a variable, a variable over the configuration file, the file over the default.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::answer::{Context, Display, Given, Paint, Style, Volume};
use crate::cli::config::{Color, Config, LogFormat, Origin, Valued, Variables};
use crate::cli::database::{Choice, Flags};
use crate::fault::{Code, Fault};
use crate::import::PLAIN_PHONES;
use crate::store::Options;

/// Where claims are kept, if not in the database.
const CLAIMS_VARIABLE: &str = "ENLIST_CLAIMS_URL";

/// How long a database server may take to answer at first.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Args {
    /// Database: sqlite:PATH or postgres://… [env: ENLIST_DATABASE_URL]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "database_url_file")]
    pub(crate) database_url: Option<String>,
    /// File that holds the database URL, so that no process list shows it [env: ENLIST_DATABASE_URL_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) database_url_file: Option<PathBuf>,
    /// Where claims of alerts and 'once' are kept: redis://… or rediss://… [env: ENLIST_CLAIMS_URL] [default: the database]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) claims_url: Option<String>,
    /// Configuration file [default: $XDG_CONFIG_HOME/enlist/enlist.toml, else /etc/enlist/enlist.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Most connections to the database
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// Say more (twice: still more)
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// How log lines are written: text or json
    #[arg(long, global = true, value_name = "FORMAT", value_enum, hide_possible_values = true)]
    pub(crate) log_format: Option<LogFormat>,
    /// Show phones in full in log lines; they are masked without it
    #[arg(long, global = true)]
    pub(crate) log_pii: bool,
    /// Show no progress
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// When to use colours: auto, always or never (NO_COLOR is honoured)
    #[arg(long, global = true, value_name = "WHEN", value_enum, hide_possible_values = true)]
    pub(crate) color: Option<Color>,
    /// Answer with one JSON object, the only line on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// How much a command's log says when nobody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    /// Warnings.
    Command,
    /// What it does: the log is all there is to see.
    Service,
}

impl Args {
    /// Reads the configuration, sets logging up and settles what a command gets to know.
    pub(crate) fn context(&self, variables: Variables, talk: Talk) -> Result<Context, Fault> {
        // The grammar sees a conflict only where both stand on one side of the command.
        if self.database_url.is_some() && self.database_url_file.is_some() {
            let message = "--database-url cannot be used with --database-url-file";
            return Err(Fault::new(Code::Usage, message).hint("leave one of them out"));
        }
        if self.quiet && self.verbose > 0 {
            return Err(Fault::new(Code::Usage, "--quiet cannot be used with --verbose").hint("leave one of them out"));
        }
        let config = Config::load(self.config.as_deref(), &variables)?;
        let flags = Flags { url: self.database_url.as_deref(), url_file: self.database_url_file.as_deref() };
        let database = Choice::make(&flags, &variables, &config);
        let claims_variable = variables.get(CLAIMS_VARIABLE).map(|url| url.to_string_lossy().into_owned());
        let given = Given {
            claims_url: given(self.claims_url.clone(), "--claims-url", None)
                .or_else(|| claims_variable.map(|url| Valued::new(url, Origin::Variable(CLAIMS_VARIABLE))))
                .or_else(|| config.claims_url.clone()),
            max_connections: given(self.max_connections, "--max-connections", config.max_connections.as_ref()),
            log_format: given(self.log_format, "--log-format", config.log_format.as_ref()),
            color: given(self.color, "--color", config.color.as_ref()),
            progress: given(self.no_progress.then_some(false), "--no-progress", config.progress.as_ref()),
        };
        let max_connections = given.max_connections.as_ref().map(|valued| valued.value);
        let color = given.color.as_ref().map(|valued| valued.value).unwrap_or_default();
        let progress = !self.quiet && given.progress.as_ref().is_none_or(|valued| valued.value);
        let context = Context {
            style: if self.json { Style::Json } else { Style::Text },
            volume: if self.quiet { Volume::Quiet } else { Volume::Normal },
            paint: paint(color, &variables),
            display: if progress { Display::Progress } else { Display::Nothing },
            variables,
            database,
            options: Options { max_connections, connect_timeout: CONNECT_TIMEOUT },
            config,
            given,
        };
        self.start_log(&context, talk);
        Ok(context)
    }

    /// Log lines go to standard error: warnings, and with `-v` more. Statements are never logged with values.
    fn start_log(&self, context: &Context, talk: Talk) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => "error",
            (false, 0) if talk == Talk::Service => "info,sqlx=error",
            (false, 0) => "warn,sqlx=error",
            (false, 1) => "info,enlist=debug,sqlx=warn",
            (false, _) => "debug,enlist=trace,sqlx=info",
        };
        // The phone rules log the numbers that they read; clients of receivers and claim stores log their URLs.
        let phones = if self.log_pii { "trace" } else { "off" };
        let quiet = "rlibphonenumber=off,ureq=off,ureq_proto=off,rustls=warn,lettre=off,redis=off";
        let filter = format!("{level},{quiet},{PLAIN_PHONES}={phones}");
        let format = context.given.log_format.as_ref().map(|valued| valued.value);
        let builder = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
            .with_ansi(context.paint == Paint::Colors)
            .with_writer(std::io::stderr);
        // A second start in one process (tests) keeps the first one's log.
        let _ = match format.unwrap_or_default() {
            LogFormat::Text => builder.try_init(),
            LogFormat::Json => builder.json().try_init(),
        };
    }
}

/// The option's value, else the file's.
fn given<T: Clone>(flag: Option<T>, name: &'static str, file: Option<&Valued<T>>) -> Option<Valued<T>> {
    flag.map(|value| Valued::new(value, Origin::Flag(name))).or_else(|| file.cloned())
}

/// Whether standard error takes colours.
fn paint(color: Color, variables: &Variables) -> Paint {
    let wanted = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let dumb = variables.get("TERM").is_some_and(|term| term == "dumb");
            variables.get("NO_COLOR").is_none() && !dumb && std::io::stderr().is_terminal()
        }
    };
    if wanted { Paint::Colors } else { Paint::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_wins_over_the_file_and_no_color_over_the_terminal() {
        let file = Valued::new(5, Origin::File("f".into()));
        assert_eq!(given(Some(1), "--n", Some(&file)), Some(Valued::new(1, Origin::Flag("--n"))));
        assert_eq!(given(None, "--n", Some(&file)), Some(file));
        assert_eq!(given::<u8>(None, "--n", None), None);
        let no_color = Variables::from([("NO_COLOR", "1")]);
        assert_eq!(paint(Color::Auto, &no_color), Paint::Plain);
        assert_eq!(paint(Color::Always, &no_color), Paint::Colors);
    }
}
