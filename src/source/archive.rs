//! A zip archive that holds one list.
//!
//! Owns finding the list among the entries, what to say when there is not exactly one, and reading it where
//! it lies. It does not unpack an archive to disk and trusts no size that the archive states. Invariant: the
//! entry's reader ends without an error only after the check sum of everything read was right.

use std::io::{self, BufRead, Read, Seek, SeekFrom, Take};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use memchr::memmem;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::fault::{Code, Fault};

use super::magic;
use super::unpack::{damaged, truncated};
use super::verified::{Recording, Verified};
use super::workbook::{Format, fault_in};

/// Endings of files that could be meant as the list, when an archive holds several files.
const LISTS: &[&str] = &[
    ".csv", ".tsv", ".tab", ".txt", ".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".csv.gz", ".csv.zst", ".csv.bz2",
    ".csv.xz", ".zip",
];

/// The longest end of an archive that its directory's end record may lie in, in bytes: 22, and a comment.
const END_RECORD: u64 = 22 + 65_535;

/// How many names a message lists.
const NAMES_SHOWN: usize = 5;

/// How much of an OpenDocument file's first entry is read, in bytes.
const MEDIA_TYPE: u64 = 128;

/// Where an entry lies and how it is packed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The first packed byte, from the start of the file.
    pub(super) start: u64,
    packed_bytes: u64,
    method: Method,
    /// The check sum of the content.
    crc: u32,
}

#[derive(Debug, Clone, Copy)]
enum Method {
    Stored,
    Deflated,
}

/// What an archive holds.
#[derive(Debug)]
pub(super) enum Content {
    /// One list.
    List(Entry),
    /// The parts of a workbook.
    Workbook(Format),
}

/// Looks into the archive that `head` begins. Errors: `is_zip`, `is_xlsx`, `truncated_archive`, `file_changed`.
pub(super) fn look(recording: &Recording, head: &[u8], shown: &str) -> Result<Content, Fault> {
    let mut archive = match ZipArchive::new(recording.open()?) {
        Ok(archive) => archive,
        Err(error) => return Err(unopened(&error, recording, head, shown)),
    };
    let broken = |error: &ZipError| fault_in(error).unwrap_or_else(|| magic::damaged_zip(head, shown));
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_data(index).map_err(|error| broken(&error))?;
        let name = entry.name().map_or_else(|_| String::from_utf8_lossy(entry.name_raw()).into_owned(), Into::into);
        let name: String = name.chars().filter(|c| !c.is_control()).map(|c| if c == '\\' { '/' } else { c }).collect();
        if !entry.is_dir() && !name.ends_with('/') {
            files.push((index, name));
        }
    }
    if let Some(format) = office(&mut archive, &files, shown)? {
        return Ok(Content::Workbook(format));
    }
    if archive.has_duplicate_names() {
        return Err(Fault::new(Code::IsZip, format!("'{shown}' is a zip archive that holds two files of one name")));
    }
    let (index, name) = only_list(files, shown)?;
    let entry = archive.by_index_data(index).map_err(|error| broken(&error))?;
    if entry.encrypted() {
        return Err(Fault::new(Code::IsZip, format!("'{shown}' is a zip archive in which '{name}' is encrypted"))
            .hint("unpack it with its password and import the list inside"));
    }
    let method = match entry.compression() {
        CompressionMethod::Stored => Method::Stored,
        CompressionMethod::Deflated => Method::Deflated,
        _ => {
            return Err(Fault::new(
                Code::IsZip,
                format!("'{shown}' is a zip archive in which '{name}' is packed in a way that is not read"),
            ));
        }
    };
    let (packed_bytes, crc) = (entry.compressed_size(), entry.crc32());
    let start = archive.by_index_raw(index).map_err(|error| broken(&error))?.data_start();
    let start = start.ok_or_else(|| magic::damaged_zip(head, shown))?;
    if start.checked_add(packed_bytes).is_none_or(|end| end > recording.bytes) {
        return Err(truncated());
    }
    Ok(Content::List(Entry { start, packed_bytes, method, crc }))
}

/// What an archive is that cannot be opened as one.
fn unopened(error: &ZipError, recording: &Recording, head: &[u8], shown: &str) -> Fault {
    if let Some(fault) = fault_in(error) {
        return fault;
    }
    // What the end says is a help only, so that a failure to read it changes nothing.
    let end = || -> io::Result<Vec<u8>> {
        let mut file = recording.open().map_err(io::Error::other)?;
        file.seek(SeekFrom::Start(recording.bytes.saturating_sub(END_RECORD)))?;
        let mut end = Vec::new();
        file.take(END_RECORD).read_to_end(&mut end)?;
        Ok(end)
    };
    let has_end = end().is_ok_and(|end| memmem::find(&end, b"PK\x05\x06").is_some());
    if has_end || magic::is_split_zip(head) || magic::is_office_zip(head) {
        magic::damaged_zip(head, shown)
    } else {
        truncated()
    }
}

/// The workbook that the entries make up, if they do. Errors: `is_zip` for documents that are no workbooks.
fn office(archive: &mut ZipArchive<Verified>, files: &[(usize, String)], shown: &str) -> Result<Option<Format>, Fault> {
    let begins = |start: &str| {
        files.iter().any(|(_, name)| name.get(..start.len()).is_some_and(|here| here.eq_ignore_ascii_case(start)))
    };
    let document = |what: &str| Fault::new(Code::IsZip, format!("'{shown}' is {what}, not a list"));
    if begins("xl/workbook.bin") {
        return Ok(Some(Format::Xlsb));
    }
    if begins("[Content_Types].xml") {
        return if begins("word/") {
            Err(document("a Word document").hint("save its table as CSV UTF-8 and import that"))
        } else if begins("ppt/") {
            Err(document("a presentation"))
        } else {
            Ok(Some(Format::Xlsx))
        };
    }
    if begins("xl/workbook.xml") {
        return Ok(Some(Format::Xlsx));
    }
    if begins("Index/") && begins("Metadata/") {
        return Err(document("an Apple iWork document").hint("export it as CSV UTF-8 and import that"));
    }
    let Some((index, _)) = files.iter().find(|(_, name)| name == "mimetype") else { return Ok(None) };
    let mut kind = Vec::new();
    // What cannot be read is no media type.
    let _ = archive.by_index(*index).map(|entry| entry.take(MEDIA_TYPE).read_to_end(&mut kind));
    if kind.starts_with(b"application/vnd.oasis.opendocument.spreadsheet") {
        return Ok(Some(Format::Ods));
    }
    if kind.starts_with(b"application/") {
        return Err(document("a document of another kind").hint("save it as CSV UTF-8 and import that"));
    }
    Ok(None)
}

/// The one entry that is meant.
fn only_list(files: Vec<(usize, String)>, shown: &str) -> Result<(usize, String), Fault> {
    let (mut lists, mut others): (Vec<_>, Vec<_>) =
        files.into_iter().filter(|(_, name)| !is_litter(name)).partition(|(_, name)| is_list(name));
    let refuse = |holds: String| Err(Fault::new(Code::IsZip, format!("'{shown}' is a zip archive that {holds}")));
    match (lists.len(), others.len()) {
        (1, _) => Ok(lists.remove(0)),
        // Alone, a file without a telling name can only be the list; its content decides.
        (0, 1) => Ok(others.remove(0)),
        (0, 0) => refuse("holds no file".to_owned()),
        (0, several) => refuse(format!("holds {several} files and no list ({})", names(&others))),
        (several, _) => refuse(format!("contains {several} lists ({})", names(&lists))),
    }
}

fn is_list(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    LISTS.iter().any(|end| name.ends_with(end))
}

/// What file managers put into archives unasked.
fn is_litter(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    name.starts_with("__MACOSX/")
        || file.starts_with("._")
        || [".DS_Store", "Thumbs.db", "desktop.ini"].iter().any(|litter| file.eq_ignore_ascii_case(litter))
}

fn names(files: &[(usize, String)]) -> String {
    let some: Vec<&str> = files.iter().take(NAMES_SHOWN).map(|(_, name)| name.as_str()).collect();
    let more = if files.len() > NAMES_SHOWN { ", …" } else { "" };
    format!("{}{more}", some.join(", "))
}

/// The content of an entry.
pub(super) struct EntryReader<R> {
    content: Unpacked<R>,
    seen: Crc,
    crc: u32,
}

enum Unpacked<R> {
    Stored(Take<R>),
    Deflated(Box<DeflateDecoder<Take<R>>>),
}

impl<R: BufRead> EntryReader<R> {
    /// A reader of `entry`, at whose first packed byte `raw` stands.
    pub(super) fn new(raw: R, entry: Entry) -> Self {
        let packed = raw.take(entry.packed_bytes);
        let content = match entry.method {
            Method::Stored => Unpacked::Stored(packed),
            Method::Deflated => Unpacked::Deflated(Box::new(DeflateDecoder::new(packed))),
        };
        Self { content, seen: Crc::new(), crc: entry.crc }
    }
}

impl<R: BufRead> Read for EntryReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let read = match &mut self.content {
            Unpacked::Stored(content) => content.read(into),
            Unpacked::Deflated(content) => content.read(into),
        };
        let spoilt =
            || io::Error::other(damaged().hint("copy the file again; 'unzip -t FILE' checks it, or unpack it"));
        match read {
            Ok(0) if self.seen.sum() != self.crc => Err(spoilt()),
            Ok(read) => {
                self.seen.update(into.get(..read).unwrap_or_default());
                Ok(read)
            }
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<Fault>()) => Err(error),
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                    Err(spoilt())
                }
                _ => Err(error),
            },
        }
    }
}
