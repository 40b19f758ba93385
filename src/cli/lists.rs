//! `enlist lists`: the lists there are, and a new one.
//!
//! Owns the command and the answer to a list name that names none. It does not know how lists are stored.
//! Invariant: creating a list that exists changes nothing.

use serde::Serialize;

use crate::cli::answer::Context;
use crate::cli::text::{Align, head, table, thousands};
use crate::fault::{Exit, Fault};
use crate::list::ListName;
use crate::nearest::unknown_list;
use crate::store::{Access, Created, ListRow, Store};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist lists
  enlist lists create 'spring 2027'")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create a list; one that exists stays as it is
    Create {
        /// Its name
        name: String,
    },
}

#[derive(Serialize)]
struct Lists<'a> {
    lists: Vec<ListBody<'a>>,
}

#[derive(Serialize)]
struct ListBody<'a> {
    list: &'a str,
    recipients: u64,
    opted_out: u64,
    created_at: String,
}

#[derive(Serialize)]
struct CreatedBody<'a> {
    list: &'a str,
    created: bool,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    match &args.action {
        None => show(context, &context.open(Access::Existing).await?).await,
        Some(Action::Create { name }) => {
            let name = ListName::parse(name)?;
            create(context, &context.open(Access::Existing).await?, &name).await
        }
    }
}

/// The list of that name.
///
/// # Errors
/// There is none; the fault names those that could be meant.
pub(crate) async fn find(store: &Store, name: &str) -> Result<ListRow, Fault> {
    let name = ListName::parse(name)?;
    if let Some(list) = store.find_list(name.as_str()).await? {
        return Ok(list);
    }
    let names: Vec<String> = store.lists().await?.into_iter().map(|list| list.name).collect();
    Err(unknown_list(name.as_str(), &names, "'enlist lists create NAME' creates one"))
}

async fn show(context: &Context, store: &Store) -> Result<Exit, Fault> {
    let lists = store.lists().await?;
    if lists.is_empty() {
        context.note("no lists; 'enlist import FILE --list NAME' makes the first one");
    }
    let body = Lists {
        lists: lists
            .iter()
            .map(|list| ListBody {
                list: &list.name,
                recipients: list.recipients,
                opted_out: list.opted_out,
                created_at: list.created_at.to_string(),
            })
            .collect(),
    };
    context.answer(Exit::Done, &body, &lists_table(&lists))
}

fn lists_table(lists: &[ListRow]) -> String {
    if lists.is_empty() {
        return String::new();
    }
    let heading =
        [("LIST", Align::Left), ("RECIPIENTS", Align::Right), ("OPTED OUT", Align::Right), ("CREATED", Align::Left)];
    let rows: Vec<Vec<String>> = lists
        .iter()
        .map(|list| {
            vec![
                head(&list.name, 32),
                thousands(list.recipients),
                thousands(list.opted_out),
                list.created_at.to_string(),
            ]
        })
        .collect();
    table(&heading, &rows)
}

async fn create(context: &Context, store: &Store, name: &ListName) -> Result<Exit, Fault> {
    let (_, created) = store.create_list(name).await?;
    let is_new = matches!(created, Created::New);
    let text = if is_new {
        format!("list '{}' is created\n", name.as_str())
    } else {
        format!("list '{}' exists already\n", name.as_str())
    };
    context.answer(Exit::Done, &CreatedBody { list: name.as_str(), created: is_new }, &text)
}
