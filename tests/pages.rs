//! The pages that operators read say what the program says, word for word.

use std::fmt::Write as _;
use std::path::Path;

use enlist::fault::Code;
use enlist::reject::Reason;

use crate::common::cli::Home;

/// The texts of a table's cells stand in Markdown, where a bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn reasons() -> String {
    let mut table = String::from("| reason | what it means | what to do |\n|---|---|---|\n");
    for reason in Reason::ALL {
        let _ = writeln!(table, "| `{}` | {} | {} |", reason.code(), cell(reason.means()), cell(reason.remedy()));
    }
    table
}

fn codes() -> String {
    let mut table = String::from("| code | exit | what it means | what to do |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let (means, remedy) = (cell(code.means()), cell(code.remedy()));
        let _ = writeln!(table, "| `{}` | {} | {means} | {remedy} |", code.as_str(), code.exit().code());
    }
    table
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_page_on_lists_holds_every_reason_and_code_as_explain_tells_them() {
    let page = page("docs/lists.md");
    for table in [reasons(), codes()] {
        assert!(page.contains(&table), "docs/lists.md should hold this table, and nothing between its rows:\n{table}");
        let rows = table.lines().filter(|row| row.starts_with("| `")).count();
        assert!(rows > 15, "only {rows} rows");
    }
    let named = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(named, Reason::ALL.len() + Code::ALL.len(), "docs/lists.md has rows for codes that do not exist");
    let home = Home::new();
    for (code, means, remedy) in Reason::ALL
        .iter()
        .map(|reason| (reason.code(), reason.means(), reason.remedy()))
        .chain(Code::ALL.iter().map(|code| (code.as_str(), code.means(), code.remedy())))
    {
        let text = home.bare().args(["explain", code]).run().expect(0).text();
        assert!(text.contains(&format!("  {means}.\n  What to do: {remedy}.\n")), "{text}");
    }
}

#[test]
fn a_text_of_the_tables_is_one_plain_sentence_without_its_dot() {
    let texts = Reason::ALL.iter().flat_map(|reason| [reason.means(), reason.remedy()]);
    for text in texts.chain(Code::ALL.iter().flat_map(|code| [code.means(), code.remedy()])) {
        let starts_plainly = text.starts_with(|c: char| c.is_lowercase() || matches!(c, '\'' | '-'));
        assert!(starts_plainly && !text.ends_with('.') && !text.contains("  ") && !text.contains('\n'), "{text:?}");
    }
}

#[test]
fn explain_without_a_code_names_them_all() {
    let text = Home::new().bare().arg("explain").run().expect(0).text();
    for code in Reason::ALL.iter().map(|reason| reason.code()).chain(Code::ALL.iter().map(|code| code.as_str())) {
        assert!(text.lines().any(|line| line.starts_with(&format!("{code} "))), "{code} is missing: {text}");
    }
    assert!(page("README.md").contains("docs/lists.md"), "README.md should lead to docs/lists.md");
}
