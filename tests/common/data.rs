//! Recipient lists, the same for the same seed.

use std::fmt::Write;

const PREFIXES: [u32; 21] =
    [530, 531, 532, 533, 534, 535, 536, 537, 538, 539, 541, 542, 543, 544, 545, 546, 551, 552, 553, 554, 555];
const FIRST: [&str; 12] =
    ["Ayşe", "Mehmet", "İbrahim", "Şerife", "Ömer", "Zeynep", "Γιώργος", "Μαρία", "Ελένη", "John", "Mary", "Anna"];
const LAST: [&str; 10] =
    ["Yılmaz", "Kaya", "Çelik", "Şahin", "Öztürk", "Doğan", "Παπαδόπουλος", "Γεωργίου", "Smith", "Brown"];
const CITIES: [&str; 6] = ["İstanbul", "Ankara", "İzmir", "Αθήνα", "London", "\"Şişli, İstanbul\""];

/// The `k`th valid Turkish mobile number, without the country code. Distinct up to 210,000,000.
pub(crate) fn national(k: usize) -> String {
    let prefix = PREFIXES[k % PREFIXES.len()];
    format!("{prefix}{:07}", (k / PREFIXES.len() * 7919) % 10_000_000)
}

/// The `k`th number as it is stored.
pub(crate) fn phone(k: usize) -> String {
    format!("+90{}", national(k))
}

/// `rows` rows with distinct numbers in random order: `phone,name,email,city,segment`.
pub(crate) fn clean(rows: usize, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut order: Vec<usize> = (0..rows).collect();
    random.shuffle(&mut order);
    let mut text = String::with_capacity(rows * 70);
    text.push_str("phone,name,email,city,segment\n");
    for k in order {
        let _ =
            writeln!(text, "{},{},user{k}@example.com,{},{}", phone(k), name(&mut random), city(&mut random), k % 4);
    }
    text
}

/// `rows` lines' worth of trouble: five spellings of a number, repeated numbers near and far, refused cells
/// of several kinds, blank lines, quoted cells with line breaks and doubled quotes, LF and CRLF.
pub(crate) fn messy(rows: usize, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = String::with_capacity(rows * 60);
    text.push_str("Telefon,Ad Soyad,note\n");
    for row in 0..rows {
        // About a third of the rows repeat a number that came before or comes again.
        let k = if random.u8(..3) == 0 { random.usize(..rows / 10 + 1) } else { row };
        let end = if random.u8(..4) == 0 { "\r\n" } else { "\n" };
        let name = name(&mut random);
        let n = national(k);
        let spelled = match random.u8(..5) {
            0 => format!("+90 {} {} {} {}", &n[..3], &n[3..6], &n[6..8], &n[8..]),
            1 => format!("0{n}"),
            2 => format!("({}) {}", &n[..3], &n[3..]),
            3 => format!("90{n}"),
            _ => format!("+90{n}"),
        };
        let _ = match random.u8(..40) {
            0 => write!(text, "{end}"),
            1 => write!(text, "hatalı,{name},refused{end}"),
            2 => write!(text, ",{name},no phone{end}"),
            3 => write!(text, "9.05E+11,{name},lost digits{end}"),
            4 => write!(text, "{spelled}{end}"),
            5 => write!(text, "{spelled},{name},one,too many{end}"),
            6..=9 => write!(text, "{spelled},\"{name}\",\"two\nlines, \"\"quoted\"\"\"{end}"),
            10..=12 => write!(text, "{spelled},,{end}"),
            _ => write!(text, "{spelled},{name},row {row}{end}"),
        };
    }
    text
}

/// `phones` numbers, `times` rows each, at random places and each with a name of its own: what is stored
/// depends on the order in which the rows of one number are written.
pub(crate) fn repeated(phones: usize, times: usize, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut rows: Vec<usize> = (0..phones * times).map(|i| i % phones).collect();
    random.shuffle(&mut rows);
    let mut text = String::with_capacity(rows.len() * 40);
    text.push_str("phone,name,row\n");
    for (row, k) in rows.into_iter().enumerate() {
        let _ = writeln!(text, "{},{} {row},{row}", phone(k), name(&mut random));
    }
    text
}

/// `rows` rows of which one in a thousand is refused and one in a hundred repeats the row before, in
/// seven spellings of a number.
pub(crate) fn spellings(rows: u64) -> String {
    let mut text = String::from("phone,name,sehir\n");
    for i in 0..rows {
        if i % 1000 == 999 {
            text += &format!("hatali-{i},Kisi {i},Izmir\n");
            continue;
        }
        let n = if i % 100 == 99 { i - 1 } else { i };
        let p = format!("5{:09}", 300_000_000 + n % 50_000_000);
        let (a, b, c, d) = (&p[..3], &p[3..6], &p[6..8], &p[8..]);
        let spelled = match i % 7 {
            0 => p.clone(),
            1 => format!("0{p}"),
            2 => format!("+90{p}"),
            3 => format!("0090{p}"),
            4 => format!("90{p}"),
            5 => format!("0{a} {b} {c} {d}"),
            _ => format!("+90 ({a}) {b}-{c}-{d}"),
        };
        text += &format!("{spelled},Kisi {n},Izmir\n");
    }
    text
}

/// The name of the last row of each number of `repeated`, by number: what must be stored in the end.
pub(crate) fn last_names(csv: &str) -> std::collections::BTreeMap<String, String> {
    let cells = |line: &str| {
        let mut cells = line.split(',');
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    };
    csv.lines().skip(1).filter_map(cells).collect()
}

pub(crate) fn name(random: &mut fastrand::Rng) -> String {
    format!("{} {}", random.choice(FIRST).unwrap_or_default(), random.choice(LAST).unwrap_or_default())
}

pub(crate) fn city(random: &mut fastrand::Rng) -> &'static str {
    random.choice(CITIES).unwrap_or_default()
}
