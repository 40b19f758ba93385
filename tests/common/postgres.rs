//! A throwaway PostgreSQL: one that all tests of the process share, and private ones for tests that crash it.
//!
//! A server lives in a folder of its own under /tmp and belongs to a small shell script (`server.sh`) that
//! ends it when its standard input closes. So nothing stays behind, whether the tests end, panic or are
//! killed. PostgreSQL refuses to run as root; then the script runs as the user `postgres`.
//! `TEST_DATABASE_URL` names a server to use instead of the shared one.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use super::engine;

/// The role with a password, and the password; every other role is trusted.
pub(crate) const GUARDED: (&str, &str) = ("guarded", "right password");

/// A server of this process.
pub(crate) struct Server {
    script: Mutex<Script>,
    port: u16,
    folder: PathBuf,
}

struct Script {
    child: Child,
    /// Taken when the server is dropped: closing it ends the script.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    /// Makes a new database cluster and starts it.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// The same with further lines of `postgresql.conf`.
    pub(crate) fn start_with(settings: &str) -> Self {
        let bin = binaries();
        for _ in 0..5 {
            let port = free_port();
            let server = Self::with_port(&bin, port, settings);
            // Another process may have taken the port in the meantime.
            if server.order("start") {
                let setup = format!("CREATE ROLE {} SUPERUSER LOGIN PASSWORD '{}'", GUARDED.0, GUARDED.1);
                engine::execute(&server.url("postgres"), &setup);
                return server;
            }
        }
        panic!("PostgreSQL from {} did not start on any of five free ports", bin.display());
    }

    fn with_port(bin: &Path, port: u16, settings: &str) -> Self {
        let mut command = unprivileged("sh");
        let mut child = command
            .args(["-c", include_str!("server.sh"), "server.sh"])
            .arg(bin)
            .args([&port.to_string(), settings])
            .current_dir("/tmp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C on the tests must not reach the script: it has to outlive them to clean up.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        let orders = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().expect("it is piped"));
        let folder = line(&mut answers);
        assert_ne!(folder, "failed", "initdb failed; its output is above");
        Self { script: Mutex::new(Script { child, orders, answers }), port, folder: PathBuf::from(folder) }
    }

    /// Stops the server as a crash would (`pg_ctl stop -m immediate`): commits that were acknowledged under
    /// `synchronous_commit = off` can be lost.
    pub(crate) fn kill_immediate(&self) {
        assert!(self.order("kill"), "the server could not be stopped: {}", self.log());
    }

    /// Starts it again after `kill_immediate`.
    pub(crate) fn restart(&self) {
        assert!(self.order("start"), "the server could not be started again: {}", self.log());
    }

    /// The port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The folder with the socket, the data and the log.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// How the superuser `enlist` connects to `database`.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://enlist@127.0.0.1:{}/{database}", self.port)
    }

    /// How the role with a password connects.
    pub(crate) fn guarded_url(&self, database: &str, password: &str) -> String {
        let password = password.replace(' ', "%20");
        format!("postgres://{}:{password}@127.0.0.1:{}/{database}", GUARDED.0, self.port)
    }

    /// Creates an empty database; its URL.
    pub(crate) fn fresh_database(&self) -> String {
        create_database(&self.url("postgres"))
    }

    fn order(&self, order: &str) -> bool {
        let mut script = self.script.lock().expect("no order panics half-way");
        let orders = script.orders.as_mut().expect("it lives as long as the server");
        writeln!(orders, "{order}").expect("the script reads its orders");
        line(&mut script.answers) == "ok"
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("server.log")).unwrap_or_else(|e| format!("no log: {e}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(script) = self.script.get_mut() {
            script.orders = None;
            let _ = script.child.wait();
        }
    }
}

/// Creates an empty database on the shared server, or on the one that `TEST_DATABASE_URL` names; its URL.
pub(crate) fn fresh_database() -> String {
    match outside() {
        Some(url) => create_database(&url),
        None => shared().fresh_database(),
    }
}

/// Removes a database of `fresh_database` where it would stay otherwise: on a server that is not ours.
pub(crate) fn drop_database(url: &str) {
    if let Some(admin) = outside() {
        engine::execute(&admin, &format!("DROP DATABASE IF EXISTS \"{}\" WITH (FORCE)", database_of(url)));
    }
}

/// The server that all tests of this process share.
pub(crate) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(Server::start)
}

/// `url` with another database name.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    let (place, options) = url.split_once('?').map_or((url, None), |(a, b)| (a, Some(b)));
    let authority = place.find("://").map_or(0, |at| at + 3);
    let end = place.get(authority..).and_then(|rest| rest.find('/')).map_or(place.len(), |at| authority + at);
    let base = place.get(..end).unwrap_or(place);
    options.map_or_else(|| format!("{base}/{database}"), |options| format!("{base}/{database}?{options}"))
}

/// `url` with another role, which needs no password.
pub(crate) fn with_role(url: &str, role: &str) -> String {
    let mut quoted = String::new();
    for byte in role.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' => quoted.push(char::from(byte)),
            other => quoted += &format!("%{other:02X}"),
        }
    }
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let place = rest.split_once('@').map_or(rest, |(_, place)| place);
    format!("{scheme}://{quoted}@{place}")
}

fn database_of(url: &str) -> &str {
    let place = url.split('?').next().unwrap_or(url);
    place.rsplit('/').next().unwrap_or_default()
}

fn outside() -> Option<String> {
    std::env::var("TEST_DATABASE_URL").ok().filter(|url| !url.is_empty())
}

fn create_database(admin: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("enlist_test_{}_{number}", std::process::id());
    if outside().as_deref() == Some(admin) {
        // A process with this id may have been killed before it cleaned up.
        engine::execute(admin, &format!("DROP DATABASE IF EXISTS \"{name}\" WITH (FORCE)"));
    }
    engine::execute(admin, &format!("CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8'"));
    with_database(admin, &name)
}

/// A port that nobody listens on, below those the system hands out to clients: a client that tries to reach
/// a stopped server on one of those can end up connected to itself.
fn free_port() -> u16 {
    for _ in 0..1000 {
        let port = fastrand::u16(15_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between 15000 and 32000");
}

fn line(answers: &mut impl BufRead) -> String {
    let mut text = String::new();
    answers.read_line(&mut text).expect("the script writes text");
    text.trim_end().to_owned()
}

/// The folder with the newest PostgreSQL server binaries.
fn binaries() -> PathBuf {
    let version = |bin: &Path| -> u32 {
        let name = bin.parent().and_then(Path::file_name).unwrap_or_default();
        name.to_string_lossy().split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
    };
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    found.sort_by_key(|bin| std::cmp::Reverse(version(bin)));
    if let Ok(answer) = Command::new("pg_config").arg("--bindir").stderr(Stdio::null()).output() {
        found.push(PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim()));
    }
    found.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let whole = |bin: &PathBuf| ["initdb", "pg_ctl", "postgres"].iter().all(|name| bin.join(name).is_file());
    found.into_iter().find(whole).unwrap_or_else(|| {
        panic!("no PostgreSQL server is installed: run 'make test', which installs it (apt-get install postgresql)")
    })
}

/// A command that does not run as root.
fn unprivileged(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let present = |name: &str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
        folders.extend(["/usr/sbin", "/sbin", "/usr/bin"].map(PathBuf::from));
        folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    if let Some(runuser) = present("runuser") {
        let mut command = Command::new(runuser);
        command.args(["-u", "postgres", "--", program]);
        return command;
    }
    let setpriv = present("setpriv").expect("root needs runuser or setpriv to start PostgreSQL as its own user");
    let mut command = Command::new(setpriv);
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--", program]);
    command
}
