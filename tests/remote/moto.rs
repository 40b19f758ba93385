//! S3 as moto speaks it, and the forms in which Google and Azure are asked.
//!
//! `make moto` installs moto below target/.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{BATCH, Home, SEVERAL_BLOCKS, Site, check_same, import, undisturbed, wide};
use crate::common::cli::Enlist;
use crate::common::data;
use crate::common::engine::{Db, Engine};
use crate::common::halt::Halted;
use crate::common::output::SECRET;
use crate::common::wait::wait_until;

/// Who puts files there; moto does not compare signatures.
const OWNER: &str =
    "AWS4-HMAC-SHA256 Credential=somebody/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// A server of S3; gone when dropped.
struct Moto {
    server: Child,
    port: u16,
}

impl Moto {
    /// A server with the bucket `lists`.
    fn start() -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/moto/bin/moto_server");
        assert!(program.exists(), "'make moto' installs the S3 server of this test");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let server = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("moto can be started");
        let moto = Self { server, port };
        wait_until("moto listens", Duration::from_secs(60), || TcpStream::connect(("127.0.0.1", port)).is_ok());
        moto.put("/lists", b"");
        moto
    }

    fn put(&self, path: &str, body: &[u8]) {
        let mut line = TcpStream::connect(("127.0.0.1", self.port)).expect("moto listens");
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\nAuthorization: {OWNER}\r\n\
             Connection: close\r\n\r\n",
            self.port,
            body.len()
        );
        line.write_all(head.as_bytes()).and_then(|()| line.write_all(body)).expect("moto reads");
        let mut answer = String::new();
        line.read_to_string(&mut answer).expect("moto answers");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn import(&self, home: &Home, db: &Db, input: &str) -> Enlist {
        import(home, db, input)
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", "somebody")
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env("AWS_REGION", "us-east-1")
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

both! {
    fn an_import_from_s3_is_that_of_the_file_and_resumes_when_killed(db: Db) {
        let csv = wide(SEVERAL_BLOCKS);
        let (home, moto) = (Home::new(), Moto::start());
        moto.put("/lists/2026/spring%20list.csv", csv.as_bytes());
        let input = "s3://lists/2026/spring list.csv";
        Halted::after(moto.import(&home, &db, input), &db, 2, 2 * BATCH).kill(&db);
        let output = moto.import(&home, &db, input).run();
        assert_eq!(output.count("resumed_rows"), 2 * BATCH, "{}", output.told());
        check_same(&home, &db, &output, &undisturbed(db.engine, &csv));
        let shown = home.enlist(&db).args(["jobs", "show", "last", "--json"]).run().expect(0).text();
        assert!(shown.contains(input) && !shown.contains(SECRET), "{shown}");
        assert!(!output.told().contains(SECRET), "{}", output.told());
        moto.import(&home, &db, "s3://lists/none.csv").run().refused(1, "not_found");
        moto.import(&home, &db, "s3://none/none.csv").run().refused(1, "not_found");
    }

    fn an_object_of_s3_that_is_replaced_midway_leaves_no_foreign_row(db: Db) {
        let own = wide(super::SEVERAL_RANGES);
        let (home, moto) = (Home::new(), Moto::start());
        moto.put("/lists/a.csv", own.as_bytes());
        let halted = Halted::after(moto.import(&home, &db, "s3://lists/a.csv"), &db, 1, BATCH);
        moto.put("/lists/a.csv", own.replace("@example", super::FOREIGN).as_bytes());
        halted.finish().stopped(5, "file_changed");
        super::check_no_foreign_row(&home, &db);
    }
}

/// An address, the variables that lead to its server, the path that is asked for and a variable that a refusal names.
type Service<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// The variables of each service lead to its server, and what it refuses is told with those that grant access.
#[test]
fn every_service_is_asked_where_the_environment_says() {
    let services: [Service<'_>; 3] = [
        (
            "s3://lists/a/b.csv",
            &[("AWS_ENDPOINT_URL", ""), ("AWS_ALLOW_HTTP", "true"), ("AWS_SKIP_SIGNATURE", "true")],
            "/lists/a/b.csv",
            "AWS_ACCESS_KEY_ID",
        ),
        (
            "gs://lists/a/b.csv",
            &[("GOOGLE_BASE_URL", ""), ("GOOGLE_ALLOW_HTTP", "true"), ("GOOGLE_SKIP_SIGNATURE", "true")],
            "/lists/a%2Fb%2Ecsv",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            "az://lists/a/b.csv",
            &[
                ("AZURE_STORAGE_ENDPOINT", ""),
                ("AZURE_ALLOW_HTTP", "true"),
                ("AZURE_SKIP_SIGNATURE", "true"),
                ("AZURE_STORAGE_ACCOUNT_NAME", "us"),
            ],
            "/lists/a/b.csv",
            "AZURE_STORAGE_ACCOUNT_KEY",
        ),
    ];
    let csv = data::clean(500, 6);
    for (input, variables, path, named) in services {
        let (home, db, site) = (Home::new(), Db::fresh(Engine::Sqlite), Site::with(csv.as_bytes()));
        let line = || {
            variables.iter().fold(import(&home, &db, input), |line, (name, value)| {
                line.env(name, if value.is_empty() { site.origin() } else { (*value).to_owned() })
            })
        };
        let output = line().run();
        check_same(&home, &db, &output, &undisturbed(db.engine, &csv));
        let asked = site.asked();
        assert!(asked.iter().all(|asked| asked.target.contains(path) && asked.method == "GET"), "{asked:?}");
        site.behave(|manners| manners.refuses = Some("403 Forbidden"));
        let output = line().arg("--again").run();
        output.refused(2, "remote_refused");
        assert!(output.stderr.contains(named), "{}", output.told());
    }
}
