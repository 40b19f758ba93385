//! How cells become a line of delimited text and back.
//!
//! Owns the writing of one record, and the reading of one that stands alone. It does not know files, nor
//! what a cell means. Invariant: `split_cells` of what `push_record` wrote gives the same cells, as long as
//! the dialect has a quote.

use crate::settings::Dialect;

/// The dialect of files that enlist writes for others: RFC 4180.
pub const PLAIN: Dialect = Dialect { delimiter: b',', quote: Some(b'"'), escape: None };

/// Appends one record with its line end (LF).
pub fn push_record<'a>(out: &mut Vec<u8>, cells: impl IntoIterator<Item = &'a [u8]>, dialect: &Dialect) {
    for (n, cell) in cells.into_iter().enumerate() {
        if n > 0 {
            out.push(dialect.delimiter);
        }
        push_cell(out, cell, dialect);
    }
    out.push(b'\n');
}

/// Appends one cell, quoted where it must be.
///
/// Without a quote in the dialect a delimiter or a line end inside the cell has no spelling; a space (or
/// `_` where the delimiter is the space) stands for it then.
pub fn push_cell(out: &mut Vec<u8>, cell: &[u8], dialect: &Dialect) {
    let breaks = |b: u8| b == dialect.delimiter || b == b'\n' || b == b'\r';
    let Some(quote) = dialect.quote else {
        let filler = if dialect.delimiter == b' ' { b'_' } else { b' ' };
        out.extend(cell.iter().map(|b| if breaks(*b) { filler } else { *b }));
        return;
    };
    if !cell.iter().any(|b| breaks(*b) || *b == quote) {
        out.extend_from_slice(cell);
        return;
    }
    out.push(quote);
    for b in cell {
        if *b == quote || Some(*b) == dialect.escape {
            out.push(*b);
        }
        out.push(*b);
    }
    out.push(quote);
}

/// The cells of a record that stands alone, without its line end; quotes are respected.
///
/// As the decoder reads them, blanks may stand around a quoted cell. An unclosed quote ends with the
/// record, and text behind a closing quote belongs to the cell: nothing is refused here.
pub fn split_cells(raw: &[u8], dialect: &Dialect) -> Vec<Vec<u8>> {
    let Some(quote) = dialect.quote else { return split_naively(raw, dialect) };
    let mut cells = Vec::new();
    let mut rest = raw;
    loop {
        let mut cell = Vec::new();
        let opened = without_blanks(rest, dialect);
        if let Some(inside) = opened.strip_prefix(&[quote]) {
            let after = unquote(inside, quote, dialect.escape, &mut cell);
            let behind = without_blanks(after, dialect);
            let ends = behind.first().is_none_or(|b| *b == dialect.delimiter);
            rest = if ends { behind } else { after };
        }
        let end = rest.iter().position(|b| *b == dialect.delimiter);
        let (text, next) = rest.split_at(end.unwrap_or(rest.len()));
        cell.extend_from_slice(text);
        cells.push(cell);
        match next.split_first() {
            Some((_, behind)) => rest = behind,
            None => return cells,
        }
    }
}

/// Reads a quoted cell from behind its opening quote into `cell`; returns what stands behind the closing one.
fn unquote<'a>(mut rest: &'a [u8], quote: u8, escape: Option<u8>, cell: &mut Vec<u8>) -> &'a [u8] {
    while let Some((b, behind)) = rest.split_first() {
        let next = behind.first().copied();
        let escapes = escape == Some(*b) && next.is_some() && (next == Some(quote) || next == escape);
        if escapes || (*b == quote && next == Some(quote)) {
            cell.extend(next);
            rest = behind.get(1..).unwrap_or_default();
        } else if *b == quote {
            return behind;
        } else {
            cell.push(*b);
            rest = behind;
        }
    }
    rest
}

/// Past the blanks that may stand around a quoted cell: space, tab, no-break space, byte order mark.
fn without_blanks<'a>(mut rest: &'a [u8], dialect: &Dialect) -> &'a [u8] {
    let blanks: [&[u8]; 4] = [b" ", b"\t", b"\xc2\xa0", b"\xef\xbb\xbf"];
    let is_blank = |blank: &&[u8]| **blank != [dialect.delimiter];
    while let Some(behind) = blanks.iter().filter(|blank| is_blank(blank)).find_map(|blank| rest.strip_prefix(*blank)) {
        rest = behind;
    }
    rest
}

/// The cells of a record whose quotes mean nothing.
pub fn split_naively(raw: &[u8], dialect: &Dialect) -> Vec<Vec<u8>> {
    raw.split(|b| *b == dialect.delimiter).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

    fn written(cells: &[Vec<u8>], dialect: &Dialect) -> Vec<u8> {
        let mut out = Vec::new();
        push_record(&mut out, cells.iter().map(Vec::as_slice), dialect);
        assert_eq!(out.pop(), Some(b'\n'));
        out
    }

    #[test]
    fn cells_are_quoted_only_where_they_must_be() {
        let mut out = Vec::new();
        push_record(&mut out, [b"+90".as_slice(), b"a,b", b"say \"x\"", b"=1+1", b""], &PLAIN);
        assert_eq!(out, b"+90,\"a,b\",\"say \"\"x\"\"\",=1+1,\n");
    }

    #[test]
    fn without_a_quote_a_delimiter_inside_a_cell_becomes_a_space() {
        let dialect = Dialect { delimiter: b';', quote: None, escape: None };
        let mut out = Vec::new();
        push_record(&mut out, [b"a;b\nc".as_slice(), b"\"q\""], &dialect);
        assert_eq!(out, b"a b c;\"q\"\n");
        assert_eq!(split_cells(b"a b c;\"q\"", &dialect), [b"a b c".to_vec(), b"\"q\"".to_vec()]);
    }

    #[test]
    fn splitting_takes_what_is_badly_quoted_as_it_can() {
        assert_eq!(split_cells(b"\"a,b", &PLAIN), [b"a,b".to_vec()]);
        assert_eq!(split_cells(b"\"a\"b,c", &PLAIN), [b"ab".to_vec(), b"c".to_vec()]);
        assert_eq!(split_cells(b"", &PLAIN), [b"".to_vec()]);
        assert_eq!(split_cells(b" \"a,b\" ,\xc2\xa0\"c\"", &PLAIN), [b"a,b".to_vec(), b"c".to_vec()]);
        assert_eq!(split_cells(b" a\"b\" ,", &PLAIN), [b" a\"b\" ".to_vec(), b"".to_vec()]);
        assert_eq!(split_naively(b"\"a,b", &PLAIN), [b"\"a".to_vec(), b"b".to_vec()]);
    }

    fn tricky_cell() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(b'"'), Just(b','), Just(b'\\'), Just(b'\n'), Just(b'\r'), any::<u8>()];
        prop::collection::vec(byte, 0..8)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            cells in prop::collection::vec(tricky_cell(), 1..6),
            escape in prop_oneof![Just(None), Just(Some(b'\\'))],
        ) {
            let dialect = Dialect { escape, ..PLAIN };
            prop_assert_eq!(split_cells(&written(&cells, &dialect), &dialect), cells);
        }
    }
}
