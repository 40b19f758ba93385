//! Random interleavings of several owners over few keys, against a small model of what must happen.

use enlist::job::Fence;
use enlist::once::{HandlerError, KeyState, OnceKey, RequestHash, Terms, Told};
use enlist::store::{HeldKey, KeyClaim, ResetKeys, Store, StoreError};
use serde_json::{Value, json};
use std::time::Duration;

use super::{end_leases, key};
use crate::common::engine::{Db, Engine};
use crate::store::open;

const OWNERS: usize = 4;
const KEYS: [&str; 2] = ["a", "b"];
const MAX_ATTEMPTS: u32 = 4;
const STEPS: usize = 60;
const ROUNDS: u64 = 12;

/// A key as it should stand.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    /// `None` before its first claim.
    state: Option<KeyState>,
    attempts: u32,
    fence: i64,
    /// Whose claim of which fence holds it.
    holder: Option<(usize, i64)>,
    lease_ended: bool,
    result: Option<Value>,
    finishes: u32,
}

impl Model {
    const NEW: Self =
        Self { state: None, attempts: 0, fence: 0, holder: None, lease_ended: false, result: None, finishes: 0 };

    fn held_by(&self, owner: usize, held: &HeldKey) -> bool {
        self.state == Some(KeyState::Running) && self.holder == Some((owner, held.attempt.fence.0))
    }

    /// The fence and attempt that a claim gets, or what it is told.
    fn claim(&mut self, owner: usize) -> Result<(i64, u32), &'static str> {
        match self.state {
            Some(KeyState::Done) => return Err("done"),
            Some(KeyState::Failed) => return Err("failed"),
            Some(KeyState::Running) if !self.lease_ended => return Err("running"),
            Some(KeyState::Running) => self.attempts += 1,
            Some(KeyState::Pending) | None => {}
        }
        self.fence += 1;
        if self.attempts >= MAX_ATTEMPTS {
            self.end(KeyState::Failed);
            return Err("failed");
        }
        self.state = Some(KeyState::Running);
        self.lease_ended = false;
        self.holder = Some((owner, self.fence));
        Ok((self.fence, self.attempts + 1))
    }

    fn end(&mut self, state: KeyState) {
        self.state = Some(state);
        self.holder = None;
        self.lease_ended = false;
    }

    /// A failed or dead attempt is charged.
    fn charge(&mut self) {
        self.attempts += 1;
        self.end(if self.attempts >= MAX_ATTEMPTS { KeyState::Failed } else { KeyState::Pending });
    }
}

/// What an owner that may have lost its key is told must be what the model says.
#[track_caller]
fn check(outcome: Result<(), StoreError>, held: bool, when: &str) {
    match outcome {
        Ok(()) => assert!(held, "{when}: accepted from somebody who does not hold it"),
        Err(StoreError::LeaseLost) => assert!(!held, "{when}: refused from the holder"),
        Err(error) => panic!("{when}: {error}"),
    }
}

fn told(told: Told) -> &'static str {
    match told {
        Told::Done => "done",
        Told::Failed => "failed",
        Told::KeyReused => "reused",
        Told::Running(_) => "running",
        Told::Free => "free",
    }
}

struct World<'a> {
    db: &'a Db,
    store: Store,
    keys: Vec<(&'static OnceKey, Model)>,
    /// What each owner last claimed of each key, lost or not.
    hands: [[Option<HeldKey>; KEYS.len()]; OWNERS],
}

impl World<'_> {
    async fn claim(&mut self, owner: usize, n: usize, when: &str) {
        let terms = Terms { max_attempts: MAX_ATTEMPTS, ..Terms::default() };
        let hash = RequestHash::of(&n).expect("a hash");
        let (key, model) = &mut self.keys[n];
        let expected = model.claim(owner);
        match self.store.claim_key(key, &hash, terms).await.expect("an answer") {
            KeyClaim::Held(held) => {
                assert_eq!(expected, Ok((held.attempt.fence.0, held.attempt.number)), "{when}");
                self.hands[owner][n] = Some(held);
            }
            KeyClaim::Refused(said, _) => assert_eq!(expected, Err(told(said)), "{when}"),
        }
    }

    async fn step(&mut self, random: &mut fastrand::Rng, when: &str) {
        let (owner, n, what) = (random.usize(..OWNERS), random.usize(..KEYS.len()), random.u8(..12));
        let when = format!("{when}: owner {owner}, key {n}, step {what}, model {:?}", self.keys[n].1);
        match what {
            0..4 => return self.claim(owner, n, &when).await,
            4 => {
                end_leases(self.db);
                for (_, model) in &mut self.keys {
                    model.lease_ended = model.state == Some(KeyState::Running);
                }
                return;
            }
            5 => {
                let mut expected = ResetKeys::default();
                for (_, model) in self.keys.iter_mut().filter(|(_, model)| model.lease_ended) {
                    model.charge();
                    model.fence += 1;
                    if model.state == Some(KeyState::Failed) { expected.failed += 1 } else { expected.pending += 1 }
                }
                let grace = Duration::from_secs(5);
                assert_eq!(self.store.reset_dead_keys(grace).await.expect("swept"), expected, "{when}");
                return;
            }
            6 => {
                let other = RequestHash::of("another request").expect("a hash");
                if self.keys[n].1.state.is_some() {
                    let answer = self.store.claim_key(self.keys[n].0, &other, Terms::default()).await;
                    let answer = answer.expect("an answer");
                    assert!(matches!(answer, KeyClaim::Refused(Told::KeyReused, _)), "{when}: {answer:?}");
                }
                return;
            }
            _ => {}
        }
        let Some(held) = self.hands[owner][n].clone() else { return };
        let model = &mut self.keys[n].1;
        let holds = model.held_by(owner, &held);
        match what {
            7 | 8 => {
                check(self.store.renew_key(&held).await, holds, &when);
                model.lease_ended &= !holds;
            }
            9 => {
                let result = json!([owner, held.attempt.fence.0]);
                check(self.store.finish_key(&held, &result).await, holds, &when);
                if holds {
                    model.end(KeyState::Done);
                    model.finishes += 1;
                    model.result = Some(result);
                }
            }
            10 => {
                check(self.store.fail_key(&held, &HandlerError::transient("later")).await, holds, &when);
                if holds {
                    model.charge();
                }
            }
            _ if random.u8(..4) == 0 => {
                check(self.store.fail_key(&held, &HandlerError::permanent("never")).await, holds, &when);
                if holds {
                    model.attempts += 1;
                    model.end(KeyState::Failed);
                }
            }
            _ => {}
        }
    }

    async fn compare(&self, when: &str) {
        for (key, model) in &self.keys {
            let seen = self.store.see_key(key).await.expect("a read");
            assert_eq!(seen.as_ref().map(|seen| seen.state), model.state, "{when}: {key}");
            let Some(seen) = seen else { continue };
            assert_eq!(seen.attempts, model.attempts, "{when}: {key}");
            assert_eq!(
                seen.left.is_some(),
                model.state == Some(KeyState::Running) && !model.lease_ended,
                "{when}: {key}"
            );
            if let Some(result) = &model.result {
                assert_eq!(&seen.result, result, "{when}: {key}");
            }
            let fence = format!("SELECT fence FROM job_runs WHERE key = 'once:{key}'");
            assert_eq!(self.db.number(&fence).map(Fence), Some(Fence(model.fence)), "{when}: {key}");
            assert!(model.finishes <= 1, "{when}: {key} was finished {} times", model.finishes);
        }
    }
}

async fn random_interleavings(engine: Engine) {
    let db = Db::fresh(engine);
    let store = open(&db).await;
    let mut ends = Vec::new();
    for seed in 0..ROUNDS {
        let keys = KEYS.map(|name| (key(&format!("{name} {seed}")), Model::NEW)).to_vec();
        let mut world = World { db: &db, store: store.clone(), keys, hands: Default::default() };
        let mut random = fastrand::Rng::with_seed(seed);
        for step in 0..STEPS {
            let when = format!("seed {seed}, step {step}");
            world.step(&mut random, &when).await;
            world.compare(&when).await;
        }
        ends.extend(world.keys.iter().map(|(_, model)| model.state));
        // Keys of this round must not be swept in the next.
        db.execute("DELETE FROM job_runs");
    }
    for state in [KeyState::Done, KeyState::Failed] {
        assert!(ends.contains(&Some(state)), "no round ended {state:?}: {ends:?}");
    }
}

#[tokio::test]
async fn whatever_the_interleaving_a_key_obeys_its_holder_alone_on_sqlite() {
    random_interleavings(Engine::Sqlite).await;
}

#[tokio::test]
async fn whatever_the_interleaving_a_key_obeys_its_holder_alone_on_postgres() {
    random_interleavings(Engine::Postgres).await;
}
