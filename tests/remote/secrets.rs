//! Passwords and signatures in addresses: used, and never told.

use super::{Home, LIST, Site, import};
use crate::common::data;
use crate::common::engine::Db;
use crate::common::output::SECRET;

/// Every byte of the database: the tables of PostgreSQL as text, the files of SQLite.
fn stored(home: &Home, db: &Db) -> String {
    let mut all = String::new();
    for table in ["jobs", "job_runs", "job_attempts", "rejects", "lists"] {
        let rows = match db.engine {
            crate::common::engine::Engine::Postgres => format!("SELECT CAST(t AS TEXT) FROM {table} t"),
            crate::common::engine::Engine::Sqlite => continue,
        };
        all += &db.texts(&rows).into_iter().flatten().collect::<String>();
    }
    if let Some(file) = db.file() {
        for entry in std::fs::read_dir(file.parent().expect("a folder")).expect("it is there").flatten() {
            all += &String::from_utf8_lossy(&std::fs::read(entry.path()).expect("it is read"));
        }
    }
    for what in [["jobs", "show", "last"].as_slice(), &["jobs"], &["doctor"], &["lists"]] {
        all += &home.enlist(db).args(what).run().told();
        all += &home.enlist(db).args(what).arg("--json").run().told();
    }
    all
}

both! {
    fn a_signed_address_is_used_whole_and_never_told(db: Db) {
        let (home, site) = (Home::new(), Site::with(data::clean(3_000, 2)));
        let url = format!("{}?X-Amz-Expires=600&X-Amz-Signature={SECRET}", site.url());
        site.behave(|manners| manners.refuses = Some("404 Not Found"));
        let mut told = import(&home, &db, &url).arg("-vv").run().told();
        site.behave(|manners| (manners.refuses, manners.busy, manners.breaks) = (None, 1, 1));
        told += &import(&home, &db, &url).args(["-vv", "--max-rejects", "0"]).run().expect(0).told();
        site.behave(|manners| manners.refuses = Some("403 Forbidden"));
        told += &import(&home, &db, &url).args(["-vv", "--again"]).run().told();
        site.set_away(true);
        told += &import(&home, &db, &url).args(["-vv", "--again", "--lease", "1s"]).run().told();
        assert!(told.contains("remote_refused") && told.contains("remote_unreachable"), "{told}");
        let all = stored(&home, &db);
        assert!(!told.contains(SECRET), "{told}");
        assert!(!all.contains(SECRET), "the signature is stored or shown");
        assert!(all.contains(&site.url()), "what was imported is not told");
        assert!(site.asked().iter().all(|asked| asked.target.ends_with(SECRET)));
    }

    fn user_and_password_go_to_the_server_and_nowhere_else(db: Db) {
        let (home, site) = (Home::new(), Site::with(data::clean(100, 2)));
        let url = format!("http://ay%40se:{SECRET}@{}/lists/spring.csv", site.host());
        let told = import(&home, &db, &url).arg("-vv").run().expect(0).told();
        assert!(!told.contains(SECRET), "{told}");
        assert!(!stored(&home, &db).contains(SECRET), "the password is stored or shown");
        let asked = site.asked();
        assert!(asked.iter().all(|asked| asked.authorization.as_deref() == Some("Basic YXlAc2U6Z2VoZWltZXMtd29ydA==")), "{asked:?}");
    }
}

/// Two exports of one path that differ in their query are not one input.
#[test]
fn an_unfinished_import_is_not_replaced_by_one_with_another_query() {
    let (home, db) = (Home::new(), Db::fresh(crate::common::engine::Engine::Sqlite));
    let site = Site::with(data::clean(3_000, 2));
    let url = |list: u32| format!("{}/export?list={list}", site.origin());
    crate::common::halt::Halted::after(import(&home, &db, &url(1)), &db, 1, super::BATCH).kill(&db);
    site.replace(data::clean(2_000, 3));
    import(&home, &db, &url(2)).run().expect(0);
    site.replace(data::clean(3_000, 2));
    let output = import(&home, &db, &url(1)).run().expect(0);
    assert_eq!(output.count("resumed_rows"), super::BATCH, "{}", output.told());
    assert_eq!(output.json()["list"], LIST);
}
