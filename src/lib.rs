//! `enlist` imports recipient lists into SQLite or PostgreSQL so that a run can be killed anywhere and run
//! again: it resumes, makes no duplicates, loses no row, and every figure it prints was committed.
//!
//! Start reading at [`import`]: it is the sentence of the product. A reader should find the room for a change
//! from the file names alone.
//!
//! # The path of the data: one way
//!
//! ```text
//! source ─► decode ─► Row{position} ─► normalise ─► Recipient | Reject ─► batch, split into lanes
//!        ─► store.commit(lane part)  ONE transaction: position, run key, upsert, rejects, fence ─► progress
//! ```
//!
//! Nothing flows back but committed counters, the stop token and errors. Reading is synchronous and runs in a
//! thread of its own; a bounded channel per lane holds it back while the database is busy, so memory does not
//! grow with the file.
//!
//! # The floors
//!
//! Imports go downwards only; `tests/tidy.rs` reads the sources and fails on a breach.
//!
//! | floor | modules | what they must not know |
//! |---|---|---|
//! | words | [`fault`] [`position`] [`row`] [`run`] [`recipient`] [`reject`] [`phone`] [`settings`] [`header`] [`list`] [`location`] [`limits`] [`job`] [`verdict`] [`once`] [`batch`] [`admission`] [`owner`] [`stop`] [`backoff`] [`nearest`] [`quoting`] [`notification`] [`destination`] [`alert`] [`claim`] | IO, async, tokio, sqlx, clap, tracing |
//! | ground | [`clock`], `crash`, [`reject_file`] | the rest |
//! | times | [`window`] | who claims a window |
//! | edges | [`source`] [`decode`] [`mapping`] [`normalise`] [`holder`] [`store`] [`notify`] [`claims`] | one another |
//! | delivery | [`delivery`] | when jobs end, command lines, SQL |
//! | product | [`import`] | command lines, progress bars, SQL |
//! | alerts | [`alerts`] | who raises them, SQL |
//! | workers | [`queue`] | command lines, SQL |
//! | face | [`cli`] | SQL |
//!
//! Only [`store`] knows SQL, and nothing above it knows that there are two engines: one body serves both
//! through the macro `on!`, and a constant that differs is named with its engine. SQLite merges old and new
//! rows in Rust inside its write transaction, PostgreSQL in one statement per part; a test holds both to the
//! same outcome with random parts. Both begin with what costs least and turn to that only where it does not hold: into a
//! list that knows nobody of a part its rows are simply written (COPY on PostgreSQL), refused as a whole by the primary
//! key as soon as one is known; and rows that say exactly what is stored are told before anything is locked or merged.
//!
//! # The rules that make it exactly-once
//!
//! Each closes a hole that was shown by experiment or by an interleaving.
//!
//! 1. **Checkpoint and rows commit together.** No function saves rows without their checkpoint or a checkpoint
//!    without its rows ([`store::Session::commit`]).
//! 2. **The lane position is the checkpoint.** The first statement of every part moves it by compare-and-set.
//!    If that fails, everything in memory is forgotten, all lanes are read again, and reading begins at the
//!    smallest. The finishing transaction requires every lane at the end of the input.
//! 3. **Then the run key, the upsert and the rejects, and last the fence check**: the job is still `running`
//!    under this fence *and* this owner, share-locked on PostgreSQL. If not: roll back, stop, write nothing
//!    more. Lanes never update `jobs`: two share locks that both upgrade deadlock; the heartbeat alone does.
//! 4. **Keys come from content**, never from time, chance or attempt numbers: job key = list + fingerprint +
//!    settings; run key = job key + generation + lane + byte range. One unfinished job per list and
//!    fingerprint. A failed or cancelled job that is run again reopens its own row.
//! 5. **A frozen grid.** Batches (N records or 8 MiB) and lanes are settled when the job is created; another
//!    `--batch-size` or `--writers` changes how many run at once, not the grid. A partly read batch is dropped
//!    on stop. So every count of an interrupted job equals the uninterrupted one's.
//! 6. **Lanes keep order.** A fixed hash of the phone ([`job::lane_of`]) chooses the lane, which commits its
//!    parts in file order: the last row of the file wins whatever the number of writers. Rejects and blank
//!    rows belong to lane 0. Empty parts share a commit with the next part of their lane, or the last one.
//! 7. **Positions lie after the whole line end**, in bytes of the decoded text, with the line number. Plain
//!    UTF-8 seeks; anything else decodes again and discards.
//! 8. **Fingerprint before the first write**, with a digest per MiB; no block reaches the decoder before its
//!    digest matches. A file that changed underneath ends as `file_changed`. Same path, other content: a new
//!    job, and the old one is superseded. Behind an address every request asks for the version of the first
//!    answer (`If-Match`) and every answer is compared with it, and the digests are compared all the same.
//! 9. **Everything that decides the outcome is frozen with the job, resolved**
//!    ([`settings::Settings`]). Unfinished and other settings: `settings_changed`. Unfinished and other rules of
//!    the program ([`settings::RULES_VERSION`]): superseded, a new generation starts at byte 0.
//! 10. **Reruns.** A finished import answers from its stored result, unless another import wrote into the list
//!     since. `--again` forces a new generation or joins its unfinished one. Takeover at once only of a holder
//!     that is provably dead ([`owner::is_dead`]); everything unreadable waits for the lease. A job of which
//!     retention removed something is never resumed: a new generation begins.
//! 11. **Direct jobs** (`import`) are never claimed by workers, are not charged attempts when killed, and take
//!     over by compare-and-set on fence and owner. An import of a queued job runs it at once; stopped, it goes
//!     back to the workers.
//! 12. **Upserts are deterministic and quiet.** Duplicates are folded per part (the last non-empty value wins per
//!     column), rows sorted by phone, rows that would not change are not written, empty never overwrites, an
//!     opt-out is never revived and is itself an upsert.
//! 13. **Order between imports.** Both rows versioned: the older version is `stale`. Otherwise the job created
//!     later wins, also where it only confirmed what was stored: while an older job of the list may still go
//!     on, a confirmed row takes the later job's number. Rows of one phone with different versions follow each
//!     other in the same transaction.
//! 14. **Every number is derived from committed run keys**:
//!     `rows = inserted + updated + unchanged + stale + duplicates + rejected` ([`run::Counts::adds_up`]).
//! 15. **Relaxed durability only where it is harmless**: parts may commit asynchronously on PostgreSQL and
//!     under `synchronous = NORMAL` on SQLite; everything else is durable. A finish whose COMMIT went
//!     unanswered finds out what became of it.
//! 16. **A frozen holder is ended, not waited for.** Lock and idle timeouts stay below the lease, every connection
//!     of a session is named `enlist/JOB/FENCE`, and a takeover terminates those sessions first, then bumps the
//!     fence, and only then reads positions. On SQLite a process stopped inside a write transaction holds the
//!     file: others wait and say so.
//! 17. **The database's clock** judges leases, windows and ages. Isolation is READ COMMITTED, set explicitly; deadlocks and
//!     serialisation failures are retried per part with jitter.
//!
//! # The queue
//!
//! A queued job is the same job: `enqueue` settles everything that decides its outcome, and a worker runs it through
//! the same import ([`import::run_claimed`]) under a lease that it renews from the claim on.
//!
//! * The next job ([`store::Store::claim`]) is the first by priority and time whose list is free: no other job of it
//!   runs, and none that came earlier is due. The list's row is locked and looked at a second time, so two workers
//!   never run one list at once.
//! * What becomes of a run that ended with a fault is a table over codes ([`verdict`]): released, handed back, retried
//!   after a pause, failed. Only failures and rescues are charged.
//! * A sweep takes a job whose lease has ended, or whose holder is provably gone: it ends the holder's sessions, and
//!   the statement that takes the job repeats the condition ([`store::Store::sweep`]).
//! * Passes run once per window without a leader: whoever moves the schedule's high-water mark by compare-and-set has
//!   the window ([`window`], [`store::Store::claim_windows`]). A worker that lost the database waits two heartbeats
//!   before it sweeps, so that living holders renew their leases first.
//! * `NOTIFY` is a hint, looking is what counts. Workers look without a write lock on SQLite.
//!
//! # Alerts
//!
//! An event writes its alert into `alert_outbox` in its own transaction. Workers deliver the outbox at least once;
//! whether an alert then rings is decided by a claim on its key ([`claim`]), kept in the database or in Redis:
//! won for a short lease, and after sending marked as sent for the window. So a sender that dies delays an alert
//! and swallows none, and a claim store that cannot be asked within its deadline lets it ring.
//!
//! # Where this differs from what one might expect
//!
//! * Records are split by our own decoder: a stray quote costs its own line only, line ends of any mix are
//!   counted, and a seek into the middle gives the same rows as a full read. A CSV library is the oracle in the
//!   tests.
//! * `jobs.owner` names the process (boot id, pid namespace, pid, start time) besides its random part, so that a
//!   successor on the same machine can tell a dead holder from a slow one.
//! * `check` is the same import into a scratch SQLite file that copies what is stored about the phones of each
//!   part from the real database just before the part is committed: its figures are the import's, and nothing
//!   is written.
//! * A workbook's sheet is kept as CSV text under the state folder, so that positions, resume and rejects work as
//!   for any file; standard input is kept there for the same reason.
//! * A refused row is known again by its job, line, column, reason and detail: a reject file brings back the rows of
//!   the newest import into the list that refused all of its first rows, and each is noted as mended in the
//!   transaction that stores it.
//! * `--duplicates` reads the input once more when the job is done: what is folded is a function of the input, the
//!   frozen settings and the frozen grid, so nothing about it is stored.
//! * A database that goes away is waited for two leases; the next pass begins only after a heartbeat was answered.
//! * A notification of a job's end has the key job key + generation + number of the end + state. The number is
//!   counted in `jobs.ends`, because a queued job can be cancelled twice under one fence. It is written by
//!   `announce!` in the transaction of the end; [`delivery`] claims it, calls through [`notify`] and marks it.
//! * A pass needs no leader: a window is claimed by moving the schedule's mark forward by compare-and-set. A claim
//!   is not given back when its process dies; every pass looks at everything, so the next window makes up for it.
//! * Retention marks a job before the first of its rows goes, keeps the sum of its keys as its result, and checks
//!   in each statement that the job is finished. Keys go before their job: left behind, they would stop a later
//!   job of the same content.
//! * Reconciling locks nothing while it counts; the count is written only if no job of the list began or ended
//!   meanwhile. An audit reads by pages without a snapshot: what it finds wrong with a job counts only if retention
//!   did not touch that job meanwhile.
//! * There is no foreign key from `recipients` to `lists`: it costs a lookup per row, and a distributed table
//!   cannot have it. Lists are never deleted.

pub mod admission;
pub mod alert;
pub mod alerts;
pub mod backoff;
pub mod batch;
pub mod claim;
pub mod claims;
pub mod cli;
pub mod clock;
mod crash;
pub mod decode;
pub mod delivery;
pub mod destination;
pub mod fault;
pub mod header;
pub mod holder;
pub mod import;
pub mod job;
pub mod limits;
pub mod list;
pub mod location;
pub mod mapping;
pub mod nearest;
pub mod normalise;
pub mod notification;
pub mod notify;
pub mod once;
pub mod owner;
pub mod phone;
pub mod position;
pub mod profile;
pub mod queue;
pub mod quoting;
pub mod recipient;
pub mod reject;
pub mod reject_file;
pub mod row;
pub mod run;
pub mod settings;
pub mod source;
pub mod stop;
pub mod store;
pub mod verdict;
pub mod window;
