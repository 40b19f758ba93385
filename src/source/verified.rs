//! Raw blocks and their digests.
//!
//! Owns the 1 MiB block, the recording of digests and their comparison. It does not know what the bytes
//! mean. Invariant: `Verified` hands out a block only after its digest matched, and ends only where the
//! recorded file ended. Memory: one block, and 32 bytes for each MiB of the file.

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::Fault;

use super::changed;
use super::origin::{Origin, Raw};

/// The size of a block, in bytes.
pub(super) const BLOCK: usize = 1024 * 1024;

/// The digest of each block, in order.
pub(super) type Blocks = Vec<[u8; 32]>;

/// Reads up to one block; the end of the file leaves it short or empty.
fn read_block(file: &mut Raw, block: &mut Vec<u8>) -> io::Result<()> {
    block.clear();
    file.by_ref().take(BLOCK as u64).read_to_end(block)?;
    Ok(())
}

/// A file that is read for the first time: its digests are taken on the way.
#[derive(Debug)]
pub(super) struct Recorder {
    file: Raw,
    block: Vec<u8>,
    at: usize,
    whole: blake3::Hasher,
    blocks: Blocks,
    bytes: Arc<AtomicU64>,
}

/// A file as it was recorded.
#[derive(Debug, Clone)]
pub(super) struct Recording {
    pub(super) origin: Origin,
    /// How many bytes it has.
    pub(super) bytes: u64,
    pub(super) blocks: Arc<Blocks>,
}

impl Recording {
    /// Opens the file again, at its start. Errors: `file_changed`, and those of `open`.
    pub(super) fn open(&self) -> Result<Verified, Fault> {
        let (file, size) = self.origin.open()?;
        if size != self.bytes {
            return Err(changed(&self.origin));
        }
        Ok(Verified::new(file, self.clone()))
    }
}

impl Recorder {
    /// A recorder from the present place of the file on.
    pub(super) fn new(file: Raw) -> Self {
        let block = Vec::with_capacity(BLOCK);
        Self { file, block, at: 0, whole: blake3::Hasher::new(), blocks: Vec::new(), bytes: Arc::default() }
    }

    /// How many bytes were read so far; it can be asked while the recorder is lent to a decoder.
    pub(super) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes)
    }

    /// The digest of all bytes read, and the recording of what was read from `origin`.
    pub(super) fn finish(self, origin: Origin) -> (blake3::Hash, Recording) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        (self.whole.finalize(), Recording { origin, bytes, blocks: Arc::new(self.blocks) })
    }
}

impl BufRead for Recorder {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.block.len() {
            self.at = 0;
            read_block(&mut self.file, &mut self.block)?;
            if !self.block.is_empty() {
                self.whole.update(&self.block);
                self.blocks.push(*blake3::hash(&self.block).as_bytes());
                self.bytes.fetch_add(self.block.len() as u64, Ordering::Relaxed);
            }
        }
        Ok(self.block.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.block.len());
    }
}

/// A file that was recorded: each block is compared before it is handed out.
#[derive(Debug)]
pub(super) struct Verified {
    file: Raw,
    recording: Recording,
    block: Vec<u8>,
    at: usize,
    /// The block that is read next, at whose start `file` stands.
    next: u64,
    /// How much of it is to be passed over.
    skip: usize,
    /// A difference was found; nothing more is handed out.
    differs: bool,
}

impl Verified {
    fn new(file: Raw, recording: Recording) -> Self {
        Self { file, recording, block: Vec::with_capacity(BLOCK), at: 0, next: 0, skip: 0, differs: false }
    }
}

impl Seek for Verified {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let loaded = self.next.saturating_sub(1);
        let here = match self.block.is_empty() {
            true => self.next * BLOCK as u64 + self.skip as u64,
            false => loaded * BLOCK as u64 + self.at as u64,
        };
        let target = match to {
            SeekFrom::Start(byte) => Some(byte),
            SeekFrom::Current(offset) => here.checked_add_signed(offset),
            SeekFrom::End(offset) => self.recording.bytes.checked_add_signed(offset),
        };
        let target = target.ok_or(io::ErrorKind::InvalidInput)?;
        let number = target / BLOCK as u64;
        let within = usize::try_from(target % BLOCK as u64).unwrap_or_default();
        if number == loaded && within <= self.block.len() && !self.block.is_empty() {
            self.at = within;
        } else {
            self.file.seek(SeekFrom::Start(number * BLOCK as u64))?;
            self.block.clear();
            (self.at, self.next, self.skip) = (0, number, within);
        }
        Ok(target)
    }
}

impl BufRead for Verified {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.block.len() {
            self.block.clear();
            self.at = 0;
            if !self.differs {
                read_block(&mut self.file, &mut self.block)?;
                let recorded = usize::try_from(self.next).ok().and_then(|next| self.recording.blocks.get(next));
                // An empty block is right only where no block was recorded: at the end.
                self.differs = match recorded {
                    Some(digest) => blake3::hash(&self.block).as_bytes() != digest,
                    None => !self.block.is_empty(),
                };
                // At the end there is no next block, and whoever asks again stays there.
                self.next += u64::from(!self.block.is_empty());
                self.at = std::mem::take(&mut self.skip).min(self.block.len());
            }
            if self.differs {
                self.block.clear();
                self.at = 0;
                return Err(io::Error::other(changed(&self.recording.origin)));
            }
        }
        Ok(self.block.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.block.len());
    }
}

/// Reads out of the buffer of a `BufRead`.
pub(super) fn read_buffered(reader: &mut impl BufRead, into: &mut [u8]) -> io::Result<usize> {
    let here = reader.fill_buf()?;
    let len = here.len().min(into.len());
    if let (Some(into), Some(here)) = (into.get_mut(..len), here.get(..len)) {
        into.copy_from_slice(here);
    }
    reader.consume(len);
    Ok(len)
}

impl Read for Recorder {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, into)
    }
}

impl Read for Verified {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, into)
    }
}
