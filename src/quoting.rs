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
fn push_cell(out: &mut Vec<u8>, cell: &[u8], dialect: &Dialect) {
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
/// An unclosed quote ends with the record, and text behind a closing quote belongs to the cell: nothing is
/// refused here.
pub fn split_cells(raw: &[u8], dialect: &Dialect) -> Vec<Vec<u8>> {
    let mut cells = Vec::new();
    let mut cell = Vec::new();
    let mut inside = false;
    let mut at_start = true;
    let mut bytes = raw.iter().copied().peekable();
    while let Some(b) = bytes.next() {
        let next = bytes.peek().copied();
        if inside {
            let escaped = dialect.escape == Some(b) && (next == dialect.quote || next == dialect.escape);
            let doubled = dialect.quote == Some(b) && next == dialect.quote;
            if escaped || doubled {
                cell.extend(bytes.next());
            } else if dialect.quote == Some(b) {
                inside = false;
            } else {
                cell.push(b);
            }
        } else if b == dialect.delimiter {
            cells.push(std::mem::take(&mut cell));
            at_start = true;
            continue;
        } else if at_start && dialect.quote == Some(b) {
            inside = true;
        } else {
            cell.push(b);
        }
        at_start = false;
    }
    cells.push(cell);
    cells
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
