//! What an import is asked to do, and what it answers.
//!
//! Owns the request and the report. It does not know how they are written or printed. Invariant: every
//! figure of a report is a sum of committed run keys (rule 14).

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use crate::batch::Outcome;
use crate::destination::Destination;
use crate::fault::{Exit, Fault};
use crate::job::{JobId, State};
use crate::location::Location;
use crate::run::Counts;
use crate::settings::{Settings, Wanted};

/// What to do about a list that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewList {
    /// Refuse it, unless the database holds no list yet.
    Refuse,
    /// Create it.
    Create,
}

pub use crate::admission::Entry;
pub use crate::fault::Warning;
pub use crate::limits::Budget;
pub use crate::reject::ReasonCount;

/// The code of the warning that there is no reject file to be had any more.
pub const REJECTS_REMOVED: &str = "rejects_removed";

/// How long to wait for another holder of the same import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: answer `held`.
    No,
    /// Until it ended.
    Forever,
    /// At most so long.
    Until(Duration),
}

/// What is known about an input beforehand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// `--expect-rows`: rows that are not blank.
    pub rows: Option<u64>,
    /// `--expect-sha256`: of the file's own bytes, in hexadecimal.
    pub sha256: Option<String>,
    /// `--settle`: for how long the file must not have changed before it is read.
    pub settle: Option<Duration>,
}

/// One import, asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where the rows come from.
    pub input: Location,
    /// The list's name as written.
    pub list: String,
    /// What to do when there is no such list.
    pub new_list: NewList,
    /// The options that decide the outcome.
    pub wanted: Wanted,
    /// `--batch-size`: records of a batch of a *new* job.
    pub batch_rows: Option<u32>,
    /// `--writers`: lanes of a new job, and how many of them write at once.
    pub writers: Option<u16>,
    /// `--max-rejects`.
    pub max_rejects: Option<Budget>,
    /// What is known about the input beforehand.
    pub expected: Expected,
    /// `--max-changes`: how many of a hundred known people may get another name; nothing means 50.
    pub max_changes: Option<f64>,
    /// Who is told the rows that were folded into a later row of their phone, once the import is done.
    pub duplicates: Option<Sender<Listed>>,
    /// How many of the first rows to give back as they were read and judged.
    pub preview: usize,
    /// Which of `--again` and `--continue` was given.
    pub entry: Entry,
    /// `--wait`.
    pub wait: Wait,
    /// How long a holder may be silent before others may take over. At least 1 s.
    pub lease: Duration,
    /// The folder for spool files.
    pub state_dir: PathBuf,
    /// `--notify`: whom to tell how the job ended; nothing leaves a job's own as it is.
    pub notify: Option<Destination>,
}

/// A row that was folded into a later row of the same phone in the same batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateRow {
    /// The line on which it starts.
    pub line: u64,
    /// Its phone, E.164.
    pub phone: String,
    /// The line of the row that it was folded into.
    pub winning_line: u64,
    /// The headers of the columns in which it said something that a later row replaced.
    pub replaced: Vec<String>,
}

/// Folded rows as they are told.
#[derive(Debug)]
pub enum Listed {
    /// Some more, in file order.
    Rows(Vec<DuplicateRow>),
    /// There are no more: as many were told as the job's figure says.
    End,
}

/// A row as it was read and as it was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewRow {
    /// The line on which it starts.
    pub line: u64,
    /// Its cells.
    pub cells: Vec<String>,
    /// What became of it.
    pub outcome: Outcome,
}

/// The answer to a request, whatever happened.
#[derive(Debug, Clone)]
pub struct Report {
    /// The job, once there is one.
    pub job: Option<JobId>,
    /// The list's name as it is stored.
    pub list: String,
    /// Whether this run created the list.
    pub list_created: bool,
    /// Where the job stands.
    pub state: Option<State>,
    /// The whole job's figures, of this run and of those before.
    pub counts: Counts,
    /// Rows committed before this run.
    pub resumed_rows: u64,
    /// Rows committed by this run.
    pub this_run_rows: u64,
    /// Whether the answer is a finished job's stored result.
    pub replayed: bool,
    /// How often the job was begun, this run included; 0 without a job.
    pub attempt: u32,
    /// How long this run took.
    pub elapsed: Duration,
    /// What else to know.
    pub warnings: Vec<Warning>,
    /// The reasons for refused rows, most frequent first.
    pub reasons: Vec<ReasonCount>,
    /// The settings the job runs under, once they are resolved.
    pub settings: Option<Settings>,
    /// The first rows, as many as were asked for.
    pub preview: Vec<PreviewRow>,
    /// Why it stopped, when it did not end.
    pub error: Option<Fault>,
}

impl Report {
    /// A report on nothing yet.
    pub fn new(list: &str) -> Self {
        Self {
            job: None,
            list: list.to_owned(),
            list_created: false,
            state: None,
            counts: Counts::default(),
            resumed_rows: 0,
            this_run_rows: 0,
            replayed: false,
            attempt: 0,
            elapsed: Duration::ZERO,
            warnings: Vec::new(),
            reasons: Vec::new(),
            settings: None,
            preview: Vec::new(),
            error: None,
        }
    }

    /// How the process ends, given what `--max-rejects` said.
    ///
    /// A budget that was kept makes rejects an expected outcome (0); without one they are a finding (3).
    /// Rows read and none stored is a failure (1), so that a wrong file is never "done".
    pub fn exit(&self, max_rejects: Option<Budget>) -> Exit {
        if let Some(fault) = &self.error {
            return fault.code.exit();
        }
        if self.counts.rows > 0 && self.counts.stored() + self.counts.stale == 0 {
            return Exit::Failed;
        }
        if self.counts.rejected > 0 && max_rejects.is_none() {
            return Exit::Found;
        }
        Exit::Done
    }
}

/// Where an import stands, for a progress display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of decoded text committed by every lane.
    pub bytes: u64,
    /// Bytes of decoded text in all, where known beforehand.
    pub total_bytes: Option<u64>,
    /// The line up to which every lane committed.
    pub line: u64,
    /// The line from which this run resumed, when it did.
    pub resumed_line: Option<u64>,
    /// Rows committed, earlier runs included.
    pub rows: u64,
    /// Rows committed before this run.
    pub resumed_rows: u64,
    /// Rows refused, earlier runs included.
    pub rejected: u64,
}

/// What is told while an import runs.
#[derive(Debug, Clone)]
pub enum Event {
    /// Bytes of the input read by the pass that takes the fingerprint, of so many.
    Surveyed {
        /// Bytes read.
        bytes: u64,
        /// The input's size, where known.
        total: Option<u64>,
    },
    /// Something to say at once on standard error, for example that a dead holder was taken over.
    Note(String),
    /// Something was committed, or the import is about to begin.
    Progress(Progress),
}
