//! The claim store of this process: the database or Redis, under one deadline.
//!
//! Owns the choice and the deadline around every question, connecting included. It does not know alerts.
//! Invariant: whatever goes wrong is `Unavailable`, never `Held`; nobody waits longer than the deadline.

use std::time::Duration;

use crate::claim::{CLAIM_DEADLINE, ClaimKey, Claiming, Term};
use crate::claims::RedisClaims;
use crate::owner::Owner;
use crate::store::DatabaseClaims;

/// Where claims are kept.
#[derive(Debug)]
pub enum Claims {
    /// In the database.
    Database(DatabaseClaims),
    /// In Redis, shared by replicas that share no database.
    Redis(RedisClaims),
    /// Nowhere, for the reason given: everything is `Unavailable`.
    Nowhere(String),
}

/// How long letting go of connections may take.
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);

/// Asks whichever store there is, by the deadline. An error or silence is a text.
macro_rules! ask {
    ($claims:expr, |$store:ident| $question:expr) => {
        match $claims {
            Claims::Nowhere(why) => Err(why.clone()),
            Claims::Database($store) => timed(async { $question.await.map_err(|error| error.to_string()) }).await,
            Claims::Redis($store) => timed(async { $question.await.map_err(|error| error.to_string()) }).await,
        }
    };
}

async fn timed<T>(question: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let silent = || format!("it did not answer within {} ms", CLAIM_DEADLINE.as_millis());
    tokio::time::timeout(CLAIM_DEADLINE, question).await.unwrap_or_else(|_| Err(silent()))
}

impl Claims {
    /// Where, without a password.
    pub fn place(&self) -> String {
        match self {
            Self::Database(claims) => claims.place(),
            Self::Redis(claims) => claims.place(),
            Self::Nowhere(_) => "nowhere".to_owned(),
        }
    }

    /// Claims `key` for `owner`, whose name must be new.
    pub async fn claim(&self, key: &ClaimKey, term: Term, owner: &Owner) -> Claiming {
        ask!(self, |store| store.claim(key, term, owner)).unwrap_or_else(Claiming::Unavailable)
    }

    /// Begins the window of an alert that was sent under a claim. What fails is only said in the log: the claim
    /// then ends by its lease, and the alert may ring once more.
    pub async fn mark_sent(&self, key: &ClaimKey, term: Term, owner: &Owner) {
        match ask!(self, |store| store.mark_sent(key, term, owner)) {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(key = key.as_str(), "the claim ended before the alert was sent; it may ring twice")
            }
            Err(why) => tracing::warn!(key = key.as_str(), "an alert was sent and cannot be marked ({why})"),
        }
    }

    /// Gives a claim back that nothing came of.
    pub async fn release(&self, key: &ClaimKey, owner: &Owner) {
        if let Err(why) = ask!(self, |store| store.release(key, owner)) {
            tracing::warn!(key = key.as_str(), "a claim cannot be given back before it ends ({why})");
        }
    }

    /// Begins the window of something that went out without a claim, if the store answers by now.
    pub async fn record(&self, key: &ClaimKey, term: Term, owner: &Owner) {
        if let Err(why) = ask!(self, |store| store.record(key, term, owner)) {
            tracing::debug!(key = key.as_str(), "what was sent is not recorded ({why})");
        }
    }

    /// Lets go of the connections.
    pub async fn close(&self) {
        if let Self::Database(claims) = self {
            let _ = tokio::time::timeout(CLOSE_PATIENCE, claims.close()).await;
        }
    }
}
