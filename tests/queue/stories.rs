//! What a queued import amounts to, from `enqueue` to the result.

use crate::common::cli::Home;
use crate::common::data;
use crate::common::engine::Db;
use crate::common::oracle::Snapshot;
use crate::queue::{drain, enqueue, field, show, state, why};

both! {
    #[doc = "The same file, imported at once and by a worker, gives the same table, rejects and counts."]
    fn a_queued_import_ends_as_a_direct_one_does(db: Db) {
        let (home, direct) = (Home::new(), Db::fresh(db.engine));
        home.write("a.csv", data::messy(2_000, 1));
        let options = ["a.csv", "--list", "l", "--create-list", "--region", "TR", "--batch-size", "100", "--json"];
        let summary = home.enlist(&direct).arg("import").args(options).run();
        let expected = Snapshot::take(&home, &direct, "l", &summary);
        let queued = home.enlist(&db).arg("enqueue").args(options).run().expect(0);
        assert_eq!(queued.json()["state"], "queued", "{}", queued.told());
        drain(&home, &db).run().expect(0);
        let replay = home.enlist(&db).arg("import").args(options).run();
        assert_eq!(replay.json()["replayed"], true, "{}", replay.told());
        Snapshot::take(&home, &db, "l", &replay).assert_same(&expected, "by a worker");
    }

    fn the_same_import_given_twice_is_one_job_and_answers_with_its_result_once_it_is_done(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(50, 1));
        let first = enqueue(&home, &db, "a.csv", "l").run().expect(0);
        let again = enqueue(&home, &db, "a.csv", "l").run().expect(0);
        assert_eq!((first.json()["existing"].clone(), again.json()["existing"].clone()), (false.into(), true.into()));
        assert_eq!(first.count("job"), again.count("job"));
        let worked = drain(&home, &db).run().expect(0);
        assert_eq!((worked.count("claimed"), worked.count("done")), (1, 1), "{}", worked.told());
        let done = enqueue(&home, &db, "a.csv", "l").run().expect(0);
        assert_eq!((done.json()["state"].clone(), done.count("result/inserted")), ("done".into(), 50), "{}", done.told());
        assert_eq!(drain(&home, &db).run().expect(0).count("claimed"), 0);
        assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs"), Some(1));
    }

    fn a_file_that_changed_since_it_was_queued_fails_the_job_at_once(db: Db) {
        let home = Home::new();
        home.write("a.csv", data::clean(50, 1));
        let job = enqueue(&home, &db, "a.csv", "l").run().expect(0).count("job");
        home.write("a.csv", data::clean(50, 2));
        let worked = drain(&home, &db).run().expect(1);
        assert_eq!((worked.count("failed"), worked.error().as_deref()), (1, Some("jobs_failed")), "{}", worked.told());
        let shown = show(&home, &db, job);
        assert_eq!((&shown["state"], &shown["job_error"]["code"]), (&"failed".into(), &"file_changed".into()));
        assert_eq!(field(&db, job, "attempts"), 1);
        assert_eq!(db.committed_rows(), 0);
    }

    fn a_worker_that_does_not_see_the_file_hands_the_job_back_uncharged_and_says_so(db: Db) {
        let home = Home::new();
        let path = home.write("a.csv", data::clean(50, 1));
        let job = enqueue(&home, &db, "a.csv", "l").run().expect(0).count("job");
        let away = home.path().join("elsewhere.csv");
        std::fs::rename(&path, &away).expect("it is ours");
        let worked = drain(&home, &db).run().expect(75);
        assert_eq!((worked.count("unseen"), worked.error().as_deref()), (1, Some("unseen_file")), "{}", worked.told());
        assert!(worked.stderr.contains("handed back uncharged"), "{}", worked.told());
        assert_eq!((state(&db, job).as_str(), field(&db, job, "attempts")), ("queued", 0));
        assert!(why(&home, &db, job).contains(&"file_unseen".to_owned()));
        // It keeps no later job of its list waiting.
        home.write("b.csv", data::clean(20, 9));
        enqueue(&home, &db, "b.csv", "l").run().expect(0);
        assert_eq!(drain(&home, &db).run().count("done"), 1);
        std::fs::rename(&away, &path).expect("it is ours");
        db.execute("UPDATE jobs SET run_at = created_at WHERE state = 'queued'");
        drain(&home, &db).run().expect(0);
        assert_eq!(state(&db, job), "done");
    }

    fn what_could_not_be_imported_is_not_queued_either(db: Db) {
        let home = Home::new();
        home.write("a.csv", "name,city\nAyşe,İzmir\n");
        home.write("b.csv", data::clean(5, 1));
        assert_eq!(enqueue(&home, &db, "a.csv", "l").run().expect(1).error().as_deref(), Some("no_phone_column"));
        assert_eq!(enqueue(&home, &db, "missing.csv", "l").run().expect(1).error().as_deref(), Some("not_found"));
        assert_eq!(enqueue(&home, &db, "-", "l").run().expect(2).error().as_deref(), Some("usage"));
        enqueue(&home, &db, "b.csv", "l").arg("--rejects=r.csv").run().expect(2);
        assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM jobs"), Some(0));
        drain(&home, &db).run().expect(0);
    }

    fn the_limits_of_a_queued_import_hold_for_the_worker(db: Db) {
        let home = Home::new();
        home.write("a.csv", format!("phone\n{}x\ny\nz\n", data::phone(1) + "\n"));
        let job = enqueue(&home, &db, "a.csv", "l").arg("--max-rejects=1").run().expect(0).count("job");
        drain(&home, &db).run().expect(1);
        assert_eq!(show(&home, &db, job)["job_error"]["code"], "too_many_rejects");
    }
}
