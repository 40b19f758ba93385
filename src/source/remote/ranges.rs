//! A file behind a server as a stream of bytes.
//!
//! Owns asking for one range after another, one ahead of the reader, and going on where an answer broke off.
//! It does not know what the bytes mean. Invariant: the bytes come out in order and without a gap, and all
//! of one version, or the reader fails; at most two ranges are held in memory.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use object_store::GetResult;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::clock::Stopwatch;
use crate::fault::{Code, Fault};

use super::trouble::{Trouble, judge};
use super::{Object, Server, unless_stopped};

/// The most that is asked for at once, in bytes.
const RANGE: u64 = 8 * 1024 * 1024;

/// The size of the first range after a seek, from which they double: often little is read there, and digests
/// are compared by the MiB.
const FIRST_RANGE: u64 = 1024 * 1024;

/// Before a range is asked for again of which nothing came.
const PAUSE: Duration = Duration::from_millis(200);

/// What a task hands to its reader.
type Piece = Result<Vec<u8>, Fault>;

/// A reader of a file behind a server. Reading blocks its thread, which must not be a worker of the runtime.
pub struct ObjectReader {
    /// What is read; nothing, where it can be read once only.
    object: Option<Object>,
    /// How many bytes there are.
    bytes: u64,
    /// How many bytes were handed out or sought over.
    at: u64,
    piece: Vec<u8>,
    used: usize,
    /// The task that asks ahead, once it was begun.
    pieces: Option<Receiver<Piece>>,
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectReader({:?} at {})", self.object, self.at)
    }
}

impl ObjectReader {
    /// A reader at the start.
    pub(super) fn in_parts(object: &Object) -> Self {
        Self { object: Some(object.clone()), bytes: object.bytes(), at: 0, piece: Vec::new(), used: 0, pieces: None }
    }

    /// A reader of an answer that holds the whole file and cannot be asked for again.
    pub(super) fn once(server: &Server, answer: GetResult) -> Self {
        let bytes = answer.meta.size;
        let (sender, pieces) = channel(1);
        let (address, seen, stopped) = (server.address.clone(), server.link.seen.clone(), server.stopped.clone());
        server.runtime.spawn(async move {
            let passed_on = async {
                let mut answer = answer.into_stream();
                while let Some(piece) = poll_fn(|context| answer.as_mut().poll_next(context)).await {
                    let piece = piece.map_err(|error| judge(&error, &seen).before(&address))?;
                    if sender.send(Ok(piece.to_vec())).await.is_err() {
                        break;
                    }
                }
                Ok(())
            };
            if let Err(fault) = unless_stopped(passed_on, &stopped).await {
                // A reader that went away needs no reason.
                let _ = sender.send(Err(fault)).await;
            }
        });
        Self { object: None, bytes, at: 0, piece: Vec::new(), used: 0, pieces: Some(pieces) }
    }

    /// Waits for the next piece.
    fn next_piece(&mut self) -> io::Result<()> {
        let pieces = match (&mut self.pieces, &self.object) {
            (Some(pieces), _) => pieces,
            (none, Some(object)) => {
                let (sender, pieces) = channel(1);
                object.0.runtime.spawn(ask_ahead(object.clone(), self.at, sender));
                none.insert(pieces)
            }
            (None, None) => return Err(io::ErrorKind::Unsupported.into()),
        };
        self.piece = match pieces.blocking_recv() {
            Some(piece) => piece.map_err(io::Error::other)?,
            // The task ends early only with the program.
            None => return Err(io::Error::other(Fault::new(Code::Internal, "the answer of the server was lost"))),
        };
        self.used = 0;
        Ok(())
    }
}

impl Read for ObjectReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.used == self.piece.len() {
            if self.at >= self.bytes {
                return Ok(0);
            }
            self.next_piece()?;
        }
        let here = self.piece.get(self.used..).unwrap_or_default();
        let length = here.len().min(into.len());
        if let (Some(into), Some(here)) = (into.get_mut(..length), here.get(..length)) {
            into.copy_from_slice(here);
        }
        self.used += length;
        self.at += length as u64;
        Ok(length)
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(byte) => Some(byte),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
            SeekFrom::End(offset) => self.bytes.checked_add_signed(offset),
        };
        let target = target.ok_or(io::ErrorKind::InvalidInput)?;
        if target == self.at {
            return Ok(target);
        }
        if self.object.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // The task of the old place ends when it finds nobody to hand its piece to.
        (self.at, self.piece, self.used, self.pieces) = (target, Vec::new(), 0, None);
        Ok(target)
    }
}

/// Asks for one range after another from `from` on, and hands them over.
async fn ask_ahead(object: Object, from: u64, pieces: Sender<Piece>) {
    let (mut at, mut size) = (from, FIRST_RANGE);
    while at < object.bytes() {
        // Nothing is asked for before there is room for it.
        let Ok(room) = pieces.reserve().await else { return };
        // Ranges end where blocks of a MiB end, wherever they begin.
        let end = ((at / FIRST_RANGE * FIRST_RANGE) + size).min(object.bytes());
        let fetched = tokio::select! {
            fetched = unless_stopped(fetch(&object, at, end), &object.0.stopped) => fetched,
            () = pieces.closed() => return,
        };
        let failed = fetched.is_err();
        room.send(fetched);
        if failed {
            return;
        }
        (at, size) = (end, (size * 2).min(RANGE));
    }
}

/// The bytes from `from` up to `to`. An answer that breaks off is gone on with from the byte that came last,
/// for as long as now and then one comes.
async fn fetch(object: &Object, from: u64, to: u64) -> Result<Vec<u8>, Fault> {
    let shared = &object.0;
    let length = usize::try_from(to - from).unwrap_or(usize::MAX);
    let mut bytes: Vec<u8> = Vec::with_capacity(length);
    let mut silent = Stopwatch::start();
    loop {
        let at = from + bytes.len() as u64;
        let asked = shared.link.store.get_opts(&shared.link.key, object.options(at..to)).await;
        let answer = asked.map_err(|error| judge(&error, &shared.link.seen).after(&shared.address))?;
        if !object.is_same(&answer.meta) {
            return Err(Trouble::Changed.after(&shared.address));
        }
        let mut answer = answer.into_stream();
        let mut broken = "the answer ended early".to_owned();
        while bytes.len() < length {
            match poll_fn(|context| answer.as_mut().poll_next(context)).await {
                Some(Ok(piece)) => {
                    let left = length - bytes.len();
                    bytes.extend_from_slice(piece.get(..left.min(piece.len())).unwrap_or_default());
                    silent = Stopwatch::start();
                }
                Some(Err(error)) => {
                    match judge(&error, &shared.link.seen) {
                        Trouble::Away(why) => broken = why,
                        trouble => return Err(trouble.after(&shared.address)),
                    }
                    break;
                }
                None => break,
            }
        }
        if bytes.len() == length {
            return Ok(bytes);
        }
        if silent.worked() >= shared.patience {
            return Err(Trouble::Away(broken).after(&shared.address));
        }
        tracing::info!(address = %shared.address, at = from + bytes.len() as u64, "asking for the rest of a range");
        if from + bytes.len() as u64 == at {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
