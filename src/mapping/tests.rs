//! Headers of all kinds and the columns they give.

use proptest::prelude::*;

use super::*;

fn header(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|c| (*c).to_owned()).collect()
}

fn found(cells: &[&str]) -> Columns {
    resolve(&header(cells), &Wanted::default()).unwrap()
}

fn fault(cells: &[&str], wanted: &Wanted) -> Fault {
    resolve(&header(cells), wanted).unwrap_err()
}

fn map(map: &[(Field, &str)]) -> Wanted {
    let of = |text: &str| match text.strip_prefix('#') {
        Some(n) => ColumnRef::Number(n.parse().unwrap()),
        None => ColumnRef::Header(text.to_owned()),
    };
    Wanted { map: map.iter().map(|(f, h)| (*f, of(h))).collect(), ..Wanted::default() }
}

#[test]
fn headers_compare_without_case_accents_dashes_and_invisible_marks() {
    for (a, b) in [
        ("PHONE-NUMBER", "phone_number"),
        ("Full  Name", "full name"),
        ("İSİM", "isim"),
        ("ADI SOYADI", "Adı Soyadı"),
        ("TELEFON NO", "telefon no"),
        ("\u{FEFF}phone\u{A0}", "phone"),
        ("ΑΡΙΘΜΌΣ", "αριθμος"),
        ("Κινητός", "ΚΙΝΗΤΟΣ"),
        ("Ｐｈｏｎｅ", "phone"),
        ("Téléphone", "TELEPHONE"),
        ("Cep Telefonu:", "cep-telefonu"),
        ("i\u{307}sim", "ISIM"),
    ] {
        assert_eq!(fold_header(a), fold_header(b), "{a} {b}");
    }
    assert_ne!(fold_header("#"), fold_header("%"));
}

#[test]
fn every_known_name_is_folded_and_names_one_field_only() {
    for name in PHONE.iter().chain(PHONE_QUALIFIED).chain(NAME).chain(NAME_OR_FIRST).chain(SURNAME).chain(REGION) {
        assert_eq!(*name, fold_header(name));
    }
    for name in NAME.iter().chain(NAME_OR_FIRST).chain(SURNAME).chain(REGION) {
        assert_eq!(phone_rank(name), None, "{name}");
    }
}

#[test]
fn common_phone_headers_map_by_themselves() {
    for name in [
        "phone",
        "Phone Number",
        "mobile",
        "Mobile Phone",
        "GSM",
        "GSM No",
        "Telefon",
        "TELEFON NUMARASI",
        "Telefon Numarası",
        "Cep",
        "Cep Telefonu",
        "Cep Tel.",
        "CEP TELEFONU NO",
        "Κινητό",
        "ΚΙΝΗΤΟ",
        "Τηλέφωνο",
        "Αριθμός τηλεφώνου",
        "Τηλ.",
        "Phone 1 - Value",
        "Tel",
        "MSISDN",
        "WhatsApp",
        "Telefon 1",
        "Home Phone",
        "İletişim No",
        "phone*",
        "+ Phone",
        "E.164",
        "tel_no",
        "Κινητό τηλέφωνο",
        "\u{FEFF}phone",
        "1. Telefon",
    ] {
        assert_eq!(found(&["x", name]).phone, 1, "{name}");
        assert!(names_a_phone(&header(&[name])));
    }
}

#[test]
fn headers_that_only_mention_a_phone_or_name_do_not_match() {
    for name in [
        "phone type",
        "telefon tipi",
        "Phone 1 - Type",
        "Phone 1 - Label",
        "phone verified",
        "has phone",
        "fax",
        "iphone",
        "telefon modeli",
        "phone_hash",
        "Τύπος τηλεφώνου",
        "email",
        "cepheus",
        "phone 123",
        "",
        " ",
        "value",
        "1",
    ] {
        assert!(!names_a_phone(&header(&[name])), "{name}");
    }
    for name in [
        "file name",
        "user name",
        "username",
        "company name",
        "list name",
        "First Name",
        "Given Name",
        "Nickname",
        "Name Prefix",
        "şirket adı",
        "dosya adı",
        "kullanıcı adı",
        "Όνομα χρήστη",
        "Επώνυμο",
        "Soyad",
        "product",
    ] {
        assert_eq!(found(&["phone", name]).name, None, "{name}");
    }
}

#[test]
fn name_and_region_headers_map_by_themselves() {
    for name in
        ["name", "Ad Soyad", "ADI SOYADI", "isim", "Full Name", "Ονοματεπώνυμο", "Όνομα", "Müşteri Adı", " name "]
    {
        assert_eq!(found(&["phone", name]).name, Some(1), "{name}");
    }
    for name in ["country", "Ülke", "Country Code", "Χώρα", "region"] {
        assert_eq!(found(&["phone", name]).region, Some(1), "{name}");
    }
    for parts in [["First Name", "Last Name"], ["Ad", "Soyad"], ["Όνομα", "Επώνυμο"], ["Given Name", "Family Name"]]
    {
        let columns = found(&[parts[0], parts[1], "phone"]);
        assert_eq!((columns.name, columns.attributes.len()), (None, 2), "{parts:?}");
    }
    assert_eq!(found(&["Ad", "Soyad", "Ad Soyad", "gsm"]).name, Some(2));
}

#[test]
fn a_plain_phone_wins_over_a_qualified_one_and_equals_are_a_fault() {
    assert_eq!(found(&["home phone", "phone"]).phone, 1);
    assert_eq!(found(&["Business Phone", "Home Phone 2", "Mobile Phone"]).phone, 2);
    assert_eq!(found(&["Phone 2 - Value", "Phone 1 - Value", "Phone 1 - Type"]).phone, 1);
    let same = fault(&["phone", "name", "Phone"], &Wanted::default());
    assert_eq!(same.code, Code::DuplicatePhoneColumn);
    assert_eq!(same.message, "'phone' is in columns 1 and 3; say which one");
    let two = fault(&["Telefon", "Cep Telefonu"], &Wanted::default());
    assert_eq!(two.code, Code::DuplicatePhoneColumn);
    assert!(two.message.contains("1 'Telefon' and 2 'Cep Telefonu'"), "{}", two.message);
    assert_eq!(fault(&["home phone", "work phone"], &Wanted::default()).code, Code::DuplicatePhoneColumn);
}

#[test]
fn a_header_without_a_phone_says_what_was_found() {
    let none = fault(&["email", "na\u{200B}me"], &Wanted::default());
    assert_eq!(none.code, Code::NoPhoneColumn);
    assert!(none.message.ends_with("found 'email', 'na<U+200B>me'"), "{}", none.message);
    let near = fault(&["name", "telefn"], &Wanted::default());
    assert!(near.hint.contains("--map phone=#2"), "{}", near.hint);
    let title = fault(&["Müşteri listesi"], &Wanted::default());
    assert!(title.message.contains("'Müşteri listesi'") && !title.message.contains("quotes"));
    let comma = Wanted { delimiter: Some(b','), ..Wanted::default() };
    let wrong = fault(&["phone;name"], &comma);
    assert_eq!(wrong.message, "with ',' the header is one column 'phone;name'; the file seems to use ';'");
    for wanted in [Wanted::default(), comma] {
        let quoted = fault(&["phone,name"], &wanted);
        assert_eq!(quoted.message, "the header is a single cell 'phone,name'; every line is wrapped in quotes");
    }
    assert_eq!(fault(&["", "\u{A0}"], &Wanted::default()).code, Code::NoHeader);
}

#[test]
fn a_map_option_wins_and_must_name_a_column() {
    let cells = ["Phone", "Cep Telefonu", "Full  Name"];
    let columns = resolve(&header(&cells), &map(&[(Field::Phone, "cep_telefonu"), (Field::Name, "#3")])).unwrap();
    assert_eq!((columns.phone, columns.name), (1, Some(2)));
    assert_eq!(columns.attributes, [("Phone".to_owned(), 0)]);
    let unknown = fault(&cells, &map(&[(Field::Phone, "cep telefon")]));
    assert_eq!(unknown.code, Code::UnknownColumn);
    assert!(unknown.message.contains("nearest is 'Cep Telefonu'"), "{}", unknown.message);
    assert_eq!(fault(&cells, &map(&[(Field::Phone, "#4")])).code, Code::UnknownColumn);
    assert_eq!(fault(&cells, &map(&[(Field::Phone, "#0")])).code, Code::UnknownColumn);
    assert_eq!(fault(&cells, &map(&[(Field::Phone, "#1"), (Field::Name, "#1")])).code, Code::Usage);
    assert_eq!(fault(&cells, &map(&[(Field::Phone, "#1"), (Field::Phone, "#2")])).code, Code::DuplicatePhoneColumn);
    assert_eq!(fault(&["a", "A ", "a-"], &map(&[(Field::Phone, "_a")])).code, Code::DuplicatePhoneColumn);
    let exact = resolve(&header(&["Phone", "phone"]), &map(&[(Field::Phone, "phone")])).unwrap();
    assert_eq!(exact.phone, 1);
    let spared = resolve(&header(&["phone", "mobile"]), &map(&[(Field::Name, "mobile")])).unwrap();
    assert_eq!(spared.phone, 0);
}

#[test]
fn the_version_column_is_an_attribute_too() {
    let newer = |at: &str| Wanted { newer_by: Some(ColumnRef::Header(at.to_owned())), ..Wanted::default() };
    let columns = resolve(&header(&["phone", "updated_at"]), &newer("Updated At")).unwrap();
    assert_eq!((columns.version, columns.attributes), (Some(1), vec![("updated_at".to_owned(), 1)]));
    assert_eq!(fault(&["phone"], &newer("updated")).code, Code::UnknownColumn);
    assert_eq!(
        fault(&["phone", "x"], &Wanted { map: map(&[(Field::Phone, "#1")]).map, ..newer("phone") }).code,
        Code::Usage
    );
}

#[test]
fn attributes_are_sorted_and_their_keys_unique() {
    let columns = found(&["phone", "", "Şehir ", "a", "a", "a_2", "e\u{301}", "a", "\u{200B}zip\u{200B}x", " "]);
    let keys: Vec<(&str, usize)> = columns.attributes.iter().map(|(k, at)| (k.as_str(), *at)).collect();
    assert_eq!(keys, [("a", 3), ("a_2", 5), ("a_3", 4), ("a_4", 7), ("zipx", 8), ("é", 6), ("Şehir", 2)]);
    assert_eq!(columns.width, 10);
}

#[test]
fn without_a_header_columns_are_named_by_place() {
    let bare = |map: Wanted| Wanted { header: HeaderRow::Absent, ..map };
    let cells = ["#1", "#2", "#3"];
    let columns = resolve(&header(&cells), &bare(map(&[(Field::Phone, "#2")]))).unwrap();
    assert_eq!(columns.phone, 1);
    assert_eq!(columns.attributes, [("column_1".to_owned(), 0), ("column_3".to_owned(), 2)]);
    let none = fault(&cells, &bare(Wanted::default()));
    assert_eq!((none.code, none.hint.contains("--map phone=#1")), (Code::NoPhoneColumn, true));
    assert_eq!(fault(&cells, &bare(map(&[(Field::Phone, "phone")]))).code, Code::UnknownColumn);
}

#[test]
fn the_columns_of_a_reject_file_are_no_attributes() {
    let columns = found(&["phone", "name", "sehir", "", "_line", "_column", "_reason", "_detail"]);
    assert_eq!((columns.reject_reason, columns.width), (Some(6), 8));
    assert_eq!(columns.attributes, [("sehir".to_owned(), 2)]);
    assert_eq!(found(&["phone", "_line", "_column", "_reason"]).reject_reason, None);
    assert_eq!(found(&["phone", "_line", "_column", "_reason", "_detail", "x"]).reject_reason, None);
}

proptest! {
    #[test]
    fn folding_a_header_twice_changes_nothing(text in any::<String>()) {
        let once = fold_header(&text);
        prop_assert_eq!(fold_header(&once), once);
    }

    #[test]
    fn no_header_panics_and_keys_stay_unique(cells in proptest::collection::vec("[a-c#_ \u{200B}]{0,3}|\\PC*|phone", 0..8)) {
        if let Ok(columns) = resolve(&cells, &Wanted::default()) {
            let keys: BTreeSet<&String> = columns.attributes.iter().map(|(key, _)| key).collect();
            prop_assert_eq!(keys.len(), columns.attributes.len());
            prop_assert!(columns.attributes.is_sorted());
        }
    }
}

#[test]
fn a_constant_is_a_name_or_an_attribute_and_never_a_phone() {
    let set = |fields: &[(&str, &str)], cells: &[&str]| {
        let pairs = fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned()));
        let wanted = Wanted { set: pairs.collect(), ..Wanted::default() };
        let header: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
        let columns = resolve(&header, &wanted).unwrap();
        constants(&header, &columns, &wanted).map_err(|fault| (fault.code, fault.message))
    };
    let found =
        set(&[("source", " web "), (" Bölge\u{200b}", "Ege"), ("NAME", "Müşteri")], &["phone", "city"]).unwrap();
    assert_eq!(found.name.as_deref(), Some("Müşteri"));
    assert_eq!(found.attributes, [("Bölge", "Ege"), ("source", "web")].map(|(k, v)| (k.to_owned(), v.to_owned())));
    let refused = |fields: &[(&str, &str)], cells: &[&str], part: &str| {
        let (code, message) = set(fields, cells).unwrap_err();
        assert_eq!(code, Code::Usage);
        assert!(message.contains(part), "{message}");
    };
    refused(&[("GSM", "+905320000011")], &["phone"], "'--set GSM' would give every row the same phone");
    refused(&[("region", "TR")], &["phone"], "not how a region is given");
    refused(&[("şehir", "İzmir")], &["phone", "x", "SEHIR"], "'--set şehir' and column 3 'SEHIR' of the file");
    refused(&[("name", "x")], &["phone", "Ad Soyad"], "'--set name' and column 2 'Ad Soyad'");
    refused(&[("a", "1"), ("A", "2")], &["phone"], "are the same field");
    refused(&[("a", " ")], &["phone"], "gives no value");
    refused(&[("", "x")], &["phone"], "names no field");
}

#[test]
fn a_constant_meets_the_keys_of_a_file_without_a_header_and_not_the_columns_of_a_reject_file() {
    let one = |field: &str| vec![(field.to_owned(), "x".to_owned())];
    let map = vec![(Field::Phone, ColumnRef::Number(1))];
    let wanted = Wanted { set: one("Column 2"), header: HeaderRow::Absent, map, ..Wanted::default() };
    let header = ["#1".to_owned(), "#2".to_owned()];
    assert!(constants(&header, &resolve(&header, &wanted).unwrap(), &wanted).is_err());
    let header = ["phone", "_line", "_column", "_reason", "_detail"].map(str::to_owned);
    let wanted = Wanted { set: one("line"), ..Wanted::default() };
    assert!(constants(&header, &resolve(&header, &wanted).unwrap(), &wanted).is_ok());
}
