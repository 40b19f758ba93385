//! What a file is, by its first bytes.
//!
//! Owns the signatures of files that are no lists, and what to say about each. It does not open files.
//! Invariant: a name or an ending never decides; content does.

use memchr::memmem;

use crate::fault::{Code, Fault};

/// The signature of a gzip member: magic and the only method there is.
pub(super) fn is_gzip(head: &[u8]) -> bool {
    head.starts_with(&[0x1F, 0x8B])
}

/// The signature of a zip archive, an empty or a split one included.
pub(super) fn is_zip(head: &[u8]) -> bool {
    [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"].iter().any(|magic| head.starts_with(*magic))
}

/// Signatures at the start: bytes, what the file is, and what to do.
const BINARY: &[(&[u8], &str, &str)] = &[
    (b"%PDF-", "a PDF document", "export the list as CSV from where the PDF was made"),
    (b"\x28\xB5\x2F\xFD", "compressed with zstd", "unpack it: 'zstd -dc FILE | enlist import - …'"),
    (b"\xFD7zXZ\x00", "compressed with xz", "unpack it: 'xz -dc FILE | enlist import - …'"),
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

/// Why a file that starts with `head` is no list, unless it may be one. Zip archives are told apart by
/// `zip_fault`, gzip is read.
pub(super) fn refuse(head: &[u8], shown: &str) -> Option<Fault> {
    if head.starts_with(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1") {
        let protected = "E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e";
        return Some(if memmem::find(head, protected.as_bytes()).is_some() {
            Fault::new(Code::IsXlsx, format!("'{shown}' is an Excel workbook with a password"))
                .hint("open it in Excel, save it as CSV UTF-8 and import that")
        } else {
            Fault::new(Code::IsXls, format!("'{shown}' is an old Excel workbook"))
        });
    }
    // The fixed block size after the letters keeps a list with a column 'BZh…' from being refused.
    let is_bzip2 = head.starts_with(b"BZh") && head.get(4..10) == Some(b"\x31\x41\x59\x26\x53\x59");
    let is_tar = head.get(TAR_AT..TAR_AT + 5) == Some(b"ustar");
    let found = BINARY.iter().find(|(magic, ..)| head.starts_with(magic)).map(|(_, what, hint)| (*what, *hint));
    let (what, hint) = if is_bzip2 {
        ("compressed with bzip2", "unpack it: 'bzip2 -dc FILE | enlist import - …'")
    } else if is_tar {
        ("a tar archive", "unpack it and import the list inside")
    } else {
        found.or_else(|| markup(head))?
    };
    Some(Fault::new(Code::UnreadableFile, format!("'{shown}' is {what}, not a list")).hint(hint))
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

/// What a zip archive is, by its first and last bytes.
pub(super) fn zip_fault(head: &[u8], tail: &[u8], shown: &str) -> Fault {
    let names = zip_names(tail);
    let holds = |start: &str| {
        names.iter().any(|name| name.starts_with(start)) || memmem::find(head, start.as_bytes()).is_some()
    };
    if holds("xl/") || (holds("[Content_Types].xml") && !holds("word/") && !holds("ppt/")) {
        return Fault::new(Code::IsXlsx, format!("'{shown}' is an Excel workbook"));
    }
    if memmem::find(head, b"application/vnd.oasis.opendocument").is_some() {
        return Fault::new(Code::IsZip, format!("'{shown}' is an OpenDocument file"))
            .hint("save it as CSV UTF-8 and import that");
    }
    let lists: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !name.starts_with("__MACOSX/"))
        .filter(|name| [".csv", ".tsv", ".txt"].iter().any(|end| name.to_ascii_lowercase().ends_with(end)))
        .collect();
    let message = match lists.as_slice() {
        [] => format!("'{shown}' is a zip archive"),
        [one] => format!("'{shown}' is a zip archive that contains '{one}'"),
        several => {
            let some = several.get(..several.len().min(5)).unwrap_or_default().join(", ");
            format!("'{shown}' is a zip archive that contains {} lists ({some})", several.len())
        }
    };
    Fault::new(Code::IsZip, message)
}

/// The names in a zip archive's directory, as far as `tail`, the end of the file, shows it.
fn zip_names(tail: &[u8]) -> Vec<String> {
    memmem::find_iter(tail, b"PK\x01\x02")
        .filter_map(|at| {
            let low = usize::from(*tail.get(at + 28)?);
            let high = usize::from(*tail.get(at + 29)?);
            let name = tail.get(at + 46..at + 46 + low + 256 * high)?;
            Some(String::from_utf8_lossy(name).chars().filter(|c| !c.is_control()).collect())
        })
        .collect()
}
