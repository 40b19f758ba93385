//! Parses, runs, prints the error once, exits.

use std::io::Write;
use std::process::ExitCode;

use enlist::cli::Exit;

fn main() -> ExitCode {
    // Reads `FAILPOINTS`; nothing at all without the feature `failpoints`.
    let _crash_points = fail::FailScenario::setup();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ =
                writeln!(std::io::stderr(), "error: no threads can be started: {error}; check the limits of this user");
            return ExitCode::from(Exit::Failed.code());
        }
    };
    let exit = runtime.block_on(enlist::cli::run(std::env::args_os().collect()));
    // A thread that still reads from a terminal or a pipe must not hold the end up.
    runtime.shutdown_background();
    let signal = match exit {
        Exit::Interrupted => Some(signal_hook::consts::SIGINT),
        Exit::Terminated => Some(signal_hook::consts::SIGTERM),
        _ => None,
    };
    if let Some(signal) = signal {
        // The shell has to see the signal itself, or its loops go on.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    ExitCode::from(exit.code())
}
