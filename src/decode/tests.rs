//! What single rows become, kind by kind.

use super::*;
use crate::row::RECORD_MAX;

const COMMA: Dialect = Dialect { delimiter: b',', quote: Some(b'"'), escape: None };

/// A row as it is compared: the line it starts on, its cells or the reason it is refused.
pub(super) type Seen = (u64, Result<Vec<String>, Reason>);

pub(super) fn rows_of(decoder: &mut Decoder<impl Read>) -> Vec<Seen> {
    let mut row = Row::default();
    let mut rows = Vec::new();
    while decoder.next(&mut row).unwrap() {
        let cells = (0..row.cells.len()).map(|c| String::from_utf8_lossy(row.cell(c)).into_owned()).collect();
        rows.push((row.start.line, row.fault.as_ref().map_or(Ok(cells), |fault| Err(fault.reason))));
    }
    rows
}

fn rows(text: &str) -> Vec<Seen> {
    rows_with(text, COMMA, Some((2, 0)))
}

fn rows_with(text: &str, dialect: Dialect, expected: Option<(usize, usize)>) -> Vec<Seen> {
    let mut decoder = Decoder::new(text.as_bytes(), dialect, Position::START);
    if let Some((width, phone)) = expected {
        decoder.watch_for(width, phone);
    }
    rows_of(&mut decoder)
}

fn cells(line: u64, cells: &[&str]) -> Seen {
    (line, Ok(cells.iter().map(|cell| (*cell).to_owned()).collect()))
}

fn bad(line: u64) -> Seen {
    (line, Err(Reason::BadQuoting))
}

#[test]
fn cr_lf_and_crlf_end_one_line_each_in_any_mix() {
    let expected =
        [cells(1, &["a", "b"]), cells(2, &["c", "d"]), cells(3, &[]), cells(4, &["e", "f"]), cells(5, &["g"])];
    assert_eq!(rows("a,b\rc,d\r\n\ne,f\ng"), expected);
    assert_eq!(
        rows("a,b\r\r\nx,y\r\r\n"),
        [cells(1, &["a", "b"]), cells(2, &[]), cells(3, &["x", "y"]), cells(4, &[])]
    );
}

#[test]
fn the_last_row_needs_no_line_end_and_a_line_end_makes_no_row() {
    assert_eq!(rows(""), []);
    assert_eq!(rows("a,b"), [cells(1, &["a", "b"])]);
    assert_eq!(rows("a,b\r"), [cells(1, &["a", "b"])]);
    assert_eq!(rows("a,\n"), [cells(1, &["a", ""])]);
    assert_eq!(rows("\"a\",\"\""), [cells(1, &["a", ""])]);
}

#[test]
fn lines_inside_quotes_are_counted_and_kept() {
    let text = "1,\"Deneme Sok.\nNo 1, Kat 2\rİzmir\"\r\nx,y\r\n";
    assert_eq!(rows(text), [cells(1, &["1", "Deneme Sok.\nNo 1, Kat 2\rİzmir"]), cells(4, &["x", "y"])]);
}

#[test]
fn quotes_open_at_the_start_of_a_cell_only() {
    assert_eq!(rows("1,Ahmet \"Usta\" D\n2,12\"\n3,x\n").len(), 3);
    assert_eq!(rows("1,Ahmet \"Usta\"\n"), [cells(1, &["1", "Ahmet \"Usta\""])]);
    assert_eq!(rows("1, \"a, b\" \n"), [cells(1, &["1", "a, b"])]);
    assert_eq!(rows("\u{FEFF}\"1\",\"a\"\n"), [cells(1, &["1", "a"])]);
    assert_eq!(rows("1,\"a \"\"b\"\" c\"\n"), [cells(1, &["1", "a \"b\" c"])]);
    let tab = Dialect { delimiter: b'\t', ..COMMA };
    assert_eq!(rows_with("1\t\t\"a\"\t\n", tab, None), [cells(1, &["1", "", "a", ""])]);
}

#[test]
fn quotes_can_mean_nothing() {
    let none = Dialect { quote: None, ..COMMA };
    assert_eq!(rows_with("1,\"a\nb\",2\n", none, None), [cells(1, &["1", "\"a"]), cells(2, &["b\"", "2"])]);
}

#[test]
fn an_escape_is_read_when_declared_and_costs_its_row_otherwise() {
    let text = "1,\"A \\\"Gül, Su\\\" Ö\"\n2,\"b, c\"\n3,\"d\\\\\"\n4,\"e\\n\"\n";
    let escaped = Dialect { escape: Some(b'\\'), ..COMMA };
    assert_eq!(
        rows_with(text, escaped, None),
        [
            cells(1, &["1", "A \"Gül, Su\" Ö"]),
            cells(2, &["2", "b, c"]),
            cells(3, &["3", "d\\"]),
            cells(4, &["4", "e\\n"])
        ]
    );
    assert_eq!(rows(text)[..2], [bad(1), cells(2, &["2", "b, c"])]);
}

#[test]
fn a_quote_that_is_never_closed_costs_its_line_alone() {
    let text = "05320000011,A\n05320000012,\"Can\n05320000013,Ece\n05320000014,Ali\n";
    let seen = rows(text);
    assert_eq!(seen[1], bad(2));
    assert_eq!(seen[2..], [cells(3, &["05320000013", "Ece"]), cells(4, &["05320000014", "Ali"])]);
    assert_eq!(rows("1,\"a"), [bad(1)]);
    assert_eq!(rows("\"\n\"x\n"), [bad(1), bad(2)]);
}

#[test]
fn a_quote_that_a_later_row_closes_by_mistake_costs_its_line_alone() {
    let closed_at_the_end = "05320000012,\"Can\n05320000013,Ece\"\n05320000014,Ali\n";
    assert_eq!(rows(closed_at_the_end)[0], bad(1));
    assert_eq!(rows(closed_at_the_end)[1..], [cells(2, &["05320000013", "Ece\""]), cells(3, &["05320000014", "Ali"])]);
    let written_as_links = "05320000012,\"Can\ntel:+90 532 000 00 13,Ece\"\n";
    assert_eq!(rows(written_as_links).len(), 2);
    let phone_last = "\"Can,05320000012\nEce 12\",05320000013\n";
    assert_eq!(rows_with(phone_last, COMMA, Some((2, 1))).len(), 2);
    let short_rows = "05320000012,\"Can\n05320000013,Ece\n05320000014,Su\",x\n";
    assert_eq!(rows_with(short_rows, COMMA, Some((3, 0))).len(), 3);
    let phone_alone = "05320000011\n\"05320000012\n05320000013\"\n";
    assert_eq!(rows_with(phone_alone, COMMA, Some((1, 0))).len(), 3);
}

#[test]
fn a_line_break_in_a_cell_that_holds_no_row_is_kept() {
    assert_eq!(rows("05320000044,\"Ayşe\nÖrnek\"\n"), [cells(1, &["05320000044", "Ayşe\nÖrnek"])]);
    let phone_last = "\"Ayşe\nÖrnek\",05320000044\n";
    assert_eq!(rows_with(phone_last, COMMA, Some((2, 1))), [cells(1, &["Ayşe\nÖrnek", "05320000044"])]);
    let address = "05320000019,Ayşe,\"Deneme Sok. 5, Kat 3\n0212 555 44 33\n35000, İzmir\",x\n";
    assert_eq!(rows_with(address, COMMA, Some((4, 0))).len(), 1);
    let every_cell = "\"05320000019\",\"Ayşe\",\"a\nb\"\n\"05320000020\",\"Ece\",\"c\nd\"\n";
    assert_eq!(rows_with(every_cell, COMMA, Some((3, 0))).len(), 2);
}

#[test]
fn a_line_over_the_bound_is_refused_with_its_size_and_the_next_row_is_read() {
    let long = format!("a,b\r\n1,{}\r\n2,c\r\n", "ş".repeat(1_100_000));
    let mut decoder = Decoder::new(long.as_bytes(), COMMA, Position::START);
    let mut row = Row::default();
    assert!(decoder.next(&mut row).unwrap() && decoder.next(&mut row).unwrap());
    let fault = row.fault.clone().unwrap();
    assert_eq!(fault.reason, Reason::FieldTooLong);
    assert!(fault.detail.contains("2200002"), "{}", fault.detail);
    assert!(row.raw.len() <= RAW_KEPT && std::str::from_utf8(&row.raw).is_ok());
    assert_eq!(row.end, Position { byte: 5 + 2_200_004, line: 3 });
    assert_eq!(rows_of(&mut decoder), [cells(3, &["2", "c"])]);
    assert!(decoder.buffer.len() <= BUFFER_MAX);
}

#[test]
fn the_bound_is_exact() {
    for (len, taken) in [(RECORD_MAX, true), (RECORD_MAX + 1, false)] {
        for end in ["", "\n", "\r", "\r\n", "\r\nx"] {
            let text = format!("{}{end}", "a".repeat(len));
            assert_eq!(rows(&text)[0].1.is_ok(), taken, "{len} {end:?}");
        }
        let quoted = format!("\"{}\n\"", "a".repeat(len - 3));
        assert_eq!(rows(&quoted).len() == 1, taken, "{len}");
    }
}

#[test]
fn crlf_across_the_buffer_edge_is_one_line_end() {
    for extra in 0..3 {
        let text = format!("{}\r\nx,y\r\n", "a".repeat(BUFFER_START - 2 + extra));
        let seen = rows(&text);
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[1], cells(2, &["x", "y"]));
    }
}

#[test]
fn a_file_whose_every_line_leaves_a_quote_open_is_read_in_linear_time() {
    // Without the memory of earlier look-aheads this is 300 GB of reading.
    let text = "a\",\"b\n".repeat(300_000);
    let started = std::time::Instant::now();
    let seen = rows_with(&text, COMMA, None);
    assert_eq!(seen.len(), 300_000);
    assert!(seen.iter().all(|(_, row)| row.is_err()));
    assert!(started.elapsed().as_secs() < 60);
}
