//! The short way to the numbers that fill most lists.
//!
//! Owns how Turkish and Greek numbers of ten digits are written, so that the general parser, the dearest
//! step of reading a phone, can be left out. It does not know which ranges are assigned. Invariant: where
//! the number it yields is valid, the general parser yields the same one (a property test compares them).

use rlibphonenumber::{PhoneNumber, Region};

/// A country whose valid ten-digit numbers are told by their first digit.
struct Plan {
    region: Region,
    code: i32,
    /// The calling code as text.
    prefix: &'static str,
    /// What stands before a number dialled within the country.
    trunk: &'static str,
    /// First digits of landlines and mobiles.
    firsts: &'static [u8],
}

/// Both countries dial abroad with 00.
const PLANS: [Plan; 2] = [
    Plan { region: Region::TR, code: 90, prefix: "90", trunk: "0", firsts: b"2345" },
    Plan { region: Region::GR, code: 30, prefix: "30", trunk: "", firsts: b"26" },
];

impl Plan {
    fn number(&self, national: &str) -> Option<PhoneNumber> {
        let bytes = national.as_bytes();
        if bytes.len() != 10 || !bytes.iter().all(u8::is_ascii_digit) || !self.firsts.contains(bytes.first()?) {
            return None;
        }
        Some(PhoneNumber { country_code: self.code, national_number: national.parse().ok()?, ..PhoneNumber::default() })
    }
}

/// The number of plain digits, with `+` in front or read in `home`; it may still be invalid.
pub(super) fn known(text: &str, home: Option<Region>) -> Option<PhoneNumber> {
    if let Some(digits) = text.strip_prefix('+') {
        return PLANS.iter().find_map(|plan| plan.number(digits.strip_prefix(plan.prefix)?));
    }
    let plan = PLANS.iter().find(|plan| Some(plan.region) == home)?;
    let national = match text.len() {
        10 => Some(text),
        12 => text.strip_prefix(plan.prefix),
        14 => text.strip_prefix("00").and_then(|rest| rest.strip_prefix(plan.prefix)),
        n if n == 10 + plan.trunk.len() => text.strip_prefix(plan.trunk),
        _ => None,
    };
    plan.number(national?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumberType};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_short_way_gives_what_the_parser_gives(
            text in "(\\+90|\\+30|\\+|0090|0030|0|90|30|)[2-6][0-9]{9}|\\+?[0-9]{9,14}", greek in any::<bool>(),
        ) {
            let home = if greek { Region::GR } else { Region::TR };
            if let Some(number) = known(&text, Some(home)) {
                let parsed = PHONE_NUMBER_UTIL.parse(&text, Some(home));
                if PHONE_NUMBER_UTIL.get_number_type(&number) != PhoneNumberType::Unknown {
                    prop_assert_eq!(Ok(number), parsed);
                }
            }
        }
    }
}
