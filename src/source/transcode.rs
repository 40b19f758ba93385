//! Text of another character set as UTF-8.
//!
//! Owns the conversion of a stream. It does not know which character set is right. Invariant: the same
//! bytes give the same text however they are chunked; what is no character becomes U+FFFD.

use std::io::{self, BufRead, Read};

use encoding_rs::{CoderResult, Decoder, Encoding};

use super::verified::read_buffered;

/// What is converted at a time, in bytes of UTF-8.
const CHUNK: usize = 64 * 1024;

/// A reader of converted text.
pub(super) struct Transcoder<R> {
    raw: R,
    decoder: Decoder,
    text: Vec<u8>,
    at: usize,
    len: usize,
    ended: bool,
}

impl<R: BufRead> Transcoder<R> {
    /// A converter of `raw`, whose byte order mark is gone.
    pub(super) fn new(raw: R, charset: &'static Encoding) -> Self {
        let decoder = charset.new_decoder_without_bom_handling();
        Self { raw, decoder, text: vec![0; CHUNK], at: 0, len: 0, ended: false }
    }
}

impl<R: BufRead> BufRead for Transcoder<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.len && !self.ended {
            let here = self.raw.fill_buf()?;
            let last = here.is_empty();
            let (result, read, written, _) = self.decoder.decode_to_utf8(here, &mut self.text, last);
            self.raw.consume(read);
            (self.at, self.len) = (0, written);
            self.ended = last && result == CoderResult::InputEmpty;
        }
        Ok(self.text.get(self.at..self.len).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.len);
    }
}

impl<R: BufRead> Read for Transcoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, into)
    }
}
