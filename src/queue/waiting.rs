//! Waiting for something to do.
//!
//! Owns the ear for hints. It does not know what there is to do. Invariant: a hint that is lost, or a connection
//! that breaks, costs one look's time and nothing else.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::backoff::CONNECTION;
use crate::stop::Stop;
use crate::store::{Engine, Store};

/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The ear.
pub(crate) struct Hinted {
    heard: Arc<Notify>,
    listening: Option<JoinHandle<()>>,
}

impl Hinted {
    /// Listens where the engine has hints, and again after the connection broke.
    pub(crate) fn start(store: &Store) -> Self {
        let heard = Arc::new(Notify::new());
        let listening = (store.engine() == Engine::Postgres).then(|| {
            let (store, heard) = (store.clone(), heard.clone());
            tokio::spawn(async move { listen(&store, &heard).await })
        });
        Self { heard, listening }
    }

    /// Whether hints may come.
    pub(crate) fn hears(&self) -> bool {
        self.listening.is_some()
    }

    /// Waits for a hint.
    pub(crate) async fn heard(&mut self) {
        self.heard.notified().await;
    }
}

impl Drop for Hinted {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

async fn listen(store: &Store, heard: &Notify) {
    let mut failures = 0;
    loop {
        if let Ok(Some(mut hints)) = store.hints().await {
            failures = 0;
            // Whatever came in while nobody listened is found by looking.
            heard.notify_one();
            while hints.next().await.is_ok() {
                heard.notify_one();
            }
        }
        failures += 1;
        tokio::time::sleep(CONNECTION.delay(failures, fastrand::f64())).await;
    }
}

/// Waits until somebody asks to stop.
pub(crate) async fn stopped(stop: &Stop) {
    while stop.cause().is_none() {
        tokio::time::sleep(LOOK).await;
    }
}
