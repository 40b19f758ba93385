//! Alerts and `once` across replicas: real processes, a real Redis, PostgreSQL and SQLite as claim stores, and a
//! receiver that counts.

mod once;
mod outbox;
mod ringing;
mod sinks;
mod unreachable;

use crate::common::cli::{Enlist, Home};
use crate::common::engine::{Db, Engine};
use crate::common::redis::Redis;
use crate::common::webhook::Webhook;

/// Where claims are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Sqlite,
    Postgres,
    Redis,
}

/// What replicas share: a claim store and a receiver.
pub(crate) struct Shared {
    pub(crate) home: Home,
    pub(crate) receiver: Webhook,
    pub(crate) db: Option<Db>,
    pub(crate) redis: Option<Redis>,
}

impl Shared {
    pub(crate) fn new(place: Place) -> Self {
        let mut shared = Self { home: Home::new(), receiver: Webhook::start(), db: None, redis: None };
        shared.configure("");
        match place {
            Place::Redis => shared.redis = Some(Redis::start()),
            Place::Sqlite => shared.db = Some(Db::fresh(Engine::Sqlite)),
            Place::Postgres => shared.db = Some(Db::fresh(Engine::Postgres)),
        }
        if let Some(db) = &shared.db {
            shared.home.enlist(db).arg("migrate").run().expect(0);
        }
        shared
    }

    /// Writes the configuration: the receiver, and further lines under `[alerts]`.
    pub(crate) fn configure(&self, lines: &str) {
        let text = format!("[alerts]\nwebhook = '{}'\n{lines}\n", self.receiver.url());
        self.home.write("config/enlist/enlist.toml", text);
    }

    /// `enlist` on this claim store. Replicas that share a Redis share no database.
    pub(crate) fn enlist(&self) -> Enlist {
        match (&self.db, &self.redis) {
            (Some(db), _) => self.home.enlist(db),
            (None, Some(redis)) => self.home.bare().args(["--claims-url", &redis.url()]),
            (None, None) => self.home.bare(),
        }
    }

    pub(crate) fn alert(&self, key: &str) -> Enlist {
        self.enlist().args(["alert", key, "--message", "it happened", "--json"])
    }

    pub(crate) fn once(&self, key: &str, options: &[&str], script: &str) -> Enlist {
        let window = ["once", key, "--window", "300d"];
        self.enlist().args(window).args(options).args(["--", "sh", "-c", script])
    }

    /// How many hits of a key were held back, as the store counts them.
    pub(crate) fn suppressed(&self, key: &str) -> Option<i64> {
        match (&self.db, &self.redis) {
            (Some(db), _) => db.number(&format!("SELECT suppressed FROM alerts WHERE dedupe_key = '{key}'")),
            (None, Some(redis)) => redis.number(&format!("enlist:{{{key}}}:suppressed")),
            (None, None) => None,
        }
    }
}

/// Makes of `fn name(place: Place) { … }` a test on each claim store.
macro_rules! places {
    () => {};
    ($(#[$meta:meta])* fn $name:ident($place:ident: Place) $body:block $($rest:tt)*) => {
        $(#[$meta])*
        fn $name($place: $crate::alerts::Place) $body

        mod $name {
            use $crate::alerts::Place;

            #[test]
            fn sqlite() {
                super::$name(Place::Sqlite);
            }

            #[test]
            fn postgres() {
                super::$name(Place::Postgres);
            }

            #[test]
            fn redis() {
                super::$name(Place::Redis);
            }
        }

        $crate::alerts::places! { $($rest)* }
    };
}
pub(crate) use places;
