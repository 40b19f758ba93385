//! The command line as a contract: help, one JSON line, exit codes, signals, reject files, what is shown.

mod answers;
mod rejects;
mod shown;
mod signals;
