//! The first reading of an input, which may take long or never end.
//!
//! Owns waiting for it and giving it up. It does not know what is read. Invariant: a wish to stop ends the
//! waiting within moments, although nothing was begun yet; a half-written spool file is removed where its
//! writer can be reached.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::fault::{Code, Fault};
use crate::import::entrance::{Opened, open_input, settings, stop_fault};
use crate::import::remove_spools;
use crate::import::report::{Event, Request};
use crate::settings::Settings;
use crate::stop::Stop;
use crate::store::JobRow;

/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How long the reading thread may take to tidy up.
const TIDY: Duration = Duration::from_secs(1);

/// Opens the input, reads it once and resolves the settings, in a thread of its own.
pub(crate) async fn open(
    request: &Request,
    continued: Option<JobRow>,
    stop: &Stop,
    events: &UnboundedSender<Event>,
) -> Result<(Opened, Settings), Fault> {
    let (request, stopping, events) = (request.clone(), stop.clone(), events.clone());
    let mut reading = tokio::task::spawn_blocking(move || {
        let opened = open_input(&request, continued.as_ref(), &stopping, &events)?;
        match settings(&request, &opened, continued.as_ref()) {
            Ok(settings) => Ok((opened, settings)),
            Err(fault) => {
                // Nothing comes of the sheet, and its text can be made again.
                remove_spools(opened.survey.sheet_spool().map(PathBuf::from).as_slice());
                Err(fault)
            }
        }
    });
    loop {
        let ended = tokio::time::timeout(LOOK, &mut reading).await;
        if let Some(fault) = stop_fault(stop) {
            if ended.is_err() {
                // Whatever it finds, nothing comes of it.
                let _ = tokio::time::timeout(TIDY, &mut reading).await;
            }
            return Err(fault);
        }
        if let Ok(joined) = ended {
            return joined.map_err(|error| Fault::new(Code::Internal, format!("the reading ended early: {error}")))?;
        }
    }
}
