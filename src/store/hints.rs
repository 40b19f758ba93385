//! Telling workers that there may be something to do.
//!
//! Owns `LISTEN` and `NOTIFY`. It does not know what there is to do. Invariant: a hint is only that: it may be
//! lost (a reconnect, a pooler) or come for nothing, so workers look by themselves as well.

use sqlx::postgres::PgListener;

use crate::store::{Pool, Store, StoreError};

/// The channel of hints; the payload is the queue's name.
pub(crate) const CHANNEL: &str = "enlist_jobs";

/// Sent when the transaction commits; the queue's name is $1.
pub(crate) const RING: &str = "SELECT pg_notify('enlist_jobs', $1)";

/// Hints at a queue when the transaction commits. SQLite has no channel: `ring!(pool, queue, connection)`.
macro_rules! ring {
    ($pool:expr, $queue:expr, $connection:expr) => {
        if let $crate::store::Pool::Postgres(_) = $pool {
            sqlx::query($crate::store::hints::RING).bind($queue).execute($connection).await?;
        }
    };
}
pub(crate) use ring;

/// A connection that hears hints.
#[derive(Debug)]
pub struct Hints(PgListener);

impl Store {
    /// Listens for hints. `None` where the engine has none: then only looking helps.
    pub async fn hints(&self) -> Result<Option<Hints>, StoreError> {
        match &self.pool {
            Pool::Sqlite(_) => Ok(None),
            Pool::Postgres(db) => {
                let mut listener = PgListener::connect_with(db).await?;
                listener.listen(CHANNEL).await?;
                Ok(Some(Hints(listener)))
            }
        }
    }
}

impl Hints {
    /// Waits for the next hint: a queue's name. `None` after the connection was lost and made again, when hints
    /// may have been missed.
    pub async fn next(&mut self) -> Result<Option<String>, StoreError> {
        let notification = self.0.try_recv().await?;
        Ok(notification.map(|notification| notification.payload().to_owned()))
    }
}
