//! The region in which a national number is read.
//!
//! Owns how a region is written in a list: a two-letter code, a calling code, or the usual name of the
//! country in English, Turkish or Greek. It does not know numbers. Invariant: what it yields has metadata.

use rlibphonenumber::{PHONE_NUMBER_UTIL, Region};

use super::fold::{fold, word};
use crate::settings::trim;

/// Countries by the names that lists use, folded by `word`: ISO code, then alpha-3 and names.
const NAMES: &[(&str, &[&str])] = &[
    ("TR", &["tur", "turkey", "turkiye", "turkiyecumhuriyeti", "republicofturkiye", "τουρκια", "turkei", "turquie"]),
    ("GR", &["grc", "el", "greece", "hellas", "yunanistan", "ελλαδα", "ελλασ", "griechenland"]),
    ("CY", &["cyp", "cyprus", "kibris", "guneykibris", "kuzeykibris", "kktc", "κυπροσ", "zypern"]),
    (
        "GB",
        &[
            "gbr",
            "uk",
            "unitedkingdom",
            "greatbritain",
            "england",
            "ingiltere",
            "birlesikkrallik",
            "ηνωμενοβασιλειο",
            "αγγλια",
        ],
    ),
    (
        "US",
        &[
            "usa",
            "unitedstates",
            "unitedstatesofamerica",
            "america",
            "abd",
            "amerika",
            "amerikabirlesikdevletleri",
            "ηπα",
            "ηνωμενεσπολιτειεσ",
        ],
    ),
    ("DE", &["deu", "germany", "deutschland", "almanya", "γερμανια"]),
    ("AT", &["aut", "austria", "osterreich", "avusturya", "αυστρια"]),
    ("CH", &["che", "switzerland", "schweiz", "isvicre", "ελβετια"]),
    ("FR", &["fra", "france", "fransa", "γαλλια"]),
    ("NL", &["nld", "netherlands", "thenetherlands", "holland", "hollanda", "ολλανδια"]),
    ("BE", &["bel", "belgium", "belcika", "βελγιο"]),
    ("IT", &["ita", "italy", "italia", "italya", "ιταλια"]),
    ("ES", &["esp", "spain", "espana", "ispanya", "ισπανια"]),
    ("PT", &["prt", "portugal", "portekiz", "πορτογαλια"]),
    ("SE", &["swe", "sweden", "isvec", "σουηδια"]),
    ("NO", &["nor", "norway", "norvec", "νορβηγια"]),
    ("DK", &["dnk", "denmark", "danimarka", "δανια"]),
    ("FI", &["fin", "finland", "finlandiya", "φινλανδια"]),
    ("PL", &["pol", "poland", "polonya", "πολωνια"]),
    ("RO", &["rou", "romania", "romanya", "ρουμανια"]),
    ("BG", &["bgr", "bulgaria", "bulgaristan", "βουλγαρια"]),
    ("MK", &["mkd", "northmacedonia", "kuzeymakedonya", "makedonya"]),
    ("AL", &["alb", "albania", "arnavutluk", "αλβανια"]),
    ("RS", &["srb", "serbia", "sirbistan", "σερβια"]),
    ("RU", &["rus", "russia", "rusya", "russianfederation", "ρωσια"]),
    ("UA", &["ukr", "ukraine", "ukrayna", "ουκρανια"]),
    ("GE", &["geo", "georgia", "gurcistan", "γεωργια"]),
    ("AZ", &["aze", "azerbaijan", "azerbaycan"]),
    ("KZ", &["kaz", "kazakhstan", "kazakistan"]),
    ("IL", &["isr", "israel", "israil", "ισραηλ"]),
    ("SA", &["sau", "saudiarabia", "suudiarabistan"]),
    ("AE", &["are", "uae", "unitedarabemirates", "bae", "birlesikarapemirlikleri"]),
    ("QA", &["qat", "qatar", "katar"]),
    ("IQ", &["irq", "iraq", "irak"]),
    ("IR", &["irn", "iran"]),
    ("SY", &["syr", "syria", "suriye"]),
    ("EG", &["egy", "egypt", "misir", "αιγυπτοσ"]),
    ("IN", &["ind", "india", "hindistan"]),
    ("PK", &["pak", "pakistan"]),
    ("CN", &["chn", "china", "cin", "κινα"]),
    ("JP", &["jpn", "japan", "japonya"]),
    ("CA", &["can", "canada", "kanada", "καναδασ"]),
    ("AU", &["aus", "australia", "avustralya", "αυστραλια"]),
    ("BR", &["bra", "brazil", "brasil", "brezilya"]),
    ("MX", &["mex", "mexico", "meksika"]),
];

/// The region with this two-letter code, if there are number rules for it.
fn by_code(code: &str) -> Option<Region> {
    let region = Region::from_code(code).ok().filter(|region| *region != Region::World)?;
    PHONE_NUMBER_UTIL.get_country_code_for_region(region).map(|_| region)
}

/// The region that an option or a cell names; `None` when no region is known by that text.
///
/// Reads `TR`, `tr`, `UK`, `TUR`, `Türkiye`, `+90`, `0090` and `90`.
pub(super) fn region(text: &str) -> Option<Region> {
    let text = trim(text);
    if text.len() == 2
        && let Some(region) = by_code(text)
    {
        return Some(region);
    }
    let folded = fold(text);
    let digits = folded.trim_start_matches(['+', '(', ' ']).trim_end_matches([')', ' ']);
    if digits.bytes().all(|b| b.is_ascii_digit()) && !digits.is_empty() {
        let code = digits.trim_start_matches('0').parse::<i32>().ok()?;
        return PHONE_NUMBER_UTIL.get_region_for_country_code(code).filter(|region| *region != Region::World);
    }
    let word = word(&folded);
    let named = NAMES.iter().find(|(_, names)| names.contains(&word.as_str())).map(|(code, _)| *code);
    by_code(named.unwrap_or(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_read_by_code_name_or_calling_code() {
        for text in
            ["TR", "tr", " TR\u{A0}", "ＴＲ", "TUR", "Türkiye", "TÜRKİYE", "Turkey", "Τουρκία", "90", "+90", "0090"]
        {
            assert_eq!(region(text), Some(Region::TR), "{text}");
        }
        for (text, expected) in [("UK", Region::GB), ("Ελλάδα", Region::GR), ("EL", Region::GR), ("+1", Region::US)]
        {
            assert_eq!(region(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_names_no_region_is_none() {
        for text in ["", "T", "XX", "Marmara", "ZZ", "999", "+", "٩٩٩٩٩٩٩٩٩٩٩٩", "Turkmenistan?"] {
            assert_eq!(region(text), None, "{text}");
        }
    }

    #[test]
    fn every_name_in_the_table_is_folded_and_stands_for_a_region_with_rules() {
        for (code, names) in NAMES {
            assert!(by_code(code).is_some(), "{code}");
            for name in *names {
                assert_eq!(*name, word(name));
                assert_eq!(region(name), by_code(code), "{name}");
            }
        }
    }
}
