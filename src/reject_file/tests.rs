//! Tests of the reject file's layout.

use super::*;
use crate::position::Position;
use crate::quoting::PLAIN;
use crate::settings::{Blank, Columns, Constants, HeaderRow, PhoneType, ShortRows};

fn settings(header: &[&str], dialect: Dialect) -> Settings {
    Settings {
        dialect,
        encoding: "utf-8".to_owned(),
        header_row: HeaderRow::Present,
        skip_lines: 0,
        header: header.iter().map(|cell| (*cell).to_owned()).collect(),
        data_start: Position::START,
        columns: Columns {
            width: header.len(),
            phone: 0,
            name: None,
            region: None,
            version: None,
            attributes: Vec::new(),
            reject_reason: header.iter().position(|cell| *cell == "_reason"),
        },
        region: None,
        phone_type: PhoneType::Any,
        max_name_length: None,
        blank: Blank::Keep,
        short_rows: ShortRows::Reject,
        sheet: None,
        constants: Constants::default(),
    }
}

fn reject(line: u64, reason: Reason, raw: &[u8]) -> Reject {
    Reject {
        at: Position { byte: line * 10, line },
        column: Some("phone".to_owned()),
        reason,
        detail: "too short, it seems".to_owned(),
        raw: raw.to_vec(),
    }
}

fn file(settings: &Settings, rejects: &[Reject]) -> String {
    let mut file = RejectFile::new(settings);
    rejects.iter().for_each(|reject| file.make_room(reject));
    let mut out = Vec::new();
    file.push_header(&mut out);
    rejects.iter().for_each(|reject| file.push_row(reject, &mut out));
    String::from_utf8(out).unwrap()
}

#[test]
fn cells_stay_as_they_were_and_the_reason_follows_in_its_columns() {
    let text = file(
        &settings(&["phone", "name"], PLAIN),
        &[reject(2, Reason::PhoneInvalid, b"+9053,\"Ay,se\""), reject(7, Reason::RowTooShort, b"=1+1")],
    );
    assert_eq!(
        text,
        "phone,name,_line,_column,_reason,_detail\n\
         +9053,\"Ay,se\",2,phone,phone_invalid,\"too short, it seems\"\n\
         =1+1,,7,phone,row_too_short,\"too short, it seems\"\n"
    );
}

#[test]
fn one_row_that_is_too_long_widens_the_whole_file_by_blank_headers() {
    let dialect = Dialect { delimiter: b';', ..PLAIN };
    let text = file(
        &settings(&["phone", "name"], dialect),
        &[reject(2, Reason::RowTooLong, b"1;a;b;c; "), reject(3, Reason::PhoneInvalid, b"2;d;;")],
    );
    assert_eq!(
        text,
        "phone;name;;;_line;_column;_reason;_detail\n\
         1;a;b;c;2;phone;row_too_long;too short, it seems\n\
         2;d;;;3;phone;phone_invalid;too short, it seems\n"
    );
}

#[test]
fn bad_quotes_are_quoted_so_that_they_do_not_swallow_the_rows_behind() {
    let text = file(
        &settings(&["phone", "name"], PLAIN),
        &[reject(2, Reason::BadQuoting, b"1,\"abc"), reject(3, Reason::PhoneInvalid, b"2,d")],
    );
    assert!(text.contains("\n1,\"\"\"abc\",2,phone,bad_quoting,"), "{text}");
    assert!(text.contains("\n2,d,3,"), "{text}");
}

#[test]
fn bytes_that_are_no_text_are_replaced_in_their_own_row_only() {
    let text = file(
        &settings(&["phone", "name"], PLAIN),
        &[reject(2, Reason::BadEncoding, b"1,\xdcmit"), reject(3, Reason::PhoneInvalid, "2,Ümit".as_bytes())],
    );
    assert!(text.contains("1,\u{fffd}mit,2,"), "{text}");
    assert!(text.contains("2,Ümit,3,"), "{text}");
}

#[test]
fn a_reject_file_that_was_imported_again_keeps_one_set_of_reason_columns() {
    let header = ["phone", "name", "_line", "_column", "_reason", "_detail"];
    let text = file(
        &settings(&header, PLAIN),
        &[
            reject(2, Reason::PhoneInvalid, b"1,a,9,phone,phone_invalid,old"),
            reject(3, Reason::RowTooLong, b"2,b,c,9,phone,phone_invalid,old"),
            reject(4, Reason::RowTooShort, b"3"),
        ],
    );
    assert_eq!(
        text,
        "phone,name,,_line,_column,_reason,_detail\n\
         1,a,,2,phone,phone_invalid,\"too short, it seems\"\n\
         2,b,c,3,phone,row_too_long,\"too short, it seems\"\n\
         3,,,4,phone,row_too_short,\"too short, it seems\"\n"
    );
}

#[test]
fn no_rejects_leave_the_header_alone_and_every_line_is_as_wide_as_it() {
    assert_eq!(file(&settings(&["#1", "#2"], PLAIN), &[]), "#1,#2,_line,_column,_reason,_detail\n");
    let mut wide = vec![b','; 100_000];
    wide.push(b'x');
    let text = file(
        &settings(&["phone"], PLAIN),
        &[reject(2, Reason::RowTooLong, &wide), reject(3, Reason::BadQuoting, b"\"\n,\"x")],
    );
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let width = split_cells(lines[0].trim_end().as_bytes(), &PLAIN).len();
    assert_eq!(width, 1 + EXTRA_MAX + 4);
    assert_eq!(split_cells(lines[1].trim_end().as_bytes(), &PLAIN).len(), width);
    assert!(split_cells(lines[1].trim_end().as_bytes(), &PLAIN)[EXTRA_MAX].ends_with(b",x"));
}

#[test]
fn a_row_that_came_after_the_widths_were_taken_is_still_well_formed() {
    let file = RejectFile::new(&settings(&["phone", "name"], PLAIN));
    let mut out = Vec::new();
    file.push_row(&reject(2, Reason::RowTooLong, b"1,a,b,c"), &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "1,\"a,b,c\",2,phone,row_too_long,\"too short, it seems\"\n");
}
