//! What holds for any bytes, any chunking and any start.

use proptest::prelude::*;

use super::*;

/// Gives its bytes in pieces of the given sizes, again and again.
struct Chunks<'a> {
    rest: &'a [u8],
    sizes: &'a [usize],
    turn: usize,
}

impl Read for Chunks<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()].min(into.len()).min(self.rest.len());
        self.turn += 1;
        into[..size].copy_from_slice(&self.rest[..size]);
        self.rest = &self.rest[size..];
        Ok(size)
    }
}

type Whole = (Position, Position, Vec<u8>, Vec<Vec<u8>>, Option<Refusal>);

fn all(reader: impl Read, dialect: Dialect, at: Position, expected: Option<(usize, usize)>) -> Vec<Whole> {
    let mut decoder = Decoder::new(reader, dialect, at);
    if let Some((width, phone)) = expected {
        decoder.watch_for(width, phone);
    }
    let (mut row, mut rows) = (Row::default(), Vec::new());
    while decoder.next(&mut row).unwrap() {
        let cells = (0..row.cells.len()).map(|column| row.cell(column).to_vec()).collect();
        rows.push((row.start, row.end, row.raw.clone(), cells, row.fault.clone()));
    }
    rows
}

fn dialects() -> impl Strategy<Value = Dialect> {
    (prop::sample::select(vec![b',', b';', b'\t']), prop::option::of(Just(b'"')), prop::option::of(Just(b'\\')))
        .prop_map(|(delimiter, quote, escape)| Dialect { delimiter, quote, escape })
}

/// Text made of the signs that matter, so that every rule is met.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "\"",
        "\"\"",
        "\"",
        ",",
        ";",
        "\t",
        "\r",
        "\n",
        "\r\n",
        "\n",
        "\\",
        " ",
        "a",
        "05320000011",
        "5",
        "ş",
        "\u{FEFF}",
        "\0",
        "\u{A0}",
    ]);
    prop_oneof![
        4 => prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn expectations() -> impl Strategy<Value = Option<(usize, usize)>> {
    prop::option::of((1_usize..4).prop_flat_map(|width| (Just(width), 0..width)))
}

/// Lines by a plain scan for line ends.
fn line_at(text: &[u8], byte: usize) -> u64 {
    let mut line = 1;
    for at in 0..byte {
        let crlf = text[at] == b'\r' && text.get(at + 1) == Some(&b'\n');
        line += u64::from(text[at] == b'\n' || text[at] == b'\r' && !crlf);
    }
    line
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_cover_every_byte_once_with_the_right_line(
        text in texts(), dialect in dialects(), expected in expectations(),
    ) {
        let mut at = Position::START;
        for (start, end, raw, cells, fault) in all(&text[..], dialect, at, expected) {
            prop_assert_eq!(start, at);
            prop_assert!(end.byte > start.byte);
            let (from, to) = (start.byte as usize, end.byte as usize);
            prop_assert_eq!(start.line, line_at(&text, from));
            let whole = &text[from..to];
            prop_assert!(whole.starts_with(&raw));
            prop_assert!(matches!(&whole[raw.len()..], b"" | b"\n" | b"\r" | b"\r\n"));
            prop_assert!(fault.is_none() || cells.is_empty());
            at = end;
        }
        prop_assert_eq!(at.byte, text.len() as u64);
    }

    #[test]
    fn rows_do_not_depend_on_how_the_reader_chunks(
        text in texts(), dialect in dialects(), expected in expectations(),
        sizes in prop::collection::vec(1_usize..9, 1..6),
    ) {
        let chunks = Chunks { rest: &text, sizes: &sizes, turn: 0 };
        prop_assert_eq!(
            all(chunks, dialect, Position::START, expected),
            all(&text[..], dialect, Position::START, expected)
        );
    }

    #[test]
    fn decoding_from_the_end_of_any_row_gives_the_same_rows(
        text in texts(), dialect in dialects(), expected in expectations(),
    ) {
        let full = all(&text[..], dialect, Position::START, expected);
        for (index, (_, end, ..)) in full.iter().enumerate() {
            let rest = all(&text[end.byte as usize..], dialect, *end, expected);
            prop_assert_eq!(&full[index + 1..], &rest[..]);
        }
    }

    #[test]
    fn well_formed_text_comes_back_as_it_was_written(
        table in prop::collection::vec(prop::collection::vec("[a-zşİ \",\r\n\\\\]{0,6}", 3), 1..8),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let written: String = table
            .iter()
            .map(|cells| {
                let quoted: Vec<String> =
                    cells.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
                quoted.join(",") + end
            })
            .collect();
        let dialect = Dialect { delimiter: b',', quote: Some(b'"'), escape: None };
        let read: Vec<Vec<String>> = all(written.as_bytes(), dialect, Position::START, Some((3, 0)))
            .into_iter()
            .map(|(.., cells, _)| cells.into_iter().map(|cell| String::from_utf8(cell).unwrap()).collect())
            .collect();
        prop_assert_eq!(read, table);
    }

    #[test]
    fn well_formed_text_reads_as_a_csv_library_reads_it(
        table in proptest::collection::vec(proptest::collection::vec("[a-z,;\"\r\n şΩ]{0,6}", 2..5), 1..8),
        delimiter in prop_oneof![Just(b','), Just(b';'), Just(b'\t')],
        crlf in any::<bool>(),
    ) {
        let terminator = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let style = csv::QuoteStyle::NonNumeric;
        let mut writer = csv::WriterBuilder::new().delimiter(delimiter).terminator(terminator).quote_style(style).flexible(true).from_writer(Vec::new());
        for cells in &table {
            writer.write_record(cells).unwrap();
        }
        let text = writer.into_inner().unwrap();
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(&text[..]);
        let expected: Vec<Vec<Vec<u8>>> =
            reader.byte_records().map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect()).collect();
        let dialect = Dialect { delimiter, quote: Some(b'"'), escape: None };
        let read: Vec<Vec<Vec<u8>>> =
            all(&text[..], dialect, Position::START, None).into_iter().map(|(.., cells, _)| cells).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn no_head_makes_the_sniffer_panic(text in texts(), skip_lines in 0_u32..3) {
        let wanted = crate::settings::Wanted { skip_lines, ..Default::default() };
        if let Ok(sniffed) = sniff(&text, Rest::Nothing, &wanted) {
            prop_assert!(sniffed.data_start.byte <= text.len() as u64);
            let scanned = line_at(&text, sniffed.data_start.byte as usize);
            // A header that the end of the input ends has counted its line.
            let unended = u64::from(sniffed.data_start.byte == text.len() as u64 && !text.ends_with(b"\n") && !text.ends_with(b"\r"));
            prop_assert_eq!(sniffed.data_start.line, scanned + if sniffed.header.is_some() { unended } else { 0 });
            later_header(&text, &sniffed, |cells| cells.len() > 2);
        }
    }
}

/// Large lines and look-aheads over the buffer's and the record's bounds, from any row on.
#[test]
fn long_quoted_text_is_decided_alike_from_any_row() {
    let dialect = Dialect { delimiter: b',', quote: Some(b'"'), escape: None };
    let filler = "x,y\n".repeat(100_000);
    let text = format!("a,\"b\n{filler}c,\"d\n{filler}{filler}{filler}e,\"f\ng\"\n\"h\n{filler}");
    let full = all(text.as_bytes(), dialect, Position::START, Some((2, 0)));
    assert_eq!(full.last().unwrap().1.byte, text.len() as u64);
    for (index, (start, end, ..)) in full.iter().enumerate().step_by(90_001) {
        let rest = all(&text.as_bytes()[end.byte as usize..], dialect, *end, Some((2, 0)));
        assert!(full[index + 1..] == rest[..], "from the row at {start}");
    }
}
