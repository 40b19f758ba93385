//! `enlist completions`: a script that completes the command line.
//!
//! Owns the command. It does not know the grammar. Invariant: the script goes to standard output whole.

use clap::CommandFactory;
use serde::Serialize;

use crate::cli::Cli;
use crate::cli::answer::Context;
use crate::fault::{Exit, Fault};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist completions bash > ~/.local/share/bash-completion/completions/enlist
  enlist completions zsh > ~/.zfunc/_enlist")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[derive(Serialize)]
struct Body<'a> {
    shell: String,
    script: &'a str,
}

/// Runs the command.
pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "enlist", &mut script);
    let script = String::from_utf8_lossy(&script);
    context.answer(Exit::Done, &Body { shell: args.shell.to_string(), script: &script }, &script)
}
