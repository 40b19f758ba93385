//! Any bytes at all: nothing panics or hangs, and every row is accounted for.
//!
//! `PROPTEST_CASES=20000 cargo test --features failpoints anything` looks for longer.

use std::time::Duration;

use enlist::import::import;
use enlist::import::report::{Budget, Entry, Expected, NewList, Report, Request, Wait};
use enlist::location::Location;
use enlist::settings::Wanted;
use enlist::stop::Stop;
use enlist::store::{Access, Options, Store, Target};
use proptest::prelude::*;

/// Pieces that files are made of, and pieces that they should not be made of.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => Just(b"phone,name\n".to_vec()),
        6 => Just(b"05320000011,Ay\xc5\x9fe\n".to_vec()),
        4 => Just(b"+306900000012;x".to_vec()),
        3 => Just(b"\r\n".to_vec()),
        3 => Just(b"\"".to_vec()),
        3 => Just(b",".to_vec()),
        2 => Just(b"9,05E+11".to_vec()),
        1 => Just(b"\x1f\x8b\x08".to_vec()),
        1 => Just(b"PK\x03\x04".to_vec()),
        1 => Just(b"\xff\xfe".to_vec()),
        1 => Just(b"\xef\xbb\xbf".to_vec()),
        1 => Just(b"BZh9".to_vec()),
        1 => Just(b"\xfd7zXZ\0".to_vec()),
        1 => Just(b"(\xb5/\xfd".to_vec()),
        1 => Just(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec()),
        2 => Just(vec![0]),
        4 => proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

async fn imported(store: &Store, path: &std::path::Path, entry: Entry) -> Report {
    let request = Request {
        input: Location::Path(path.to_owned()),
        list: "anything".to_owned(),
        new_list: NewList::Create,
        wanted: Wanted { region: Some("TR".to_owned()), ..Wanted::default() },
        batch_rows: Some(3),
        writers: Some(3),
        max_rejects: Some(Budget::Percent(100.0)),
        expected: Expected::default(),
        max_changes: None,
        duplicates: None,
        preview: 2,
        entry,
        wait: Wait::No,
        lease: Duration::from_secs(30),
        state_dir: path.with_file_name("state"),
        notify: None,
    };
    import(store, &request, &Stop::new(), &|_| {}).await
}

#[test]
fn whatever_a_file_holds_every_row_is_accounted_for() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("anything.csv");
    let target = Target::sqlite(&folder.path().join("enlist.db"));
    let store = runtime.block_on(Store::open(&target, Access::Create, &Options::default())).expect("a store");
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(bytes in bytes())| {
        std::fs::write(&path, &bytes).expect("written");
        let report = runtime.block_on(imported(&store, &path, Entry::Again));
        if let Some(fault) = &report.error {
            prop_assert!(!fault.message.is_empty() && fault.code.as_str() != "internal", "{fault:?}");
        }
        prop_assert!(report.counts.adds_up(), "{:?}", report.counts);
        if let Some(job) = report.job {
            let rejects = runtime.block_on(store.rejects_after(job, None, 1_000)).expect("rejects");
            prop_assert_eq!(rejects.len() as u64, report.counts.rejected);
            prop_assert_eq!(runtime.block_on(store.committed(job)).expect("counts"), report.counts);
            if report.error.is_none() {
                let again = runtime.block_on(imported(&store, &path, Entry::Auto));
                prop_assert!(again.replayed);
                prop_assert_eq!(again.counts, report.counts);
            }
        }
    });
}
