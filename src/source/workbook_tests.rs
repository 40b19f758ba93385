//! Workbooks of every kind: what their sheets read as, and what is refused.

use std::fs;
use std::io::{Cursor, Write};

use rust_xlsxwriter::{ExcelDateTime, Format, Formula, Workbook};

use ::zip::ZipWriter;
use ::zip::write::SimpleFileOptions;

use super::tests::{Folder, code, gzip, look, text_at};
use super::*;

fn survey_of(folder: &Folder, content: &[u8], sheet: Option<&str>) -> Result<Survey, Fault> {
    let spools = SpoolFolder::new(folder.0.path().join("state/spool"), "db", "list");
    let asked = Reading { sheet, ..super::tests::reading(&spools) };
    survey(&Origin::File(folder.file(content)), &asked, &mut |_, _| {})
}

fn sheet_text(content: &[u8], sheet: Option<&str>) -> String {
    let folder = Folder::new();
    let surveyed = survey_of(&folder, content, sheet).unwrap();
    let text = text_at(&surveyed, 0).unwrap();
    for byte in (0..=text.len()).step_by(7) {
        assert_eq!(text_at(&surveyed, byte as u64).unwrap(), text[byte..], "from {byte}");
    }
    assert_eq!(surveyed.text_bytes, Some(text.len() as u64));
    assert_eq!(surveyed.fingerprint.0, blake3::hash(content).to_hex().to_string());
    assert_eq!((surveyed.raw_bytes, surveyed.encoding.as_str()), (content.len() as u64, "utf-8"));
    String::from_utf8(text).unwrap()
}

/// A workbook whose first sheet 'Liste' holds a cell of every kind, and whose second is 'Başka'.
fn xlsx() -> Vec<u8> {
    let mut book = Workbook::new();
    let sheet = book.add_worksheet().set_name("Liste").unwrap();
    let (day, moment, time) = ("yyyy-mm-dd", "dd/mm/yyyy hh:mm", "hh:mm:ss");
    let [day, moment, time] = [day, moment, time].map(|format| Format::new().set_num_format(format));
    for (column, title) in ["telefon", "ad", "gün", "an", "saat", "evet", "not"].into_iter().enumerate() {
        sheet.write(2, 1 + u16::try_from(column).unwrap(), title).unwrap();
    }
    sheet.write(3, 1, 905_320_000_011_u64).unwrap();
    sheet.write(3, 2, "Ayşe, \"Örnek\"").unwrap();
    sheet.write_with_format(3, 3, ExcelDateTime::from_ymd(2026, 2, 1).unwrap(), &day).unwrap();
    let at = ExcelDateTime::from_ymd(2026, 2, 1).unwrap().and_hms(10, 0, 0).unwrap();
    sheet.write_with_format(3, 4, at, &moment).unwrap();
    sheet.write_with_format(3, 5, ExcelDateTime::from_hms(10, 30, 0).unwrap(), &time).unwrap();
    sheet.write(3, 6, true).unwrap();
    sheet.write(3, 7, "two\nlines\r\nhere").unwrap();
    sheet.write(5, 1, Formula::new("=1+1").set_result("905320000012")).unwrap();
    sheet.write(5, 2, 1.5).unwrap();
    sheet.write(5, 7, Formula::new("=NA()").set_result("#N/A")).unwrap();
    book.add_worksheet().set_name("Başka").unwrap().write(0, 0, "phone").unwrap();
    book.save_to_buffer().unwrap()
}

const LISTE: &str = "\n\n,telefon,ad,gün,an,saat,evet,not\n\
    ,905320000011,\"Ayşe, \"\"Örnek\"\"\",2026-02-01,2026-02-01T10:00:00,10:30:00,TRUE,two lines here\n\n\
    ,905320000012,1.5,,,,,#N/A\n";

#[test]
fn cells_keep_their_rows_and_are_written_as_a_list_needs_them() {
    let bytes = xlsx();
    assert_eq!(sheet_text(&bytes, None), LISTE);
    assert_eq!(sheet_text(&bytes, Some("Liste")), LISTE);
    assert_eq!(sheet_text(&bytes, Some(" başka ")), "phone\n");
}

#[test]
fn the_sheet_is_named_and_others_are_mentioned() {
    let folder = Folder::new();
    let surveyed = survey_of(&folder, &xlsx(), None).unwrap();
    assert_eq!(surveyed.sheet.as_deref(), Some("Liste"));
    assert_eq!(surveyed.warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), ["first_sheet"]);
    let surveyed = survey_of(&folder, &xlsx(), Some("BAŞKA")).unwrap();
    assert_eq!((surveyed.sheet.as_deref(), surveyed.warnings.len()), (Some("Başka"), 0));
    let fault = survey_of(&folder, &xlsx(), Some("None")).unwrap_err();
    assert_eq!(fault.code, Code::UnknownSheet);
    assert!(fault.message.ends_with("has no sheet 'None', it has 'Liste', 'Başka'"), "{fault:?}");
}

#[test]
fn a_hidden_first_sheet_is_not_the_first() {
    let mut book = Workbook::new();
    book.add_worksheet().set_name("Codes").unwrap().set_hidden(true).write(0, 0, "x").unwrap();
    book.add_worksheet().set_name("Seen").unwrap().set_active(true).write(0, 0, "phone").unwrap();
    assert_eq!(sheet_text(&book.save_to_buffer().unwrap(), None), "phone\n");
}

#[test]
fn an_empty_sheet_is_an_empty_file() {
    let mut book = Workbook::new();
    book.add_worksheet();
    assert_eq!(code(&book.save_to_buffer().unwrap()), Code::EmptyFile);
}

#[test]
fn the_spool_is_private_made_once_and_the_same_for_the_same_sheet() {
    // Made once: it holds the time at which it was made.
    let (folder, book) = (Folder::new(), xlsx());
    let first = survey_of(&folder, &book, None).unwrap();
    let spool = first.sheet_spool().unwrap().to_owned();
    let name = spool.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!("{}.sheet-", first.fingerprint.0)) && name.ends_with(".spool"), "{name}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(spool.parent().unwrap()), mode(&spool)), (0o700, 0o600));
    }
    let other = survey_of(&folder, &book, Some("Başka")).unwrap();
    assert_ne!(other.sheet_spool(), Some(spool.as_path()));
    assert_eq!(fs::read_dir(spool.parent().unwrap()).unwrap().count(), 2);
    fs::remove_file(&spool).unwrap();
    assert_eq!(first.open_at(0).unwrap_err().code, Code::FileChanged);
    assert_eq!(survey_of(&folder, &book, None).unwrap().sheet_spool(), Some(spool.as_path()));
    assert_eq!(text_at(&first, 0).unwrap(), LISTE.as_bytes());
    fs::write(&spool, LISTE.replace("905320000011", "905320000019")).unwrap();
    assert_eq!(text_at(&first, 0).unwrap_err().code, Code::FileChanged);
}

#[test]
fn what_becomes_of_the_workbook_after_the_survey_does_not_matter() {
    let folder = Folder::new();
    let surveyed = survey_of(&folder, &xlsx(), None).unwrap();
    fs::write(surveyed.origin().path().unwrap(), b"other").unwrap();
    assert_eq!(text_at(&surveyed, 0).unwrap(), LISTE.as_bytes());
}

#[test]
fn a_wish_to_stop_ends_the_spooling_and_leaves_nothing() {
    let folder = Folder::new();
    let spool_dir = folder.0.path().join("spool");
    let spools = super::tests::spools_in(&spool_dir);
    let stopped = || Some(Fault::new(Code::Interrupted, "stopped"));
    let asked = Reading { stopped: &stopped, ..super::tests::reading(&spools) };
    assert_eq!(
        survey(&Origin::File(folder.file(&xlsx())), &asked, &mut |_, _| {}).unwrap_err().code,
        Code::Interrupted
    );
    assert_eq!(fs::read_dir(&spool_dir).unwrap().count(), 0);
}

#[test]
fn damaged_workbooks_are_refused_with_the_reason() {
    let whole = xlsx();
    for len in [100, whole.len() / 2, whole.len() - 30] {
        assert_eq!(code(&whole[..len]), Code::IsXlsx, "{len} of {}", whole.len());
    }
    // Whatever is spoilt, a workbook is read or refused for what it is.
    for whole in [&whole, &xls()] {
        for at in (40..whole.len()).step_by(whole.len() / 60) {
            let mut spoilt = whole.clone();
            spoilt[at] ^= 0x55;
            if let Err(fault) = look(&spoilt, None, None) {
                assert!(
                    [Code::IsXlsx, Code::IsXls, Code::IsZip, Code::EmptyFile].contains(&fault.code),
                    "{at}: {fault:?}"
                );
            }
        }
    }
    assert_eq!(code(&gzip(&whole)), Code::IsXlsx);
    let protected = [
        b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".as_slice(),
        &[0; 3000],
        &"EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
    ]
    .concat();
    let fault = look(&protected, None, None).unwrap_err();
    assert!(fault.code == Code::IsXlsx && fault.message.ends_with("with a password"), "{fault:?}");
}

#[test]
fn a_workbook_that_unpacks_to_too_much_is_refused() {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, times) in [("[Content_Types].xml", 0), ("xl/workbook.xml", 0), ("xl/worksheets/sheet1.xml", 80)] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(b"<worksheet><sheetData><row><c t=\"inlineStr\"><is><t>").unwrap();
        for _ in 0..times {
            writer.write_all(&[b'x'; 1024 * 1024]).unwrap();
        }
    }
    let fault = look(&writer.finish().unwrap().into_inner(), None, None).unwrap_err();
    assert!(fault.code == Code::IsXlsx && fault.message.contains("memory"), "{fault:?}");
}

#[test]
fn many_rows_are_read_in_order() {
    let mut book = Workbook::new();
    let sheet = book.add_worksheet();
    for row in 0..20_000_u32 {
        sheet.write(row, 0, 905_320_000_000_u64 + u64::from(row)).unwrap();
        sheet.write(row, 1, format!("Kişi {row}")).unwrap();
    }
    let text = sheet_text_once(&book.save_to_buffer().unwrap());
    assert_eq!(text.lines().count(), 20_000);
    assert!(text.lines().enumerate().all(|(row, line)| line == format!("{},Kişi {row}", 905_320_000_000 + row)));
}

fn sheet_text_once(content: &[u8]) -> String {
    let folder = Folder::new();
    let surveyed = survey_of(&folder, content, None).unwrap();
    String::from_utf8(text_at(&surveyed, 0).unwrap()).unwrap()
}

fn ods(content: &str) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let parts = [
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", "<?xml version=\"1.0\"?><manifest:manifest xmlns:manifest=\"m\"/>"),
        ("content.xml", content),
    ];
    for (name, text) in parts {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn opendocument_sheets_are_read() {
    let cell = |kind: &str, text: &str| format!("<table:table-cell {kind}><text:p>{text}</text:p></table:table-cell>");
    let string = "office:value-type=\"string\"";
    let rows = [
        String::from("<table:table-cell/>"),
        [cell(string, "phone"), cell(string, "day"), cell(string, "hour"), cell(string, "ok")].concat(),
        [
            cell("office:value-type=\"float\" office:value=\"905320000011\"", "9,05E+11"),
            cell("office:value-type=\"date\" office:date-value=\"2026-02-01\"", "01.02.26"),
            cell("office:value-type=\"time\" office:time-value=\"PT10H30M00S\"", "10:30"),
            cell("office:value-type=\"boolean\" office:boolean-value=\"true\"", "WAHR"),
        ]
        .concat(),
    ];
    let rows: String = rows.iter().map(|cells| format!("<table:table-row>{cells}</table:table-row>")).collect();
    let bytes = ods(&format!(
        "<?xml version=\"1.0\"?><office:document-content xmlns:office=\"o\" xmlns:table=\"t\" xmlns:text=\"x\">\
         <office:body><office:spreadsheet><table:table table:name=\"Liste\">{rows}</table:table>\
         </office:spreadsheet></office:body></office:document-content>"
    ));
    assert_eq!(sheet_text(&bytes, None), "\nphone,day,hour,ok\n905320000011,2026-02-01,10:30:00,TRUE\n");
    assert_eq!(survey_of(&Folder::new(), &bytes, Some("x")).unwrap_err().code, Code::UnknownSheet);
    assert_eq!(code(&ods("<office:document-content>")), Code::IsXlsx);
}

/// The container of an old Excel file around its only stream.
fn ole(stream: &[u8]) -> Vec<u8> {
    const FREE: u32 = 0xFFFF_FFFF;
    const END: u32 = 0xFFFF_FFFE;
    let sectors = stream.len().div_ceil(512).max(8);
    let mut header = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".to_vec();
    header.resize(24, 0);
    for half in [0x3E_u16, 3, 0xFFFE, 9, 6] {
        header.extend(half.to_le_bytes());
    }
    header.resize(44, 0);
    // One sector of allocation table, the directory behind it, no small streams.
    for word in [1, 1, 0, 4096, END, 0, END, 0, 0_u32] {
        header.extend(word.to_le_bytes());
    }
    header.resize(512, 0xFF);
    let mut table = vec![0xFFFF_FFFD, END];
    table.extend((3..u32::try_from(sectors).unwrap() + 2).chain([END]));
    table.resize(128, FREE);
    let mut bytes = header;
    bytes.extend(table.iter().flat_map(|word| word.to_le_bytes()));
    for (name, kind, child, start, size) in [("Root Entry", 5_u8, 1, END, 0), ("Workbook", 2, FREE, 2, sectors * 512)] {
        let mut entry: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let length = u16::try_from(entry.len() + 2).unwrap();
        entry.resize(64, 0);
        entry.extend(length.to_le_bytes());
        entry.extend([kind, 1]);
        for word in [FREE, FREE, child] {
            entry.extend(word.to_le_bytes());
        }
        entry.resize(116, 0);
        entry.extend(start.to_le_bytes());
        entry.extend(u64::try_from(size).unwrap().to_le_bytes());
        bytes.extend(entry);
    }
    bytes.resize(1536, 0);
    bytes.extend(stream);
    bytes.resize(1536 + sectors * 512, 0);
    bytes
}

/// An old workbook with the sheet 'Liste': a phone that is a number and a name.
fn xls() -> Vec<u8> {
    let record = |kind: u16, data: &[u8]| {
        [&kind.to_le_bytes()[..], &u16::try_from(data.len()).unwrap().to_le_bytes(), data].concat()
    };
    let begin = |kind: u16| record(0x0809, &[0x0600, kind, 0, 0, 0, 0, 0, 0].map(u16::to_le_bytes).concat());
    let text = |row: u16, column: u16, text: &str| {
        let length = u16::try_from(text.len()).unwrap();
        let place = [row, column, 0, length].map(u16::to_le_bytes).concat();
        record(0x0204, &[&place[..], &[0], text.as_bytes()].concat())
    };
    let number = |row: u16, column: u16, number: f64| {
        record(0x0203, &[&[row, column, 0].map(u16::to_le_bytes).concat()[..], &number.to_le_bytes()].concat())
    };
    let end = record(0x000A, &[]);
    let globals = |at: u32| {
        let sheet = [&at.to_le_bytes()[..], &[0, 0, 5, 0], b"Liste"].concat();
        [begin(5), record(0x0042, &1200_u16.to_le_bytes()), record(0x0085, &sheet), end.clone()].concat()
    };
    let at = u32::try_from(globals(0).len()).unwrap();
    let cells = [text(1, 0, "phone"), text(1, 1, "name"), number(2, 0, 905_320_000_011.0), text(2, 1, "Can")];
    ole(&[globals(at), begin(0x10), cells.concat(), end].concat())
}

#[test]
fn old_workbooks_are_read() {
    assert_eq!(sheet_text(&xls(), None), "\nphone,name\n905320000011,Can\n");
    let fault = look(&ole(b"no records at all"), None, None).unwrap_err();
    assert_eq!(fault.code, Code::IsXls, "{fault:?}");
    assert_eq!(code(&xls()[..1000]), Code::IsXls);
}
