//! Input that may never come: a terminal, a pipe that nobody writes into.
//!
//! Owns the thread that waits for it. It does not know what the bytes mean. Invariant: a reader of the feed
//! never waits for long after somebody asked to stop; the end of the feed is the end of the input, never the
//! end of its thread.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::import::entrance::stop_fault;
use crate::stop::Stop;

/// How much is handed over at a time, in bytes.
const CHUNK: usize = 256 * 1024;

/// Chunks that wait to be read.
const QUEUED: usize = 2;

/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// An input that is read by a thread of its own.
pub(crate) struct Feed {
    /// An empty chunk is the end of the input.
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    at: usize,
    stop: Stop,
}

impl Feed {
    /// Begins to read what `open` gives. Opening a named pipe may wait as well, so the thread does it.
    pub(crate) fn start<R: Read>(open: impl FnOnce() -> io::Result<R> + Send + 'static, stop: &Stop) -> Self {
        let (sender, chunks) = sync_channel(QUEUED);
        // The thread ends with the input, with its reader, or with the process.
        std::thread::spawn(move || {
            let mut input = match open() {
                Ok(input) => input,
                Err(error) => return drop(sender.send(Err(error))),
            };
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = match input.read(&mut chunk) {
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return drop(sender.send(Err(error))),
                };
                chunk.truncate(read);
                if sender.send(Ok(chunk)).is_err() || read == 0 {
                    return;
                }
            }
        });
        Self { chunks, chunk: Vec::new(), at: 0, stop: stop.clone() }
    }
}

impl Read for Feed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            if let Some(fault) = stop_fault(&self.stop) {
                return Err(io::Error::other(fault));
            }
            match self.chunks.recv_timeout(LOOK) {
                Ok(chunk) => {
                    self.chunk = chunk?;
                    self.at = 0;
                    if self.chunk.is_empty() {
                        return Ok(0);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the input's reader ended early")),
            }
        }
        let here = self.chunk.get(self.at..).unwrap_or_default();
        let length = here.len().min(into.len());
        if let (Some(into), Some(here)) = (into.get_mut(..length), here.get(..length)) {
            into.copy_from_slice(here);
        }
        self.at += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Code, Fault};
    use crate::stop::StopCause;

    #[test]
    fn everything_comes_through_and_then_the_end() {
        let text: Vec<u8> = (0..=255_u8).cycle().take(3 * CHUNK + 7).collect();
        let input = io::Cursor::new(text.clone());
        let mut read = Vec::new();
        Feed::start(|| Ok(input), &Stop::new()).read_to_end(&mut read).unwrap();
        assert!(read == text);
    }

    #[test]
    fn an_error_of_the_input_is_the_error_of_the_feed() {
        let open = || -> io::Result<io::Empty> { Err(io::ErrorKind::PermissionDenied.into()) };
        let error = Feed::start(open, &Stop::new()).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_silent_input_is_given_up_when_somebody_asks() {
        let stop = Stop::new();
        let (silent, _never_written) = io::pipe().unwrap();
        let mut feed = Feed::start(|| Ok(silent), &stop);
        stop.request(StopCause::Interrupt);
        let error = feed.read(&mut [0]).unwrap_err();
        assert_eq!(error.downcast::<Fault>().unwrap().code, Code::Interrupted);
    }
}
