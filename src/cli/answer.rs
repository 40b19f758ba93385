//! The shapes in which a command answers.
//!
//! Owns the JSON envelope, the error line and the context that every command gets. It does not know any
//! command. Invariant: under `--json` standard output carries exactly one line, whatever happens.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::config::{Color, Config, LogFormat, Valued, Variables};
use crate::cli::database::Choice;
use crate::cli::output::{Reader, Sink, is_stdout, say};
use crate::fault::{Code, Exit, Fault};
use crate::store::{Access, Options, Store};

/// How the answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Text for people.
    Text,
    /// One JSON object.
    Json,
}

/// How much is said on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Volume {
    /// Errors only.
    Quiet,
    /// What a person wants to know.
    Normal,
}

/// Whether standard error takes colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// It does.
    Colors,
    /// It does not.
    Plain,
}

/// Whether an import shows how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// It does.
    Progress,
    /// It does not.
    Nothing,
}

/// What every command gets to know.
#[derive(Debug)]
pub(crate) struct Context {
    /// How to answer.
    pub(crate) style: Style,
    /// How much to say.
    pub(crate) volume: Volume,
    /// Whether to colour it.
    pub(crate) paint: Paint,
    /// Whether to show progress.
    pub(crate) display: Display,
    /// The environment.
    pub(crate) variables: Variables,
    /// The configuration file.
    pub(crate) config: Config,
    /// The database, or why none can be chosen; commands that need none do not care.
    pub(crate) database: Result<Choice, Fault>,
    /// How to connect.
    pub(crate) options: Options,
    /// What was said about the program itself, and where.
    pub(crate) given: Given,
}

/// Settings of the program itself that somebody stated.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// `--claims-url`. May hold a password.
    pub(crate) claims_url: Option<Valued<String>>,
    /// `--max-connections`.
    pub(crate) max_connections: Option<Valued<u32>>,
    /// `--log-format`.
    pub(crate) log_format: Option<Valued<LogFormat>>,
    /// `--color`.
    pub(crate) color: Option<Valued<Color>>,
    /// `--no-progress`.
    pub(crate) progress: Option<Valued<bool>>,
}

impl Context {
    /// Chooses the database and names it on standard error.
    ///
    /// # Errors
    /// No database can be chosen, or `DATABASE_URL` names one that is not enlist's.
    pub(crate) async fn choose(&self) -> Result<&Choice, Fault> {
        let choice = self.database.as_ref().map_err(Clone::clone)?;
        self.note(&format!("database: {} ({})", choice.target, choice.origin));
        if choice.is_shared() && !Store::holds_tables(&choice.target, &self.options).await? {
            return Err(choice.not_ours());
        }
        Ok(choice)
    }

    /// Opens the database that was chosen.
    pub(crate) async fn open(&self, access: Access) -> Result<Store, Fault> {
        let choice = self.choose().await?;
        if matches!(access, Access::Create) {
            choice.prepare()?;
        }
        Ok(Store::open(&choice.target, access, &self.options).await?)
    }

    /// The folder for what is kept between runs: spools and the texts of workbooks.
    pub(crate) fn state_dir(&self) -> PathBuf {
        let folder = self.variables.folder("XDG_STATE_HOME", ".local/state").map(|folder| folder.join("enlist"));
        folder.unwrap_or_else(std::env::temp_dir)
    }

    /// Refuses a file that is standard output itself, on which `--json` promises one object and nothing else.
    pub(crate) fn check_output(&self, path: &Path) -> Result<(), Fault> {
        if self.style == Style::Json && is_stdout(path) {
            let message = format!("'{}' is standard output, where --json answers with one object", path.display());
            return Err(Fault::new(Code::Usage, message).hint("name another file, or leave --json out"));
        }
        Ok(())
    }

    /// Says something on standard error, unless `-q` or there is nothing to say.
    pub(crate) fn note(&self, text: &str) {
        if self.volume == Volume::Normal && !text.is_empty() {
            say(text);
        }
    }

    /// Gives the answer of a command that went well: the object, or the text.
    pub(crate) fn answer<T: Serialize>(&self, exit: Exit, body: &T, text: &str) -> Result<Exit, Fault> {
        match self.style {
            Style::Json => print_line(&object(exit, None, body)?)?,
            Style::Text => print(text)?,
        };
        Ok(exit)
    }

    /// Ends a command that was stopped: says why once, and gives the object under `--json`.
    pub(crate) fn fail(&self, fault: &Fault) -> Exit {
        complain(fault, self.paint);
        if self.style == Style::Json {
            print_failure(fault);
        }
        fault.code.exit()
    }
}

/// The line on standard error that says why a command stopped.
pub(crate) fn complain(fault: &Fault, paint: Paint) {
    let line = error_line(fault);
    match (paint, line.strip_prefix("error:")) {
        (Paint::Colors, Some(rest)) => say(&format!("\u{1b}[1;31merror:\u{1b}[0m{rest}")),
        _ => say(&line),
    }
}

/// The object for a fault, on standard output. A reader that is not there changes nothing any more.
pub(crate) fn print_failure(fault: &Fault) {
    let exit = fault.code.exit();
    let failure =
        Failure { schema: SCHEMA, error: Error::of(fault), exit_code: exit.code(), retryable: exit.retryable() };
    if let Ok(line) = serde_json::to_string(&failure) {
        let _ = print_line(&line);
    }
}

/// `error: MESSAGE; HINT`, on one line.
fn error_line(fault: &Fault) -> String {
    let line = if fault.hint.is_empty() {
        format!("error: {}", fault.message)
    } else {
        format!("error: {}; {}", fault.message, fault.hint)
    };
    line.replace(['\n', '\r'], " ")
}

/// The version of the JSON objects; fields are only ever added to it.
pub(crate) const SCHEMA: u8 = 1;

/// `error` in an object.
#[derive(Debug, Serialize)]
pub(crate) struct Error {
    code: &'static str,
    message: String,
    hint: String,
}

impl Error {
    /// The fault as it is told.
    pub(crate) fn of(fault: &Fault) -> Self {
        Self { code: fault.code.as_str(), message: fault.message.clone(), hint: fault.hint.clone().into_owned() }
    }
}

#[derive(Serialize)]
struct Failure {
    schema: u8,
    error: Error,
    exit_code: u8,
    retryable: bool,
}

#[derive(Serialize)]
struct Envelope<'a, T: Serialize> {
    schema: u8,
    #[serde(flatten)]
    body: &'a T,
    exit_code: u8,
    retryable: bool,
    error: Option<Error>,
}

/// The object of an answer, on one line.
pub(crate) fn object<T: Serialize>(exit: Exit, fault: Option<&Fault>, body: &T) -> Result<String, Fault> {
    let envelope = Envelope {
        schema: SCHEMA,
        body,
        exit_code: exit.code(),
        retryable: exit.retryable(),
        error: fault.map(Error::of),
    };
    serde_json::to_string(&envelope)
        .map_err(|error| Fault::new(Code::Internal, format!("the answer cannot be written as JSON: {error}")))
}

/// Prints text on standard output.
pub(crate) fn print(text: &str) -> Result<Reader, Fault> {
    let mut out = Sink::stdout();
    out.write(text.as_bytes())?;
    out.finish()
}

/// Prints one line on standard output.
pub(crate) fn print_line(line: &str) -> Result<Reader, Fault> {
    print(&format!("{line}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_object_with_its_fields_in_order() {
        #[derive(Serialize)]
        struct Body {
            zeta: u8,
            alpha: u8,
        }
        let line = object(Exit::Found, None, &Body { zeta: 1, alpha: 2 }).unwrap();
        assert_eq!(line, r#"{"schema":1,"zeta":1,"alpha":2,"exit_code":3,"retryable":false,"error":null}"#);
    }

    #[test]
    fn an_error_is_one_line_whatever_its_message_holds() {
        let fault = Fault::new(Code::Usage, "no 'a\nb'").hint("try c");
        assert_eq!(error_line(&fault), "error: no 'a b'; try c");
        assert_eq!(error_line(&Fault::new(Code::Usage, "x").hint("")), "error: x");
    }
}
