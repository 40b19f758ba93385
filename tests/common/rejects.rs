//! Reads reject files as a person's tools would.

use std::path::Path;

/// Line and reason of every row of a reject file; none when there is no file.
pub(crate) fn read_rejects(path: &Path) -> Result<Vec<(u64, String)>, String> {
    let Ok(bytes) = std::fs::read(path) else { return Ok(Vec::new()) };
    let text = String::from_utf8(bytes).map_err(|e| format!("the reject file is no UTF-8: {e}"))?;
    let text = text.trim_start_matches('\u{FEFF}');
    // The delimiter is the input's: it stands before the first of the four columns.
    let before = text.split("_line").next().unwrap_or_default().trim_end_matches('"');
    let delimiter = before.bytes().last().unwrap_or(b',');
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| e.to_string())?.clone();
    let column = |name: &str| {
        header.iter().position(|cell| cell == name).ok_or_else(|| format!("the reject file has no column {name}"))
    };
    let (line, reason) = (column("_line")?, column("_reason")?);
    reader
        .records()
        .map(|record| {
            let record = record.map_err(|e| e.to_string())?;
            let cell = |at: usize| record.get(at).unwrap_or_default();
            // A refused row may have kept more or fewer cells than the header; the four columns are its last.
            let from_end = |at: usize| cell((record.len() + at).saturating_sub(header.len()));
            [(cell(line), cell(reason)), (from_end(line), from_end(reason))]
                .iter()
                .find_map(|(line, reason)| Some((line.parse().ok()?, (*reason).to_owned())))
                .ok_or_else(|| format!("no line number in {record:?}"))
        })
        .collect()
}
