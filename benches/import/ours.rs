//! The same work by enlist.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::cli::{Enlist, Home, Running};
use crate::common::engine::{Db, Engine};
use crate::common::postgres::Server;
use crate::common::wait::wait_until;
use crate::figures::Figures;
use crate::{baseline, lists, remove, sqlite_in};

const HOUR: Duration = Duration::from_secs(3_600);

/// One import into the list that every figure is about.
#[derive(Clone, Copy)]
pub(crate) struct Import<'a> {
    pub(crate) home: &'a Home,
    pub(crate) db: &'a Db,
    pub(crate) file: &'a Path,
}

impl Import<'_> {
    fn command(self) -> Enlist {
        let file = self.file.to_string_lossy();
        self.home.enlist(self.db).args(["-q", "import", &file, "--list", "people", "--region", "TR", "--json"])
    }

    /// Seconds from start to end, and the peak of resident memory in megabytes.
    fn run(self, more: &[&str]) -> (f64, f64) {
        let begun = Instant::now();
        let mut running = self.command().args(more).spawn();
        let peak = watched(&mut running);
        running.wait(HOUR).expect(0);
        (begun.elapsed().as_secs_f64(), peak)
    }

    /// Kills an import when nine tenths are committed, and measures the run that ends it.
    fn resume(self) -> f64 {
        let size = std::fs::metadata(self.file).expect("it was written").len();
        let nine_tenths = i64::try_from(size / 10 * 9).expect("a list is smaller");
        let mut running = self.command().spawn();
        wait_until("the import to begin", HOUR, || self.tables_exist());
        wait_until("nine tenths", HOUR, || self.committed() >= nine_tenths);
        assert!(running.kill9(), "it ended before it was killed");
        self.db.settle();
        self.run(&[]).0
    }

    fn tables_exist(self) -> bool {
        match self.db.engine {
            Engine::Postgres => {
                self.db.number("SELECT CAST(count(*) AS BIGINT) FROM pg_tables WHERE tablename = 'job_lanes'")
                    == Some(1)
            }
            Engine::Sqlite => {
                let path = self.db.url.trim_start_matches("sqlite:");
                std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
                    && self.db.number("SELECT count(*) FROM sqlite_schema WHERE name = 'job_lanes'") == Some(1)
            }
        }
    }

    /// Where the lane that is furthest behind stands.
    fn committed(self) -> i64 {
        self.db.number("SELECT min(byte) FROM job_lanes").unwrap_or_default()
    }
}

/// Watches a process until it ends; its peak in megabytes.
fn watched(running: &mut Running) -> f64 {
    let mut peak = 0;
    while !running.ended() {
        peak = running.peak().map_or(peak, |seen| seen.max(peak));
        std::thread::sleep(Duration::from_millis(2));
    }
    peak as f64 / 1e6
}

pub(crate) fn name(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "sqlite",
        Engine::Postgres => "postgres",
    }
}

pub(crate) fn postgres(home: &Home, server: &Server, messy: &Path, rows: usize, figures: &mut Figures) {
    let db = Db::on(server);
    // The tables are made first, so that the WAL and the size are those of the import.
    home.enlist(&db).args(["-q", "lists"]).run();
    let wal = baseline::wal_written(&db);
    let import = crate::import(home, &db, messy);
    measure(import, rows, figures);
    figures.add("postgres wal", figures_wal(&db, wal));
    figures.add("postgres again", import.run(&["--again"]).0);
    baseline::drop_database(server, &db);

    let db = Db::on(server);
    figures.add("postgres resume", crate::import(home, &db, messy).resume());
    baseline::drop_database(server, &db);
}

fn figures_wal(db: &Db, before: i64) -> f64 {
    (baseline::wal_written(db) - before) as f64 / 1e6
}

pub(crate) fn sqlite(home: &Home, messy: &Path, rows: usize, figures: &mut Figures) {
    remove(home, "ours.db");
    let db = sqlite_in(home, "ours.db");
    let import = crate::import(home, &db, messy);
    measure(import, rows, figures);
    figures.add("sqlite again", import.run(&["--again"]).0);
    remove(home, "ours.db");

    figures.add("sqlite resume", import.resume());
    remove(home, "ours.db");
}

/// The first import and its replay.
fn measure(import: Import<'_>, rows: usize, figures: &mut Figures) {
    let name = name(import.db.engine);
    let (seconds, peak) = import.run(&[]);
    figures.add(&format!("{name} first"), seconds);
    figures.add(&format!("{name} rate"), rows as f64 / seconds);
    figures.add(&format!("{name} peak"), peak);
    if import.db.engine == Engine::Postgres {
        let size = "SELECT CAST(sum(pg_total_relation_size(oid)) AS BIGINT) FROM pg_class
                    WHERE relnamespace = 'enlist'::regnamespace AND relkind = 'r'";
        figures.add("postgres size", import.db.number(size).unwrap_or_default() as f64 / 1e6);
        // A backend hands its figures in when it ends; VACUUM counts for itself.
        import.db.execute("ANALYZE recipients");
        let dead = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'recipients'";
        figures.add("postgres dead", import.db.number(dead).unwrap_or_default() as f64);
    }
    figures.add(&format!("{name} replay"), import.run(&[]).0);
}

/// `check` of a list that is not there yet.
pub(crate) fn check(home: &Home, messy: &Path, figures: &mut Figures) {
    let db = sqlite_in(home, "nothing.db");
    let file = messy.to_string_lossy();
    let begun = Instant::now();
    let checked = home.enlist(&db).args(["-q", "check", &file, "--list", "people", "--region", "TR", "--json"]);
    let rows = checked.spawn().wait(HOUR).expect(0).count("rows");
    figures.add("check rate", rows as f64 / begun.elapsed().as_secs_f64());
}

/// A large list, and another one of the usual size into it.
pub(crate) fn large(home: &Home, server: &Server, large: usize, messy: &Path, figures: &mut Figures) {
    let path = home.path().join("large.csv");
    lists::write(&path, lists::Kind::Messy, large, 0);
    let more = home.path().join("more.csv");
    let rows = std::io::BufRead::lines(std::io::BufReader::new(std::fs::File::open(messy).expect("it was written")))
        .count()
        - 1;
    lists::write(&more, lists::Kind::Messy, rows, large);
    for engine in Engine::BOTH {
        let db = match engine {
            Engine::Postgres => Db::on(server),
            Engine::Sqlite => sqlite_in(home, "large.db"),
        };
        let name = name(engine);
        let (seconds, peak) = crate::import(home, &db, &path).run(&[]);
        figures.add(&format!("{name} large"), seconds);
        figures.add(&format!("{name} large rate"), large as f64 / seconds);
        figures.add(&format!("{name} large peak"), peak);
        let (seconds, _) = crate::import(home, &db, &more).run(&[]);
        figures.add(&format!("{name} into large"), seconds);
        figures.add(&format!("{name} into large rate"), rows as f64 / seconds);
        match engine {
            Engine::Postgres => baseline::drop_database(server, &db),
            Engine::Sqlite => remove(home, "large.db"),
        }
    }
    let _ = std::fs::remove_file(path);
}
