//! Addresses in the queue: a worker asks again for what was queued, with its own credentials.

use super::{Home, LIST, Site, check_no_copies, undisturbed};
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::oracle::difference;
use crate::common::output::{Output, SECRET};

fn enqueue(home: &Home, db: &Db, input: &str) -> Output {
    home.enlist(db).args(["enqueue", input, "--list", LIST, "--create-list", "--region", "TR", "--json"]).run()
}

fn drain(home: &Home, db: &Db) -> Output {
    home.enlist(db).args(["work", "--drain", "--json"]).run()
}

both! {
    fn a_worker_imports_what_was_queued_by_address(db: Db) {
        let archive = super::kinds::zip(&data::clean(500, 8));
        for content in [data::clean(500, 8).into_bytes(), archive] {
            let (home, fresh, site) = (Home::new(), Db::fresh(db.engine), Site::with(content.clone()));
            enqueue(&home, &fresh, &site.url()).expect(0);
            check_no_copies(&home);
            drain(&home, &fresh).expect(0);
            let export = home.enlist(&fresh).args(["export", "--list", LIST, "--format", "jsonl"]).run().expect(0);
            let expected = undisturbed(db.engine, &content).export;
            let difference = difference("export", &export.text(), &expected);
            assert!(difference.is_empty(), "{difference}");
            check_no_copies(&home);
        }
    }

    fn a_queued_file_that_is_another_or_gone_fails(db: Db) {
        for gone in [true, false] {
            let (home, fresh, site) = (Home::new(), Db::fresh(db.engine), Site::with(data::clean(100, 8)));
            enqueue(&home, &fresh, &site.url()).expect(0);
            site.replace(data::clean(100, 9));
            site.behave(|manners| manners.refuses = gone.then_some("404 Not Found"));
            drain(&home, &fresh).expect(1);
            let shown = home.enlist(&fresh).args(["jobs", "show", "last", "--json"]).run().expect(0).text();
            assert!(shown.contains("file_changed") && fresh.committed_rows() == 0, "{shown}");
        }
    }
}

#[test]
fn an_address_that_cannot_be_stored_whole_is_not_queued() {
    let (home, db, site) = (Home::new(), Db::fresh(Engine::Sqlite), Site::with(data::clean(10, 8)));
    let host = site.host();
    for input in [format!("{}?X-Amz-Signature={SECRET}", site.url()), format!("http://ayse:{SECRET}@{host}/a.csv")] {
        enqueue(&home, &db, &input).refused(2, "usage");
    }
    assert!(site.asked().is_empty(), "it was asked for");
}
