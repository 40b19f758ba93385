//! The command line: what can be asked, and which file answers.
//!
//! Owns the grammar and the one match over the commands. It does not know SQL or CSV. Invariant: only here
//! is anything printed, and every way out of `run` is an `Exit`.

mod alert;
mod alerting;
mod answer;
mod audit;
mod check;
mod completions;
mod config;
mod database;
mod doctor;
mod duplicates;
mod enqueue;
mod explain;
mod export;
mod findings;
mod global;
mod import;
mod jobs;
mod lists;
mod migrate;
mod notify;
mod once;
mod output;
mod paging;
mod pass;
mod phone_file;
mod profiles;
mod progress;
mod reading;
mod rejects;
mod settings;
mod sheet;
mod signals;
mod summary;
mod suppression;
mod text;
mod usage;
mod values;
mod work;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use crate::fault::Exit;
use answer::{Context, Paint, Style, complain, print_failure};
use config::Variables;

/// Imports recipient lists so that a run can be killed anywhere and run again.
#[derive(Debug, Parser)]
#[command(
    name = "enlist",
    version,
    subcommand_required = true,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  enlist import spring.csv --list spring --region TR
  enlist rejects last -o refused.csv
  enlist export --list spring -o spring-clean.csv
  enlist explain phone_invalid

Exit status:
  0 done    1 failed    2 usage, nothing touched    3 done with rejects or findings
  4 stopped, run again to resume    5 the file changed    75 not now, try later
  130, 143 stopped by a signal, run again to resume"
)]
struct Cli {
    #[command(flatten)]
    global: global::Args,
    #[command(subcommand)]
    command: Command,
}

/// Every command.
#[derive(Debug, Subcommand)]
enum Command {
    /// Import a file into a list, or go on with an import that was interrupted
    Import(Box<import::Line>),
    /// Read the whole file and say what an import would do, without writing anything
    Check(Box<check::Args>),
    /// Give an import to the workers
    Enqueue(Box<enqueue::Args>),
    /// Run queued jobs until stopped
    Work(work::Args),
    /// Write the recipients of a list out
    Export(export::Args),
    /// Show the lists, or create one
    Lists(lists::Args),
    /// Show the jobs, or steer one
    Jobs(jobs::Args),
    /// Write the refused rows of an import out, ready to be mended and imported again
    Rejects(rejects::Args),
    /// Mark phones as opted out: they are kept and never revived by an import
    OptOut(suppression::Args),
    /// Take an opt-out back
    OptIn(suppression::Args),
    /// Keep import options under a name
    Profiles(profiles::Args),
    /// Tell somebody, once per window, however many processes say so
    Alert(alert::Args),
    /// Run a command on the one process that is first in a window of time
    Once(once::Args),
    /// Create or upgrade the tables of a database
    Migrate(migrate::Args),
    /// Run a scheduled pass once, now
    Pass(pass::Args),
    /// Look for what is wrong with the database
    Doctor(doctor::Args),
    /// Look for what should be impossible, in every job and recipient
    Audit(audit::Args),
    /// Show each setting and where it came from
    Config(settings::Args),
    /// Tell what a reason or an error code means and what to do about it
    Explain(explain::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

impl Command {
    /// How much its log says when nobody asks: a worker's log is what it has to say.
    fn talk(&self) -> global::Talk {
        match self {
            Self::Work(_) => global::Talk::Service,
            _ => global::Talk::Command,
        }
    }
}

/// Runs one command line, the program's name first, and says how the process should end.
///
/// Never panics on any input; everything that there is to say was said when it returns.
pub async fn run(args: Vec<OsString>) -> Exit {
    let variables = Variables::of_process();
    let hasty = usage::Hasty::of(&args);
    let cli = match parse(&args, hasty.color) {
        Ok(cli) => cli,
        Err(error) => return usage::end(&error, &hasty),
    };
    let context = match cli.global.context(variables, cli.command.talk()) {
        Ok(context) => context,
        Err(fault) => {
            complain(&fault, Paint::Plain);
            if hasty.style == Style::Json {
                print_failure(&fault);
            }
            return fault.code.exit();
        }
    };
    dispatch(&context, cli.command).await
}

async fn dispatch(context: &Context, command: Command) -> Exit {
    let ended = match command {
        Command::Import(args) => Ok(import::run(context, &args).await),
        Command::Check(args) => Ok(check::run(context, &args.import).await),
        Command::Enqueue(args) => enqueue::run(context, &args).await,
        Command::Work(args) => work::run(context, &args).await,
        Command::Pass(args) => pass::run(context, &args).await,
        Command::Export(args) => export::run(context, &args).await,
        Command::Lists(args) => lists::run(context, &args).await,
        Command::Jobs(args) => jobs::run(context, &args).await,
        Command::Rejects(args) => rejects::run(context, &args).await,
        Command::OptOut(args) => suppression::opt_out(context, &args).await,
        Command::OptIn(args) => suppression::opt_in(context, &args).await,
        Command::Profiles(args) => profiles::run(context, &args).await,
        Command::Alert(args) => alert::run(context, &args).await,
        Command::Once(args) => once::run(context, &args).await,
        Command::Migrate(args) => migrate::run(context, &args).await,
        Command::Audit(args) => audit::run(context, &args).await,
        Command::Doctor(args) => doctor::run(context, &args).await,
        Command::Config(args) => settings::run(context, &args),
        Command::Explain(args) => explain::run(context, &args),
        Command::Completions(args) => completions::run(context, &args),
    };
    ended.unwrap_or_else(|fault| context.fail(&fault))
}

fn parse(args: &[OsString], color: clap::ColorChoice) -> Result<Cli, clap::Error> {
    let matches = Cli::command().color(color).try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        parse(&args, clap::ColorChoice::Never)
    }

    #[test]
    fn the_grammar_is_sound_and_every_command_shows_examples() {
        let mut command = Cli::command();
        command.build();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Example"), "{}", sub.get_name());
        }
    }

    #[test]
    fn global_options_stand_before_or_after_the_command() {
        for line in ["enlist --json -q lists", "enlist lists --json -q", "enlist lists -q create a --json"] {
            let cli = parsed(line).unwrap();
            assert!(cli.global.json && cli.global.quiet, "{line}");
        }
        assert!(parsed("enlist -v -q lists").is_err());
        assert!(parsed("enlist --database-url a --database-url-file b lists").is_err());
    }

    #[test]
    fn steering_needs_a_job() {
        assert!(parsed("enlist jobs show last").is_ok());
        assert!(parsed("enlist jobs cancel 7").is_ok());
        assert!(parsed("enlist jobs pause").is_err());
        assert!(parsed("enlist jobs --state running").is_ok());
        assert!(parsed("enlist jobs --state runing").is_err());
    }

    #[test]
    fn phones_come_from_the_line_or_from_a_file() {
        assert!(parsed("enlist opt-out --list a +905320000011 05320000012").is_ok());
        assert!(parsed("enlist opt-in --list a --file f").is_ok());
        assert!(parsed("enlist opt-out --list a").is_err());
        assert!(parsed("enlist opt-out --list a --file f +905320000011").is_err());
    }
}
