//! What holds for every phone cell, whatever is in it.

use proptest::prelude::*;

use super::*;

const REGIONS: [Option<&str>; 8] =
    [None, Some("TR"), Some("GR"), Some("DE"), Some("US"), Some("IT"), Some("AR"), Some("RU")];

fn stays_itself(cell: &str, region: Option<&str>) {
    let rules = PhoneRules::new(region, PhoneType::Any).unwrap();
    if let Ok(phone) = rules.read(cell, None) {
        for rules in [rules, PhoneRules::new(None, PhoneType::Any).unwrap()] {
            assert_eq!(rules.read(phone.as_str(), None).as_ref(), Ok(&phone), "{cell:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_panics(cell in any::<String>(), row in proptest::option::of(any::<String>()), n in 0..REGIONS.len()) {
        let _ = PhoneRules::new(REGIONS[n], PhoneType::Any).unwrap().read(&cell, row.as_deref());
        stays_itself(&cell, REGIONS[n]);
    }

    #[test]
    fn nothing_made_of_the_signs_in_phones_panics(
        cell in "[0-9０-９٠-٩+＋ ()./,;:x#eE=\"'\u{202A}\u{A0}\u{2013}Οabtl-]{0,60}", n in 0..REGIONS.len(),
    ) {
        stays_itself(&cell, REGIONS[n]);
    }

    #[test]
    fn an_accepted_phone_is_accepted_as_itself(cell in "(\\+|00|0|)[1-9][0-9]{6,13}", n in 0..REGIONS.len()) {
        stays_itself(&cell, REGIONS[n]);
    }

    #[test]
    fn the_short_way_for_clean_numbers_gives_what_the_long_way_gives(digits in "[0-9]{8,15}") {
        let rules = PhoneRules::new(Some("TR"), PhoneType::Any).unwrap();
        prop_assert_eq!(rules.read(&format!("+{digits}"), None), rules.read(&format!("+ {digits}"), None));
    }
}
