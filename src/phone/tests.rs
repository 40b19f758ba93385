//! What each kind of phone cell becomes.

use super::*;

fn read_in(region: Option<&str>, cell: &str) -> Result<String, Reason> {
    PhoneRules::new(region, PhoneType::Any).unwrap().read(cell, None).map(|p| p.0).map_err(|r| r.reason)
}

fn stored(region: &str, cells: &[&str], expected: &str) {
    for cell in cells {
        assert_eq!(read_in(Some(region), cell), Ok(expected.to_owned()), "{cell:?} in {region}");
    }
}

fn refused(region: &str, cells: &[&str], expected: Reason) {
    for cell in cells {
        let region = Some(region).filter(|r| !r.is_empty());
        assert_eq!(read_in(region, cell), Err(expected), "{cell:?} in {region:?}");
    }
}

#[test]
fn a_number_is_read_however_it_is_written() {
    let cells = [
        "05320000011",
        "5320000011",
        "905320000011",
        "+905320000011",
        "00905320000011",
        "0090 532 000 00 11",
        "+90 (532) 000 00 11",
        "+90 (0) 532 000 00 11",
        "(0532) 000-00-11",
        "0532.000.00.11",
        "5.320.000.011",
        "5 320 000 011",
        "0532/000 00 11",
        "0532\u{A0}000\u{202F}00\u{2007}11",
        "0532\u{3000}000\t00 11",
        "０５３２－０００－００－１１",
        "＋９０５３２０００００１１",
        "٠٥٣٢٠٠٠٠٠١١",
        "۰۵۳۲۰۰۰۰۰۱۱",
        "०५३२०००००११",
        "0532\u{2013}000\u{2212}00\u{2011}11",
        "\u{202A}+90 532 000 00 11\u{202C}",
        "05\u{200B}3200000\u{FEFF}11",
        "\u{FEFF}05320000011",
        "++905320000011",
        "+ 90 532 000 00 11",
        "(+90) 532 000 00 11",
        "0532·000·00·11",
        "0532_000_00_11",
        "05320000011,",
        "05320000011;",
        "𝟎𝟓𝟑𝟐𝟎𝟎𝟎𝟎𝟎𝟏𝟏",
    ];
    stored("TR", &cells, "+905320000011");
}

#[test]
fn what_surrounds_a_number_is_taken_off() {
    let cells = [
        "=\"05320000011\"",
        "=\"+905320000011\"",
        "'05320000011",
        "'+905320000011",
        "’05320000011",
        "\"05320000011\"",
        "“05320000011”",
        "=+905320000011",
        "`05320000011`",
        "tel:+90-532-000-00-11",
        "TEL:05320000011",
        "Tel: 0532 000 00 11",
        "Tel.: 0532 000 00 11",
        "Tel. 0532 000 00 11",
        "Telefon: 05320000011",
        "GSM:05320000011",
        "GSM No: 0532 000 00 11",
        "Cep: 05320000011",
        "Cep Tel: 05320000011",
        "CEP TELEFONU : 0 532 000 00 11",
        "Τηλ: +905320000011",
        "ΤΗΛ. +905320000011",
        "Κιν.: +905320000011",
        "Κινητό: 00905320000011",
        "Mobile - 05320000011",
        "WhatsApp: +90 532 000 00 11",
        "☎ 0532 000 00 11",
        "📞0532 000 00 11",
        "ＴＥＬ：05320000011",
        "İş: 05320000011",
        "Tel (0532) 000 00 11",
        "https://wa.me/905320000011",
        "wa.me/+905320000011",
        "http://wa.me/905320000011?text=Merhaba%205",
        "https://api.whatsapp.com/send?phone=905320000011&text=Selam",
        "whatsapp://send?phone=905320000011",
        "https://api.whatsapp.com/send/?text=7&phone=%2B905320000011",
        "callto:+905320000011",
        "tel://05320000011",
    ];
    stored("TR", &cells, "+905320000011");
    stored("GR", &["https://wa.me/905320000011"], "+905320000011");
}

#[test]
fn decimals_of_a_spreadsheet_are_dropped() {
    let cells = [
        "905320000016.0",
        "5320000016.0",
        "5320000016.00",
        "5320000016,0",
        "5320000016,00",
        "+905320000016.0",
        "905320000016.000000",
        "９０５３２０００００１６．０",
        "'5320000016.0",
    ];
    stored("TR", &cells, "+905320000016");
    refused("TR", &["905320000016.5", "5320000016,25", "0532 000 00 16.0"], Reason::PhoneNotANumber);
    refused("DE", &["0171 3920013.0"], Reason::PhoneNotANumber);
    stored("TR", &["0532.000.00.00"], "+905320000000");
}

#[test]
fn scientific_notation_is_exact_or_refused() {
    stored(
        "TR",
        &[
            "9.05320000014E+11",
            "9,05320000014E+11",
            "9.05320000014e11",
            "+9.05320000014E+11",
            "5.320000014e9",
            "5.320000014E+09",
            "905.320000014E+9",
            "9.053200000140E+11",
            "=\"9.05320000014E+11\"",
        ],
        "+905320000014",
    );
    refused(
        "TR",
        &[
            "9.05321E+11",
            "4.479E+11",
            "9,05321E+11",
            "3,069E+11",
            "9E+11",
            "9e11",
            "9.05321 E+11",
            "9.05E+111",
            "+9.05E+11",
            "９.０５Ｅ+１１",
            "-9.05E+11",
            "9.05E+99999999999999999999",
        ],
        Reason::PhonePrecisionLost,
    );
    refused("TR", &["3.06900000016E+11", "-5.320000014E+9"], Reason::PhoneInvalid);
    refused("TR", &["9.05E-11", "5.3200000145E+9", "0532e0000012"], Reason::PhoneNotANumber);
}

#[test]
fn several_numbers_in_a_cell_are_refused_whatever_separates_them() {
    let cells = [
        "05320000052 / 05320000053",
        "05320000054 05320000055",
        "+905320000056+905320000057",
        "05320000058, 05320000059",
        "05320000060;05320000061",
        "05320000062 ::: 05320000063",
        "05320000064|05320000065",
        "05320000064 & 05320000065",
        "05320000064 ve 05320000065",
        "05320000064 veya 05320000065",
        "+905320000064 ή +905320000065",
        "05320000064\n05320000065",
        "0532 000 00 64 0532 000 00 65",
        "+90 532 000 00 64 +90 532 000 00 65",
        "+90 532 000 00 64 0532 000 00 65",
        "0532000006405320000065",
        "05320000064 - 05320000065",
        "05320000064-05320000065",
        "0212 555 00 12 / 0532 000 00 65",
        "0532 000 00 64 (ev) 0212 555 00 12 (iş)",
        "05320000064,05320000065,05320000066",
        "0532 000 00 64 – 0532 000 00 65",
        "Tel: 05320000064 Cep: 05320000065",
        "05320000064 // 05320000065",
    ];
    refused("TR", &cells, Reason::PhoneMultiple);
    refused("TR", &[&"05320000064; ".repeat(4000)], Reason::PhoneMultiple);
    refused("", &["05320000064 / 05320000065"], Reason::PhoneMultiple);
}

#[test]
fn short_ranges_are_not_glued_to_longer_numbers() {
    refused(
        "TR",
        &["0212 555 00 12/13", "05320000065-66", "0212 555 00 12-14", "0212 555 00 12/3"],
        Reason::PhoneInvalid,
    );
    refused("DE", &["0171 3920013-14", "0171 3920013/14", "030 1234567/68"], Reason::PhoneInvalid);
}

#[test]
fn extensions_are_refused_as_such() {
    let cells = [
        "0212 555 00 12 x12",
        "0212 555 00 12x12",
        "0212 555 00 12 ext. 12",
        "02125550012 ext 12",
        "0212 555 00 12 dahili 12",
        "0212 555 00 12 (dahili: 123)",
        "0212 555 00 12 Dahili:12",
        "0212 555 00 12 #12",
        "0212 555 00 12#12",
        "+902125550012;ext=12",
        "tel:+902125550012;ext=12",
        "+30 2100000012 εσωτ. 12",
        "0212 555 00 12,,12",
        "0212 555 00 12 iç hat 12",
        "0212 555 00 12 DAHİLİ 12",
        "0212 555 00 12 extension 12",
    ];
    refused("TR", &cells, Reason::PhoneExtension);
    refused("", &["0212 555 00 12 ext. 12"], Reason::PhoneExtension);
}

#[test]
fn letters_never_become_digits() {
    let cells = [
        "0532OOOOO12",
        "0532ΟΟΟ0013",
        "0532a000012",
        "+90532OOO0012",
        "05320000l12",
        "0532 000 00 74 (iş)",
        "0532 000 00 75 annesi",
        "905320000070@s.whatsapp.net",
        "905320000071@c.us",
        "120363000000000000@g.us",
        "905320000070-1612345678@g.us",
        "yok",
        "olmadi",
        "#ERROR!",
        "#REF!",
        "(zorunlu)",
        "x",
        "5,320,000,083",
        "€5320000012",
        "5320000012 TL",
        "₺5320000012",
        "0532 000 00 12 $",
        "*#06#",
        "+",
        "0532*0000012",
        "05320000x12",
        "fax: 0212 555 00 12",
        ";phone-context=",
        "https://example.invalid/905320000012x",
        "tel:",
        "0xd2dc00a30027c9d5",
        "ayse@example.invalid",
    ];
    refused("TR", &cells, Reason::PhoneNotANumber);
    refused("US", &["+1 202 555 HELP", "1-800-FLOWERS"], Reason::PhoneNotANumber);
}

#[test]
fn words_for_nothing_are_a_missing_phone() {
    let cells = [
        "",
        " ",
        "\u{A0}",
        "-",
        "--",
        "—",
        "–",
        ".",
        "NULL",
        "null",
        "N/A",
        "n/a",
        "#N/A",
        "NaN",
        "None",
        "nil",
        "(null)",
        "\\N",
        "\"\"",
        "=\"\"",
        "'",
        "\u{202A}\u{202C}",
        "?",
        "#YOK",
    ];
    refused("TR", &cells, Reason::PhoneMissing);
}

#[test]
fn numbers_that_cannot_be_reached_are_invalid() {
    let cells = [
        "2222",
        "112",
        "11880",
        "0000000000",
        "1111111111",
        "1234567890",
        "+900000000000",
        "0",
        "2",
        "-454",
        "-5320000012",
        "\u{2212}5320000012",
        "- 5320000012",
        "+-5320000012",
        "5320000012-",
        "+05320000012",
        "+5320000012",
        "0571 000 00 12",
        "210 000 0012",
        "+3399999999999999999",
        "111111111111111111111",
        "+00905320000012",
        "+99912345678",
        "905320000",
    ];
    refused("TR", &cells, Reason::PhoneInvalid);
    refused("GR", &["+30 (0) 690 000 0042", "06900000043", "905320000037"], Reason::PhoneInvalid);
    refused("GB", &["07700 900123", "+44 7700 900124"], Reason::PhoneInvalid);
    refused("DE", &["4915112345678"], Reason::PhoneInvalid);
}

#[test]
fn the_detail_tells_a_list_owner_what_is_wrong() {
    let rules = |region| PhoneRules::new(Some(region), PhoneType::Any).unwrap();
    let detail = |region, cell| rules(region).read(cell, None).unwrap_err().detail;
    assert!(detail("TR", "0571 000 00 12").contains(METADATA_VERSION));
    assert!(detail("TR", "0532 000").contains("too short"));
    assert!(detail("TR", "0532 000 00 12 3").contains("too long"));
    assert!(detail("GB", "07700 900123").contains("films and tests"));
    assert!(detail("DE", "4915112345678").contains("ambiguous"));
    assert!(detail("TR", "0532OOOOO12").contains("letter O"));
    assert!(detail("TR", "+05320000012").contains("calling code"));
}

#[test]
fn valid_numbers_of_every_kind_are_stored() {
    stored("GR", &["306900000034", "00306900000034", "6900000034"], "+306900000034");
    stored("GR", &["6850000012"], "+306850000012");
    stored("GR", &["+30 689 000 0012"], "+306890000012");
    stored("DE", &["01713920013"], "+491713920013");
    for (region, cell, phone) in [
        ("TR", "0212 555 00 12", "+902125550012"),
        ("TR", "444 0 012", "+904440012"),
        ("TR", "0561 616 00 12", "+905616160012"),
        ("TR", "0516 160 00 12", "+905161600012"),
        ("GB", "07797712345", "+447797712345"),
        ("GB", "07781123456", "+447781123456"),
        ("GB", "07624000123", "+447624000123"),
        ("GB", "+15065550112", "+15065550112"),
        ("GB", "+77000000012", "+77000000012"),
        ("US", "+78000000012", "+78000000012"),
        ("US", "+33199000012", "+33199000012"),
        ("US", "+393470000012", "+393470000012"),
        ("US", "+390600000012", "+390600000012"),
        ("US", "1 (202) 555-0123", "+12025550123"),
        ("US", "12025550123", "+12025550123"),
        ("TR", "+306900000027", "+306900000027"),
        ("TR", "0030 690 000 0027", "+306900000027"),
    ] {
        stored(region, &[cell], phone);
    }
}

#[test]
fn without_a_region_only_international_numbers_are_read() {
    refused("", &["05320000076", "5320000077", "905320000078", "00905320000028"], Reason::PhoneNoRegion);
    assert_eq!(read_in(None, "+905320000079"), Ok("+905320000079".to_owned()));
    assert_eq!(read_in(None, "wa.me/905320000079"), Ok("+905320000079".to_owned()));
}

#[test]
fn the_region_of_the_row_wins() {
    let rules = PhoneRules::new(Some("TR"), PhoneType::Any).unwrap();
    let read = |cell, region| rules.read(cell, region).map(|p| p.0).map_err(|r| r.reason);
    assert_eq!(read("6900000036", Some("GR")), Ok("+306900000036".to_owned()));
    assert_eq!(read("6900000036", Some(" Ελλάδα ")), Ok("+306900000036".to_owned()));
    assert_eq!(read("05320000011", Some(" ")), Ok("+905320000011".to_owned()));
    assert_eq!(read("05320000011", Some("Marmara")), Err(Reason::PhoneNoRegion));
    assert_eq!(read("+905320000011", Some("Marmara")), Ok("+905320000011".to_owned()));
    assert!(PhoneRules::new(Some("XX"), PhoneType::Any).is_err());
}

#[test]
fn only_mobiles_pass_when_mobiles_are_asked_for() {
    let rules = PhoneRules::new(Some("TR"), PhoneType::Mobile).unwrap();
    let read = |cell| rules.read(cell, None).map(|p| p.0).map_err(|r| r.reason);
    assert_eq!(read("05320000011"), Ok("+905320000011".to_owned()));
    assert_eq!(read("+12025550123"), Ok("+12025550123".to_owned()));
    assert_eq!(read("0212 555 00 12"), Err(Reason::PhoneNotMobile));
    assert_eq!(read("444 0 012"), Err(Reason::PhoneNotMobile));
    assert_eq!(read("0212 555 00 12/13"), Err(Reason::PhoneInvalid));
    assert_eq!(read("0212 555 00 12 0212 555 00 13"), Err(Reason::PhoneMultiple));
}

#[test]
fn a_masked_phone_shows_neither_its_middle_nor_its_length() {
    assert_eq!(Phone::stored("+905320000001".to_owned()).masked(), "+9053*****01");
    assert_eq!(Phone::stored("+3545550".to_owned()).masked(), "+35*****50");
    assert_eq!(Phone::stored(String::new()).masked(), "+*****");
}
