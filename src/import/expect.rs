//! What somebody knows about an input beforehand, held against it before anything is begun.
//!
//! Owns the three guards against an upload that is not whole: rows, digest, quiet. It does not know how the
//! input is imported. Invariant: what does not match is refused before a job or a list is created.

use std::fmt::Write;
use std::io::Read;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::batch::Outcome;
use crate::clock::{Stopwatch, wall_clock};
use crate::fault::{Code, Fault};
use crate::import::report::Expected;
use crate::import::rows::Rows;
use crate::settings::Settings;
use crate::source::{Glance, Origin, Survey, fault_of};

/// How much is read at a time, in bytes.
const CHUNK: usize = 1024 * 1024;

/// Between two looks at a file that has to be quiet.
const LOOK: Duration = Duration::from_millis(100);

/// Between two questions to a server about a file that has to be quiet.
const ASK: Duration = Duration::from_secs(1);

/// What shows that an input is quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// That it does not change while it is looked at.
    Only,
    /// That as well, or the moment of its last change: servers put a file there when it is whole.
    OrBelieve,
}

/// Compares the digest of the input with what `expected` says.
///
/// # Errors
/// `unexpected_input` when the digest is another; what `stopped` gives when somebody asked to stop.
pub(crate) fn check_digest(
    origin: &Origin,
    expected: &Expected,
    stopped: &dyn Fn() -> Option<Fault>,
) -> Result<(), Fault> {
    let Some(wanted) = &expected.sha256 else { return Ok(()) };
    let (mut raw, _) = origin.open()?;
    let (mut hasher, mut chunk) = (Sha256::new(), vec![0; CHUNK]);
    loop {
        if let Some(fault) = stopped() {
            return Err(fault);
        }
        let length = raw.read(&mut chunk).map_err(|error| fault_of(error, origin))?;
        if length == 0 {
            break;
        }
        hasher.update(chunk.get(..length).unwrap_or_default());
    }
    let found = hasher.finalize().iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    if found.eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(Fault::new(Code::UnexpectedInput, format!("'{origin}' has the SHA-256 {found}, not {wanted}")))
}

/// Waits until what `look` sees has not changed for as long as `quiet`.
///
/// # Errors
/// Those of `look`; what `stopped` gives when somebody asked to stop.
pub(crate) fn settle(
    look: &dyn Fn() -> Result<Glance, Fault>,
    quiet: Duration,
    watch: Watch,
    stopped: &dyn Fn() -> Option<Fault>,
) -> Result<(), Fault> {
    let mut seen = look()?;
    let mut since = Stopwatch::start();
    let is_old =
        |seen: &Glance| watch == Watch::OrBelieve && seen.modified.is_some_and(|at| at.plus(quiet) <= wall_clock());
    let pause = if watch == Watch::Only { LOOK } else { ASK };
    while since.worked() < quiet && !is_old(&seen) {
        let paused = Stopwatch::start();
        while paused.worked() < pause.min(quiet) {
            if let Some(fault) = stopped() {
                return Err(fault);
            }
            std::thread::sleep(LOOK.min(quiet));
        }
        let now = look()?;
        if now != seen {
            (seen, since) = (now, Stopwatch::start());
        }
    }
    Ok(())
}

/// Compares the number of rows, blank ones left out, with what `expected` says. Reads the whole input.
///
/// # Errors
/// `unexpected_input` when there are more or fewer.
pub(crate) fn check_rows(
    survey: &Survey,
    settings: &Settings,
    expected: &Expected,
    stopped: &dyn Fn() -> Option<Fault>,
) -> Result<(), Fault> {
    let Some(wanted) = expected.rows else { return Ok(()) };
    let mut rows = Rows::from(survey, settings, settings.data_start)?;
    let mut found = 0_u64;
    while let Some((_, outcome)) = rows.next_row()? {
        if outcome != Outcome::Blank {
            found += 1;
        }
        if found.is_multiple_of(10_000)
            && let Some(fault) = stopped()
        {
            return Err(fault);
        }
    }
    if found == wanted {
        return Ok(());
    }
    Err(Fault::new(Code::UnexpectedInput, format!("the file has {found} rows, --expect-rows says {wanted}")))
}
