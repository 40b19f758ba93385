//! `enlist enqueue`: gives an import to the workers.
//!
//! Owns the options of the queue. How a file is read is `import`'s. Invariant: nothing is queued that could not
//! be read here, and what a worker reads must be the same bytes.

use serde::Serialize;

use crate::cli::answer::Context;
use crate::cli::progress::Progress;
use crate::cli::text::local;
use crate::cli::{import, notify, signals, values};
use crate::clock::Timestamp;
use crate::fault::{Code, Exit, Fault};
use crate::import::{Standing, check, enqueue};
use crate::job::{JobId, QueueName, State};
use crate::location::Location;
use crate::run::Counts;
use crate::stop::Stop;
use crate::store::QueueTerms;

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "\
Examples:
  enlist enqueue /srv/lists/spring.csv --list spring --region TR
  enlist enqueue /srv/lists/spring.csv --list spring --queue night --run-at 2026-12-01T22:00:00+03:00

The same unfinished import again is the same job; one that is done answers with its result. A worker
('enlist work') opens the file by its path, so it must lie where every worker sees it.")]
pub(crate) struct Args {
    #[command(flatten)]
    import: import::Args,
    /// The queue
    #[arg(long, value_name = "QUEUE", value_parser = values::queue, default_value = "default", help_heading = QUEUE)]
    queue: QueueName,
    /// Which jobs go first: smaller numbers do
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true, help_heading = QUEUE)]
    priority: i32,
    /// Not before this time, with its offset: 2026-12-01T22:00:00+03:00 or …Z
    #[arg(long, value_name = "TIME", value_parser = values::moment, help_heading = QUEUE)]
    run_at: Option<Timestamp>,
    /// How often it may be tried
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..), help_heading = QUEUE)]
    max_attempts: u32,
}

const QUEUE: &str = "When it runs";

#[derive(Serialize)]
struct Body<'a> {
    job: JobId,
    state: State,
    existing: bool,
    list: &'a str,
    queue: &'a str,
    priority: i64,
    run_at: String,
    run_at_local: String,
    result: Option<Counts>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: &Args) -> Result<Exit, Fault> {
    args.import.refuse_for_queue()?;
    if args.import.profile.is_none() {
        check(&args.import.request(context, &args.import.given())?)?;
    }
    let unreadable = |what: &str, hint: &'static str| Err(Fault::new(Code::Usage, what).hint(hint));
    match Location::of(&args.import.file) {
        Location::Stdin => {
            return unreadable(
                "standard input cannot be queued: a worker could not read it",
                "write it to a file that every worker sees, and enqueue that; or 'enlist import -' now",
            );
        }
        Location::Address(address) if !address.tells_all() => {
            return unreadable(
                "an address with a password or a query cannot be queued: neither is stored, so a worker would not know it",
                "use an address that needs none (s3://, gs://, az:// take credentials from the worker's environment), or import it now",
            );
        }
        Location::Path(_) | Location::Address(_) => {}
    }
    let terms = QueueTerms {
        queue: args.queue.clone(),
        priority: i64::from(args.priority),
        run_at: args.run_at,
        max_attempts: args.max_attempts,
    };
    let (store, layered) = args.import.open(context).await?;
    let request = args.import.request(context, &layered)?;
    check(&request)?;
    if let Some(warning) = notify::plain_warning(request.notify.as_ref()) {
        context.note(&format!("warning: {}", warning.message));
    }
    let stop = Stop::new();
    signals::listen(stop.clone(), context.volume)?;
    let progress = Progress::start(context.display, context.volume);
    let outcome = enqueue(&store, &request, &terms, &stop, &|event| progress.on_event(event)).await;
    progress.finish();
    let enqueued = outcome?;
    let job = &enqueued.job;
    let later = args.run_at.is_some() && job.state == State::Queued;
    let body = Body {
        job: job.id,
        state: job.state,
        existing: enqueued.standing == Standing::Existing,
        list: &job.list_name,
        queue: &job.queue,
        priority: job.priority,
        run_at: job.run_at.to_string(),
        run_at_local: local(job.run_at),
        result: job.result,
    };
    let mut text = match (enqueued.standing, job.state) {
        (Standing::New, _) => format!("job {}: queued in '{}' for list '{}'\n", job.id, job.queue, job.list_name),
        (Standing::Existing, State::Done) => format!(
            "job {}: already imported, nothing was queued; 'enlist jobs show {}' tells the result\n",
            job.id, job.id
        ),
        (Standing::Existing, state) => format!("job {}: it was there before and is {state}\n", job.id),
    };
    if later {
        text.push_str(&format!("  not before {} ({})\n", job.run_at, local(job.run_at)));
    }
    store.close().await;
    context.answer(Exit::Done, &body, &text)
}
