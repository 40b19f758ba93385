//! `enlist migrate`: tables created or brought up to date.
//!
//! Owns the command. It does not know the migrations. Invariant: `--print-sql` connects to nothing.

use serde::Serialize;

use crate::cli::answer::Context;
use crate::cli::summary::Warned;
use crate::fault::{Code, Exit, Fault};
use crate::store::{Engine, migrate, migration_sql};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  enlist migrate --database-url postgres://owner@db/app
  enlist migrate --database-url postgres://owner@db/app --app-role app
  enlist migrate --database-url postgres://db/app --print-sql > enlist.sql

Migrations only add: an older program goes on working beside a newer schema.")]
pub(crate) struct Args {
    /// Print the statements instead of running them
    #[arg(long)]
    print_sql: bool,
    /// Let this PostgreSQL role use the tables
    #[arg(long, value_name = "NAME")]
    app_role: Option<String>,
}

#[derive(Serialize)]
struct SqlBody<'a> {
    engine: String,
    sql: &'a str,
}

#[derive(Serialize)]
struct Body<'a> {
    schema_version: i64,
    applied: &'a [String],
    warnings: Vec<Warned<'a>>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    let target = &context.database.as_ref().map_err(Clone::clone)?.target;
    if args.app_role.is_some() && target.engine() == Engine::Sqlite {
        let message = "--app-role names a PostgreSQL role, and the database is SQLite";
        return Err(Fault::new(Code::Usage, message).hint("leave it out; file permissions rule there"));
    }
    if args.print_sql {
        let sql = migration_sql(target.engine());
        return context.answer(Exit::Done, &SqlBody { engine: target.engine().to_string(), sql: &sql }, &sql);
    }
    let choice = context.choose().await?;
    choice.prepare()?;
    let migrated = migrate(&choice.target, &context.options, args.app_role.as_deref()).await?;
    let text = if migrated.applied.is_empty() {
        format!("the tables are up to date (schema {})\n", migrated.schema)
    } else {
        format!("applied {} (schema {})\n", migrated.applied.join(", "), migrated.schema)
    };
    let warnings: Vec<Warned<'_>> = migrated.warnings.iter().map(Warned::of).collect();
    for warning in &migrated.warnings {
        context.note(&format!("warning: {}", warning.message));
    }
    context.answer(Exit::Done, &Body { schema_version: migrated.schema, applied: &migrated.applied, warnings }, &text)
}
