//! Which earlier job's refused rows a reject file brings back.
//!
//! Owns finding that job. It does not know how refused rows are stored. Invariant: a job is found only when it
//! refused every row that is looked at, with the same line, column, reason and detail. Each row is compared again
//! when it is stored, so what somebody changed or put together leaves rows open rather than mending wrong ones.

use crate::fault::{Code, Fault};
use crate::import::rows::Rows;
use crate::job::{JobId, ListId};
use crate::reject::RefusedAs;
use crate::settings::Settings;
use crate::source::Survey;
use crate::store::{Store, StoreError};

/// How many rows of the file are looked at.
const LOOKED_AT: usize = 100;

/// The newest import into `list` that refused the rows of this reject file; none where the input is no reject
/// file, or that of another list.
pub(crate) async fn origin(
    store: &Store,
    list: ListId,
    survey: &Survey,
    settings: &Settings,
) -> Result<Option<JobId>, Fault> {
    if settings.columns.reject_reason.is_none() {
        return Ok(None);
    }
    let (survey, settings) = (survey.clone(), settings.clone());
    let reading = tokio::task::spawn_blocking(move || refused_rows(&survey, &settings));
    let rows =
        reading.await.map_err(|error| Fault::new(Code::Internal, format!("the reading ended early: {error}")))??;
    store.refused_by(list, &rows).await.map_err(StoreError::into_fault_midway)
}

/// The first rows that say where they come from; rows that somebody added do not.
fn refused_rows(survey: &Survey, settings: &Settings) -> Result<Vec<RefusedAs>, Fault> {
    let mut rows = Rows::from(survey, settings, settings.data_start)?;
    let mut found: Vec<RefusedAs> = Vec::new();
    let mut looked_at = 0;
    while looked_at < LOOKED_AT && rows.next_row()?.is_some() {
        looked_at += 1;
        if let Some(row) = rows.refused_as()
            && !found.contains(&row)
        {
            found.push(row);
        }
    }
    Ok(found)
}
