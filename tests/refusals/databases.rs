//! Databases that cannot be used: not there, not ours, not to be written, not answering.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::common::cli::{Enlist, Home, SECRET};
use crate::common::data;
use crate::common::engine::{self, Db, Engine};
use crate::common::postgres::{GUARDED, Server};

/// `import in.csv --list x --json` on a database by its URL.
fn import_into(home: &Home, url: &str) -> Enlist {
    home.bare().args(["--database-url", url, "import", "in.csv", "--list", "x", "--json"])
}

fn home() -> Home {
    let home = Home::new();
    home.write("in.csv", data::clean(3, 1));
    home
}

#[test]
fn a_server_that_refuses_says_whom_and_never_tells_the_password() {
    let server = Server::start();
    let home = home();
    let database = server.fresh_database();
    let name = database.rsplit('/').next().unwrap();
    let wrong = server.guarded_url(name, SECRET);
    let output = import_into(&home, &wrong).run();
    output.refused(2, "database_refused");
    assert!(output.stderr.contains(GUARDED.0), "{}", output.told());
    let right = server.guarded_url(name, GUARDED.1);
    for (url, code, says) in [
        (format!("{}?x", server.url("nowhere")), "database_not_found", "nowhere"),
        (format!("postgres://nobody:{SECRET}@127.0.0.1:{}/{name}", server.port()), "database_refused", "nobody"),
        (format!("mysql://enlist:{SECRET}@127.0.0.1/{name}"), "usage", "mysql"),
        (format!("postgres://enlist:{SECRET}@127.0.0.1:port/{name}"), "usage", "postgres://"),
    ] {
        let output = import_into(&home, url.trim_end_matches("?x")).run();
        output.refused(2, code);
        assert!(output.stderr.contains(says), "{}", output.told());
    }
    let output = import_into(&home, &right).args(["-vv"]).env("RUST_LOG", "trace").run().expect(0);
    assert!(!output.told().replace(&right, "").contains("right%20password"), "{}", output.told());
    assert!(!output.stderr.contains("right"), "{}", output.told());
}

#[test]
fn a_role_that_may_only_read_can_look_and_not_import() {
    let server = Server::start();
    let (home, db) = (home(), Db::on(&server));
    db.execute("CREATE ROLE reader LOGIN; CREATE ROLE outsider LOGIN");
    let as_role = |role: &str| db.url.replace("//enlist@", &format!("//{role}@"));
    import_into(&home, &as_role("outsider")).run().refused(2, "database_refused");
    import_into(&home, &db.url).run().expect(0);
    db.execute(
        "GRANT USAGE ON SCHEMA enlist TO reader; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA enlist TO reader; \
         ALTER ROLE reader SET default_transaction_read_only = on",
    );
    home.write("in.csv", data::clean(9, 2));
    import_into(&home, &as_role("reader")).run().refused(2, "database_read_only");
    home.bare().args(["--database-url", &as_role("reader"), "lists", "--json"]).run().expect(0);
    home.bare().args(["--database-url", &as_role("outsider"), "lists", "--json"]).run().refused(2, "database_refused");
    db.execute("ALTER DATABASE postgres RESET ALL");
    let name = db.url.rsplit('/').next().unwrap();
    engine::execute(&server.url("postgres"), &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    import_into(&home, &db.url).run().refused(2, "database_read_only");
    let lists = home.bare().args(["--database-url", &db.url, "lists", "--json"]).run().expect(0);
    assert_eq!(lists.json()["lists"][0]["recipients"], 3, "{}", lists.told());
}

#[test]
fn a_server_that_is_down_is_known_at_once() {
    let server = Server::start();
    let (home, url) = (home(), server.fresh_database());
    server.kill_immediate();
    let start = Instant::now();
    let output = import_into(&home, &url).run();
    output.refused(75, "database_unreachable");
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
    assert!(output.stderr.contains("refused"), "{}", output.told());
    server.restart();
    import_into(&home, &url).run().expect(0);
}

#[test]
fn an_address_that_never_answers_is_given_up_within_the_timeout() {
    // It takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://enlist:{SECRET}@{}/x", listener.local_addr().unwrap());
    let home = home();
    let start = Instant::now();
    import_into(&home, &url).run().refused(75, "database_unreachable");
    let took = start.elapsed();
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(20), "it took {took:?}");
}

#[test]
fn the_shared_variable_is_used_only_where_our_tables_are() {
    for engine in Engine::BOTH {
        let (home, db) = (home(), Db::fresh(engine));
        db.execute("CREATE TABLE customers (id BIGINT); INSERT INTO customers VALUES (1)");
        let ours = |line: &[&str]| home.bare().env("DATABASE_URL", &db.url).args(line).run();
        let import = ["import", "in.csv", "--list", "x", "--json"];
        for line in [&import[..], &["lists", "--json"], &["jobs", "--json"], &["doctor", "--json"]] {
            let output = ours(line);
            output.refused(2, "database_not_found");
            assert!(output.stderr.contains("another application"), "{}", output.told());
        }
        assert_eq!(db.number("SELECT CAST(count(*) AS BIGINT) FROM customers"), Some(1));
        let tables = match engine {
            Engine::Sqlite => "SELECT count(*) FROM sqlite_master",
            Engine::Postgres => {
                "SELECT CAST(count(*) AS BIGINT) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            }
        };
        assert_eq!(db.number(tables), Some(1), "{engine:?}: the other application's database was touched");
        let own = Db::fresh(engine);
        home.enlist(&own).arg("migrate").run().expect(0);
        let output = home.bare().env("DATABASE_URL", &own.url).args(import).run().expect(0);
        assert!(output.stderr.contains("(DATABASE_URL)"), "{}", output.told());
        assert!(!home.path().join("data").exists(), "another database was made");
    }
    let output = home().bare().env("DATABASE_URL", "sqlite:absent.db").args(["lists", "--json"]).run();
    output.refused(2, "database_not_found");
}

#[test]
fn another_applications_sqlite_file_and_a_file_that_is_none_are_refused() {
    let (home, db) = (home(), Db::fresh(Engine::Sqlite));
    db.execute("CREATE TABLE customers (id BIGINT)");
    let before = std::fs::read(db.file().unwrap()).unwrap();
    import_into(&home, &db.url).run().refused(2, "foreign_database");
    assert_eq!(std::fs::read(db.file().unwrap()).unwrap(), before);
    home.write("notes.txt", "this is no database, and long enough to be looked at as one\n".repeat(100));
    import_into(&home, "sqlite:notes.txt").run().refused(2, "foreign_database");
    import_into(&home, "sqlite:none/x.db").run().refused(2, "database_read_only");
    std::fs::create_dir(home.path().join("folder")).unwrap();
    import_into(&home, "sqlite:folder").run().refused(2, "database_not_found");
    for command in
        [&["lists"][..], &["jobs"], &["export", "--list", "x", "-o", "o.csv"], &["rejects", "last"], &["doctor"]]
    {
        let url = "sqlite:absent.db";
        let output = home.bare().args(["--database-url", url]).args(command).arg("--json").run();
        output.refused(2, "database_not_found");
    }
    assert!(!home.path().join("absent.db").exists());
}

#[test]
fn the_default_database_is_for_its_owner_alone() {
    let home = home();
    let output = home.bare().args(["import", "in.csv", "--list", "x", "--json"]).run().expect(0);
    assert!(output.stderr.contains("(default)"), "{}", output.told());
    let mode = |name: &str| std::fs::metadata(home.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("data/enlist"), mode("data/enlist/enlist.db")), (0o700, 0o600));
}

#[test]
fn a_url_file_may_end_with_a_line_end_and_both_options_at_once_are_refused() {
    let (home, db) = (home(), Db::fresh(Engine::Sqlite));
    home.write("url", format!("{}\n", db.url));
    home.bare().args(["--database-url-file", "url", "import", "in.csv", "--list", "x"]).run().expect(0);
    assert!(db.file().unwrap().exists());
    let both = ["--database-url", &db.url, "--database-url-file", "url", "lists", "--json"];
    home.bare().args(both).run().refused(2, "usage");
    // Also on both sides of the command.
    let apart = ["--database-url", &db.url, "lists", "--database-url-file", "url", "--json"];
    home.bare().args(apart).run().refused(2, "usage");
    home.bare().args(["-q", "lists", "-v", "--json"]).run().refused(2, "usage");
    let output = home
        .bare()
        .env("ENLIST_DATABASE_URL", &db.url)
        .env("ENLIST_DATABASE_URL_FILE", "url")
        .args(["lists", "--json"])
        .run();
    output.refused(2, "config");
    home.bare().args(["--database-url-file", "nowhere", "lists", "--json"]).run().refused(2, "config");
}

#[test]
fn a_configuration_is_refused_for_an_unknown_key_and_gives_way_to_options_and_variables() {
    let (home, db) = (home(), Db::fresh(Engine::Sqlite));
    home.write("config/enlist/enlist.toml", "databse_url = 'x'\n");
    let output = home.bare().args(["lists", "--json"]).run();
    output.refused(2, "config");
    assert!(output.stderr.contains("did you mean 'database_url'"), "{}", output.told());
    home.write("config/enlist/enlist.toml", format!("database_url = 'sqlite:c.db'\nregion = '{}'\n", "tr"));
    let origin = |enlist: Enlist| {
        let json = enlist.args(["config", "--json"]).run().expect(0).json();
        json["settings"]["database"]["origin"].as_str().unwrap_or_default().to_owned()
    };
    let variables = |enlist: Enlist| enlist.env("DATABASE_URL", "sqlite:d.db");
    assert!(origin(variables(home.bare())).ends_with("enlist.toml"));
    assert_eq!(origin(variables(home.bare()).env("ENLIST_DATABASE_URL", "sqlite:e.db")), "ENLIST_DATABASE_URL");
    assert_eq!(origin(variables(home.enlist(&db))), "--database-url");
    home.write("national.csv", "phone\n05320000011\n");
    let import =
        |words: &[&str]| home.enlist(&db).args(["import", "national.csv", "--list", "x", "--json"]).args(words).run();
    assert_eq!(import(&[]).expect(0).count("inserted"), 1, "the region of the file is not used");
    import(&["--region", "GR"]).expect(1);
    home.write("config/enlist/enlist.toml", "region = 'XX'\n");
    import(&[]).refused(2, "usage");
}
