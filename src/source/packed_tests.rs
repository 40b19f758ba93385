//! zstd, bzip2, xz and zip: what is read of them, and what is refused.

use std::io::{Cursor, Write};

use ::zip::unstable::write::FileOptionsExt;
use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, ZipWriter};

use super::tests::{Folder, code, gzip, long_text, look, look_at, read, text_at};
use super::*;

const TEXT: &[u8] = b"phone,name\n1,a\n";

pub(super) fn zstd(content: &[u8]) -> Vec<u8> {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn bzip2(content: &[u8]) -> Vec<u8> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn xz(content: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zip(content: &[u8]) -> Vec<u8> {
    zip_of(&[("liste.csv", content)], SimpleFileOptions::default())
}

fn zip_of(entries: &[(&str, &[u8])], options: SimpleFileOptions) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        if name.ends_with('/') {
            writer.add_directory(name.trim_end_matches('/'), options).unwrap();
        } else {
            writer.start_file(*name, options).unwrap();
            writer.write_all(content).unwrap();
        }
    }
    writer.finish().unwrap().into_inner()
}

fn entries(entries: &[(&str, &[u8])]) -> Vec<u8> {
    zip_of(entries, SimpleFileOptions::default())
}

pub(super) type Pack = fn(&[u8]) -> Vec<u8>;

const STREAMS: [(Pack, Packing); 3] = [(zstd, Packing::Zstd), (bzip2, Packing::Bzip2), (xz, Packing::Xz)];

#[test]
fn every_compression_is_read_whatever_the_name_and_in_members() {
    for (pack, packing) in STREAMS {
        assert_eq!(read(&pack(TEXT), None, None), ("utf-8".to_owned(), TEXT.to_vec()), "{packing:?}");
        let twice = [pack(TEXT), pack(b""), pack(b"2,b\n")].concat();
        assert_eq!(read(&twice, None, None).1, b"phone,name\n1,a\n2,b\n", "{packing:?}");
        let surveyed = look(&twice, None, None).unwrap();
        assert_eq!(surveyed.fingerprint.0, blake3::hash(&twice).to_hex().to_string());
        assert_eq!((surveyed.raw_bytes, surveyed.packing), (twice.len() as u64, packing));
        assert_eq!(code(&pack(b"")), Code::EmptyFile, "{packing:?}");
        assert_eq!(read(&pack(b"\xDEule"), None, Some("TR")), ("windows-1254".to_owned(), "Şule".into()));
    }
}

#[test]
fn long_archives_are_read_from_any_place() {
    let text = long_text();
    for pack in [zstd, bzip2, xz, zip] {
        let folder = Folder::new();
        let surveyed = look_at(&folder.file(&pack(&text)), None, None).unwrap();
        assert_eq!(surveyed.text_bytes, Some(text.len() as u64));
        for byte in [0, 1, 1_000_000, text.len() - 1, text.len()] {
            assert!(text_at(&surveyed, byte as u64).unwrap() == text[byte..], "from {byte}");
        }
    }
}

#[test]
fn padding_is_ignored_where_the_tool_ignores_it() {
    assert_eq!(read(&[bzip2(TEXT), vec![0; 3000]].concat(), None, None).1, TEXT);
    assert_eq!(read(&[xz(TEXT), vec![0; 3000]].concat(), None, None).1, TEXT);
    // The padding of xz comes in fours; less means that something was lost.
    assert!([Code::UnreadableFile, Code::TruncatedArchive].contains(&code(&[xz(TEXT), vec![0; 3]].concat())));
    assert_eq!(code(&[zstd(TEXT), vec![0; 3000]].concat()), Code::UnreadableFile);
}

#[test]
fn a_zstd_file_may_begin_with_frames_to_be_skipped() {
    let skipped =
        [b"\x50\x2A\x4D\x18\x04\0\0\0abcd".as_slice(), &zstd(TEXT), b"\x5F\x2A\x4D\x18\0\0\0\0", &zstd(b"2,b\n")];
    assert_eq!(read(&skipped.concat(), None, None).1, b"phone,name\n1,a\n2,b\n");
}

#[test]
fn what_ends_early_is_truncated_and_what_was_changed_is_damaged() {
    let text = long_text();
    for (pack, packing) in STREAMS {
        let whole = pack(&text);
        for len in [12, 17, 40, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
            assert_eq!(code(&whole[..len]), Code::TruncatedArchive, "{packing:?} {len} of {}", whole.len());
        }
        let two = [&whole[..], &pack(TEXT)].concat();
        for len in [1, 3, 9] {
            assert_eq!(code(&two[..two.len() - len]), Code::TruncatedArchive, "{packing:?} -{len}");
            assert_eq!(code(&two[..whole.len() + len]), Code::TruncatedArchive, "{packing:?} +{len}");
        }
        for at in [whole.len() / 3, whole.len() / 2] {
            let mut spoilt = whole.clone();
            spoilt[at] ^= 0x55;
            assert_eq!(code(&spoilt), Code::UnreadableFile, "{packing:?} {at}");
        }
        assert_eq!(code(&[&whole[..], b"garbage that is long enough"].concat()), Code::UnreadableFile, "{packing:?}");
        assert_eq!(code(&pack(&gzip(TEXT))), Code::UnreadableFile, "{packing:?}");
        assert_eq!(code(&pack(&pack(TEXT))), Code::UnreadableFile, "{packing:?}");
        assert_eq!(code(&pack(&zip(TEXT))), Code::IsZip, "{packing:?}");
    }
}

#[test]
fn windows_that_take_too_much_memory_are_refused() {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(28).unwrap();
    encoder.write_all(TEXT).unwrap();
    let fault = look(&encoder.finish().unwrap(), None, None).unwrap_err();
    assert_eq!(fault.code, Code::UnreadableFile);
    assert!(fault.message.contains("memory") && fault.hint.contains("zstd -dc --long=31"), "{fault:?}");
    // The block header of an xz stream states the size of the dictionary behind the filter's number and length.
    let small = xz(TEXT);
    let mut header = small[12..24].to_vec();
    assert_eq!(header[..4], [2, 0, 0x21, 1]);
    header[4] = 36;
    let mut crc = flate2::Crc::new();
    crc.update(&header[..8]);
    header[8..].copy_from_slice(&crc.sum().to_le_bytes());
    let large = [&small[..12], &header, &small[24..]].concat();
    let fault = look(&large, None, None).unwrap_err();
    assert_eq!(fault.code, Code::UnreadableFile);
    assert!(fault.message.contains("memory") && fault.hint.contains("xz -dc"), "{fault:?}");
}

#[test]
fn the_one_list_of_a_zip_archive_is_read() {
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let deflated = SimpleFileOptions::default();
    for options in [stored, deflated, stored.large_file(true), deflated.large_file(true)] {
        let bytes = zip_of(&[("liste.csv", TEXT)], options);
        assert_eq!(read(&bytes, None, None), ("utf-8".to_owned(), TEXT.to_vec()));
        let surveyed = look(&bytes, None, None).unwrap();
        assert_eq!(surveyed.fingerprint.0, blake3::hash(&bytes).to_hex().to_string());
        assert_eq!((surveyed.raw_bytes, surveyed.packing), (bytes.len() as u64, Packing::Zip));
    }
    let litter: &[(&str, &[u8])] = &[
        ("__MACOSX/", b""),
        ("__MACOSX/liste/._liste.csv", b"Mac OS X"),
        ("liste/", b""),
        ("liste/.DS_Store", b"\0\0\0\x01Bud1"),
        ("liste/Thumbs.db", b"x"),
        ("liste/._liste.csv", b"y"),
        ("liste/liste.csv", TEXT),
    ];
    assert_eq!(read(&entries(litter), None, None).1, TEXT);
    assert_eq!(read(&entries(&[("liste", TEXT)]), None, None).1, TEXT);
    assert_eq!(read(&entries(&[("logo.png", b"\x89PNG"), ("liste.CSV", TEXT)]), None, None).1, TEXT);
    assert_eq!(read(&zip(b"\xDEule"), None, Some("TR")).1, "Şule".as_bytes());
}

#[test]
fn a_zip_archive_without_exactly_one_list_is_refused_and_described() {
    let refused = |content: &[(&str, &[u8])]| {
        let fault = look(&entries(content), None, None).unwrap_err();
        assert_eq!(fault.code, Code::IsZip, "{fault:?}");
        fault.message
    };
    let two = refused(&[("__MACOSX/._a.csv", b"x"), ("a.csv", TEXT), ("b.CSV", TEXT)]);
    assert!(two.ends_with("contains 2 lists (a.csv, b.CSV)"), "{two}");
    let many: Vec<String> = (0..9).map(|n| format!("{n}.csv")).collect();
    let many = refused(&many.iter().map(|name| (name.as_str(), TEXT)).collect::<Vec<_>>());
    assert!(many.ends_with("contains 9 lists (0.csv, 1.csv, 2.csv, 3.csv, 4.csv, …)"), "{many}");
    assert!(refused(&[("a.pdf", b"x"), ("b.png", b"y")]).ends_with("holds 2 files and no list (a.pdf, b.png)"));
    assert!(refused(&[]).ends_with("holds no file"));
    assert!(refused(&[("[Content_Types].xml", b"<x/>"), ("word/document.xml", b"<x/>")]).contains("a Word document"));
    assert!(
        refused(&[("mimetype", b"application/vnd.oasis.opendocument.text"), ("content.xml", b"")])
            .contains("another kind")
    );
    assert_eq!(code(&entries(&[("a.csv", b"%PDF-1.7")])), Code::UnreadableFile);
    assert_eq!(code(&entries(&[("a.csv", &gzip(TEXT))])), Code::UnreadableFile);
    assert_eq!(code(&entries(&[("a.csv", &zip(TEXT))])), Code::IsZip);
    assert_eq!(code(&entries(&[("a.csv", b"")])), Code::EmptyFile);
    let locked = SimpleFileOptions::default().with_deprecated_encryption(b"secret").unwrap();
    let locked = look(&zip_of(&[("a.csv", TEXT)], locked), None, None).unwrap_err();
    assert_eq!(locked.code, Code::IsZip);
    assert!(locked.message.contains("'a.csv' is encrypted") && locked.hint.contains("password"), "{locked:?}");
}

#[test]
fn a_zip_archive_that_is_cut_or_damaged_is_refused() {
    let whole = zip(&long_text());
    for len in [10, 40, whole.len() / 2, whole.len() - 60, whole.len() - 30] {
        assert_eq!(code(&whole[..len]), Code::TruncatedArchive, "{len} of {}", whole.len());
    }
    for at in [whole.len() / 3, whole.len() / 2] {
        let mut spoilt = whole.clone();
        spoilt[at] ^= 0x55;
        assert_eq!(code(&spoilt), Code::UnreadableFile, "{at}");
    }
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut spoilt = zip_of(&[("liste.csv", TEXT)], stored);
    let at = memchr::memmem::find(&spoilt, b"1,a").unwrap();
    spoilt[at] = b'7';
    assert_eq!(code(&spoilt), Code::UnreadableFile);
}

#[test]
fn a_sheet_of_what_is_no_workbook_is_unknown() {
    let folder = Folder::new();
    for content in [TEXT.to_vec(), gzip(TEXT), zip(TEXT)] {
        let path = folder.file(&content);
        let spools = super::tests::spools_in(folder.0.path());
        let asked = Reading { sheet: Some("Liste"), ..super::tests::reading(&spools) };
        assert_eq!(
            survey(&super::Origin::File(path.clone()), &asked, &mut |_, _| {}).unwrap_err().code,
            Code::UnknownSheet
        );
    }
}
