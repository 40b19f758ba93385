//! The grid, the split and the fold, by properties.

use std::collections::BTreeMap;
use std::io::Read;

use proptest::prelude::*;

use super::*;
use crate::decode::Decoder;
use crate::reject::Reason;
use crate::row::Row;
use crate::settings::Dialect;

const DIALECT: Dialect = Dialect { delimiter: b',', quote: Some(b'"'), escape: None };

/// What a phone is known by: name, attribute, version.
type Known = (Option<String>, Option<String>, Option<i64>);

fn recipient((phone, name, note, version): (u8, Option<u8>, Option<u8>, Option<i64>)) -> Recipient {
    Recipient {
        phone: Phone::stored(format!("+9053200000{phone:02}")),
        name: name.map(|n| format!("name {n}")),
        attributes: [note.map(|n| format!("note {n}"))].into_iter().collect(),
        version,
    }
}

fn recipients(versions: impl Strategy<Value = Option<i64>>) -> impl Strategy<Value = Vec<Recipient>> {
    let cell = || proptest::option::of(0..4_u8);
    proptest::collection::vec((0..6_u8, cell(), cell(), versions).prop_map(recipient), 0..60)
}

/// One row at a time, as an import with batches of one row would apply them.
fn apply(table: &mut BTreeMap<Phone, Known>, row: &Recipient) -> bool {
    let note = row.attributes.iter().next().flatten().map(str::to_owned);
    let Some(known) = table.get_mut(&row.phone) else {
        table.insert(row.phone.clone(), (row.name.clone(), note, row.version));
        return true;
    };
    if matches!((row.version, known.2), (Some(new), Some(old)) if new < old) {
        return false;
    }
    known.0 = row.name.clone().or(known.0.take());
    known.1 = note.or(known.1.take());
    known.2 = row.version.or(known.2);
    true
}

fn apply_all<'a>(rows: impl IntoIterator<Item = &'a Recipient>) -> BTreeMap<Phone, Known> {
    let mut table = BTreeMap::new();
    for row in rows {
        apply(&mut table, row);
    }
    table
}

fn judged(bytes: &[u8], from: Position, grid: Grid) -> (Vec<Batch>, Position) {
    let text = bytes.get(usize::try_from(from.byte).expect("small")..).expect("a position inside");
    let mut decoder = Decoder::new(text.chain(std::io::empty()), DIALECT, from);
    let mut batcher = Batcher::new(grid, from);
    let (mut batches, mut row, mut end) = (Vec::new(), Row::default(), from);
    while decoder.next(&mut row).expect("memory does not fail") {
        end = row.end;
        let outcome = match (row.raw.first(), row.raw.len() % 3) {
            (None, _) => Outcome::Blank,
            (Some(_), 0) => Outcome::Reject(Reject {
                at: row.start,
                column: None,
                reason: Reason::PhoneInvalid,
                detail: String::new(),
                raw: row.raw.clone(),
            }),
            (Some(first), _) => Outcome::Recipient(recipient((first % 7, None, None, None))),
        };
        batches.extend(batcher.push(outcome, row.end));
    }
    batches.extend(batcher.finish());
    (batches, end)
}

fn grid() -> impl Strategy<Value = Grid> {
    (1..6_u16, 1..9_u32).prop_map(|(lanes, batch_rows)| Grid { lanes, batch_rows })
}

/// Bytes that make many rows.
fn text() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(
        prop_oneof![4 => Just(b'a'), 2 => Just(b','), 1 => Just(b'"'), 2 => Just(b'\n'), 1 => Just(b'\r'), 1 => any::<u8>()],
        0..300,
    )
}

proptest! {
    #[test]
    fn the_rows_that_lose_are_those_that_are_folded(rows in recipients(proptest::option::of(0..2_i64))) {
        let winners = winners(&rows);
        let kept: usize = fold(rows.clone()).iter().map(Vec::len).sum();
        prop_assert_eq!(winners.iter().flatten().count(), rows.len() - kept);
        for (at, winner) in winners.iter().enumerate() {
            let Some(winner) = *winner else { continue };
            prop_assert!(winner > at && winners[winner].is_none());
            prop_assert_eq!((&rows[at].phone, rows[at].version), (&rows[winner].phone, rows[winner].version));
        }
    }
}

proptest! {
    #[test]
    fn the_ranges_of_any_bytes_on_any_grid_cover_the_input_once(bytes in text(), grid in grid()) {
        let (batches, end) = judged(&bytes, Position::START, grid);
        let mut at = Position::START;
        for batch in &batches {
            prop_assert_eq!(batch.range.from, at);
            prop_assert!(batch.range.to.byte > at.byte);
            at = batch.range.to;
        }
        prop_assert_eq!(at, end);
        prop_assert_eq!(end.byte, bytes.len() as u64);
    }

    #[test]
    fn reading_from_any_edge_of_the_grid_gives_the_rest_of_its_batches(bytes in text(), grid in grid(), pick in any::<prop::sample::Index>()) {
        let (batches, _) = judged(&bytes, Position::START, grid);
        if !batches.is_empty() {
            let done = pick.index(batches.len());
            let (rest, _) = judged(&bytes, batches[done].range.to, grid);
            prop_assert_eq!(&batches[done + 1..], &rest[..]);
        }
    }

    #[test]
    fn splitting_into_lanes_and_merging_them_again_is_the_identity(rows in recipients(Just(None)), lanes in 1..9_u16) {
        let grid = Grid { lanes, batch_rows: u32::MAX };
        let mut batcher = Batcher::new(grid, Position::START);
        for (line, row) in (2..).zip(&rows) {
            let full = batcher.push(Outcome::Recipient(row.clone()), Position { byte: line, line });
            prop_assert!(full.is_none());
        }
        let parts = batcher.finish().map(|batch| batch.parts).unwrap_or_default();
        for phone in rows.iter().map(|row| &row.phone) {
            let in_order: Vec<_> = rows.iter().filter(|row| row.phone == *phone).collect();
            let holding: Vec<Vec<_>> = parts
                .iter()
                .map(|part| part.recipients.iter().filter(|row| row.phone == *phone).collect())
                .filter(|found: &Vec<_>| !found.is_empty())
                .collect();
            prop_assert_eq!(holding, vec![in_order], "one lane has them all, in file order");
        }
        let total: usize = parts.iter().map(|part| part.recipients.len()).sum();
        prop_assert_eq!(total, rows.len());
    }

    #[test]
    fn folding_equals_applying_the_rows_one_by_one(rows in recipients(proptest::option::of(0..3_i64))) {
        let waves = fold(rows.clone());
        let folded: Vec<&Recipient> = waves.iter().flatten().map(|folded| &folded.recipient).collect();
        prop_assert_eq!(apply_all(folded.iter().copied()), apply_all(&rows));
        let copies: u64 = waves.iter().flatten().map(|folded| folded.copies).sum();
        prop_assert_eq!(copies, rows.len() as u64);
        for wave in &waves {
            prop_assert!(wave.is_sorted_by(|a, b| a.recipient.phone < b.recipient.phone), "sorted, each phone once");
        }
    }

    #[test]
    fn without_versions_there_is_one_wave(rows in recipients(Just(None))) {
        prop_assert!(fold(rows).len() <= 1);
    }
}

#[test]
fn a_batch_ends_at_its_byte_limit_whatever_its_rows() {
    let grid = Grid { lanes: 1, batch_rows: u32::MAX };
    let mut batcher = Batcher::new(grid, Position::START);
    let row = || Outcome::Recipient(recipient((1, None, None, None)));
    assert!(batcher.push(row(), Position { byte: BATCH_BYTES_MAX - 1, line: 2 }).is_none());
    assert!(batcher.push(row(), Position { byte: BATCH_BYTES_MAX, line: 3 }).is_some());
}
