//! The file of `--duplicates`: one line for each row that was folded into a later row of the same phone.
//!
//! Owns the file's layout and its writing while the import tells the rows. It does not know how they are found.
//! Invariant: the file takes its name only when every row is in it; memory does not grow with their number.

use std::path::{Path, PathBuf};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use crate::cli::output::Sink;
use crate::fault::{Code, Fault};
use crate::import::report::{DuplicateRow, Listed};
use crate::quoting::{PLAIN, push_record};

/// The columns of the file.
const COLUMNS: [&str; 4] = ["line", "phone", "winning_line", "replaced"];

/// A file in the making.
pub(crate) struct DuplicatesFile {
    path: PathBuf,
    writer: JoinHandle<Result<bool, Fault>>,
}

impl DuplicatesFile {
    /// Begins: the rows come through the sender; the file is opened with the first message.
    pub(crate) fn begin(path: &Path) -> (Sender<Listed>, Self) {
        let (sender, incoming) = channel(1);
        let target = path.to_owned();
        let writer = tokio::task::spawn_blocking(move || write(incoming, &target));
        (sender, Self { path: path.to_owned(), writer })
    }

    /// Waits for the end, once every sender is gone. The path, if the list was told to its end.
    ///
    /// # Errors
    /// The file cannot be written; what stood under its name is then still there.
    pub(crate) async fn end(self) -> Result<Option<PathBuf>, Fault> {
        let ended = self.writer.await;
        let whole =
            ended.map_err(|error| Fault::new(Code::Internal, format!("the writing ended early: {error}")))??;
        Ok(whole.then_some(self.path))
    }
}

/// Whether the rows came to their end.
fn write(mut incoming: Receiver<Listed>, path: &Path) -> Result<bool, Fault> {
    let mut sink: Option<Sink> = None;
    let mut text = Vec::new();
    while let Some(listed) = incoming.blocking_recv() {
        let mut open = match sink.take() {
            Some(open) => open,
            None => {
                push_record(&mut text, COLUMNS.map(str::as_bytes), &PLAIN);
                Sink::file(path)?
            }
        };
        if let Listed::Rows(rows) = &listed {
            rows.iter().for_each(|row| push_row(row, &mut text));
        }
        open.write(&text)?;
        text.clear();
        if matches!(listed, Listed::End) {
            return open.finish().map(|_| true);
        }
        sink = Some(open);
    }
    Ok(false)
}

fn push_row(row: &DuplicateRow, text: &mut Vec<u8>) {
    let (line, winning_line, replaced) = (row.line.to_string(), row.winning_line.to_string(), row.replaced.join("; "));
    let cells = [line.as_bytes(), row.phone.as_bytes(), winning_line.as_bytes(), replaced.as_bytes()];
    push_record(text, cells, &PLAIN);
}
