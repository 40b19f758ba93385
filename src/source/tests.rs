//! What inputs are taken for, and that foreign bytes never get through.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use encoding_rs::Encoding;

use super::packed_tests as packed;
use super::verified::BLOCK;
use super::*;

pub(super) struct Folder(pub(super) tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn file(&self, content: &[u8]) -> PathBuf {
        let path = self.0.path().join("müşteri listesi (son).csv");
        fs::write(&path, content).unwrap();
        path
    }
}

/// What is asked of an input when nothing is asked.
pub(super) fn spools_in(dir: &Path) -> SpoolFolder {
    SpoolFolder::new(dir.to_owned(), "db", "list")
}

pub(super) fn reading(spools: &SpoolFolder) -> Reading<'_> {
    Reading { encoding: None, region: None, sheet: None, spools, stopped: &|| None }
}

pub(super) fn look_at(path: &Path, encoding: Option<&str>, region: Option<&str>) -> Result<Survey, Fault> {
    let spools = spools_in(&path.with_file_name("spool"));
    survey(&Origin::File(path.to_owned()), &Reading { encoding, region, ..reading(&spools) }, &mut |_, _| {})
}

pub(super) fn look(content: &[u8], encoding: Option<&str>, region: Option<&str>) -> Result<Survey, Fault> {
    let folder = Folder::new();
    look_at(&folder.file(content), encoding, region)
}

pub(super) fn code(content: &[u8]) -> Code {
    look(content, None, Some("TR")).unwrap_err().code
}

pub(super) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn text_at(survey: &Survey, byte: u64) -> Result<Vec<u8>, Fault> {
    let mut text = Vec::new();
    let mut reader = survey.open_at(byte)?;
    reader.read_to_end(&mut text).map_err(|error| fault_of(error, survey.origin()))?;
    Ok(text)
}

/// What `content` reads as, from every offset.
pub(super) fn read(content: &[u8], encoding: Option<&str>, region: Option<&str>) -> (String, Vec<u8>) {
    let folder = Folder::new();
    let surveyed = look_at(&folder.file(content), encoding, region).unwrap();
    let text = text_at(&surveyed, 0).unwrap();
    for byte in 0..=text.len() {
        assert_eq!(text_at(&surveyed, byte as u64).unwrap(), text[byte..], "from {byte}");
    }
    if let Some(bytes) = surveyed.text_bytes {
        assert_eq!(bytes, text.len() as u64);
    }
    (surveyed.encoding, text)
}

fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(to_bytes).collect()
}

/// Enough text for several blocks, all lines different.
pub(super) fn long_text() -> Vec<u8> {
    (0..200_000).map(|i| format!("0532{i:07},Kişi {i}\n")).collect::<String>().into_bytes()
}

#[test]
fn the_fingerprint_is_the_digest_of_the_raw_bytes_and_progress_is_told() {
    let folder = Folder::new();
    let content = long_text();
    let path = folder.file(&content);
    let mut told = Vec::new();
    let surveyed =
        survey(&Origin::File(path), &reading(&spools_in(folder.0.path())), &mut |read, total| told.push((read, total)))
            .unwrap();
    assert_eq!(surveyed.fingerprint.0, blake3::hash(&content).to_hex().to_string());
    assert_eq!(surveyed.recording.blocks.len(), content.len().div_ceil(BLOCK));
    assert_eq!(told.last(), Some(&(content.len() as u64, Some(content.len() as u64))));
    for byte in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 1, content.len() - 1, content.len()] {
        assert!(text_at(&surveyed, byte as u64).unwrap() == content[byte..], "from {byte}");
    }
}

#[test]
fn byte_order_marks_decide_and_are_removed() {
    let text = "phone\tname\r\n1\tŞule\r\n";
    let marked = |mark: &[u8], body: Vec<u8>| [mark, &body].concat();
    for (bytes, encoding) in [
        (marked(b"\xEF\xBB\xBF", text.into()), "utf-8"),
        (marked(b"\xFF\xFE", utf16(text, u16::to_le_bytes)), "utf-16le"),
        (marked(b"\xFE\xFF", utf16(text, u16::to_be_bytes)), "utf-16be"),
        (utf16(text, u16::to_le_bytes), "utf-16le"),
        (utf16(text, u16::to_be_bytes), "utf-16be"),
    ] {
        assert_eq!(read(&bytes, None, Some("TR")), (encoding.to_owned(), text.into()));
        assert_eq!(read(&gzip(&bytes), None, Some("TR")), (encoding.to_owned(), text.into()));
    }
    let marked = marked(b"\xFF\xFE", utf16(text, u16::to_le_bytes));
    let surveyed = look(&marked, Some("utf-8"), None).unwrap();
    assert_eq!((surveyed.encoding.as_str(), surveyed.warnings[0].code), ("utf-16le", "encoding_ignored"));
    assert_eq!(look(&marked, Some("utf-16"), None).unwrap().warnings, []);
    assert_eq!(read(b"\xEF\xBB\xBFa,b", Some("utf-8"), None), ("utf-8".to_owned(), b"a,b".to_vec()));
    assert_eq!(code(b"\xFF\xFE\0\0a\0\0\0"), Code::BadEncoding);
}

#[test]
fn without_utf8_the_region_decides_and_a_warning_says_so() {
    for (label, region, text) in [
        ("windows-1254", Some("TR"), "phone;name\r\n1;Şule Ağaoğlu\r\n2;İbrahim Ü’nün\r\n"),
        ("windows-1253", Some("GR"), "phone;name\r\n1;Άννα\r\n2;Γιώργος Ν» «Ε»\r\n"),
        ("windows-1251", Some("BG"), "phone;name\r\n1;Иван\r\n"),
        ("windows-1250", Some("PL"), "phone;name\r\n1;Łukasz Żółć\r\n"),
        ("windows-1252", None, "phone;name\r\n1;José Ñandú\r\n"),
    ] {
        let (bytes, _, failed) = Encoding::for_label(label.as_bytes()).unwrap().encode(text);
        assert!(!failed);
        assert_eq!(read(&bytes, None, region), (label.to_owned(), text.into()));
        let late = [&b"plain,ascii\n".repeat(30_000)[..], &bytes].concat();
        let surveyed = look(&late, None, region).unwrap();
        assert_eq!((surveyed.encoding.as_str(), surveyed.warnings[0].code), (label, "encoding_guessed"));
        let late = [&b"plain,ascii\n".repeat(30_000)[..], text.as_bytes()].concat();
        let surveyed = look(&late, None, region).unwrap();
        assert_eq!((surveyed.encoding.as_str(), surveyed.warnings.len()), ("utf-8", 0));
    }
}

#[test]
fn utf8_anywhere_means_utf8_and_bad_bytes_pass_unchanged() {
    let mixed = b"1,\xC5\x9Eule\n2,\xDEule\n3,\xC3\x87a\n";
    assert_eq!(read(mixed, None, Some("TR")), ("utf-8".to_owned(), mixed.to_vec()));
    let cut = b"1,Ay\xC5\x9Fe\n2,Ay\xC5";
    assert_eq!(read(cut, None, Some("TR")), ("utf-8".to_owned(), cut.to_vec()));
    assert_eq!(look(b"1,Ay\xC5", None, Some("TR")).unwrap().encoding, "utf-8");
    let declared = b"1,\xDEule\n";
    assert_eq!(read(declared, Some("UTF-8"), Some("TR")), ("utf-8".to_owned(), declared.to_vec()));
    assert_eq!(look(b"1,a\n", None, Some("TR")).unwrap().encoding, "utf-8");
    assert_eq!(look("1,ქართული ǒ\n".as_bytes(), None, Some("TR")).unwrap().encoding, "utf-8");
}

#[test]
fn the_character_set_does_not_depend_on_where_chunks_end() {
    let greek = "ελληνικά".repeat(3000);
    let (legacy, ..) = encoding_rs::WINDOWS_1253.encode(&greek);
    for size in [1, 2, 3, 5, 7, 4096, 100_000] {
        for (bytes, encoding) in [(greek.as_bytes(), "utf-8"), (&legacy[..], "windows-1253")] {
            let mut detector = charset::Detector::default();
            bytes.chunks(size).for_each(|chunk| detector.push(chunk));
            assert_eq!(charset::name(detector.finish(None, Some("GR")).unwrap().encoding), encoding, "{size}");
        }
    }
}

#[test]
fn the_named_character_set_is_taken() {
    assert_eq!(read(b"\xDEule", Some("iso-8859-9"), None), ("windows-1254".to_owned(), "Şule".into()));
    assert_eq!(read(b"\x81x", Some("windows-1253"), None).1, "\u{81}x".as_bytes());
    assert_eq!(look(b"a", Some("klingon"), None).unwrap_err().code, Code::Usage);
}

#[test]
fn gzip_is_read_whatever_the_name_in_members_and_with_padding() {
    let text = b"phone,name\n1,a\n";
    let twice = [gzip(text), gzip(b"2,b\n")].concat();
    assert_eq!(read(&gzip(text), None, None), ("utf-8".to_owned(), text.to_vec()));
    assert_eq!(read(&twice, None, None).1, b"phone,name\n1,a\n2,b\n");
    let padded = [gzip(text), vec![0; 3000]].concat();
    assert_eq!(read(&padded, None, None).1, text);
    let surveyed = look(&padded, None, None).unwrap();
    assert_eq!(surveyed.fingerprint.0, blake3::hash(&padded).to_hex().to_string());
    assert_eq!((surveyed.raw_bytes, surveyed.packing), (padded.len() as u64, Packing::Gzip));
}

#[test]
fn damaged_gzip_is_refused_before_anything_is_read() {
    let whole = gzip(&long_text());
    for len in [2, 5, 17, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        assert_eq!(code(&whole[..len]), Code::TruncatedGzip, "{len} of {}", whole.len());
    }
    let mut spoilt = whole.clone();
    let last = spoilt.len() - 6;
    spoilt[last] ^= 1;
    assert_eq!(code(&spoilt), Code::UnreadableFile);
    assert_eq!(code(&[&whole[..], b"garbage"].concat()), Code::UnreadableFile);
    assert_eq!(code(&gzip(&gzip(b"a,b"))), Code::UnreadableFile);
}

#[test]
fn what_is_no_list_is_refused_with_its_own_code() {
    assert_eq!(code(b""), Code::EmptyFile);
    assert_eq!(code(b"\xEF\xBB\xBF"), Code::EmptyFile);
    assert_eq!(code(b"\xFF\xFE"), Code::EmptyFile);
    assert_eq!(code(&gzip(b"")), Code::EmptyFile);
    assert_eq!(code(b"PK\x03\x04....[Content_Types].xml....xl/workbook.xml"), Code::IsXlsx);
    assert_eq!(code(b"PK\x03\x04....[Content_Types].xml....word/document.xml"), Code::TruncatedArchive);
    assert_eq!(code(b"PK\x05\x06\0\0"), Code::IsZip);
    assert_eq!(code(&gzip(b"PK\x03\x04..xl/workbook.xml")), Code::IsXlsx);
    assert_eq!(code(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1...."), Code::IsXls);
    let others: [&[u8]; 4] = [b"%PDF-1.7", b"\x04\x22\x4D\x18x", b"\x1F\x9D", b"\n<html><table>"];
    for bytes in others {
        assert_eq!(code(bytes), Code::UnreadableFile);
    }
    assert!(look(b"BZh telefonu,name\n", None, None).is_ok());
}

#[test]
fn paths_that_are_no_files_are_refused() {
    let folder = Folder::new();
    let look = |path: &Path| look_at(path, None, None).unwrap_err().code;
    assert_eq!(look(folder.0.path()), Code::IsDirectory);
    assert_eq!(look(&folder.0.path().join("none.csv")), Code::NotFound);
    assert_eq!(look(&folder.file(b"a").join("none.csv")), Code::NotFound);
    assert_eq!(look(Path::new("/dev/null")), Code::UnreadableFile);
}

#[test]
fn no_byte_of_a_changed_file_gets_through() {
    let original = long_text();
    let mut in_place = original.clone();
    in_place[2 * BLOCK + 5] ^= 1;
    let swapped = [&original[BLOCK..2 * BLOCK], &original[..BLOCK], &original[2 * BLOCK..]].concat();
    let longer = [&original[..], b"x"].concat();
    let packings: [packed::Pack; 6] = [<[u8]>::to_vec, gzip, packed::zstd, packed::bzip2, packed::xz, packed::zip];
    for pack in packings {
        let packed = pack(&original);
        for other in [&in_place[..], &longer, &original[..original.len() - 1], b"", &swapped] {
            let folder = Folder::new();
            let path = folder.file(&packed);
            let surveyed = look_at(&path, None, None).unwrap();
            fs::write(folder.0.path().join("new"), pack(other)).unwrap();
            fs::rename(folder.0.path().join("new"), &path).unwrap();
            let mut given = Vec::new();
            let fault = match surveyed.open_at(0) {
                Ok(mut reader) => fault_of(reader.read_to_end(&mut given).unwrap_err(), path.display()),
                Err(fault) => fault,
            };
            assert_eq!(fault.code, Code::FileChanged);
            assert!(original.starts_with(&given));
        }
    }
}

#[test]
fn a_file_that_changes_while_it_is_open_ends_as_changed() {
    let original = long_text();
    let aligned = &original[..3 * BLOCK];
    let changes: [fn(&Path); 3] = [
        |path| drop(fs::OpenOptions::new().append(true).open(path).unwrap().write_all(b"x")),
        |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(2 * BLOCK as u64).unwrap(),
        |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(BLOCK as u64 + 9).unwrap(),
    ];
    for content in [aligned, &original] {
        for change in changes {
            let folder = Folder::new();
            let path = folder.file(content);
            let surveyed = look_at(&path, None, None).unwrap();
            let mut reader = surveyed.open_at(BLOCK as u64 - 7).unwrap();
            let mut given = vec![0; 7];
            reader.read_exact(&mut given).unwrap();
            change(&path);
            let error = reader.read_to_end(&mut given).unwrap_err();
            assert_eq!(fault_of(error, path.display()).code, Code::FileChanged);
            assert!(content[BLOCK - 7..].starts_with(&given));
            let again = reader.read(&mut [0; 8]).unwrap_err();
            assert_eq!(fault_of(again, path.display()).code, Code::FileChanged);
        }
    }
}

#[test]
fn a_spool_is_private_whole_and_named_by_its_content() {
    let folder = Folder::new();
    let dir = folder.0.path().join("state/spool");
    let spools = SpoolFolder::new(dir.clone(), "db", "list");
    let content = long_text();
    let mut spool = Spool::fill(&mut &content[..], "-", &spools).unwrap();
    spool.keep();
    let path = spool.path().to_owned();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with(&*blake3::hash(&content).to_hex()), "{name}");
    assert_eq!(Spool::fill(&mut &content[..], "-", &spools).unwrap().path(), path);
    assert!(fs::read(&path).unwrap() == content);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&path)), (0o700, 0o600));
    assert_eq!(look_at(&path, None, None).unwrap().text_bytes, Some(content.len() as u64));
    let under_a_file = SpoolFolder::new(path.clone(), "db", "list");
    assert_eq!(Spool::fill(&mut &b"x"[..], "-", &under_a_file).unwrap_err().code, Code::UnwritableFile);
    assert!(must_spool(Path::new("/dev/fd/63")) && must_spool(Path::new("/dev/null")));
    assert!(!must_spool(&path) && !must_spool(&dir));
}

#[test]
fn a_spool_goes_when_nobody_needs_it_and_not_before() {
    let folder = Folder::new();
    let dir = folder.0.path().join("spool");
    let [one, two] = ["one", "two"].map(|list| SpoolFolder::new(dir.clone(), "db", list));
    let fingerprint = Fingerprint(blake3::hash(b"x").to_hex().to_string());
    let fill = |spools: &SpoolFolder| Spool::fill(&mut &b"x"[..], "-", spools).unwrap();
    let count = || fs::read_dir(&dir).unwrap().count();
    // One that no job ever needed.
    drop(fill(&one));
    assert_eq!(count(), 0);
    // The same input for two lists.
    let mut first = fill(&one);
    first.keep();
    drop(first);
    fill(&two).discard();
    assert!(Spool::find(&two, &fingerprint).is_none());
    // Another process uses it while this one is done with it, and the other way round.
    let found = Spool::find(&one, &fingerprint).unwrap();
    let again = fill(&one);
    found.discard();
    assert_eq!(count(), 1);
    drop(again);
    assert_eq!(count(), 1, "it was there before");
    Spool::find(&one, &fingerprint).unwrap().discard();
    assert_eq!(count(), 0);
    // What a killed process left half-written.
    fs::write(dir.join(".spool-killed"), b"half").unwrap();
    fill(&one).discard();
    assert_eq!(count(), 0);
}
