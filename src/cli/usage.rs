//! Command lines that are not understood, and the answers that clap gives itself (help, version).
//!
//! Owns the translation of clap's errors. It does not know the commands. Invariant: a usage error is one
//! line for people and one object under `--json`, like every other error.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ColorChoice, CommandFactory};

use crate::cli::Cli;
use crate::cli::answer::{Paint, Style, complain, print_failure};
use crate::cli::output::say;
use crate::fault::{Code, Exit, Fault};

/// What must be known of a command line before it is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hasty {
    /// Whether `--json` stands in it.
    pub(crate) style: Style,
    /// What `--color` says.
    pub(crate) color: ColorChoice,
    /// The command that it seems to be.
    pub(crate) command: Option<String>,
}

impl Hasty {
    /// Reads the two options, as far as `--`.
    pub(crate) fn of(args: &[OsString]) -> Self {
        let mut hasty = Self { style: Style::Text, color: ColorChoice::Auto, command: None };
        let grammar = Cli::command();
        let mut before = "";
        for arg in args.iter().skip(1).take_while(|arg| *arg != "--") {
            let arg = arg.to_str().unwrap_or_default();
            if arg == "--json" {
                hasty.style = Style::Json;
            }
            if hasty.command.is_none() && grammar.find_subcommand(arg).is_some() {
                hasty.command = Some(format!("enlist {arg}"));
            }
            let color = arg.strip_prefix("--color=").or((before == "--color").then_some(arg));
            hasty.color = match color {
                Some("never") => ColorChoice::Never,
                Some("always") => ColorChoice::Always,
                _ => hasty.color,
            };
            before = arg;
        }
        hasty
    }
}

/// Ends a command line that clap did not let through.
pub(crate) fn end(error: &clap::Error, hasty: &Hasty) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Styled only where clap itself would style it.
            return match error.print() {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Failed,
                _ => Exit::Done,
            };
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if hasty.style == Style::Text => {
            say(error.render().to_string().trim_end());
            return Exit::Usage;
        }
        _ => {}
    }
    let fault = fault(error, hasty);
    complain(&fault, Paint::Plain);
    if hasty.style == Style::Json {
        print_failure(&fault);
    }
    Exit::Usage
}

/// Clap's paragraphs as a message and a hint.
fn fault(error: &clap::Error, hasty: &Hasty) -> Fault {
    let missing = [ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ErrorKind::MissingSubcommand];
    if missing.contains(&error.kind()) && hasty.command.is_none() {
        return Fault::new(Code::Usage, "a command is missing").hint("see 'enlist --help'");
    }
    let text = error.render().to_string();
    let mut message = Vec::new();
    let mut tips = Vec::new();
    let mut command = hasty.command.clone().unwrap_or_else(|| "enlist".to_owned());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            let is_word =
                |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && !word.starts_with('-');
            command = usage.split(' ').take_while(is_word).collect::<Vec<_>>().join(" ");
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            tips.push(tip.to_owned());
        } else if !line.starts_with("For more information") {
            message.push(line.strip_prefix("error: ").unwrap_or(line));
        }
    }
    tips.push(format!("see '{command} --help'"));
    Fault::new(Code::Usage, message.join(" ")).hint(tips.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn refused(line: &str) -> Fault {
        fault(&Cli::command().try_get_matches_from(words(line)).unwrap_err(), &Hasty::of(&words(line)))
    }

    #[test]
    fn usage_errors_are_one_sentence_and_name_the_help_of_their_command() {
        let fault = refused("enlist import a.csv");
        assert_eq!(fault.message, "the following required arguments were not provided: --list <NAME>");
        assert_eq!(fault.hint, "see 'enlist import --help'");
        let fault = refused("enlist import a.csv --list x --delimiter ||");
        assert!(fault.message.contains("not one ASCII character"), "{}", fault.message);
        assert_eq!(fault.hint, "see 'enlist import --help'");
        let fault = refused("enlist import a.csv --lst x");
        assert!(fault.hint.contains("'--list'"), "{}", fault.hint);
        assert!(refused("enlist impotr").hint.contains("'import'"));
    }

    #[test]
    fn json_is_seen_before_the_line_is_understood() {
        assert_eq!(Hasty::of(&words("enlist import --bad --json")).style, Style::Json);
        assert_eq!(Hasty::of(&words("enlist opt-out -- --json")).style, Style::Text);
        assert_eq!(Hasty::of(&words("enlist --color never --help")).color, ColorChoice::Never);
        assert_eq!(Hasty::of(&words("enlist --color=always lists")).color, ColorChoice::Always);
    }
}
