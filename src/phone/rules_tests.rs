//! Regions, types, details and masks: what the rules say beside the number.

use super::*;

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
    let german = PhoneRules::new(Some("DE"), PhoneType::Mobile).unwrap();
    assert_eq!(german.read("4915112345678", None).unwrap_err().reason, Reason::PhoneInvalid);
    assert_eq!(read("0212 555 00 12 0212 555 00 13"), Err(Reason::PhoneMultiple));
}

#[test]
fn a_masked_phone_shows_neither_its_middle_nor_its_length() {
    assert_eq!(Phone::stored("+905320000001".to_owned()).masked(), "+9053*****01");
    assert_eq!(Phone::stored("+3545550".to_owned()).masked(), "+35*****50");
    assert_eq!(Phone::stored(String::new()).masked(), "+*****");
    assert_eq!(masked_cell("905320000011 dahili 5"), "905***** 5");
    assert_eq!(masked_cell(" Ayşe Yılmaz\n"), "xxx*****xx");
    for short in ["", "0532000", "Ayşe"] {
        assert_eq!(masked_cell(short), "*****");
    }
}
