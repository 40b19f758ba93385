//! The lists that are imported: distinct phones in random order, names, four more columns.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::common::data::{city, name, national, phone};

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Phones as they are stored.
    Clean,
    /// The same phones in five spellings.
    Messy,
    /// As rows of the table of baseline (b): list, phone, name, attributes.
    Table,
}

/// Writes `rows` rows of phones that begin with number `first`: the same phones, names and order for every kind.
pub(crate) fn write(path: &Path, kind: Kind, rows: usize, first: usize) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut order: Vec<u32> = (0..u32::try_from(rows).expect("fewer than four thousand million")).collect();
    random.shuffle(&mut order);
    let mut to = BufWriter::with_capacity(1 << 20, File::create(path).expect("the list can be written"));
    let mut line = || -> std::io::Result<()> {
        if kind != Kind::Table {
            writeln!(to, "phone,name,email,city,birth_date,segment")?;
        }
        for (row, k) in order.iter().enumerate() {
            let k = first + *k as usize;
            let (name, city) = (name(&mut random), city(&mut random));
            let segment = ["A", "B", "C", "D"][random.usize(..4)];
            let (year, month, day) = (1950 + k % 55, 1 + k % 12, 1 + k % 28);
            if kind == Kind::Table {
                let city = city.trim_matches('"');
                writeln!(
                    to,
                    "1,{},{name},\"{{\"\"birth_date\"\":\"\"{year}-{month:02}-{day:02}\"\",\"\"city\"\":\"\"{city}\"\",\
                     \"\"email\"\":\"\"user{k}@example.com\"\",\"\"segment\"\":\"\"{segment}\"\"}}\"",
                    phone(k)
                )?;
                continue;
            }
            let spelled = if kind == Kind::Clean { phone(k) } else { spelling(k, row) };
            writeln!(to, "{spelled},{name},user{k}@example.com,{city},{year}-{month:02}-{day:02},{segment}")?;
        }
        to.flush()
    };
    line().expect("the list can be written");
}

fn spelling(k: usize, row: usize) -> String {
    let n = national(k);
    match row % 5 {
        0 => format!("+90 {} {} {} {}", &n[..3], &n[3..6], &n[6..8], &n[8..]),
        1 => format!("0{n}"),
        2 => format!("({}) {}", &n[..3], &n[3..]),
        3 => format!("90{n}"),
        _ => format!("+90{n}"),
    }
}
