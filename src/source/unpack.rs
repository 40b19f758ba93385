//! zstd, bzip2 and xz, as their own tools read them, beside gzip and the entry of a zip archive.
//!
//! Owns which decoder reads which packing, members that follow one another, padding, the memory a decoder
//! may take and what is wrong with a damaged file. It does not know the text. Invariant: a reader of this
//! module ends without an error only after every member was whole and every packed byte was read.

use std::io::{self, BufRead, Read};

use bzip2::{Decompress, Status};
use liblzma::stream::{Action, CONCATENATED, Stream};
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, is_error_kind};

use crate::fault::{Code, Fault};

use super::Packing;
use super::archive::{Entry, EntryReader};
use super::gzip::Gunzip;

/// The largest window of a zstd frame, as a power of two: 128 MiB, what `zstd -d` takes unasked.
const ZSTD_WINDOW_LOG: u32 = 27;

/// What the xz decoder may take, in bytes: four times what `xz -9` needs.
const XZ_MEMORY: u64 = 256 * 1024 * 1024;

/// A reader of the text in `raw`, which starts at the file's first byte, or at the entry's where there is one.
pub(super) fn unpack<'a>(
    packing: Packing,
    entry: Option<Entry>,
    raw: impl BufRead + Send + 'a,
) -> Result<Box<dyn Read + Send + 'a>, Fault> {
    Ok(match packing {
        Packing::Plain => Box::new(raw),
        Packing::Gzip => Box::new(Gunzip::new(raw)),
        Packing::Zstd => Box::new(Unpacker::new(raw, Zstd::new()?)),
        Packing::Bzip2 => Box::new(Unpacker::new(raw, Bzip2::new())),
        Packing::Xz => Box::new(Unpacker::new(raw, Xz::new()?)),
        Packing::Zip => {
            let entry = entry.ok_or_else(|| Fault::new(Code::Internal, "the archive's entry was forgotten"))?;
            Box::new(EntryReader::new(raw, entry))
        }
    })
}

/// What a decoder did with a piece of input.
struct Step {
    read: usize,
    written: usize,
}

/// What is wrong with packed data.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Damaged,
    /// Something else stands behind the last member.
    Foreign,
    /// It would take more memory than is granted.
    TooLarge,
}

/// A decoder of members that follow one another.
trait Codec {
    /// The tool's name.
    const TOOL: &'static str;

    /// Unpacks some of `input` into `output`, which is not empty; an empty input is the end of the file.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Trouble>;

    /// Whether the input may end here.
    fn is_whole(&self) -> bool;
}

/// The unpacked bytes of all members, one after another.
struct Unpacker<R, C> {
    raw: R,
    codec: C,
    /// Nothing is handed out after an error.
    failed: bool,
}

impl<R: BufRead, C: Codec> Unpacker<R, C> {
    fn new(raw: R, codec: C) -> Self {
        Self { raw, codec, failed: false }
    }

    fn fail(&mut self, fault: Fault) -> io::Error {
        self.failed = true;
        io::Error::other(fault)
    }

    fn trouble(trouble: Trouble) -> Fault {
        let tool = C::TOOL;
        match trouble {
            Trouble::Damaged => damaged().hint(format!("copy the file again; '{tool} -t FILE' checks it")),
            Trouble::Foreign => {
                Fault::new(Code::UnreadableFile, format!("something that is not {tool} follows the compressed data"))
                    .hint(format!("copy the file again, or unpack it with {tool} and import the result"))
            }
            Trouble::TooLarge => Fault::new(
                Code::UnreadableFile,
                "the data was compressed with a window so large that unpacking it takes too much memory",
            )
            .hint(match tool {
                "zstd" => "unpack it: 'zstd -dc --long=31 FILE | enlist import - …'".to_owned(),
                _ => format!("unpack it: '{tool} -dc FILE | enlist import - …'"),
            }),
        }
    }
}

impl<R: BufRead, C: Codec> Read for Unpacker<R, C> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        if self.failed {
            return Err(io::Error::other(damaged()));
        }
        loop {
            let input = self.raw.fill_buf()?;
            let at_end = input.is_empty();
            match self.codec.step(input, into) {
                Ok(step) => {
                    self.raw.consume(step.read);
                    if step.written > 0 {
                        return Ok(step.written);
                    }
                    if at_end && self.codec.is_whole() {
                        return Ok(0);
                    }
                    if at_end {
                        return Err(self.fail(truncated()));
                    }
                    if step.read == 0 {
                        // A decoder that neither takes nor gives anything would be asked for ever.
                        return Err(self.fail(Self::trouble(Trouble::Damaged)));
                    }
                }
                Err(trouble) => return Err(self.fail(Self::trouble(trouble))),
            }
        }
    }
}

/// The compressed data breaks off.
pub(super) fn truncated() -> Fault {
    Fault::new(Code::TruncatedArchive, "the compressed data ends early; the import would not be complete")
}

/// The compressed data is not what was once written.
pub(super) fn damaged() -> Fault {
    Fault::new(Code::UnreadableFile, "the compressed data is damaged")
}

struct Zstd {
    context: DCtx<'static>,
    whole: bool,
}

impl Zstd {
    fn new() -> Result<Self, Fault> {
        let no_memory = || Fault::new(Code::Internal, "the zstd decoder cannot be made");
        let mut context = DCtx::try_create().ok_or_else(no_memory)?;
        context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(|_| no_memory())?;
        Ok(Self { context, whole: true })
    }
}

impl Codec for Zstd {
    const TOOL: &'static str = "zstd";

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Trouble> {
        if self.whole && input.is_empty() {
            return Ok(Step { read: 0, written: 0 });
        }
        let after_a_frame = self.whole;
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(output);
        let left = self.context.decompress_stream(&mut to, &mut from).map_err(|code| {
            if is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge) {
                Trouble::TooLarge
            } else if after_a_frame && is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_prefix_unknown) {
                Trouble::Foreign
            } else {
                Trouble::Damaged
            }
        })?;
        let step = Step { read: from.pos(), written: to.pos() };
        self.whole = left == 0;
        Ok(step)
    }

    fn is_whole(&self) -> bool {
        self.whole
    }
}

/// Where the reading of bzip2 stands.
enum Bzip2 {
    Member(Decompress),
    Between,
}

impl Bzip2 {
    fn new() -> Self {
        Self::Between
    }
}

impl Codec for Bzip2 {
    const TOOL: &'static str = "bzip2";

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Trouble> {
        let member = match (&mut *self, input.first()) {
            (Self::Between, Some(b'B')) => {
                *self = Self::Member(Decompress::new(false));
                return self.step(input, output);
            }
            (Self::Between, None) => return Ok(Step { read: 0, written: 0 }),
            (Self::Between, Some(0)) => {
                let zeros = input.iter().take_while(|byte| **byte == 0).count();
                return Ok(Step { read: zeros, written: 0 });
            }
            (Self::Between, Some(_)) => return Err(Trouble::Foreign),
            (Self::Member(member), _) => member,
        };
        let (in_before, out_before) = (member.total_in(), member.total_out());
        let status = member.decompress(input, output).map_err(|_| Trouble::Damaged)?;
        let step = Step {
            read: as_size(member.total_in() - in_before, input.len()),
            written: as_size(member.total_out() - out_before, output.len()),
        };
        if status == Status::StreamEnd {
            *self = Self::Between;
        }
        Ok(step)
    }

    fn is_whole(&self) -> bool {
        matches!(self, Self::Between)
    }
}

struct Xz {
    stream: Stream,
    whole: bool,
}

impl Xz {
    fn new() -> Result<Self, Fault> {
        let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)
            .map_err(|_| Fault::new(Code::Internal, "the xz decoder cannot be made"))?;
        Ok(Self { stream, whole: false })
    }
}

impl Codec for Xz {
    const TOOL: &'static str = "xz";

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Trouble> {
        use liblzma::stream::{Error, Status};
        if self.whole {
            return Ok(Step { read: 0, written: 0 });
        }
        let (in_before, out_before) = (self.stream.total_in(), self.stream.total_out());
        // Only the end of the file tells the decoder that no member and no padding follows.
        let action = if input.is_empty() { Action::Finish } else { Action::Run };
        let status = self.stream.process(input, output, action).map_err(|error| match error {
            Error::MemLimit | Error::Mem => Trouble::TooLarge,
            Error::Format => Trouble::Foreign,
            _ => Trouble::Damaged,
        })?;
        self.whole = status == Status::StreamEnd;
        Ok(Step {
            read: as_size(self.stream.total_in() - in_before, input.len()),
            written: as_size(self.stream.total_out() - out_before, output.len()),
        })
    }

    fn is_whole(&self) -> bool {
        self.whole
    }
}

/// How much a decoder says that it moved, which is at most what it was given.
fn as_size(moved: u64, most: usize) -> usize {
    usize::try_from(moved).unwrap_or(most).min(most)
}
