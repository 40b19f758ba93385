//! `enlist profiles`: import options under a name, kept in the database.
//!
//! Owns the command and how `--profile NAME` finds its options. It does not know what an option means. Invariant:
//! a profile that holds anything this program does not understand is refused, never used in part.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::cli::answer::Context;
use crate::cli::reading::{Layered, Options};
use crate::cli::text::{Align, head, table};
use crate::fault::{Code, Exit, Fault};
use crate::import::check_wanted;
use crate::nearest::unknown_profile;
use crate::profile::{Profile, ProfileName};
use crate::store::{Access, Overwrite, ProfileRow, Saved, Store};

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  enlist profiles save crm --region TR --delimiter ';' --map phone='Cep No' --set source=crm
  enlist profiles show crm
  enlist import spring.csv --list spring --profile crm
  enlist profiles delete crm

An option on the command line wins over the profile's. An import keeps the settings that it began with: changing
or deleting a profile changes nothing of it."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Keep these options under a name
    Save(Box<Save>),
    /// Show the profiles
    List,
    /// Show the options of one profile
    Show {
        /// Its name
        name: String,
    },
    /// Delete a profile; imports that began with it are not changed
    Delete {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Save {
    /// Its name
    name: String,
    /// Put it in the place of the profile of that name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Serialize)]
struct Profiles<'a> {
    profiles: Vec<ProfileBody<'a>>,
}

#[derive(Serialize)]
struct ProfileBody<'a> {
    profile: &'a str,
    settings: &'a BTreeMap<String, Value>,
    created_at: String,
    updated_at: String,
}

impl<'a> ProfileBody<'a> {
    fn of(row: &'a ProfileRow) -> Self {
        Self {
            profile: &row.name,
            settings: &row.settings,
            created_at: row.created_at.to_string(),
            updated_at: row.updated_at.to_string(),
        }
    }
}

#[derive(Serialize)]
struct SavedBody<'a> {
    profile: &'a str,
    settings: BTreeMap<String, Value>,
    replaced: bool,
}

#[derive(Serialize)]
struct DeletedBody<'a> {
    profile: &'a str,
    deleted: bool,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    match &args.action {
        None | Some(Action::List) => list(context).await,
        Some(Action::Save(save)) => self::save(context, save).await,
        Some(Action::Show { name }) => show(context, &ProfileName::parse(name)?).await,
        Some(Action::Delete { name }) => delete(context, &ProfileName::parse(name)?).await,
    }
}

/// The options of an import that names a profile: the profile's, under those of the command line.
///
/// # Errors
/// `unknown_profile` with the nearest names, `unreadable_profile`.
pub(crate) async fn under(store: &Store, name: &str, given: &Options) -> Result<Layered, Fault> {
    let name = ProfileName::parse(name)?;
    let row = find(store, &name).await?;
    Ok(given.over(options_of(&row)?, name.as_str()))
}

/// The fault for a profile that cannot be there, because the database is not.
pub(crate) fn no_profile(name: &str) -> Fault {
    unknown_profile(name, &[])
}

async fn find(store: &Store, name: &ProfileName) -> Result<ProfileRow, Fault> {
    if let Some(row) = store.profile(name).await? {
        return Ok(row);
    }
    let names: Vec<String> = store.profiles().await?.into_iter().map(|row| row.name).collect();
    Err(unknown_profile(name.as_str(), &names))
}

fn options_of(row: &ProfileRow) -> Result<Options, Fault> {
    let profile = Profile::from_document(&row.settings).map_err(|option| {
        let message = format!("the profile '{}' holds a value of '{option}' that this program does not know", row.name);
        Fault::new(Code::UnreadableProfile, message)
    })?;
    Options::of_profile(&profile, &row.name)
}

async fn save(context: &Context, args: &Save) -> Result<Exit, Fault> {
    let name = ProfileName::parse(&args.name)?;
    let profile = args.options.to_profile();
    if profile.0.is_empty() {
        let hint = "add import options, for example --region TR; see 'enlist profiles save --help'";
        return Err(Fault::new(Code::Usage, "a profile without options says nothing").hint(hint));
    }
    check_wanted(&args.options.wanted(None)?)?;
    for (n, (field, _)) in args.options.map.iter().enumerate() {
        if args.options.map.iter().take(n).any(|(before, _)| before == field) {
            let message = format!("--map {}= is given twice", field.as_str());
            return Err(Fault::new(Code::Usage, message).hint("keep one of them"));
        }
    }
    let store = context.open(Access::Existing).await?;
    let overwrite = if args.replace { Overwrite::Replace } else { Overwrite::Refuse };
    let settings = profile.to_document();
    let saved = store.save_profile(&name, &settings, overwrite).await?;
    let done = match saved {
        Saved::New => "saved",
        Saved::Replaced => "replaced",
        Saved::Exists => {
            return Err(Fault::new(Code::ProfileExists, format!("there is a profile '{}' already", name.as_str())));
        }
    };
    let body = SavedBody { profile: name.as_str(), settings, replaced: saved == Saved::Replaced };
    context.answer(Exit::Done, &body, &format!("profile '{}' is {done}\n", name.as_str()))
}

async fn list(context: &Context) -> Result<Exit, Fault> {
    let rows = context.open(Access::Existing).await?.profiles().await?;
    if rows.is_empty() {
        context.note("no profiles; 'enlist profiles save NAME' with import options makes one");
    }
    let body = Profiles { profiles: rows.iter().map(ProfileBody::of).collect() };
    context.answer(Exit::Done, &body, &profiles_table(&rows))
}

/// One profile a line, within 80 columns.
fn profiles_table(rows: &[ProfileRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heading = [("PROFILE", Align::Left), ("SAVED", Align::Left), ("OPTIONS", Align::Left)];
    let cells = rows.iter().map(|row| {
        let options: Vec<&str> = row.settings.keys().map(String::as_str).collect();
        vec![head(&row.name, 20), row.updated_at.to_string(), head(&options.join(", "), 36)]
    });
    table(&heading, &cells.collect::<Vec<_>>())
}

async fn show(context: &Context, name: &ProfileName) -> Result<Exit, Fault> {
    let row = find(&context.open(Access::Existing).await?, name).await?;
    let options = options_of(&row)?;
    let lines: Vec<Vec<String>> = options
        .to_profile()
        .0
        .iter()
        .flat_map(|(option, said)| said.values().iter().map(move |value| vec![option.clone(), value.clone()]))
        .collect();
    let text = table(&[("OPTION", Align::Left), ("VALUE", Align::Left)], &lines);
    context.answer(Exit::Done, &ProfileBody::of(&row), &text)
}

async fn delete(context: &Context, name: &ProfileName) -> Result<Exit, Fault> {
    let store = context.open(Access::Existing).await?;
    if !store.delete_profile(name).await? {
        find(&store, name).await?;
    }
    let body = DeletedBody { profile: name.as_str(), deleted: true };
    context.answer(Exit::Done, &body, &format!("profile '{}' is deleted\n", name.as_str()))
}
