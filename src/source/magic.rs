//! What a file is, by its first bytes.
//!
//! Owns the signatures of packed files and of those that are no lists, and what to say about each. It does not open files.
//! Invariant: a name or an ending never decides; content does.

use memchr::memmem;

use crate::fault::{Code, Fault};

use super::Packing;

/// How a file that starts with `head` is compressed, if it is.
pub(super) fn compression(head: &[u8]) -> Option<Packing> {
    // The fixed block size after the letters keeps a list with a column 'BZh…' from being taken for bzip2; an
    // empty archive has its end there.
    let is_bzip2 = head.starts_with(b"BZh")
        && (head.get(4..10) == Some(b"\x31\x41\x59\x26\x53\x59")
            || head.get(4..10) == Some(b"\x17\x72\x45\x38\x50\x90"));
    if head.starts_with(&[0x1F, 0x8B]) {
        Some(Packing::Gzip)
    } else if is_zstd(head) {
        Some(Packing::Zstd)
    } else if head.starts_with(b"\xFD7zXZ\x00") {
        Some(Packing::Xz)
    } else if is_bzip2 {
        Some(Packing::Bzip2)
    } else {
        None
    }
}

/// A zstd frame, also behind frames that are to be skipped (pzstd begins with one).
fn is_zstd(mut head: &[u8]) -> bool {
    loop {
        match head {
            [0x28, 0xB5, 0x2F, 0xFD, ..] => return true,
            [0x50..=0x5F, 0x2A, 0x4D, 0x18, a, b, c, d, rest @ ..] => {
                let len = u32::from_le_bytes([*a, *b, *c, *d]);
                head = usize::try_from(len).ok().and_then(|len| rest.get(len..)).unwrap_or_default();
            }
            _ => return false,
        }
    }
}

/// The signature of a zip archive, an empty or a split one included.
pub(super) fn is_zip(head: &[u8]) -> bool {
    [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"].iter().any(|magic| head.starts_with(*magic))
}

/// Whether a zip archive is one part of several.
pub(super) fn is_split_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x07\x08")
}

/// Whether a zip archive, as far as `head` shows it, is a workbook.
pub(super) fn is_office_zip(head: &[u8]) -> bool {
    let holds = |name: &str| memmem::find(head, name.as_bytes()).is_some();
    holds("xl/") || (holds("[Content_Types].xml") && !holds("word/") && !holds("ppt/"))
}

/// The signature of the container of old Office files.
pub(super) fn is_ole(head: &[u8]) -> bool {
    head.starts_with(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1")
}

/// Signatures at the start: bytes, what the file is, and what to do.
const BINARY: &[(&[u8], &str, &str)] = &[
    (b"%PDF-", "a PDF document", "export the list as CSV from where the PDF was made"),
    (b"\x04\x22\x4D\x18", "compressed with lz4", "unpack it: 'lz4 -dc FILE | enlist import - …'"),
    (b"\x1F\x9D", "compressed with compress", "unpack it: 'uncompress -c FILE | enlist import - …'"),
    (b"7z\xBC\xAF\x27\x1C", "a 7z archive", "unpack it and import the list inside"),
    (b"Rar!\x1A\x07", "a RAR archive", "unpack it and import the list inside"),
    (b"PAR1", "a Parquet file", "convert it to CSV and import that"),
    (b"SQLite format 3\x00", "an SQLite database", "export the table as CSV and import that"),
    (b"\x89PNG\r\n", "a PNG picture", "check the path"),
    (b"\xFF\xD8\xFF", "a JPEG picture", "check the path"),
    (b"GIF8", "a GIF picture", "check the path"),
    (b"\x7FELF", "a program", "check the path"),
    (b"{\\rtf", "a rich text document", "save it as CSV UTF-8 and import that"),
];

/// Where a tar archive has its signature.
const TAR_AT: usize = 257;

/// Why a text that starts with `head` is no list, unless it may be one. What is packed or a workbook may only
/// stand here inside something else: the file itself is read.
pub(super) fn refuse(head: &[u8], shown: &str) -> Option<Fault> {
    if is_ole(head) {
        return Some(inner_workbook(Code::IsXls, shown));
    }
    if is_zip(head) {
        return Some(if is_office_zip(head) {
            inner_workbook(Code::IsXlsx, shown)
        } else {
            Fault::new(Code::IsZip, format!("'{shown}' is a zip archive inside another file"))
        });
    }
    if compression(head).is_some() {
        return Some(
            Fault::new(Code::UnreadableFile, format!("'{shown}' is compressed twice"))
                .hint("unpack it once and import the result"),
        );
    }
    let is_tar = head.get(TAR_AT..TAR_AT + 5) == Some(b"ustar");
    let found = BINARY.iter().find(|(magic, ..)| head.starts_with(magic)).map(|(_, what, hint)| (*what, *hint));
    let (what, hint) = if is_tar {
        ("a tar archive", "unpack it and import the list inside")
    } else {
        found.or_else(|| markup(head))?
    };
    Some(Fault::new(Code::UnreadableFile, format!("'{shown}' is {what}, not a list")).hint(hint))
}

fn inner_workbook(code: Code, shown: &str) -> Fault {
    Fault::new(code, format!("'{shown}' is a compressed file with a workbook inside"))
        .hint("unpack it and import the workbook")
}

/// A zip archive that cannot be read, by its first bytes.
pub(super) fn damaged_zip(head: &[u8], shown: &str) -> Fault {
    if is_office_zip(head) {
        return Fault::new(Code::IsXlsx, format!("'{shown}' is an Excel workbook that is damaged or cut short"))
            .hint("copy the file again, or save it as CSV UTF-8 and import that");
    }
    let why = if is_split_zip(head) { "is one part of several" } else { "is damaged" };
    Fault::new(Code::IsZip, format!("'{shown}' is a zip archive that {why}"))
        .hint("copy the file again, or unpack it and import the list inside")
}

/// Web pages and XML, which some programs write under the name of a spreadsheet.
fn markup(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let start = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
    let begins = |word: &[u8]| start.get(..word.len()).is_some_and(|here| here.eq_ignore_ascii_case(word));
    if begins(b"<!doctype html") || begins(b"<html") || begins(b"<table") {
        Some(("a web page", "open it in a spreadsheet, save it as CSV UTF-8 and import that"))
    } else if begins(b"<?xml") {
        Some(("an XML file", "open it in a spreadsheet, save it as CSV UTF-8 and import that"))
    } else {
        None
    }
}
