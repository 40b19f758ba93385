//! What is found in the heads of inputs, kind by kind.

use super::*;
use crate::fault::Code;
use crate::settings::{HeaderRow, Wanted};

fn found(text: &str) -> Sniffed {
    sniff(text.as_bytes(), Rest::Nothing, &Wanted::default()).unwrap()
}

fn code(text: &[u8], wanted: &Wanted) -> Code {
    sniff(text, Rest::Nothing, wanted).unwrap_err().code
}

fn header(sniffed: &Sniffed) -> Vec<&str> {
    sniffed.header.iter().flatten().map(String::as_str).collect()
}

#[test]
fn the_delimiter_is_the_one_that_header_and_rows_agree_on() {
    for (text, delimiter) in [
        ("phone;name\r\n05320000011;Ayşe\r\n", b';'),
        ("phone\tname\n05320000013\tÖrnek, Ayşe\n05320000014\tDeneme, Can, Dr.\n", b'\t'),
        ("phone|name|city\n05320000015|Ayşe|İzmir\n05320000016|Can|Ankara, Çankaya\n", b'|'),
        ("phone;name;borc\n05320000019;A;12,50\n05320000020;C;3,00\n05320000021;E;1.250,75\n", b';'),
        ("phone;name;borç, TL\n05320000019;A;12,50\n05320000020;C;3,00\n", b';'),
        ("phone,name,tags\n05320000030,A,\"a;b;c;d;e\"\n05320000031,C,\"x;y;z\"\n", b','),
        ("phone,name,tags\n05320000030,A,a;b;c\n05320000031,C,x;y\n", b','),
        ("phone,name\n05320000032;A\n05320000033;C\n", b','),
        ("phone,name\n05320000060;05320000061,A\n", b','),
        ("phone\n0532 000 00 27\n0532 000 00 28\n", b','),
        ("phone\n05320000011,Ayşe\n05320000012,Ece\n", b','),
        ("phone\n0532,000,00,27\n", b'\t'),
        ("name, surname\tphone\nÖrnek, A\t05320000011\nDeneme, C\t05320000012\n", b'\t'),
        ("phone;name\n", b';'),
    ] {
        let sniffed = found(text);
        if text.starts_with("phone\n0532,") {
            assert_ne!(sniffed.dialect.delimiter, b',', "{text}");
        } else {
            assert_eq!(sniffed.dialect.delimiter as char, delimiter as char, "{text}");
        }
    }
}

#[test]
fn without_a_header_row_the_data_decides() {
    let wanted = Wanted { header: HeaderRow::Absent, ..Wanted::default() };
    for (text, delimiter, width) in [
        ("05320000021;Ayşe\nyok;Ece\n05320000022;Can\n", b';', 2),
        ("05320000021\n05320000022\n", b',', 1),
        ("\n05320000021;1,5;a\n05320000022;2,5;b\n", b';', 3),
    ] {
        let sniffed = sniff(text.as_bytes(), Rest::Nothing, &wanted).unwrap();
        assert_eq!((sniffed.dialect.delimiter, sniffed.width), (delimiter, width), "{text}");
        assert_eq!((sniffed.header, sniffed.data_start), (None, Position::START));
    }
}

#[test]
fn a_sep_line_is_honoured_and_skipped() {
    for (line, delimiter) in [("sep=;", b';'), ("SEP=|", b'|'), ("\"sep=;\"", b';'), ("sep=\t", b'\t')] {
        let sniffed = found(&format!("{line}\r\nphone{0}a,b\r\n1{0}2\r\n", delimiter as char));
        assert_eq!(sniffed.dialect.delimiter, delimiter, "{line}");
        assert_eq!((header(&sniffed), sniffed.first_row.line, sniffed.data_start.line), (vec!["phone", "a,b"], 2, 3));
    }
    let wanted = Wanted { delimiter: Some(b','), ..Wanted::default() };
    let sniffed = sniff(b"sep=;\nphone,name\n", Rest::Nothing, &wanted).unwrap();
    assert_eq!((sniffed.dialect.delimiter, header(&sniffed)), (b',', vec!["phone", "name"]));
    let wanted = Wanted { skip_lines: 1, ..Wanted::default() };
    assert_eq!(sniff(b"sep=|\nphone|name;a\n", Rest::Nothing, &wanted).unwrap().dialect.delimiter, b'|');
}

#[test]
fn the_header_is_the_first_row_that_is_not_blank() {
    let sniffed = found("\n ,\u{A0},\n\u{FEFF} phone\u{A0} ,\"full\nname\" \n1,2\n");
    assert_eq!(header(&sniffed), ["phone", "full\nname"]);
    assert_eq!((sniffed.first_row.line, sniffed.data_start.line), (3, 5));
    let wanted = Wanted { skip_lines: 2, ..Wanted::default() };
    let sniffed = sniff(b"title\r\rphone;name\r1;2", Rest::Nothing, &wanted).unwrap();
    assert_eq!((header(&sniffed), sniffed.data_start), (vec!["phone", "name"], Position { byte: 18, line: 4 }));
}

#[test]
fn a_head_without_a_header_is_refused_with_the_right_code() {
    let plain = Wanted::default();
    assert_eq!(code(b"", &plain), Code::EmptyFile);
    assert_eq!(code(b"\n \r\n", &plain), Code::EmptyFile);
    assert_eq!(code(b"title\n", &Wanted { skip_lines: 1, ..Wanted::default() }), Code::NoHeader);
    assert_eq!(code(b"title\n", &Wanted { skip_lines: 9, ..Wanted::default() }), Code::NoHeader);
    assert_eq!(code(b"phone,\"name\n1,a\n", &plain), Code::NoHeader);
    assert_eq!(code(b"phone,\"name\n05320000011,a\"\n", &plain), Code::NoHeader);
    assert_eq!(code(b"phone,\xDEehir\n", &plain), Code::BadEncoding);
    let endless = vec![b'A'; HEAD_MAX];
    assert_eq!(sniff(&endless, Rest::Unread, &plain).unwrap_err().code, Code::LineTooLong);
}

#[test]
fn a_wrong_delimiter_and_wrapped_lines_are_suspected() {
    let wanted = Wanted { delimiter: Some(b','), ..Wanted::default() };
    let sniffed = sniff("phone;name\n05320000029;Ayşe\n".as_bytes(), Rest::Nothing, &wanted).unwrap();
    assert_eq!(sniffed.suspicion, Some(Suspicion::OtherDelimiter(b';')));
    assert_eq!(header(&sniffed), ["phone;name"]);
    let wrapped = found("\"phone,name\"\n\"05320000033,Ayşe\"\n");
    assert_eq!((header(&wrapped), wrapped.suspicion), (vec!["phone,name"], Some(Suspicion::WrappedLines)));
    assert_eq!(found("phone\n1\n").suspicion, None);
}

#[test]
fn a_header_below_title_lines_is_found_under_any_delimiter() {
    for title in ["Müşteri listesi", "Müşteri listesi, Şubat"] {
        let text = format!("{title}\nRapor tarihi: 01.02.2026\n\nphone;name\n05320000028;Ayşe\nToplam: 1;\n");
        let later = later_header(text.as_bytes(), &found(&text), |cells| cells.iter().any(|cell| cell == "phone"));
        assert_eq!(later, Some(LaterHeader { line: 4, skip_lines: 3, delimiter: b';' }), "{title}");
    }
    let far = format!("x\n{}phone;name\n", "\n".repeat(30));
    assert_eq!(later_header(far.as_bytes(), &found(&far), |cells| cells.len() == 2), None);
}
