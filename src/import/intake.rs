//! From where an input lies to something that can be read as often as needed.
//!
//! Owns what is copied first, what is waited for and under which name an input is spoken of. It does not know
//! what the input holds. Invariant: what is stored and said about an address never holds its secrets; a copy
//! is kept only where its original cannot be read again and again.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::fault::Fault;
use crate::import::entrance::stop_fault;
use crate::import::expect;
use crate::import::feed::Feed;
use crate::import::report::Request;
use crate::location::{Address, Location};
use crate::source::{Origin, Reached, Server, Spool, SpoolFolder, must_spool};
use crate::stop::Stop;
use crate::store::JobRow;

/// How many leases long the server of an input may be away before the import stops, resumable: as long as a
/// database may.
const OUTAGE_LEASES: u32 = 2;

/// An input that can be read again.
pub(crate) struct Intake {
    pub(crate) origin: Origin,
    /// What `jobs.payload.source` says: an absolute path, an address without its secrets, or `-`.
    pub(crate) source: String,
    /// The copy that `origin` is, where one was made.
    pub(crate) spool: Option<Spool>,
    /// What messages call the copy.
    name: String,
}

impl Intake {
    /// Speaks of the input instead of its copy, whose path says nothing to whoever named the input.
    pub(crate) fn name(&self, fault: Fault) -> Fault {
        match &self.spool {
            None => fault,
            Some(spool) => {
                let message = fault.message.replace(&format!("'{}'", spool.path().display()), &self.name);
                Fault { message, ..fault }
            }
        }
    }
}

/// Waits until the input is quiet where that is asked for, and copies what cannot be read again.
///
/// Standard input and pipes are copied, and of addresses archives, workbooks and what a server reads in one
/// piece only. Errors: those of a server and of a copy, and what `stop` amounts to.
pub(crate) fn take(
    request: &Request,
    continued: Option<&JobRow>,
    spools: &SpoolFolder,
    stop: &Stop,
) -> Result<Intake, Fault> {
    let copy = |spool: Spool, source: String, name: String| Intake {
        origin: Origin::File(spool.path().to_owned()),
        source,
        spool: Some(spool),
        name,
    };
    let kept = || continued.and_then(|job| Spool::find(spools, &job.fingerprint));
    let intake = match &request.input {
        Location::Stdin => {
            let name = "standard input";
            let spool = match kept() {
                Some(spool) => spool,
                None => Spool::fill(&mut Feed::start(|| Ok(std::io::stdin()), stop), name, spools)?,
            };
            copy(spool, "-".to_owned(), name.to_owned())
        }
        Location::Path(path) => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            if must_spool(&absolute) {
                let name = "standard input";
                let spool = Spool::fill(&mut Feed::start(move || File::open(absolute), stop), name, spools)?;
                copy(spool, "-".to_owned(), name.to_owned())
            } else {
                let source = absolute.to_string_lossy().into_owned();
                Intake { origin: Origin::File(absolute), source, spool: None, name: String::new() }
            }
        }
        Location::Address(address) => {
            let (source, name) = (address.to_string(), format!("'{address}'"));
            if let Some(spool) = kept() {
                return Ok(copy(spool, source, name));
            }
            match reach(address, request, stop)? {
                Reached::InParts(object) if !object.must_copy() => {
                    Intake { origin: Origin::Object(object), source, spool: None, name }
                }
                Reached::InParts(object) => copy(Spool::fill(&mut object.reader(), &source, spools)?, source, name),
                Reached::Once(mut reader) => copy(Spool::fill(&mut reader, &source, spools)?, source, name),
            }
        }
    };
    if let (Some(quiet), Some(path)) = (request.expected.settle, intake.origin.path())
        && !matches!(request.input, Location::Address(_))
    {
        let look = || Origin::glance(path);
        expect::settle(&look, quiet, expect::Watch::Only, &|| stop_fault(stop)).map_err(|fault| intake.name(fault))?;
    }
    Ok(intake)
}

/// Asks the server for the file, once it is quiet.
fn reach(address: &Address, request: &Request, stop: &Stop) -> Result<Reached, Fault> {
    let stopping = stop.clone();
    let stopped = Arc::new(move || stop_fault(&stopping));
    let server = Server::new(address, request.lease * OUTAGE_LEASES, stopped)?;
    if let Some(quiet) = request.expected.settle {
        expect::settle(&|| server.glance(), quiet, expect::Watch::OrBelieve, &|| stop_fault(stop))?;
    }
    server.open()
}

/// Whether what an import left behind under the folder of copies can be had again from where it came.
pub(crate) fn can_be_had_again(source: &str) -> bool {
    matches!(Location::of(Path::new(source)), Location::Address(_))
}
