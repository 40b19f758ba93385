//! What the store promises, on both engines.

use std::collections::BTreeMap;
use std::time::Duration;

use enlist::admission::Entry;
use enlist::batch::fold;
use enlist::holder;
use enlist::job::{Fingerprint, Grid, JobKey, ListId, State};
use enlist::limits::Limits;
use enlist::list::ListName;
use enlist::phone::Phone;
use enlist::position::{Position, Range};
use enlist::recipient::Recipient;
use enlist::reject::{Reason, Reject};
use enlist::run::{Counts, RunKey};
use enlist::settings::{Blank, Columns, Constants, Dialect, HeaderRow, PhoneType, Settings, ShortRows};
use enlist::store::{
    Access, Admission, Ask, Beat, Created, Lease, Member, Options, PartWrite, Payload, Session, Status, Store,
    StoreError, Target,
};
use enlist::verdict::{Charge, Leaving};

use crate::common::engine::Db;

pub(crate) async fn open(db: &Db) -> Store {
    let target = Target::parse(&db.url).expect("a URL");
    Store::open(&target, Access::Create, &Options::default()).await.expect("the store opens")
}

pub(crate) async fn list(store: &Store, name: &str) -> ListId {
    store.create_list(&ListName::parse(name).expect("a name")).await.expect("a list").0
}

/// Two attribute columns, `city` and `note`; `blank` and a version column as asked for.
pub(crate) fn settings(blank: Blank, version: Option<usize>) -> Settings {
    Settings {
        dialect: Dialect { delimiter: b',', quote: Some(b'"'), escape: None },
        encoding: "utf-8".to_owned(),
        header_row: HeaderRow::Present,
        skip_lines: 0,
        header: ["phone", "name", "city", "note"].map(str::to_owned).to_vec(),
        data_start: Position { byte: 10, line: 2 },
        columns: Columns {
            width: 4,
            phone: 0,
            name: Some(1),
            region: None,
            version,
            attributes: vec![("city".to_owned(), 2), ("note".to_owned(), 3)],
            reject_reason: None,
        },
        region: None,
        phone_type: PhoneType::Any,
        max_name_length: None,
        blank,
        short_rows: ShortRows::Reject,
        sheet: None,
        constants: Constants::default(),
    }
}

pub(crate) fn ask(list: ListId, content: &str, settings: Settings, lanes: u16) -> Ask {
    let fingerprint = Fingerprint(blake3_of(content));
    Ask {
        list,
        key: JobKey::import(list, &fingerprint, &settings),
        fingerprint,
        payload: Payload {
            source: format!("/lists/{content}.csv"),
            bytes: 100,
            settings,
            limits: Limits::default(),
            notify: None,
            mends: None,
        },
        grid: Grid { lanes, batch_rows: 10 },
        entry: Entry::Auto,
        owner: holder::claim_owner(),
        lease: Duration::from_secs(30),
    }
}

fn left(next: State) -> Leaving {
    Leaving { next, charge: Charge::Free, rest: Duration::ZERO }
}

fn blake3_of(content: &str) -> String {
    content.bytes().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) async fn admit(store: &Store, ask: &Ask) -> Admission {
    store.admit(ask, &|_| false).await.expect("an answer")
}

pub(crate) async fn begun(store: &Store, ask: &Ask) -> Lease {
    match admit(store, ask).await {
        Admission::Begun(lease, _) => lease,
        other => panic!("not begun: {other:?}"),
    }
}

/// A job in hand, with its one lane and what it has committed.
struct Hand {
    session: Session,
    key: JobKey,
    at: Position,
}

impl Hand {
    async fn begin(store: &Store, list: ListId, content: &str, settings: Settings) -> Self {
        let ask = ask(list, content, settings.clone(), 1);
        let lease = begun(store, &ask).await;
        let session = store.session(lease, &settings, 1).await.expect("a session");
        Self { session, key: ask.key, at: settings.data_start }
    }

    fn write(&self, rows: Vec<Recipient>, rejects: Vec<Reject>) -> PartWrite {
        let to = Position { byte: self.at.byte + 10, line: self.at.line + 1 };
        let range = Range { from: self.at, to };
        let total = rows.len();
        let waves = fold(rows);
        let kept: usize = waves.iter().map(Vec::len).sum();
        let counts = Counts {
            rows: (total + rejects.len()) as u64,
            duplicates: (total - kept) as u64,
            rejected: rejects.len() as u64,
            ..Counts::default()
        };
        PartWrite { key: RunKey::new(&self.key, 1, 0, 1, range), lane: 0, range, waves, rejects, mended: None, counts }
    }

    async fn commit(&mut self, rows: Vec<Recipient>) -> Counts {
        let write = self.write(rows, Vec::new());
        self.at = write.range.to;
        self.session.commit(&write).await.expect("the part is committed").counts
    }
}

fn person(phone: &str, name: &str, city: &str) -> Recipient {
    let stated = |text: &str| (text != "-").then(|| text.to_owned());
    Recipient {
        phone: Phone::stored(format!("+9053200000{phone}")),
        name: stated(name),
        attributes: [stated(city), None].into_iter().collect(),
        version: None,
    }
}

fn versioned(phone: &str, name: &str, version: Option<i64>) -> Recipient {
    Recipient { version, ..person(phone, name, "-") }
}

fn reject(byte: u64, raw: &[u8]) -> Reject {
    Reject {
        at: Position { byte, line: 3 },
        column: Some("phone".to_owned()),
        reason: Reason::PhoneMissing,
        detail: "the \"cell\" is empty".to_owned(),
        raw: raw.to_vec(),
    }
}

async fn members(store: &Store, list: ListId) -> Vec<Member> {
    store.members_after(list, None, 1_000_000).await.expect("members")
}

async fn names(store: &Store, list: ListId) -> Vec<(String, Option<String>)> {
    let last_two = |phone: &str| phone.chars().skip(phone.len() - 2).collect();
    members(store, list).await.into_iter().map(|member| (last_two(&member.phone), member.name)).collect()
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    pairs.iter().map(|(phone, name)| ((*phone).to_owned(), (*name != "-").then(|| (*name).to_owned()))).collect()
}

fn counts(inserted: u64, updated: u64, unchanged: u64, stale: u64, duplicates: u64) -> Counts {
    let rows = inserted + updated + unchanged + stale + duplicates;
    Counts { rows, inserted, updated, unchanged, stale, duplicates, ..Counts::default() }
}

both! {
    async fn a_part_says_what_was_new_changed_the_same_and_doubled(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let mut hand = Hand::begin(&store, list, "a", settings(Blank::Keep, None)).await;
        let first = vec![person("01", "Ayşe", "İzmir"), person("02", "-", "-"), person("01", "-", "Ankara")];
        assert_eq!(hand.commit(first).await, counts(2, 0, 0, 0, 1));
        let second = vec![person("01", "Ayşe", "-"), person("02", "Can", "-"), person("03", "\"q\" \\ ş\n", "-")];
        assert_eq!(hand.commit(second).await, counts(1, 1, 1, 0, 0));
        assert_eq!(names(&store, list).await, named(&[("01", "Ayşe"), ("02", "Can"), ("03", "\"q\" \\ ş\n")]));
        let cities: Vec<_> = members(&store, list).await.into_iter().map(|member| member.attributes).collect();
        assert_eq!(cities, [BTreeMap::from([("city".to_owned(), "Ankara".to_owned())]), BTreeMap::new(), BTreeMap::new()]);
        assert!(hand.session.finish(hand.at).await.expect("it is finished").adds_up());
    }

    async fn an_empty_cell_clears_only_where_that_is_asked_for(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let mut keep = Hand::begin(&store, list, "a", settings(Blank::Keep, None)).await;
        keep.commit(vec![person("01", "Ayşe", "İzmir"), person("02", "Can", "Bursa")]).await;
        keep.session.finish(keep.at).await.expect("it is finished");
        let mut clear = Hand::begin(&store, list, "b", settings(Blank::Clear, None)).await;
        assert_eq!(clear.commit(vec![person("01", "", ""), person("02", "Can", "Bursa")]).await, counts(0, 1, 1, 0, 0));
        assert_eq!(names(&store, list).await, named(&[("01", "-"), ("02", "Can")]));
        assert_eq!(members(&store, list).await.first().map(|member| member.attributes.len()), Some(0));
    }

    async fn an_opt_out_holds_before_and_during_an_import(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let phone = |n: &str| person(n, "-", "-").phone;
        let change = store.set_status(list, &[phone("01")], Status::OptedOut).await.expect("opted out");
        assert_eq!((change.created, change.changed, change.already), (1, 0, 0));
        let mut hand = Hand::begin(&store, list, "a", settings(Blank::Keep, None)).await;
        let rows = vec![person("01", "Ayşe", "-"), person("01", "Ayşe", "-"), person("02", "Can", "-")];
        let found = hand.commit(rows).await;
        assert_eq!((found.inserted, found.updated, found.duplicates, found.opted_out), (1, 1, 1, 2));
        let change = store.set_status(list, &[phone("02"), phone("01")], Status::OptedOut).await.expect("opted out");
        assert_eq!((change.created, change.changed, change.already), (0, 1, 1));
        assert_eq!(hand.commit(vec![person("02", "Can Yeni", "-")]).await.opted_out, 1);
        let statuses: Vec<_> = members(&store, list).await.into_iter().map(|member| member.status).collect();
        assert_eq!(statuses, [Status::OptedOut, Status::OptedOut]);
        assert_eq!(names(&store, list).await, named(&[("01", "Ayşe"), ("02", "Can Yeni")]));
    }

    async fn an_older_job_yields_to_what_a_later_one_wrote_or_confirmed(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let mut first = Hand::begin(&store, list, "base", settings(Blank::Keep, None)).await;
        first.commit(vec![person("01", "Old", "-"), person("02", "Old", "-"), person("03", "Old", "-")]).await;
        first.session.finish(first.at).await.expect("it is finished");
        let mut older = Hand::begin(&store, list, "older", settings(Blank::Keep, None)).await;
        let mut later = Hand::begin(&store, list, "later", settings(Blank::Keep, None)).await;
        // 01 is changed by the later job, 02 is confirmed by it without a change, 03 it does not mention.
        assert_eq!(later.commit(vec![person("01", "Later", "-"), person("02", "Old", "-")]).await, counts(0, 1, 1, 0, 0));
        let rows = vec![person("01", "Older", "-"), person("02", "Older", "-"), person("03", "Older", "-"), person("04", "Older", "-")];
        assert_eq!(older.commit(rows).await, counts(1, 1, 0, 2, 0));
        assert_eq!(names(&store, list).await, named(&[("01", "Later"), ("02", "Old"), ("03", "Older"), ("04", "Older")]));
    }

    async fn the_newer_version_wins_whatever_the_order_of_rows_and_jobs(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let mut hand = Hand::begin(&store, list, "a", settings(Blank::Keep, Some(3))).await;
        let rows = vec![
            versioned("01", "v2", Some(2)),
            versioned("01", "v1", Some(1)),
            versioned("01", "v2 again", Some(2)),
            versioned("02", "none", None),
            versioned("02", "v1", Some(1)),
        ];
        // Equal versions in a row fold; each change of version is a wave of its own.
        assert_eq!(hand.commit(rows).await, counts(2, 2, 0, 1, 0));
        assert_eq!(names(&store, list).await, named(&[("01", "v2 again"), ("02", "v1")]));
        hand.session.finish(hand.at).await.expect("it is finished");
        let mut later = Hand::begin(&store, list, "b", settings(Blank::Keep, Some(3))).await;
        let rows = vec![versioned("01", "older", Some(1)), versioned("02", "unversioned", None)];
        assert_eq!(later.commit(rows).await, counts(0, 1, 0, 1, 0));
        assert_eq!(names(&store, list).await, named(&[("01", "v2 again"), ("02", "unversioned")]));
        assert_eq!(members(&store, list).await.last().and_then(|member| member.source_version), Some(1));
        // A version that alone is newer is a change.
        assert_eq!(later.commit(vec![versioned("02", "unversioned", Some(5))]).await, counts(0, 1, 0, 0, 0));
    }

    async fn rejects_come_back_as_they_went_in(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let hand = Hand::begin(&store, list, "a", settings(Blank::Keep, None)).await;
        let rejects = vec![reject(30, b"x,\xff\x00\"y"), reject(20, b""), Reject { column: None, ..reject(25, "ş\\".as_bytes()) }];
        let written = hand.session.commit(&hand.write(Vec::new(), rejects.clone())).await.expect("committed");
        assert_eq!((written.counts.rows, written.counts.rejected), (3, 3));
        let job = hand.session.lease().job;
        let mut expected = rejects;
        expected.sort_by_key(|reject| reject.at);
        assert_eq!(store.rejects_after(job, None, 10).await.expect("a page"), expected);
        assert_eq!(store.rejects_after(job, Some(20), 1).await.expect("a page"), expected.get(1..2).unwrap_or_default());
        let reasons = store.reason_counts(job).await.expect("counts");
        assert_eq!(reasons.iter().map(|found| (found.reason, found.rows)).collect::<Vec<_>>(), [(Reason::PhoneMissing, 3)]);
    }

    async fn a_part_is_committed_once_and_only_from_where_its_lane_stands(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let mut hand = Hand::begin(&store, list, "a", settings(Blank::Keep, None)).await;
        let write = hand.write(vec![person("01", "Ayşe", "-")], vec![reject(10, b"r")]);
        hand.session.commit(&write).await.expect("committed");
        assert!(matches!(hand.session.commit(&write).await, Err(StoreError::PositionMoved)));
        hand.at = Position { byte: 999, line: 99 };
        let gap = hand.write(vec![person("02", "Can", "-")], Vec::new());
        assert!(matches!(hand.session.commit(&gap).await, Err(StoreError::PositionMoved)));
        assert!(matches!(hand.session.finish(gap.range.to).await, Err(StoreError::PositionMoved)));
        assert_eq!(names(&store, list).await, named(&[("01", "Ayşe")]));
        assert_eq!(store.rejects_after(hand.session.lease().job, None, 10).await.expect("a page").len(), 1);
        assert_eq!(hand.session.finish(write.range.to).await.expect("finished").rows, 2);
    }

    async fn a_former_holder_writes_nothing(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let wanted = ask(list, "a", settings(Blank::Keep, None), 1);
        let old = Hand::begin(&store, list, "a", settings(Blank::Keep, None)).await;
        // Provably gone: the same request takes it over at once.
        let Admission::TakeOver(job) = store.admit(&wanted, &|_| true).await.expect("an answer") else { panic!("not taken over") };
        let lease = store.take_over(&job, &wanted.owner, wanted.lease).await.expect("an answer").expect("it was free");
        assert!(lease.fence > old.session.lease().fence);
        assert!(store.take_over(&job, &wanted.owner, wanted.lease).await.expect("an answer").is_none(), "only once");
        // On PostgreSQL its sessions were ended; a new connection of the same name is refused by the fence.
        let write = old.write(vec![person("01", "Zombie", "-")], Vec::new());
        let mut refused = old.session.commit(&write).await;
        if matches!(refused, Err(StoreError::Gone(_))) {
            refused = old.session.commit(&write).await;
        }
        assert!(matches!(refused, Err(StoreError::LeaseLost)), "{refused:?}");
        assert_eq!(old.session.beat(&Counts::default()).await.expect("an answer"), Beat::Lost);
        assert!(matches!(old.session.finish(old.at).await, Err(StoreError::LeaseLost)));
        assert!(matches!(old.session.leave(left(State::Failed), None).await, Err(StoreError::LeaseLost)));
        assert!(members(&store, list).await.is_empty());
        let new = store.session(lease, &wanted.payload.settings, 1).await.expect("a session");
        new.commit(&write).await.expect("the new holder commits the same part");
        assert_eq!(new.beat(&Counts::default()).await.expect("an answer"), Beat::Held);
    }

    async fn an_expired_lease_is_taken_over_and_a_good_one_is_not(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let mut wanted = ask(list, "a", settings(Blank::Keep, None), 2);
        wanted.lease = Duration::from_millis(1);
        begun(&store, &wanted).await;
        let taken = loop {
            if let Admission::TakeOver(job) = admit(&store, &wanted).await {
                break store.take_over(&job, &wanted.owner, Duration::from_secs(30)).await.expect("an answer");
            }
        };
        assert!(taken.is_some());
        assert!(matches!(admit(&store, &wanted).await, Admission::Held(_)));
        let attempts = store.attempts(taken.expect("taken").job).await.expect("attempts");
        let outcomes: Vec<_> = attempts.iter().map(|attempt| attempt.outcome.as_deref()).collect();
        assert_eq!(outcomes, [Some("taken over"), None]);
    }

    async fn what_a_job_was_left_as_decides_what_the_next_request_does(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let wanted = ask(list, "a", settings(Blank::Keep, None), 1);
        for (state, expected) in [(State::Interrupted, 2), (State::Failed, 3), (State::Cancelled, 4), (State::Paused, 0)] {
            let lease = begun(&store, &wanted).await;
            let session = store.session(lease, &wanted.payload.settings, 1).await.expect("a session");
            session.leave(left(state), None).await.expect("left");
            let job = store.job(session.lease().job).await.expect("a read").expect("a job");
            assert_eq!(job.state, state);
            if expected == 0 {
                assert!(matches!(admit(&store, &wanted).await, Admission::Paused(_)));
                store.resume_job(job.id).await.expect("resumed");
            } else {
                assert_eq!(job.fence.0 + 1, expected, "the same row is reopened");
            }
        }
        let hand = Hand::begin(&store, list, "a", settings(Blank::Keep, None)).await;
        hand.session.finish(hand.at).await.expect("finished");
        assert!(matches!(admit(&store, &wanted).await, Admission::Replay(_)));
        let other = Hand::begin(&store, list, "b", settings(Blank::Keep, None)).await;
        other.session.finish(other.at).await.expect("finished");
        let Admission::Begun(_, job) = admit(&store, &wanted).await else { panic!("another import finished since") };
        assert_eq!(job.generation, 2);
        let gr = Settings { region: Some("GR".to_owned()), ..settings(Blank::Keep, None) };
        assert!(matches!(admit(&store, &ask(list, "a", gr, 1)).await, Admission::SettingsChanged(_)));
    }

    async fn a_running_job_is_asked_to_stop_and_others_stop_at_once(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let hand = Hand::begin(&store, list, "a", settings(Blank::Keep, None)).await;
        let job = hand.session.lease().job;
        store.cancel_job(job).await.expect("asked");
        assert_eq!(hand.session.beat(&Counts::default()).await.expect("a beat"), Beat::CancelRequested);
        hand.session.leave(left(State::Interrupted), None).await.expect("left");
        assert_eq!(store.pause_job(job).await.expect("paused").state, State::Paused);
        assert_eq!(store.resume_job(job).await.expect("resumed").state, State::Interrupted);
        assert_eq!(store.cancel_job(job).await.expect("cancelled").state, State::Cancelled);
        assert!(matches!(store.pause_job(job).await, Err(StoreError::State { .. })));
        assert!(matches!(store.resume_job(enlist::job::JobId(999)).await, Err(StoreError::UnknownJob(_))));
    }

    async fn a_list_is_made_once_whoever_makes_it(db: Db) {
        let store = open(&db).await;
        let name = ListName::parse("people").expect("a name");
        let made = futures_of(8, || async { store.create_list(&name).await.expect("a list") }).await;
        assert_eq!(made.iter().filter(|(_, created)| *created == Created::New).count(), 1);
        assert_eq!(store.lists().await.expect("lists").len(), 1);
    }

    async fn one_of_many_that_ask_at_once_is_let_in(db: Db) {
        let store = open(&db).await;
        let list = list(&store, "people").await;
        let answers = futures_of(8, || async {
            let wanted = ask(list, "a", settings(Blank::Keep, None), 4);
            loop {
                match store.admit(&wanted, &|_| false).await {
                    Err(StoreError::Busy(_) | StoreError::Retry(_)) => {}
                    answer => break answer.expect("an answer"),
                }
            }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| matches!(answer, Admission::Begun(..))).count(), 1);
        assert_eq!(answers.iter().filter(|answer| matches!(answer, Admission::Held(_))).count(), 7);
    }
}

/// Runs the same thing several times at once.
async fn futures_of<T, F: Future<Output = T>>(times: usize, make: impl Fn() -> F) -> Vec<T> {
    let mut waiting: Vec<_> = (0..times).map(|_| Box::pin(make())).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if waiting.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

/// A part of one of several jobs that write into one list in turn.
struct Step {
    job: usize,
    rows: Vec<Recipient>,
}

fn random_steps(random: &mut fastrand::Rng) -> Vec<Step> {
    let cell = |random: &mut fastrand::Rng| match random.u8(0..4) {
        0 => None,
        1 => Some(String::new()),
        n => Some(format!("value {n}\"\\ş")),
    };
    (0..12)
        .map(|_| {
            let rows = (0..random.usize(1..12)).map(|_| Recipient {
                phone: Phone::stored(format!("+9053200000{:02}", random.u8(0..9))),
                name: cell(random),
                attributes: [cell(random), cell(random)].into_iter().collect(),
                version: if random.bool() { Some(random.i64(0..3)) } else { None },
            });
            let rows = rows.collect();
            Step { job: random.usize(0..3), rows }
        })
        .collect()
}

/// What both engines are compared by: the counts of each step, the members, their writers.
type Outcome = (Vec<Counts>, Vec<Member>, Vec<Option<String>>);

/// The rows of a step as the normaliser would give them: an empty cell says nothing at all where it does not clear.
fn given(step: &Step) -> Vec<Recipient> {
    let clears = step.job == 1;
    let said = |value: Option<&str>| match value {
        value if clears => Some(value.unwrap_or_default().to_owned()),
        value => value.filter(|text| !text.is_empty()).map(str::to_owned),
    };
    let rows = step.rows.iter().map(|row| Recipient {
        phone: row.phone.clone(),
        name: said(row.name.as_deref()),
        attributes: row.attributes.iter().map(said).collect(),
        version: row.version.filter(|_| step.job > 0),
    });
    rows.collect()
}

fn settings_of(job: usize) -> Settings {
    match job {
        0 => settings(Blank::Keep, None),
        1 => settings(Blank::Clear, Some(3)),
        _ => settings(Blank::Keep, Some(3)),
    }
}

async fn stands(db: &Db, store: &Store, list: ListId, counts: Vec<Counts>) -> Outcome {
    let writers = db.texts("SELECT CAST(job_id AS TEXT) FROM recipients ORDER BY phone");
    (counts, members(store, list).await, writers)
}

/// Three jobs that are open at once.
async fn outcome(db: &Db, steps: &[Step]) -> Outcome {
    let store = open(db).await;
    let list = list(&store, "people").await;
    let mut hands = [
        Hand::begin(&store, list, "a", settings_of(0)).await,
        Hand::begin(&store, list, "b", settings_of(1)).await,
        Hand::begin(&store, list, "c", settings_of(2)).await,
    ];
    let mut counts = Vec::new();
    for step in steps {
        counts.push(hands[step.job].commit(given(step)).await);
    }
    stands(db, &store, list, counts).await
}

/// Jobs one after another, each done before the next begins; people opt out in between.
async fn outcome_in_turn(db: &Db, steps: &[Step]) -> Outcome {
    let store = open(db).await;
    let list = list(&store, "people").await;
    let mut counts = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        let mut hand = Hand::begin(&store, list, &format!("{place}"), settings_of(step.job)).await;
        // The second time every row is as it is stored, unless rows of one phone follow each other by version.
        counts.push(hand.commit(given(step)).await);
        counts.push(hand.commit(given(step)).await);
        db.execute(
            "UPDATE jobs SET state = 'done', result = '{}', owner = NULL, lease_until = NULL WHERE state = 'running'",
        );
        db.execute(&format!("UPDATE recipients SET status = 'opted_out' WHERE phone LIKE '%{}'", place % 10));
    }
    stands(db, &store, list, counts).await
}

#[tokio::test]
async fn both_engines_merge_alike_whatever_comes() {
    use crate::common::engine::Engine;
    for seed in 0..25 {
        let steps = random_steps(&mut fastrand::Rng::with_seed(seed));
        let (sqlite, postgres) = (Db::fresh(Engine::Sqlite), Db::fresh(Engine::Postgres));
        assert_eq!(outcome(&sqlite, &steps).await, outcome(&postgres, &steps).await, "seed {seed}");
    }
}

#[tokio::test]
async fn both_engines_merge_alike_when_jobs_follow_one_another() {
    use crate::common::engine::Engine;
    for seed in 0..25 {
        let steps = random_steps(&mut fastrand::Rng::with_seed(seed));
        let (sqlite, postgres) = (Db::fresh(Engine::Sqlite), Db::fresh(Engine::Postgres));
        let (found, expected) = (outcome_in_turn(&sqlite, &steps).await, outcome_in_turn(&postgres, &steps).await);
        assert_eq!(found, expected, "seed {seed}");
        let all = |name: fn(&Counts) -> u64| found.0.iter().map(name).sum::<u64>();
        assert!(all(|c| c.inserted) > 0 && all(|c| c.updated) > 0 && all(|c| c.unchanged) > 0, "seed {seed}");
    }
}
