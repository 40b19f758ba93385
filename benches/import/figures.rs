//! Figures by name, their medians and ratios, the table and the JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What a figure must not pass.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    None,
}

/// Everything that was measured.
pub(crate) struct Figures {
    measured: BTreeMap<String, Vec<f64>>,
    lines: Vec<Line>,
    setting: Value,
}

struct Line {
    what: String,
    value: f64,
    /// The two medians of a ratio.
    of: Option<(f64, f64)>,
    bound: Bound,
}

impl Figures {
    pub(crate) fn new(rows: usize, rounds: usize, server: &str) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let setting = json!({"rows": rows, "rounds": rounds, "cores": cores, "postgresql": server});
        Self { measured: BTreeMap::new(), lines: Vec::new(), setting }
    }

    /// One more measurement of `name`: seconds, megabytes, rows per second, rows.
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        eprintln!("  {name:<24}{value:>12.2}");
        self.measured.entry(name.to_owned()).or_default().push(value);
    }

    fn median(&self, name: &str) -> f64 {
        let mut values = self.measured.get(name).cloned().unwrap_or_else(|| panic!("'{name}' was not measured"));
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    /// The ratio of two medians.
    pub(crate) fn ratio(&mut self, what: &str, ours: &str, theirs: &str, bound: Bound) {
        let of = (self.median(ours), self.median(theirs));
        self.lines.push(Line { what: what.to_owned(), value: of.0 / of.1, of: Some(of), bound });
    }

    /// A median as it is.
    pub(crate) fn value(&mut self, what: &str, name: &str, bound: Bound) {
        let value = self.median(name);
        self.lines.push(Line { what: what.to_owned(), value, of: None, bound });
    }

    pub(crate) fn print(&self) {
        println!("{:<56}{:>12}{:>12}{:>10}  target", "what", "ours", "theirs", "ratio");
        for line in &self.lines {
            let target = match line.bound {
                Bound::AtMost(bound) => format!("≤ {bound}  {}", met(line.value <= bound)),
                Bound::AtLeast(bound) => format!("≥ {bound}  {}", met(line.value >= bound)),
                Bound::None => String::new(),
            };
            match line.of {
                Some((ours, theirs)) => {
                    println!("{:<56}{ours:>12.2}{theirs:>12.2}{:>10.3}  {target}", line.what, line.value);
                }
                None => println!("{:<56}{:>12.1}{:>22}  {target}", line.what, line.value, ""),
            }
        }
    }

    pub(crate) fn save(&self, path: &str) {
        let lines: Vec<Value> = self
            .lines
            .iter()
            .map(|line| {
                let (target, met) = match line.bound {
                    Bound::AtMost(bound) => (json!({"at_most": bound}), Some(line.value <= bound)),
                    Bound::AtLeast(bound) => (json!({"at_least": bound}), Some(line.value >= bound)),
                    Bound::None => (Value::Null, None),
                };
                json!({"what": line.what, "value": line.value, "target": target, "met": met})
            })
            .collect();
        let document = json!({"setting": self.setting, "measured": self.measured, "lines": lines});
        std::fs::write(path, format!("{document:#}\n")).expect("target/ can be written");
    }
}

fn met(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}
