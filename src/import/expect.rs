//! What somebody knows about an input beforehand, held against it before anything is begun.
//!
//! Owns the three guards against an upload that is not whole: rows, digest, quiet. It does not know how the
//! input is imported. Invariant: what does not match is refused before a job or a list is created.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::batch::Outcome;
use crate::clock::Stopwatch;
use crate::fault::{Code, Fault};
use crate::import::report::Expected;
use crate::import::rows::Rows;
use crate::settings::Settings;
use crate::source::{Survey, fault_of};

/// How much is read at a time, in bytes.
const CHUNK: usize = 1024 * 1024;

/// Between two looks at a file that has to be quiet.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until the file at `path` has not changed for as long as `expected` asks, then compares its digest.
///
/// # Errors
/// `unexpected_input` when the digest is another; what `stopped` gives when somebody asked to stop.
pub(crate) fn check_file(path: &Path, expected: &Expected, stopped: &dyn Fn() -> Option<Fault>) -> Result<(), Fault> {
    if let Some(quiet) = expected.settle {
        settle(path, quiet, stopped)?;
    }
    let Some(wanted) = &expected.sha256 else { return Ok(()) };
    let failed = |error| fault_of(error, path);
    let (mut file, mut hasher, mut chunk) = (File::open(path).map_err(failed)?, Sha256::new(), vec![0; CHUNK]);
    loop {
        if let Some(fault) = stopped() {
            return Err(fault);
        }
        let length = file.read(&mut chunk).map_err(failed)?;
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
    Err(Fault::new(Code::UnexpectedInput, format!("'{}' has the SHA-256 {found}, not {wanted}", path.display())))
}

fn settle(path: &Path, quiet: Duration, stopped: &dyn Fn() -> Option<Fault>) -> Result<(), Fault> {
    let look = || fs::metadata(path).map(|found| (found.len(), found.modified().ok()));
    let mut seen = look().map_err(|error| fault_of(error, path))?;
    let mut since = Stopwatch::start();
    while since.worked() < quiet {
        if let Some(fault) = stopped() {
            return Err(fault);
        }
        std::thread::sleep(LOOK.min(quiet));
        let now = look().map_err(|error| fault_of(error, path))?;
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
    while let Some((_, outcome)) = rows.next()? {
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
