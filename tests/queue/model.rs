//! The queue against a small model: random interleavings of everything that changes a job, by holders that are
//! current, late or dead, on both engines.
//!
//! The model knows only what the state machine says. Whatever the store accepts or refuses must be what the model
//! accepts or refuses; every change it makes must be an edge of the table of transitions.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use enlist::holder;
use enlist::job::{JobId, ListId, QueueName, State};
use enlist::position::Position;
use enlist::run::Counts;
use enlist::settings::Blank;
use enlist::store::{Admission, Beat, JobError, JobRow, QueueTerms, Session, Store, StoreError};
use enlist::verdict::{Charge, Leaving};

use crate::common::engine::{Db, Engine};
use crate::store::{ask, list, open, settings};

const LEASE: Duration = Duration::from_secs(600);
const MAX_ATTEMPTS: u32 = 3;
const RUNS: u64 = 12;
const STEPS: usize = 70;

/// A job as the model sees it.
#[derive(Debug, Clone)]
struct Job {
    list: ListId,
    state: State,
    /// Who holds it: an index into the hands.
    holder: Option<usize>,
    expired: bool,
    cancel: bool,
    pause: bool,
    attempts: u32,
    finishes: u32,
}

/// Somebody who was given a lease once, and may be late.
struct Hand {
    job: JobId,
    session: Session,
}

struct World {
    db: Db,
    store: Store,
    lists: Vec<ListId>,
    jobs: BTreeMap<JobId, Job>,
    hands: Vec<Hand>,
    leases: HashSet<(i64, i64, String)>,
    made: usize,
    random: fastrand::Rng,
}

impl World {
    async fn new(db: Db, seed: u64) -> Self {
        let store = open(&db).await;
        let lists = vec![list(&store, "a").await, list(&store, "b").await];
        let random = fastrand::Rng::with_seed(seed);
        Self { db, store, lists, jobs: BTreeMap::new(), hands: Vec::new(), leases: HashSet::new(), made: 0, random }
    }

    async fn step(&mut self) {
        match self.random.u8(..16) {
            0..=2 => self.enqueue().await,
            3..=6 => self.claim().await,
            7 => self.beat().await,
            8 => self.expire(),
            9 => self.sweep().await,
            10 | 11 => self.finish().await,
            12 => self.leave().await,
            13 => self.take_over().await,
            _ => self.steer().await,
        }
        self.compare().await;
    }

    async fn enqueue(&mut self) {
        self.made += 1;
        let list = *self.random.choice(&self.lists).expect("there are lists");
        let ask = ask(list, &format!("content {}", self.made), settings(Blank::Keep, None), 1);
        let terms = QueueTerms { queue: QueueName::default(), priority: 0, run_at: None, max_attempts: MAX_ATTEMPTS };
        let Admission::Queued(job) = self.store.enqueue(&ask, &terms, &holder::is_gone).await.expect("it is new")
        else {
            panic!("a new import was not queued")
        };
        let (state, holder) = (State::Queued, None);
        let new = Job { list, state, holder, expired: false, cancel: false, pause: false, attempts: 0, finishes: 0 };
        self.jobs.insert(job.id, new);
    }

    /// Jobs that may be claimed: nothing of their list runs, and nothing of it is queued before them.
    fn claimable(&self) -> Vec<JobId> {
        let blocks =
            |other: &Job, first: bool| other.state == State::Running || (first && other.state == State::Queued);
        let free = |id: &JobId, job: &Job| {
            !self.jobs.iter().any(|(other, row)| other != id && row.list == job.list && blocks(row, other < id))
        };
        self.jobs.iter().filter(|(id, job)| job.state == State::Queued && free(id, job)).map(|(id, _)| *id).collect()
    }

    async fn claim(&mut self) {
        // A pause after a failure is no part of this model.
        self.db.execute("UPDATE jobs SET run_at = created_at WHERE state = 'queued'");
        let claimed = self.store.claim(&QueueName::default(), &holder::claim_owner(), LEASE).await.expect("it answers");
        let Some(claimed) = claimed else {
            assert_eq!(self.claimable(), [], "something was ready and was not claimed");
            return;
        };
        assert!(self.claimable().contains(&claimed.job.id), "job {} was not to be claimed", claimed.job.id);
        self.begin(claimed.job.id, claimed.lease).await;
        let job = self.jobs.get_mut(&claimed.job.id).expect("it is known");
        (job.cancel, job.pause) = (false, false);
    }

    async fn begin(&mut self, id: JobId, lease: enlist::store::Lease) {
        let name = (id.0, lease.fence.0, lease.owner.clone());
        assert!(self.leases.insert(name), "a fence and owner of job {id} were given out twice");
        assert!(
            !self
                .leases
                .iter()
                .any(|(job, fence, owner)| *job == id.0 && *fence == lease.fence.0 && *owner != lease.owner),
            "a fence of job {id} was given to two owners"
        );
        let session = self.store.session(lease, &settings(Blank::Keep, None), 1).await.expect("it opens");
        self.hands.push(Hand { job: id, session });
        let holder = self.hands.len() - 1;
        self.change(id, State::Running);
        let job = self.jobs.get_mut(&id).expect("it is known");
        (job.holder, job.expired) = (Some(holder), false);
    }

    /// Moves a job of the model along an edge.
    fn change(&mut self, id: JobId, next: State) {
        let job = self.jobs.get_mut(&id).expect("it is known");
        assert!(job.state.may_become(next), "{} → {next} is no edge", job.state);
        job.state = next;
        if next != State::Running {
            (job.holder, job.expired, job.cancel, job.pause) = (None, false, false, false);
        }
    }

    /// A hand, current or late, and whether it holds its job.
    fn some_hand(&mut self) -> Option<(usize, bool)> {
        if self.hands.is_empty() {
            return None;
        }
        // Those that came last are more often current.
        let n = self.hands.len();
        let hand = if self.random.bool() { n - 1 - self.random.usize(..n.min(3)) } else { self.random.usize(..n) };
        let job = &self.jobs[&self.hands[hand].job];
        Some((hand, job.state == State::Running && job.holder == Some(hand)))
    }

    async fn beat(&mut self) {
        let Some((hand, holds)) = self.some_hand() else { return };
        let id = self.hands[hand].job;
        let beat = self.hands[hand].session.beat(&Counts::default()).await.expect("it answers");
        let job = self.jobs.get_mut(&id).expect("it is known");
        let expected = match (holds, job.cancel, job.pause) {
            (false, _, _) => Beat::Lost,
            (true, true, _) => Beat::CancelRequested,
            (true, false, true) => Beat::PauseRequested,
            (true, false, false) => Beat::Held,
        };
        assert_eq!(beat, expected, "job {id}");
        // An ended lease that nobody took can be renewed.
        job.expired = job.expired && !holds;
    }

    fn expire(&mut self) {
        let running: Vec<JobId> =
            self.jobs.iter().filter(|(_, job)| job.state == State::Running).map(|(id, _)| *id).collect();
        let Some(id) = self.random.choice(&running).copied() else { return };
        let past = if self.db.engine == Engine::Sqlite { "1000" } else { "'2001-01-01'" };
        self.db.execute(&format!("UPDATE jobs SET lease_until = {past} WHERE id = {id}"));
        self.jobs.get_mut(&id).expect("it is known").expired = true;
    }

    async fn sweep(&mut self) {
        let swept = self.store.sweep(Duration::ZERO, &|_| false).await.expect("it sweeps");
        let expected: Vec<JobId> =
            self.jobs.iter().filter(|(_, job)| job.state == State::Running && job.expired).map(|(id, _)| *id).collect();
        let mut taken: Vec<JobId> = swept.iter().map(|job| job.job).collect();
        taken.sort();
        assert_eq!(taken, expected, "the sweep takes what has ended and nothing else");
        for id in expected {
            let job = self.jobs.get_mut(&id).expect("it is known");
            job.attempts += 1;
            let next = match (job.cancel, job.pause, job.attempts >= MAX_ATTEMPTS) {
                (true, _, _) => State::Cancelled,
                (false, true, _) => State::Paused,
                (false, false, true) => State::Failed,
                (false, false, false) => State::Queued,
            };
            self.change(id, next);
        }
    }

    async fn finish(&mut self) {
        let Some((hand, holds)) = self.some_hand() else { return };
        let id = self.hands[hand].job;
        // The lanes stand at the start of the data, which is the end of this empty input.
        let finished = self.hands[hand].session.finish(Position { byte: 10, line: 2 }).await;
        match (finished, holds) {
            (Ok(_), true) => {
                self.change(id, State::Done);
                self.jobs.get_mut(&id).expect("it is known").finishes += 1;
            }
            (Err(StoreError::LeaseLost), false) => {}
            (outcome, holds) => panic!("job {id}, held: {holds}: finish gave {outcome:?}"),
        }
        let twice: Vec<_> = self.jobs.iter().filter(|(_, job)| job.finishes > 1).collect();
        assert!(twice.is_empty(), "finished twice: {twice:?}");
    }

    async fn leave(&mut self) {
        let Some((hand, holds)) = self.some_hand() else { return };
        let id = self.hands[hand].job;
        let (next, charge) = *self
            .random
            .choice(&[
                (State::Queued, Charge::Free),
                (State::Queued, Charge::Charged),
                (State::Failed, Charge::Charged),
                (State::Cancelled, Charge::Free),
                (State::Paused, Charge::Free),
            ])
            .expect("there are ways");
        let error = JobError { code: "database_stopped".to_owned(), message: "a test".to_owned() };
        let left = self.hands[hand].session.leave(Leaving { next, charge, rest: Duration::ZERO }, Some(&error)).await;
        match (left, holds) {
            (Ok(()), true) => {
                self.jobs.get_mut(&id).expect("it is known").attempts += u32::from(charge == Charge::Charged);
                self.change(id, next);
            }
            (Err(StoreError::LeaseLost), false) => {}
            (outcome, holds) => panic!("job {id}, held: {holds}: leave gave {outcome:?}"),
        }
    }

    async fn take_over(&mut self) {
        let running: Vec<JobId> =
            self.jobs.iter().filter(|(_, job)| job.state == State::Running).map(|(id, _)| *id).collect();
        let Some(id) = self.random.choice(&running).copied() else { return };
        let row = self.store.job(id).await.expect("it answers").expect("it is there");
        // What was read may be stale by the time it is used.
        let stale = self.random.u8(..4) == 0;
        if stale {
            self.expire();
            self.sweep().await;
        }
        let current = self.row_is_current(&row).await;
        let lease = self.store.take_over(&row, &holder::claim_owner(), LEASE).await.expect("it answers");
        assert_eq!(lease.is_some(), current, "job {id}: a takeover is by fence and owner");
        if let Some(lease) = lease {
            self.begin(id, lease).await;
            let job = self.jobs.get_mut(&id).expect("it is known");
            job.attempts += 1;
            job.cancel = false;
        }
    }

    async fn row_is_current(&self, row: &JobRow) -> bool {
        let now = self.store.job(row.id).await.expect("it answers").expect("it is there");
        (now.state, now.fence, &now.owner) == (row.state, row.fence, &row.owner)
    }

    async fn steer(&mut self) {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        let Some(id) = self.random.choice(&ids).copied() else { return };
        let state = self.jobs[&id].state;
        let verb = self.random.u8(..4);
        let (outcome, next) = match verb {
            0 => (
                self.store.cancel_job(id).await,
                matches!(state, State::Queued | State::Paused).then_some(State::Cancelled),
            ),
            1 => (self.store.pause_job(id).await, (state == State::Queued).then_some(State::Paused)),
            2 => (self.store.resume_job(id).await, (state == State::Paused).then_some(State::Queued)),
            _ => {
                let ended = matches!(state, State::Failed | State::Cancelled);
                (self.store.retry_job(id).await, ended.then_some(State::Queued))
            }
        };
        match (outcome, next) {
            (Ok(row), Some(next)) => {
                assert_eq!(row.state, next, "job {id}");
                if matches!(state, State::Failed | State::Cancelled) {
                    self.jobs.get_mut(&id).expect("it is known").attempts = 0;
                }
                self.change(id, next);
            }
            (Ok(row), None) => {
                assert_eq!(
                    (state, row.state),
                    (State::Running, State::Running),
                    "job {id}: only a holder can be asked"
                );
                let job = self.jobs.get_mut(&id).expect("it is known");
                (job.cancel, job.pause) = (job.cancel || verb == 0, job.pause || verb == 1);
            }
            (Err(StoreError::State { .. }), None) => {}
            (outcome, next) => panic!("job {id} in {state}: expected {next:?}, got {outcome:?}"),
        }
    }

    /// What is stored must be what the model says.
    async fn compare(&mut self) {
        for (id, job) in &mut self.jobs {
            let row = self.store.job(*id).await.expect("it answers").expect("it is there");
            assert_eq!((row.state, row.attempts), (job.state, job.attempts), "job {id}: {job:?}");
            assert_eq!(row.owner.is_some(), job.holder.is_some(), "job {id}");
            if let Some(hand) = job.holder {
                let lease = self.hands[hand].session.lease();
                assert_eq!((Some(&lease.owner), lease.fence), (row.owner.as_ref(), row.fence), "job {id}");
            }
        }
    }
}

async fn run(engine: Engine) {
    for _ in 0..RUNS {
        let seed = fastrand::u64(..);
        eprintln!("model on {engine:?}: seed {seed}");
        let mut world = World::new(Db::fresh(engine), seed).await;
        for _ in 0..STEPS {
            world.step().await;
        }
        for hand in world.hands {
            hand.session.close().await;
        }
        world.store.close().await;
    }
}

#[tokio::test]
async fn random_interleavings_keep_to_the_model_on_sqlite() {
    run(Engine::Sqlite).await;
}

#[tokio::test]
async fn random_interleavings_keep_to_the_model_on_postgres() {
    run(Engine::Postgres).await;
}
