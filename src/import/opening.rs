//! The first reading of an input, which may take long or never end.
//!
//! Owns waiting for it and giving it up. It does not know what is read. Invariant: a wish to stop ends the
//! waiting within moments, although nothing was begun yet; a half-written spool file is removed where its
//! writer can be reached.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::batch::Outcome;
use crate::fault::{Code, Fault};
use crate::import::entrance::{Opened, open_input, settings, stop_fault};
use crate::import::expect;
use crate::import::remove_sheet;
use crate::import::report::{Event, PreviewRow, Request};
use crate::import::rows::Rows;
use crate::settings::Settings;
use crate::source::{SpoolFolder, Survey};
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
    spools: SpoolFolder,
    stop: &Stop,
    events: &UnboundedSender<Event>,
) -> Result<(Opened, Settings, Vec<PreviewRow>), Fault> {
    let (request, stopping, events) = (request.clone(), stop.clone(), events.clone());
    let span = tracing::Span::current();
    let mut reading = tokio::task::spawn_blocking(move || {
        let _entered = span.enter();
        let opened = open_input(&request, continued.as_ref(), &spools, &stopping, &events)?;
        let planned = settings(&request, &opened, continued.as_ref())
            .and_then(|settings| {
                expect::check_rows(&opened.survey, &settings, &request.expected, &|| stop_fault(&stopping))?;
                Ok(settings)
            })
            .and_then(|settings| Ok((preview(&opened.survey, &settings, request.preview)?, settings)));
        match planned {
            Ok((preview, settings)) => Ok((opened, settings, preview)),
            Err(fault) => {
                // Nothing comes of the sheet, and its text can be made again.
                remove_sheet(opened.survey.sheet_spool());
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

/// The first rows that are not blank, as they are read and judged.
fn preview(survey: &Survey, settings: &Settings, rows: usize) -> Result<Vec<PreviewRow>, Fault> {
    let mut seen = Vec::new();
    if rows == 0 {
        return Ok(seen);
    }
    let mut read = Rows::from(survey, settings, settings.data_start)?;
    while seen.len() < rows
        && let Some((row, outcome)) = read.next_row()?
    {
        if outcome != Outcome::Blank {
            let cells = (0..row.cells.len()).map(|at| String::from_utf8_lossy(row.cell(at)).into_owned()).collect();
            seen.push(PreviewRow { line: row.start.line, cells, outcome });
        }
    }
    Ok(seen)
}
