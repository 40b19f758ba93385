//! What SIGINT and SIGTERM do while an import runs.
//!
//! Owns the translation of signals into a request to stop. It does not know what stops. Invariant: the
//! first signal lets the batch in hand end; a second one ends the process at once, which loses nothing that
//! was committed.

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::answer::Volume;
use crate::cli::output::say;
use crate::fault::{Code, Fault};
use crate::stop::{Stop, StopCause};

/// Listens until the process ends.
///
/// # Errors
/// The signals cannot be listened to.
pub(crate) fn listen(stop: Stop, volume: Volume) -> Result<(), Fault> {
    let failed = |error: std::io::Error| Fault::new(Code::Internal, format!("signals cannot be handled: {error}"));
    let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::spawn(async move {
        loop {
            let (cause, number) = tokio::select! {
                Some(()) = interrupts.recv() => (StopCause::Interrupt, signal_hook::consts::SIGINT),
                Some(()) = terminations.recv() => (StopCause::Terminate, signal_hook::consts::SIGTERM),
                else => return,
            };
            if stop.cause().is_some() {
                let _ = signal_hook::low_level::emulate_default_handler(number);
            }
            if volume == Volume::Normal {
                say("stopping after the batch in hand; a second signal stops at once");
            }
            stop.request(cause);
        }
    });
    Ok(())
}
