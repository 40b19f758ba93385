//! `enlist pass`: one scheduled pass, once, now.
//!
//! Owns the command. It does not know what a pass does. Invariant: it claims no window, so what the workers run
//! on schedule goes on as if it had not been.

use serde::Serialize;

use crate::cli::answer::Context;
use crate::fault::{Exit, Fault};
use crate::queue::{Pass, run_pass};
use crate::store::Access;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist pass sweep
  enlist pass prune
  enlist pass reconcile --json

Workers run each pass once per window by themselves; this runs one now.")]
pub(crate) struct Args {
    /// The pass
    #[arg(value_name = "PASS", value_parser = pass)]
    pass: Pass,
}

#[derive(Serialize)]
struct Body {
    pass: &'static str,
    result: serde_json::Value,
}

fn pass(text: &str) -> Result<Pass, String> {
    let names: Vec<&str> = Pass::ALL.iter().map(|pass| pass.as_str()).collect();
    let found = Pass::ALL.iter().copied().find(|pass| pass.as_str() == text);
    found.ok_or_else(|| format!("'{text}' is no pass; there are {}", names.join(", ")))
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let store = context.open(Access::Existing).await?;
    let result = run_pass(&store, args.pass, &context.config.pass_times()).await?;
    store.close().await;
    let text = format!("{}: {}\n", args.pass.as_str(), told(&result));
    context.answer(Exit::Done, &Body { pass: args.pass.as_str(), result }, &text)
}

/// `name value, name value` of a flat object; lists are counted and named.
pub(crate) fn told(result: &serde_json::Value) -> String {
    let Some(fields) = result.as_object() else { return result.to_string() };
    let words: Vec<String> = fields
        .iter()
        .map(|(name, value)| match value.as_array() {
            Some(items) if items.is_empty() => format!("no {name}"),
            Some(items) => {
                let items: Vec<String> = items.iter().map(item).collect();
                format!("{name} {}", items.join(", "))
            }
            None => format!("{name} {value}"),
        })
        .collect();
    words.join("; ")
}

/// One of a list: a number or a word, or the fields of an object in brackets.
fn item(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(_) => format!("({})", told(value)),
        serde_json::Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_told_in_words() {
        let result = serde_json::json!({ "jobs": [], "drifts": [{ "list": "a", "stated": 1 }], "keys": 2 });
        assert_eq!(told(&result), "drifts (list \"a\"; stated 1); no jobs; keys 2");
        assert_eq!(told(&serde_json::json!({ "jobs": [3, 4] })), "jobs 3, 4");
    }
}
