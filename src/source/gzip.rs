//! gzip, as gzip(1) reads it.
//!
//! Owns members, padding and what is wrong with a damaged file. It does not know the text. Invariant: it
//! ends without an error only after every member was whole and every raw byte was read.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

use crate::fault::{Code, Fault};

/// The first byte of every member.
const MEMBER: u8 = 0x1F;

/// Where the reading stands.
#[derive(Debug)]
enum State<R> {
    Member(Box<GzDecoder<R>>),
    Between(R),
    /// Only while one state is turned into another, and after an error.
    Gone,
}

/// The uncompressed bytes of all members, one after another; zero padding behind one is skipped.
#[derive(Debug)]
pub(super) struct Gunzip<R> {
    state: State<R>,
}

impl<R: BufRead> Gunzip<R> {
    /// A reader of `raw`, which starts with a member.
    pub(super) fn new(raw: R) -> Self {
        Self { state: State::Between(raw) }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::Gone) {
                State::Member(mut member) => match member.read(into) {
                    Ok(0) => self.state = State::Between(member.into_inner()),
                    Ok(read) => {
                        self.state = State::Member(member);
                        return Ok(read);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => self.state = State::Member(member),
                    Err(error) => return Err(damaged(error)),
                },
                State::Between(mut raw) => {
                    let here = raw.fill_buf()?;
                    match here.first() {
                        None => {
                            self.state = State::Between(raw);
                            return Ok(0);
                        }
                        Some(&MEMBER) => self.state = State::Member(Box::new(GzDecoder::new(raw))),
                        Some(0) => {
                            let zeros = here.iter().take_while(|byte| **byte == 0).count();
                            raw.consume(zeros);
                            self.state = State::Between(raw);
                        }
                        Some(_) => {
                            return Err(io::Error::other(
                                Fault::new(
                                    Code::UnreadableFile,
                                    "something that is not gzip follows the compressed data",
                                )
                                .hint("copy the file again, or unpack it with gunzip and import the result"),
                            ));
                        }
                    }
                }
                State::Gone => {
                    return Err(io::Error::other(Fault::new(Code::UnreadableFile, "the compressed data is damaged")));
                }
            }
        }
    }
}

/// What an error in a member means; a fault of the raw reader stays what it is.
fn damaged(error: io::Error) -> io::Error {
    if error.get_ref().is_some_and(|inner| inner.is::<Fault>()) {
        return error;
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::other(Fault::new(
            Code::TruncatedGzip,
            "the compressed data ends early; the import would not be complete",
        )),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => io::Error::other(
            Fault::new(Code::UnreadableFile, "the compressed data is damaged")
                .hint("copy the file again; 'gzip -t FILE' checks it"),
        ),
        _ => error,
    }
}
