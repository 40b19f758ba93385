//! A list in every spelling and its clean twin give the same table.

use std::fmt::Write as _;

use crate::common::cli::Home;
use crate::common::data;
use crate::common::oracle::difference;

const ROWS: usize = 20_000;

/// The ways in which one number is written, all of which mean the same in Turkey.
fn spelled(n: &str, way: usize) -> String {
    let (a, b, c, d) = (&n[..3], &n[3..6], &n[6..8], &n[8..]);
    match way % 16 {
        0 => n.to_owned(),
        1 => format!("0{n}"),
        2 => format!("+90{n}"),
        3 => format!("0090{n}"),
        4 => format!("90{n}"),
        5 => format!("0{a} {b} {c} {d}"),
        6 => format!("+90 ({a}) {b}-{c}-{d}"),
        7 => format!("({a}) {b}{c}{d}"),
        8 => format!("0{a}.{b}.{c}.{d}"),
        9 => format!("tel:+90-{a}-{b}-{c}-{d}"),
        10 => format!("0{a}/{b} {c} {d}"),
        11 => format!("90{n}.0"),
        12 => format!("\u{202A}+90\u{A0}{a}\u{A0}{b} {c}{d}\u{202C}"),
        13 => format!("Cep: 0{a} {b} {c} {d}"),
        14 => n.chars().map(|c| char::from_u32(c as u32 - '0' as u32 + 0xFF10).unwrap_or(c)).collect(),
        _ => format!("https://wa.me/90{n}"),
    }
}

/// The names and cities of a row, the same in both twins.
fn person(k: usize) -> (String, &'static str) {
    const NAMES: [&str; 6] = ["Ayşe Yılmaz", "Γιώργος Παπαδόπουλος", "John Smith", "İbrahim Çelik", "O'Brien", "Şule"];
    const CITIES: [&str; 4] = ["İstanbul", "Şişli, İstanbul", "Αθήνα", ""];
    (format!("{} {}", NAMES[k % NAMES.len()], k % 97), CITIES[k % CITIES.len()])
}

fn quoted(cell: &str) -> String {
    format!("\"{}\"", cell.replace('"', "\"\""))
}

/// Rows in the same order: one list as a program writes it, one as people do.
fn twins() -> (String, String) {
    let mut random = fastrand::Rng::with_seed(41);
    let mut order: Vec<usize> = (0..ROWS).collect();
    random.shuffle(&mut order);
    // Every tenth number stands a second time, near or far, with another name: the last one counts.
    order.extend((0..ROWS / 10).map(|_| random.usize(..ROWS)));
    let mut clean = String::from("phone,name,city\n");
    let mut messy = String::from("\u{FEFF} TELEFON ;\"Ad  Soyad\";city\r\n");
    for (n, k) in order.into_iter().enumerate() {
        let (name, city) = person(k + n);
        let _ = writeln!(clean, "{},{},{}", data::phone(k), quoted(&name), quoted(city));
        let spelled = spelled(&data::national(k), random.usize(..16));
        let gap = ["", " ", "\u{A0}", "  "][random.usize(..4)];
        let name = name.replace(' ', ["  ", " ", "\u{A0}"][random.usize(..3)]);
        let (phone, name) = match random.u8(..4) {
            0 => (quoted(&format!("{gap}{spelled}{gap}")), quoted(&format!("{name}{gap}"))),
            1 => (format!("{gap}{spelled}"), format!("{gap}{}{gap}", quoted(&name))),
            _ => (format!("{spelled}{gap}"), name),
        };
        let end = ["\n", "\r\n", "\r", "\r\n;;\r\n", "\n\n"][random.usize(..5)];
        let city = if city.is_empty() { ["", " ", "NULL", "\"\""][random.usize(..4)] } else { city };
        let _ = write!(messy, "{phone};{name};{city}{end}");
    }
    (clean, messy)
}

both! {
    fn a_list_in_every_spelling_and_its_clean_twin_give_the_same_table(db: Db) {
        let home = Home::new();
        let (clean, messy) = twins();
        home.write("clean.csv", clean);
        home.write("messy.csv", messy);
        let mut exports = Vec::new();
        for list in ["clean", "messy"] {
            let name = format!("{list}.csv");
            let line = ["import", &name, "--list", list, "--create-list", "--region", "TR", "--json"];
            let output = home.enlist(&db).args(line).run().expect(0);
            assert_eq!((output.count("rows"), output.count("rejected")), (22_000, 0), "{}", output.told());
            let repeated: i64 = ["duplicates", "updated", "unchanged"].map(|name| output.count(name)).iter().sum();
            assert_eq!((output.count("inserted"), repeated), (20_000, 2_000), "{}", output.told());
            exports.push(home.enlist(&db).args(["export", "--list", list]).run().expect(0).text());
        }
        assert_eq!(exports[0].lines().count(), ROWS + 1);
        let parted = difference("export", &exports[1], &exports[0]);
        assert!(parted.is_empty(), "{parted}");
    }
}
