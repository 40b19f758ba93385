//! Reads the sources and fails on a breach of the architecture: imports that go upwards, SQL outside the store,
//! printing outside the command line, the clock outside its place, files that are too long or say nothing.

mod code;

use std::path::{Path, PathBuf};

use code::{code_only, without_tests};

/// The pure words: no IO, no async, none of `WORDS_AVOID`.
const WORDS: &[&str] = &[
    "fault",
    "position",
    "row",
    "run",
    "recipient",
    "reject",
    "phone",
    "settings",
    "job",
    "batch",
    "header",
    "list",
    "location",
    "nearest",
    "owner",
    "profile",
    "quoting",
    "stop",
    "admission",
    "backoff",
    "limits",
    "verdict",
    "notification",
    "destination",
    "once",
    "alert",
    "claim",
];
/// Read by everybody above the words.
const GROUND: &[&str] = &["clock", "crash", "reject_file"];
/// Says when things are due.
const TIMES: &[&str] = &["window"];
/// Each talks to one outside thing; siblings never meet.
const EDGES: &[&str] = &["source", "decode", "holder", "mapping", "normalise", "store", "claims", "notify"];
/// From low to high: a module uses only modules of lower floors, and its own.
const FLOORS: &[&[&str]] =
    &[WORDS, GROUND, TIMES, EDGES, &["delivery"], &["import"], &["alerts"], &["queue"], &["cli"]];
/// Crates that no word may know.
const WORDS_AVOID: &[&str] = &["tokio", "sqlx", "csv_async", "clap", "anyhow", "tracing"];
/// Text in the code, and the only places (path prefixes below src/) where it may stand.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("sqlx::", &["store"]),
    ("object_store::", &["source"]),
    ("rustls::", &["source"]),
    ("clap::", &["cli", "main.rs"]),
    ("indicatif::", &["cli", "main.rs"]),
    ("println!", &["cli", "main.rs"]),
    ("eprintln!", &["cli", "main.rs"]),
    ("print!", &["cli", "main.rs"]),
    ("eprint!", &["cli", "main.rs"]),
    ("stdout()", &["cli", "main.rs"]),
    ("stderr()", &["cli", "main.rs"]),
    ("SystemTime::now", &["clock.rs"]),
    ("Instant::now", &["clock.rs"]),
];
/// Names that say nothing about what a module owns.
const EMPTY_NAMES: &[&str] = &["util", "helper", "manager", "common"];
/// The longest file, in lines.
const LINES_MAX: usize = 400;

#[test]
fn the_sources_keep_to_the_architecture() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files);
    assert!(files.len() > 5, "only {} sources found", files.len());
    let breaches: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let text = std::fs::read_to_string(file).expect("sources are text");
            let name = file.strip_prefix(root.join("src")).expect("it lies in src").to_string_lossy().into_owned();
            breaches(&name, &text).into_iter().map(move |breach| format!("src/{name}: {breach}"))
        })
        .collect();
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), breaches.join("\n"));
}

#[test]
fn every_sample_is_named_in_the_readme_of_the_samples() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("samples/README.md");
    for entry in std::fs::read_dir(&folder).expect("samples/").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(name == "README.md" || readme.contains(&format!("`{name}`")), "samples/README.md does not name {name}");
    }
}

#[test]
fn a_breach_of_each_kind_is_found() {
    let bad = [
        ("job.rs", "use std::fmt;\n", "no //! header"),
        ("job.rs", "//! A.\nuse crate::store::Store;\n", "job (floor 0) uses store"),
        (
            "source/mod.rs",
            "//! A.\nuse crate::{fault::Fault, decode::{self, Dialect}};\n",
            "source (floor 3) uses decode",
        ),
        ("source/mod.rs", "//! A.\nfn f() { super::store::go() }\n", "source (floor 3) uses store"),
        ("store/lease.rs", "//! A.\nfn f() { super::super::import::go() }\n", "store (floor 3) uses import"),
        ("import/mod.rs", "//! A.\nfn f() { crate::queue::go() }\n", "import (floor 5) uses queue"),
        ("main.rs", "//! A.\nuse enlist::import::import;\n", "main uses import"),
        ("mystery.rs", "//! A.\n", "stands on no floor"),
        ("row.rs", "//! A.\nuse tokio::fs;\n", "a word knows tokio"),
        ("import/mod.rs", "//! A.\nfn f(e: sqlx::Error) {}\n", "sqlx::"),
        ("import/mod.rs", "//! A.\nfn f() { println!(\"x\"); }\n", "println!"),
        ("queue/mod.rs", "//! A.\nfn f() { let t = Instant::now(); }\n", "Instant::now"),
        ("store/mod.rs", "//! A.\nfn f() { g().unwrap() }\n", "unwrap"),
        ("store/mod.rs", "//! A.\nfn f() { g().expect(\"x\") }\n", "expect"),
        ("store/mod.rs", "//! A.\nmod string_utils;\n", "string_utils"),
        ("store/common.rs", "//! A.\n", "common"),
        ("store/mod.rs", "//! A.\nfn f<T: Fn(u8) -> u8>(a: T, force: bool) {}\n", "fn f takes a bool"),
    ];
    for (name, text, part) in bad {
        let found = breaches(name, text);
        assert!(found.iter().any(|breach| breach.contains(part)), "{name} {text:?}: {found:?} does not say '{part}'");
    }
    let long = format!("//! A.\n{}", "\n".repeat(LINES_MAX));
    assert!(breaches("job.rs", &long).iter().any(|breach| breach.contains("lines")));
}

#[test]
fn what_is_allowed_is_no_breach() {
    let good = [
        ("import/mod.rs", "//! A.\nuse crate::store::Store;\nuse crate::job::{JobId, State};\nuse super::import::x;\n"),
        ("import/finish.rs", "//! A.\nuse super::report::Report;\nuse crate::import::report;\n"),
        ("job.rs", "//! A.\n/// Not `crate::store` and no println!.\nconst A: &str = \"sqlx::x .unwrap()\";\n"),
        ("job.rs", "//! A.\nconst A: char = '\"'; const B: &str = r#\"a \" tokio:: \"#;\n"),
        (
            "store/mod.rs",
            "//! A.\n// Cannot fail: it is not empty.\n#[expect(clippy::expect_used)]\nfn f() { g().expect(\"x\") }\n",
        ),
        ("store/mod.rs", "//! A.\nfn f() {}\n#[cfg(test)]\nmod tests {\n    fn t() { g().unwrap() }\n}\n"),
        ("store/mod.rs", "//! A.\nfn f(a: impl Fn(bool) -> bool, b: &str) -> bool { true }\n"),
        ("main.rs", "//! A.\nfn main() { enlist::cli::main() }\n"),
        ("cli/import.rs", "//! A.\nfn f<'a>(x: &'a str) { println!(\"{x}\") }\n"),
    ];
    for (name, text) in good {
        assert_eq!(breaches(name, text), Vec::<String>::new(), "{name} {text:?}");
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
}

/// Everything that is wrong with the file `name` (below src/).
fn breaches(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        found.push("no //! header".to_owned());
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        found.push(format!("{lines} lines, more than {LINES_MAX}"));
    }
    for part in name.split('/').map(|part| part.trim_end_matches(".rs")) {
        if EMPTY_NAMES.iter().any(|empty| part.contains(empty)) {
            found.push(format!("the name '{part}' says nothing"));
        }
    }
    // Tests in a file of their own are tests throughout.
    let is_test = |end: &str| name.ends_with(end);
    if is_test("/tests.rs") || is_test("_tests.rs") || is_test("/properties.rs") || name.contains("/tests/") {
        return found;
    }
    let code = without_tests(&code_only(text));
    found.extend(wrong_imports(name, &code));
    found.extend(wrong_places(name, &code));
    found.extend(unexplained_panics(&code, text));
    for module in after_word(&code, "mod").filter(|module| EMPTY_NAMES.iter().any(|empty| module.contains(empty))) {
        found.push(format!("the name '{module}' says nothing"));
    }
    found.extend(bool_parameters(&code).into_iter().map(|function| format!("fn {function} takes a bool: use an enum")));
    found
}

/// The module at the top of the crate that the file belongs to.
fn top_module(name: &str) -> &str {
    name.split('/').next().unwrap_or(name).trim_end_matches(".rs")
}

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|modules| modules.contains(&module))
}

fn wrong_imports(name: &str, code: &str) -> Vec<String> {
    let own = top_module(name);
    let used = used_modules(name, code);
    match own {
        "lib" => return Vec::new(),
        "main" => {
            let others = used.into_iter().filter(|module| module != "cli");
            return others.map(|module| format!("main uses {module}, only cli is its business")).collect();
        }
        _ => {}
    }
    let Some(own_floor) = floor(own) else { return vec![format!("the module {own} stands on no floor")] };
    let mut found = Vec::new();
    for module in used.into_iter().filter(|module| module != own) {
        // A name that is no module (a macro, an item of the crate's root) is no breach.
        let Some(its_floor) = floor(&module) else { continue };
        // Words may know each other; siblings higher up may not.
        let allowed = its_floor < own_floor || (its_floor == 0 && own_floor == 0);
        if !allowed {
            found.push(format!("{own} (floor {own_floor}) uses {module} (floor {its_floor})"));
        }
    }
    if own_floor == 0 {
        for avoided in WORDS_AVOID.iter().filter(|avoided| has_path(code, &format!("{avoided}::"))) {
            found.push(format!("a word knows {avoided}"));
        }
    }
    found
}

/// Modules at the top of the crate that the code names by `crate::`, `enlist::` or enough `super::`.
fn used_modules(name: &str, code: &str) -> Vec<String> {
    // How many `super` lead from this file to the crate's root.
    let depth = name.split('/').filter(|part| !matches!(*part, "mod.rs" | "lib.rs" | "main.rs")).count();
    let mut used = Vec::new();
    for root in ["crate::", "enlist::"] {
        for at in path_starts(code, root) {
            used.extend(first_names(&code[at + root.len()..]));
        }
    }
    for at in path_starts(code, "super::") {
        let rest = &code[at..];
        let supers = rest.split("::").take_while(|part| *part == "super").count();
        if supers == depth {
            used.extend(first_names(&rest[supers * "super::".len()..]));
        }
    }
    used.sort();
    used.dedup();
    used
}

/// Where a path begins with `start`, not in the middle of another path or name.
fn path_starts<'a>(code: &'a str, start: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(start).map(|(at, _)| at).filter(|at| {
        let before = code[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

fn has_path(code: &str, start: &str) -> bool {
    path_starts(code, start).next().is_some()
}

/// The first name of a path, or of each path of a `{…}` group.
fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else { return vec![identifier(rest)] };
    let (mut names, mut depth, mut fresh) = (Vec::new(), 0, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            c if fresh && depth == 0 && !c.is_whitespace() => {
                names.push(identifier(&group[at..]));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The name after each occurrence of a keyword.
fn after_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = String> + 'a {
    path_starts(code, word)
        .filter_map(move |at| code[at + word.len()..].strip_prefix(' '))
        .map(identifier)
        .filter(|name| !name.is_empty())
}

fn wrong_places(name: &str, code: &str) -> Vec<String> {
    ONLY_IN
        .iter()
        .filter(|(_, places)| !places.iter().any(|place| name == *place || name.starts_with(&format!("{place}/"))))
        .filter(|(text, places)| !places.contains(&top_module(name)) && has_path_end(code, text))
        .map(|(text, places)| format!("'{text}' belongs into {places:?} only"))
        .collect()
}

/// Whether `text` stands in the code as the beginning of a name, in a longer path or not.
fn has_path_end(code: &str, text: &str) -> bool {
    code.match_indices(text).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Calls that panic without a reason in the three lines above.
fn unexplained_panics(code: &str, text: &str) -> Vec<String> {
    let raw: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (n, line) in code.lines().enumerate() {
        for call in [".unwrap()", ".expect("] {
            let explained = || {
                raw[n.saturating_sub(3)..n.min(raw.len())]
                    .iter()
                    .any(|above| above.trim_start().starts_with("// Cannot fail:"))
            };
            if line.contains(call) && !explained() {
                found.push(format!("line {}: {call} without '// Cannot fail: …' above", n + 1));
            }
        }
    }
    found
}

/// Functions with a parameter that is a bare bool.
fn bool_parameters(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for at in path_starts(code, "fn ") {
        let rest = &code[at + 3..];
        let function = identifier(rest);
        let Some(parameters) = parameters(&rest[function.len()..]) else { continue };
        let is_bool = |parameter: &String| {
            parameter.split_once(':').is_some_and(|(_, kind)| matches!(kind.trim(), "bool" | "&bool" | "&mut bool"))
        };
        if !function.is_empty() && parameters.iter().any(is_bool) {
            found.push(function);
        }
    }
    found
}

/// The parameters of a function, split at the commas between them; generics may stand before.
fn parameters(rest: &str) -> Option<Vec<String>> {
    let (mut angles, mut depth, mut current, mut all) = (0_i32, 0_i32, String::new(), Vec::new());
    let mut previous = ' ';
    for c in rest.chars() {
        match c {
            '<' => angles += 1,
            '>' if previous != '-' => angles -= 1,
            '(' | '[' | '{' if depth > 0 || angles == 0 => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ',' if depth == 1 && angles == 0 => all.push(std::mem::take(&mut current)),
            _ => {}
        }
        if depth == 0 && angles == 0 && c == ')' {
            all.push(current);
            return Some(all);
        }
        let opens = c == '(' && depth == 1 && current.is_empty();
        if depth > 0 && !opens && !(c == ',' && depth == 1 && angles == 0) {
            current.push(c);
        }
        previous = c;
    }
    None
}
