//! Rows built by hand and what becomes of them.

use proptest::prelude::*;

use super::*;
use crate::mapping;
use crate::position::Position;
use crate::settings::{ColumnRef, Constants, Dialect, PhoneType, Wanted};

fn settings(header: &[&str], wanted: &Wanted) -> Settings {
    let header: Vec<String> = header.iter().map(|h| (*h).to_owned()).collect();
    Settings {
        dialect: Dialect { delimiter: b',', quote: Some(b'"'), escape: None },
        encoding: "utf-8".to_owned(),
        header_row: wanted.header,
        skip_lines: 0,
        columns: mapping::resolve(&header, wanted).unwrap(),
        header,
        data_start: Position::START,
        region: Some("TR".to_owned()),
        phone_type: PhoneType::Any,
        max_name_length: None,
        blank: Blank::Keep,
        short_rows: ShortRows::Reject,
        sheet: None,
        constants: Constants::default(),
    }
}

fn row(cells: &[&[u8]]) -> Row {
    let mut row = Row { start: Position { byte: 7, line: 2 }, ..Row::default() };
    for cell in cells {
        let from = row.text.len();
        row.text.extend_from_slice(cell);
        row.cells.push(from..row.text.len());
    }
    row.raw = cells.join(&b","[..]);
    row
}

fn texts(cells: &[&str]) -> Row {
    row(&cells.iter().map(|c| c.as_bytes()).collect::<Vec<_>>())
}

fn plain(header: &[&str]) -> Normaliser {
    Normaliser::new(&settings(header, &Wanted::default())).unwrap()
}

fn taken(normaliser: &Normaliser, cells: &[&str]) -> Recipient {
    match normaliser.normalise(&texts(cells)) {
        Outcome::Recipient(recipient) => recipient,
        other => panic!("{cells:?} gave {other:?}"),
    }
}

fn refused(normaliser: &Normaliser, row: &Row) -> (Reason, Option<String>) {
    match normaliser.normalise(row) {
        Outcome::Reject(reject) => {
            assert_eq!((reject.at, &reject.raw), (row.start, &row.raw));
            (reject.reason, reject.column)
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refuses(normaliser: &Normaliser, cells: &[&str], reason: Reason, column: Option<&str>) {
    assert_eq!(refused(normaliser, &texts(cells)), (reason, column.map(str::to_owned)), "{cells:?}");
}

fn said(found: &Recipient) -> Vec<Option<&str>> {
    found.attributes.iter().collect()
}

#[test]
fn a_row_becomes_a_recipient_with_its_attributes_in_order_of_key() {
    let normaliser = plain(&["phone", "name", "zip", "", "city"]);
    let found = taken(&normaliser, &[" 0532 000 00 11\u{A0}", "\u{A0}Ayşe Örnek ", " 06100", "x", "\u{FEFF}a  b "]);
    assert_eq!(found.phone.as_str(), "+905320000011");
    assert_eq!(found.name.as_deref(), Some("Ayşe Örnek"));
    assert_eq!(said(&found), [Some("a  b"), Some("06100")]);
    assert_eq!(found.version, None);
}

#[test]
fn names_are_one_line_of_composed_characters() {
    let normaliser = plain(&["phone", "name"]);
    for (cell, name) in [
        ("Ayşe\nÖrnek", "Ayşe Örnek"),
        ("Ayşe \t\u{2003} Örnek", "Ayşe Örnek"),
        ("Ays\u{327}e", "Ayşe"),
        ("<b>Ayşe</b> & Örnek", "<b>Ayşe</b> & Örnek"),
        ("Null", "Null"),
        ("Ahmet \"Usta\" Deneme", "Ahmet \"Usta\" Deneme"),
    ] {
        assert_eq!(taken(&normaliser, &["05320000011", cell]).name.as_deref(), Some(name));
    }
}

#[test]
fn empty_cells_and_words_for_nothing_say_nothing_or_clear() {
    let mut settings = settings(&["phone", "name", "city"], &Wanted::default());
    for blank in [Blank::Keep, Blank::Clear] {
        settings.blank = blank;
        let normaliser = Normaliser::new(&settings).unwrap();
        let expected = (blank == Blank::Clear).then(String::new);
        for word in ["", " ", "NULL", "N/A", "#N/A", "NaN", "\\N", "\u{200B}"] {
            let found = taken(&normaliser, &["05320000011", word, word]);
            assert_eq!(
                (found.name.as_deref(), said(&found)[0]),
                (expected.as_deref(), expected.as_deref()),
                "{word:?}"
            );
        }
        assert_eq!(taken(&normaliser, &["05320000011", "Null", "null"]).name.as_deref(), Some("Null"));
    }
    settings.columns.name = None;
    assert_eq!(taken(&Normaliser::new(&settings).unwrap(), &["05320000011", "x", "y"]).name, None);
}

#[test]
fn rows_without_content_are_blank() {
    let normaliser = plain(&["phone", "name", "sehir"]);
    for cells in
        [&["", "", ""][..], &[" ", " ", "\t"], &["\u{A0}", "\u{A0}", ""], &[""], &[], &["", "", "", "\u{FEFF}", ""]]
    {
        assert_eq!(normaliser.normalise(&texts(cells)), Outcome::Blank, "{cells:?}");
    }
    refuses(&normaliser, &["", "Ayşe Örnek", ""], Reason::PhoneMissing, Some("phone"));
    refuses(&normaliser, &["\u{A0} ", "Can Deneme", ""], Reason::PhoneMissing, Some("phone"));
}

#[test]
fn a_row_that_could_not_be_decoded_is_refused_as_it_is() {
    let mut broken = texts(&["05320000011", "x"]);
    broken.fault = Some(Refusal::new(Reason::BadQuoting, "the quote is not closed"));
    assert_eq!(refused(&plain(&["phone", "name"]), &broken), (Reason::BadQuoting, None));
}

#[test]
fn undecodable_characters_and_nul_are_refused_with_their_column() {
    let normaliser = plain(&["phone", "name"]);
    let name = || Some("name".to_owned());
    assert_eq!(refused(&normaliser, &row(&[b"05320000024", b"\xdeule"])), (Reason::BadEncoding, name()));
    assert_eq!(refused(&normaliser, &row(&[b"05320000032", b"Ay\xc5"])), (Reason::BadEncoding, name()));
    assert_eq!(refused(&normaliser, &row(&[b"\xc5", b"\x9f"])).0, Reason::BadEncoding);
    assert_eq!(refused(&normaliser, &row(&[b"05320000011", b"Ay\0se"])), (Reason::NulByte, name()));
    assert_eq!(refused(&normaliser, &row(&[b"05320000011", b"a", b"\0"])).0, Reason::NulByte);
    let mut settings = settings(&["phone", "name"], &Wanted::default());
    assert_eq!(taken(&normaliser, &["05320000011", "\u{FFFD}"]).name.as_deref(), Some("\u{FFFD}"));
    settings.encoding = "windows-1253".to_owned();
    let other = Normaliser::new(&settings).unwrap();
    refuses(&other, &["05320000011", "Νί\u{FFFD}κος"], Reason::BadEncoding, Some("name"));
}

#[test]
fn a_repeated_header_is_recognised_in_any_case_and_behind_a_mark() {
    let normaliser = plain(&["phone", "name", "Phone 2"]);
    for cells in [
        &["phone", "name", "phone 2"][..],
        &["Phone", "NAME", "PHONE_2"],
        &["\u{FEFF}phone", "name", "phone 2"],
        &["phone", "name"],
        &["phone", "", "", ""],
    ] {
        refuses(&normaliser, cells, Reason::RepeatedHeader, None);
    }
    refuses(&normaliser, &["phone", "Ayşe", "phone 2"], Reason::PhoneNotANumber, Some("phone"));
    refuses(&normaliser, &["", "name", ""], Reason::PhoneMissing, Some("phone"));
    let bare = Wanted {
        header: HeaderRow::Absent,
        map: vec![(crate::settings::Field::Phone, ColumnRef::Number(1))],
        ..Wanted::default()
    };
    let normaliser = Normaliser::new(&settings(&["#1", "#2"], &bare)).unwrap();
    refuses(&normaliser, &["phone", "name"], Reason::PhoneNotANumber, Some("#1"));
}

#[test]
fn cells_are_counted_strictly_but_for_empty_ones_at_the_end() {
    let normaliser = plain(&["phone", "name", "sehir"]);
    refuses(&normaliser, &["05320000011", "Ayşe Örnek"], Reason::RowTooShort, None);
    refuses(&normaliser, &["# dışa aktarım 2026-02-01"], Reason::RowTooShort, None);
    refuses(&normaliser, &["05320000011", "a", "b", "c"], Reason::RowTooLong, None);
    refuses(&normaliser, &["05320000011", "a", "b", "", "c"], Reason::RowTooLong, None);
    taken(&normaliser, &["05320000011", "a", "b", "", "\u{A0}"]);
    taken(&plain(&["phone", "name", "", " "]), &["05320000011", "a"]);
    let mut settings = settings(&["phone", "name", "sehir"], &Wanted::default());
    settings.short_rows = ShortRows::Fill;
    let found = taken(&Normaliser::new(&settings).unwrap(), &["05320000011"]);
    assert_eq!((&found.name, said(&found)), (&None, vec![None]));
}

#[test]
fn rows_of_a_reject_file_stay_refused_until_they_are_mended() {
    let normaliser = plain(&["phone", "name", "sehir", "", "_line", "_column", "_reason", "_detail"]);
    let with = |own: [&'static str; 4], reason| [&own[..], &["3", "", reason, "…"]].concat();
    let found = taken(&normaliser, &with(["05320000054", "Deneme; Can", "Ankara", ""], "phone_precision_lost"));
    assert_eq!(said(&found), [Some("Ankara")]);
    refuses(&normaliser, &with(["05320000054", "Can", "", ""], "row_too_short"), Reason::RowTooShort, None);
    taken(&normaliser, &with(["05320000054", "Can", "İzmir", ""], "row_too_short"));
    refuses(&normaliser, &with(["05320000054", "Deneme", "Can", "Ankara"], "row_too_long"), Reason::RowTooLong, None);
    taken(&normaliser, &with(["05320000054", "Deneme, Can", "Ankara", ""], "row_too_long"));
    refuses(&normaliser, &with(["phone", "Name", "ŞEHİR", ""], "repeated_header"), Reason::RepeatedHeader, None);
}

#[test]
fn long_names_are_refused_by_characters_not_bytes() {
    let mut settings = settings(&["phone", "name", "note"], &Wanted::default());
    settings.max_name_length = Some(5);
    let normaliser = Normaliser::new(&settings).unwrap();
    assert_eq!(taken(&normaliser, &["05320000011", "  ŞŞ  ŞŞ ", "much longer"]).name.as_deref(), Some("ŞŞ ŞŞ"));
    refuses(&normaliser, &["05320000011", "ŞŞ ŞŞŞ", ""], Reason::FieldTooLong, Some("name"));
}

#[test]
fn the_version_is_read_and_kept_as_an_attribute() {
    let newer = Wanted { newer_by: Some(ColumnRef::Header("updated".to_owned())), ..Wanted::default() };
    let normaliser = Normaliser::new(&settings(&["phone", "updated"], &newer)).unwrap();
    let found = taken(&normaliser, &["05320000011", " 1970-01-02 "]);
    assert_eq!((found.version, said(&found)), (Some(86_400_000), vec![Some("1970-01-02")]));
    assert_eq!(taken(&normaliser, &["05320000011", "42"]).version, Some(42));
    assert_eq!(taken(&normaliser, &["05320000011", ""]).version, None);
    assert_eq!(taken(&normaliser, &["05320000011", "NULL"]).version, None);
    refuses(&normaliser, &["05320000011", "yesterday"], Reason::VersionInvalid, Some("updated"));
}

#[test]
fn the_region_column_decides_and_is_blamed_when_it_cannot() {
    let normaliser = plain(&["phone", "country"]);
    assert_eq!(taken(&normaliser, &["6900000036", "GR"]).phone.as_str(), "+306900000036");
    assert_eq!(taken(&normaliser, &["05320000011", "NULL"]).phone.as_str(), "+905320000011");
    refuses(&normaliser, &["05320000011", "Atlantis"], Reason::PhoneNoRegion, Some("country"));
    refuses(&normaliser, &["6900000036", "TR"], Reason::PhoneInvalid, Some("phone"));
}

#[test]
fn an_unknown_region_is_a_fault_before_any_row() {
    let mut settings = settings(&["phone"], &Wanted::default());
    settings.region = Some("XX".to_owned());
    assert_eq!(Normaliser::new(&settings).unwrap_err().code, Code::Usage);
}

#[test]
fn the_quick_look_at_a_name_takes_only_what_the_long_one_leaves_alone() {
    use unicode_normalization::{IsNormalized, is_nfc_quick};
    for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
        for name in [format!("{c}"), format!("a{c}b"), format!("a {c}")] {
            if is_plain(name.as_bytes()) {
                assert_eq!(is_nfc_quick(name.chars()), IsNormalized::Yes, "{c:?}");
                assert_eq!(name.split_whitespace().collect::<Vec<_>>().join(" "), name, "{c:?}");
            }
        }
    }
    assert!(is_plain("Şerife Yıldırım-Öztürk".as_bytes()) && is_plain("Κωνσταντίνος Οικονόμου".as_bytes()));
    assert!(["a  b", " a", "a ", "", "a\u{A0}b", "e\u{301}", "\u{387}"].iter().all(|name| !is_plain(name.as_bytes())));
    assert_eq!(NOTHING.iter().map(|word| word.len()).max(), Some(NOTHING_MAX));
}

proptest! {
    #[test]
    fn no_row_panics_and_what_is_taken_is_clean(
        cells in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6),
        phone in "\\+?90532000[0-9]{4}",
    ) {
        let normaliser = plain(&["name", "phone", "city"]);
        let mut cells: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
        if cells.len() > 1 {
            cells[1] = phone.as_bytes();
        }
        if let Outcome::Recipient(found) = normaliser.normalise(&row(&cells)) {
            let texts = found.attributes.iter().flatten().chain(found.name.as_deref());
            prop_assert!(texts.into_iter().all(|text| !text.contains('\0') && trim(text) == text && !text.is_empty()));
        }
    }
}
