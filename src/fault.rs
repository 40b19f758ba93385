//! What can stop a whole command, and how it ends then.
//!
//! Owns the error codes, their exit codes and what to do about each. It does not know who raises them.
//! Invariant: callers branch on `Code`, never on a message; a code keeps its exit code.

use std::borrow::Cow;

/// How a process ends (the table in README and DESIGN section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done or replayed.
    Done,
    /// 1: failed; running it again does not help.
    Failed,
    /// 2: usage or configuration; nothing was touched.
    Usage,
    /// 3: done, but something was found (rejects, findings).
    Found,
    /// 4: stopped from inside; running it again resumes.
    Stopped,
    /// 5: the source changed.
    SourceChanged,
    /// 75: not now; later.
    NotNow,
    /// 130: stopped by SIGINT after the batch in hand.
    Interrupted,
    /// 143: stopped by SIGTERM after the batch in hand.
    Terminated,
    /// Whatever the command said that was run (`once`).
    Passed(u8),
}

impl Exit {
    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Found => 3,
            Self::Stopped => 4,
            Self::SourceChanged => 5,
            Self::NotNow => 75,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::Passed(code) => code,
        }
    }

    /// Whether the same command, run again, can end better.
    pub fn retryable(self) -> bool {
        match self {
            Self::Stopped | Self::NotNow | Self::Interrupted | Self::Terminated => true,
            Self::Done | Self::Failed | Self::Usage | Self::Found | Self::SourceChanged | Self::Passed(_) => false,
        }
    }
}

/// Declares the error codes with their exit, what each means and what to do about it, in one table.
macro_rules! codes {
    ($($variant:ident $code:literal $exit:ident $means:literal $remedy:literal;)*) => {
        /// Why a command stopped. The codes are a contract (`error.code` in JSON, `enlist explain`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $means] $variant,)*
        }

        impl Code {
            /// Every code, in the order in which they are documented.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable code.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// How the process ends.
            pub fn exit(self) -> Exit {
                match self { $(Self::$variant => Exit::$exit,)* }
            }

            /// What it means, one sentence without a dot.
            pub fn means(self) -> &'static str {
                match self { $(Self::$variant => $means,)* }
            }

            /// What to do, one sentence without a dot.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }

            /// The code with this text.
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    EmptyFile "empty_file" Failed
        "the file, or the sheet, holds no text at all"
        "look at the program that made it: its export may have failed; of a workbook, name another sheet with --sheet";
    NoHeader "no_header" Failed
        "the first row does not name the columns: it is blank, broken, or a row like the others"
        "add a header, or pass --no-header and say by place which column holds the phones: --map phone=#1";
    NoPhoneColumn "no_phone_column" Failed
        "no header is one that is known for a column of phones"
        "name the column with --map phone=HEADER, or pass --skip-lines N when a title of N lines stands above the header";
    DuplicatePhoneColumn "duplicate_phone_column" Failed
        "more than one column could hold the phones, or one field is mapped twice"
        "say which column is meant, by its place: --map phone=#N";
    UnknownColumn "unknown_column" Failed
        "an option names a column that the header does not have"
        "compare its spelling with the headers that the message lists, or name it by its place: #N";
    TruncatedGzip "truncated_gzip" Failed
        "the gzip file ends early, so its last rows are missing"
        "copy or download the file again, and run the same command";
    TruncatedArchive "truncated_archive" Failed
        "the zstd, bzip2, xz or zip file ends early, so its last rows are missing"
        "copy or download the file again, and run the same command";
    IsZip "is_zip" Failed
        "the file is a zip archive that does not hold exactly one list that can be read"
        "unpack it, and import each list that you want by itself";
    IsXlsx "is_xlsx" Failed
        "the file is an Excel or OpenDocument workbook that cannot be read: damaged, protected or too large"
        "open it in a spreadsheet, save the sheet as CSV UTF-8, and import that";
    IsXls "is_xls" Failed
        "the file is an Excel workbook of the old kind (.xls) that cannot be read: damaged or protected"
        "open it in a spreadsheet, save the sheet as CSV UTF-8, and import that";
    UnknownSheet "unknown_sheet" Usage
        "--sheet names no sheet of the file"
        "pass one of the names that the message lists, or leave --sheet out to read the first";
    IsDirectory "is_directory" Failed
        "the path leads to a folder"
        "name one file in it; each file is an import of its own";
    NotFound "not_found" Failed
        "there is no file at that path"
        "compare the path with 'ls'; a path without a leading / is taken from the current folder";
    UnreadableFile "unreadable_file" Failed
        "the file is there but cannot be read, or is of a kind that is no list"
        "the message says why; for a permission, read it as a user who may, or copy it";
    RemoteNotBuilt "remote_not_built" Usage
        "this program was built without the feature that reads from addresses"
        "build it with 'cargo build --release --features remote', or pipe the file: 'curl … | enlist import -'";
    RemoteRefused "remote_refused" Usage
        "the server does not let this user read the file, or does not take the request"
        "check the address and what grants access to it";
    RemoteUnmeasured "remote_unmeasured" Failed
        "the server neither reads the file in parts nor says how long it is, so a cut answer could not be noticed"
        "download it first, or pipe it: 'curl … | enlist import -'";
    RemoteUnreachable "remote_unreachable" NotNow
        "the server of the input does not answer, or says that it cannot now"
        "check that host and port are right and that the network is there, then run again";
    RemoteStopped "remote_stopped" Stopped
        "the server of the input went away or refused in the middle of the work"
        "run the same command again when it answers, with a new address where a signed one has expired; it resumes";
    LineTooLong "line_too_long" Failed
        "the first line does not end within 1 MiB, so this is hardly a list"
        "look at the file's start in an editor: it may be another kind of file, or hold no line ends";
    BadEncoding "bad_encoding" Failed
        "the header holds bytes that are no characters in the file's character set"
        "save the file as UTF-8, or name its character set with --encoding (for example windows-1254)";
    FileChanged "file_changed" SourceChanged
        "the file is not the one that this import began with"
        "restore the file and run again, or import the new one as it is: that begins a new import";
    UnexpectedInput "unexpected_input" SourceChanged
        "the file is not the one that --expect-rows or --expect-sha256 describes; nothing was written"
        "copy the file again, for the upload may not be whole; if it is, correct the option";
    SettingsChanged "settings_changed" Usage
        "an unfinished import of this file into this list was begun with other settings"
        "finish it with --continue ID as it began, or begin anew with --again";
    TooManyRejects "too_many_rejects" Stopped
        "more rows were refused than --max-rejects allows"
        "'enlist check' with the same options shows every reason; a higher --max-rejects goes on";
    TooManyChanges "too_many_changes" Stopped
        "the file would rename more of the people it knows than --max-changes allows; often one column was sorted alone"
        "compare a few rows with the list; pass --max-changes 100% when the names are right";
    UnknownList "unknown_list" Usage
        "there is no list of that name"
        "check the spelling, or pass --create-list to create it";
    BadListName "bad_list_name" Usage
        "a list name has 1 to 200 characters and no control characters"
        "choose such a name";
    UnknownProfile "unknown_profile" Usage
        "there is no profile of that name"
        "'enlist profiles' lists them; 'enlist profiles save NAME' makes one";
    BadProfileName "bad_profile_name" Usage
        "a profile name has 1 to 200 characters and no control characters"
        "choose such a name";
    ProfileExists "profile_exists" Usage
        "there is a profile of that name already"
        "choose another name, or pass --replace";
    UnreadableProfile "unreadable_profile" Usage
        "the profile holds an option or a value that this program does not understand; a newer one saved it"
        "use the newer program, or save the profile again with 'enlist profiles save NAME --replace'";
    UnknownJob "unknown_job" Usage
        "there is no job with that number"
        "'enlist jobs' lists them; 'last' names the newest";
    BadQueueName "bad_queue_name" Usage
        "a queue name has 1 to 100 letters, digits, dots, dashes or underscores"
        "choose such a name";
    BadAlertKey "bad_alert_key" Usage
        "the key of an alert or of 'once' has 1 to 200 characters and no control characters"
        "choose such a key, the same on every replica";
    AlertUndelivered "alert_undelivered" NotNow
        "none of the receivers of alerts took the alert, so it counts as not rung"
        "check [alerts] in the configuration; run the same command again, it is not held back";
    ClaimsUnavailable "claims_unavailable" NotNow
        "the store that says who may go first cannot be asked, and --fail closed was given"
        "check --claims-url or the database; without --fail closed the command runs all the same";
    CommandNotStarted "command_not_started" Usage
        "the command that was to be run cannot be started"
        "check its path and permissions; the window is free again";
    JobState "job_state" Usage
        "the job is in a state in which that cannot be done"
        "'enlist jobs show ID' tells its state";
    Held "held" NotNow
        "another process is running this import"
        "run the same command when it is done, or pass --wait and let it wait for that";
    Paused "paused" NotNow
        "the job is paused"
        "'enlist jobs resume ID' lets it go on";
    Cancelled "cancelled" Stopped
        "the job was cancelled while it ran"
        "run the import again to go on from where it stopped";
    LeaseLost "lease_lost" Stopped
        "another process took this import over, so this one stopped writing"
        "nothing; the other process finishes it, and running again shows the result";
    JobsFailed "jobs_failed" Failed
        "the worker drained its queues, and some of their jobs failed"
        "'enlist jobs --state failed' lists them with their reasons";
    UnseenFile "unseen_file" NotNow
        "the worker drained its queues, but does not see the file of some of their jobs"
        "'enlist jobs --state queued' names the files; run a worker where they are, or enqueue paths that all workers see";
    GraceOver "grace_over" Stopped
        "the worker stopped before the jobs in hand could hand themselves back"
        "nothing is lost: their leases end by themselves; a longer --grace lets them finish their batch";
    HolderDied "holder_died" Stopped
        "the process that ran the job died, or was not heard of for longer than its lease"
        "'enlist jobs show ID' tells how often; look into that process's log, and for memory that ran out";
    Superseded "superseded" Stopped
        "this import was replaced by a newer one of the same file name"
        "nothing; the newer import counts";
    SkippedInput "skipped_input" Stopped
        "the database lost commits that it had confirmed, and they could not be repeated"
        "run the same command again";
    DatabaseNotFound "database_not_found" Usage
        "there is no database there, and this command does not create one"
        "check --database-url; 'enlist migrate' and 'enlist import' make the tables, 'createdb' a PostgreSQL database";
    DatabaseUnreachable "database_unreachable" NotNow
        "the database server does not answer"
        "check that it runs and that host and port are right, then run again";
    DatabaseRefused "database_refused" Usage
        "the database server refused the user, the password or the database name"
        "check --database-url; a role that may not use the tables needs 'enlist migrate --app-role NAME'";
    DatabaseReadOnly "database_read_only" Usage
        "the database cannot be written"
        "check the permissions of the file and its folder, or of the role, or connect to the primary server";
    DatabaseBusy "database_busy" NotNow
        "another process holds the database in a transaction"
        "wait for it to end, then run again";
    DatabaseStopped "database_stopped" Stopped
        "the database went away in the middle of the work"
        "run the same command again when it is back; it resumes";
    DatabaseFailed "database_failed" Failed
        "the database refused a statement"
        "this is likely a fault in enlist; the message names the statement's SQLSTATE";
    DiskFull "disk_full" Stopped
        "the disk that holds the database or the temporary files is full"
        "free some space and run the same command again; it resumes";
    SchemaOutdated "schema_outdated" NotNow
        "the database's tables are older than this program"
        "run 'enlist migrate' once";
    ForeignDatabase "foreign_database" Usage
        "the database belongs to another application: it holds tables, but not enlist's"
        "name enlist's own database with --database-url";
    RejectsIsInput "rejects_is_input" Usage
        "the reject file would overwrite the input"
        "choose another path for --rejects";
    UnwritableFile "unwritable_file" Usage
        "an output file cannot be written"
        "name a file in a folder that exists and that this user may write into";
    Usage "usage" Usage
        "the command line is not understood"
        "see 'enlist --help' and 'enlist COMMAND --help'";
    Config "config" Usage
        "the configuration is not understood or not safe to use"
        "'enlist config' shows each value and where it came from";
    Interrupted "interrupted" Interrupted
        "stopped by SIGINT after the batch in hand"
        "run the same command again; it resumes";
    Terminated "terminated" Terminated
        "stopped by SIGTERM after the batch in hand"
        "run the same command again; it resumes";
    NotAudited "not_audited" Failed
        "the audit could not look at everything, so nobody knows whether something is wrong"
        "put right what the message names and run it again";
    Internal "internal" Failed
        "something happened that should be impossible"
        "please report it with the message";
}

/// What to do about a region that does not exist.
pub const REGION_HINT: &str = "write its two-letter code, for example TR or GR";

/// One reason to stop, said once, at the top.
///
/// `message` is a lower-case fragment without a final dot that quotes what the user wrote; `hint` says
/// what to do next. Neither ever holds a password, a phone or a name.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What kind of reason.
    pub code: Code,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: Cow<'static, str>,
}

impl Fault {
    /// A fault with the code's usual advice.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: printable(message.into()), hint: Cow::Borrowed(code.remedy()) }
    }

    /// The same with better advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = match hint.into() {
            Cow::Borrowed(text) => Cow::Borrowed(text),
            Cow::Owned(text) => Cow::Owned(printable(text)),
        };
        self
    }

    /// The same once rows may have been written: what would have ended an import before it began leaves it
    /// to be resumed.
    #[must_use]
    pub fn midway(self) -> Self {
        match self.code {
            Code::RemoteRefused | Code::RemoteUnreachable => Self::new(Code::RemoteStopped, self.message),
            _ => self,
        }
    }
}

/// Something a person should know although the import went on. Codes are stable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// A stable code, for example `nothing_stored`.
    pub code: &'static str,
    /// A fragment for a person.
    pub message: String,
}

impl Warning {
    /// A warning.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: printable(message.into()) }
    }
}

/// A message without control characters, which a name or a cell that it quotes may hold and a terminal obeys:
/// white space becomes a blank, anything else `<U+001B>`.
fn printable(message: String) -> String {
    if !message.contains(char::is_control) {
        return message;
    }
    let mut out = String::with_capacity(message.len() + 16);
    for c in message.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() => out.push_str(&format!("<U+{:04X}>", c as u32)),
            c => out.push(c),
        }
    }
    out
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests;
