//! Raw blocks and their digests.
//!
//! Owns the 1 MiB block, the recording of digests and their comparison. It does not know what the bytes
//! mean. Invariant: `Verified` hands out a block only after its digest matched, and ends only where the
//! recorded file ended. Memory: one block, and 32 bytes for each MiB of the file.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::sync::Arc;

use super::changed;

/// The size of a block, in bytes.
pub(super) const BLOCK: usize = 1024 * 1024;

/// The digest of each block, in order.
pub(super) type Blocks = Vec<[u8; 32]>;

/// Reads up to one block; the end of the file leaves it short or empty.
fn read_block(file: &mut File, block: &mut Vec<u8>) -> io::Result<()> {
    block.clear();
    file.by_ref().take(BLOCK as u64).read_to_end(block)?;
    Ok(())
}

/// A file that is read for the first time: its digests are taken on the way.
#[derive(Debug)]
pub(super) struct Recorder {
    file: File,
    block: Vec<u8>,
    at: usize,
    whole: blake3::Hasher,
    blocks: Blocks,
    bytes: u64,
}

impl Recorder {
    /// A recorder from the present place of the file on.
    pub(super) fn new(file: File) -> Self {
        let block = Vec::with_capacity(BLOCK);
        Self { file, block, at: 0, whole: blake3::Hasher::new(), blocks: Vec::new(), bytes: 0 }
    }

    /// How many bytes were read.
    pub(super) fn count(&self) -> u64 {
        self.bytes
    }

    /// The digest of all bytes read, and that of each block.
    pub(super) fn finish(self) -> (blake3::Hash, Blocks) {
        (self.whole.finalize(), self.blocks)
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
                self.bytes += self.block.len() as u64;
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
    file: File,
    path: PathBuf,
    block: Vec<u8>,
    at: usize,
    blocks: Arc<Blocks>,
    next: u64,
    /// A difference was found; nothing more is handed out.
    differs: bool,
}

impl Verified {
    /// A reader from block `next` on, at whose start `file` stands.
    pub(super) fn new(file: File, blocks: Arc<Blocks>, next: u64, path: PathBuf) -> Self {
        Self { file, path, block: Vec::with_capacity(BLOCK), at: 0, blocks, next, differs: false }
    }
}

impl BufRead for Verified {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.block.len() {
            self.at = 0;
            self.block.clear();
            if !self.differs {
                read_block(&mut self.file, &mut self.block)?;
                let recorded = usize::try_from(self.next).ok().and_then(|next| self.blocks.get(next));
                // An empty block is right only where no block was recorded: at the end.
                self.differs = match recorded {
                    Some(digest) => blake3::hash(&self.block).as_bytes() != digest,
                    None => !self.block.is_empty(),
                };
                self.next += 1;
            }
            if self.differs {
                self.block.clear();
                return Err(io::Error::other(changed(&self.path)));
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
