//! What differs on PostgreSQL: how it is connected, its clock, and ending a frozen holder's sessions.
//!
//! Owns the connection options. Invariant: every connection names itself, finds the schema `enlist`
//! first, and gives up waiting before a lease ends.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};

use crate::job::{Fence, JobId};
use crate::store::StoreError;

/// The isolation on which the compare-and-set statements rely, whatever the server's default (rule 17).
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A part's transaction. Losing the last parts in a server crash is harmless: their positions go with
/// them (rule 15). Nothing else may be relaxed.
pub(crate) const BEGIN_PART: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off";

/// The server's clock, also inside a transaction that began earlier.
pub(crate) const NOW: &str = "SELECT clock_timestamp()";

/// The schema that holds every table.
pub(crate) const SCHEMA: &str = "enlist";

/// Opens up to `connections` connections that call themselves `name` and never wait longer than `patience`
/// for a lock, nor leave a transaction idle for longer.
pub(crate) async fn connect(
    options: &PgConnectOptions,
    name: &str,
    connections: u32,
    patience: Duration,
    connect_timeout: Duration,
) -> Result<PgPool, StoreError> {
    let millis = patience.as_millis().to_string();
    let named = options.clone().application_name(name).options([
        ("search_path", SCHEMA),
        // A part is planned as if it were dear, and compiling its statement would take longer than running it.
        ("jit", "off"),
        ("lock_timeout", millis.as_str()),
        ("idle_in_transaction_session_timeout", millis.as_str()),
    ]);
    let pool = PgPoolOptions::new()
        .max_connections(connections.max(1))
        .min_connections(0)
        .acquire_timeout(connect_timeout)
        .max_lifetime(None)
        .connect_with(named)
        .await?;
    Ok(pool)
}

/// Connects once, so that a server that is not there is known at once: a pool tries again until its time is over.
///
/// A server that is full or still starts is left to the pool, which waits for it.
pub(crate) async fn knock(options: &PgConnectOptions, connect_timeout: Duration) -> Result<(), StoreError> {
    match tokio::time::timeout(connect_timeout, PgConnection::connect_with(options)).await {
        Ok(Ok(connection)) => {
            // Whatever the goodbye meets, the server was there.
            let _ = connection.close().await;
            Ok(())
        }
        Ok(Err(sqlx::Error::Database(error))) if matches!(error.code().as_deref(), Some("57P03" | "53300")) => Ok(()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(StoreError::Gone(sqlx::Error::PoolTimedOut)),
    }
}

/// The name under which a holder's sessions can be found.
pub(crate) fn session_name(job: JobId, fence: Fence) -> String {
    format!("enlist/{job}/{fence}")
}

const END_SESSIONS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE application_name = $1 AND datname = current_database() AND pid <> pg_backend_pid()";

/// Ends every session of a former holder (rule 16). Returns how many there were.
pub(crate) async fn end_sessions(db: &PgPool, job: JobId, fence: Fence) -> Result<i64, StoreError> {
    let ended = sqlx::query_scalar(END_SESSIONS).bind(session_name(job, fence)).fetch_one(db).await?;
    Ok(ended)
}
