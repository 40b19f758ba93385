//! Runs the real binary in a home of its own: no variable, configuration or database of the person who runs
//! the tests can reach it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::engine::Db;
pub(crate) use super::output::{Output, SECRET};
use super::wait::wait_for;

/// How long a command may take when a test says nothing else.
const DEADLINE: Duration = Duration::from_secs(180);

/// A folder that is working directory, HOME and every XDG folder at once; gone when dropped.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::Builder::new().prefix("enlist-home-").tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into it; its path.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in the home")).expect("folders can be made");
        std::fs::write(&path, bytes).expect("a file can be written");
        path
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// `enlist --database-url <db>`, to be completed.
    pub(crate) fn enlist(&self, db: &Db) -> Enlist {
        self.bare().args(["--database-url", &db.url])
    }

    /// `enlist` without a word on its database.
    pub(crate) fn bare(&self) -> Enlist {
        self.program(env!("CARGO_BIN_EXE_enlist"))
    }

    /// A line for bash, in which `enlist` is the binary and works on `db`.
    pub(crate) fn bash(&self, db: &Db, line: &str) -> Enlist {
        let folder = Path::new(env!("CARGO_BIN_EXE_enlist")).parent().expect("it lies in a folder");
        let mut path = folder.as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        self.program("bash").args(["-c", line]).env("PATH", path).env("ENLIST_DATABASE_URL", &db.url)
    }

    /// The binary as the user 65534, in a folder that every user can enter. Only root can do that.
    pub(crate) fn as_nobody(&self, db: &Db) -> Enlist {
        const NOBODY: u32 = 65_534;
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path(), open).expect("it is ours");
        let copy = self.path().join("enlist");
        if !copy.exists() {
            std::fs::copy(env!("CARGO_BIN_EXE_enlist"), &copy).expect("the binary can be copied");
        }
        let mut enlist = self.program(&copy).args(["--database-url", &db.url]);
        enlist.command.uid(NOBODY).gid(NOBODY);
        enlist
    }

    fn program(&self, program: impl AsRef<OsStr>) -> Enlist {
        let mut command = std::process::Command::new(program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let theirs = ["ENLIST_", "XDG_", "PG", "CLICOLOR"].iter().any(|start| text.starts_with(start));
            if theirs || ["DATABASE_URL", "NO_COLOR", "FAILPOINTS", "RUST_LOG"].contains(&&*text) {
                command.env_remove(name);
            }
        }
        command.current_dir(self.path()).env("HOME", self.path()).env("NO_PROXY", "127.0.0.1,localhost");
        for (variable, folder) in
            [("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")]
        {
            command.env(variable, self.path().join(folder));
        }
        Enlist { command, stdin: Stdin::Nothing }
    }
}

enum Stdin {
    Nothing,
    Bytes(Vec<u8>),
    File(PathBuf),
    Open,
}

/// A command line in the making.
pub(crate) struct Enlist {
    command: std::process::Command,
    stdin: Stdin,
}

impl Enlist {
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets a crash point for this run, for example `import::before_commit=3*off->return`.
    pub(crate) fn failpoint(self, action: &str) -> Self {
        self.env("FAILPOINTS", action)
    }

    /// Makes it the leader of a process group of its own, as an interactive shell does.
    pub(crate) fn grouped(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    pub(crate) fn current_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn stdin_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Stdin::Bytes(bytes.into());
        self
    }

    pub(crate) fn stdin_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdin = Stdin::File(path.into());
        self
    }

    /// Leaves standard input open, to be written with `Running::write` and closed with `Running::close_stdin`.
    pub(crate) fn stdin_open(mut self) -> Self {
        self.stdin = Stdin::Open;
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Output {
        self.spawn().wait(DEADLINE)
    }

    /// Starts it.
    pub(crate) fn spawn(mut self) -> Running {
        let line: Vec<OsString> = self.command.get_args().map(OsStr::to_owned).collect();
        let stdin = match &self.stdin {
            Stdin::Nothing => Stdio::null(),
            Stdin::Bytes(_) | Stdin::Open => Stdio::piped(),
            Stdin::File(path) => Stdio::from(File::open(path).expect("the input exists")),
        };
        let mut child = self
            .command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let stdout = Pump::start(child.stdout.take().expect("it is piped"));
        let stderr = Pump::start(child.stderr.take().expect("it is piped"));
        let mut pipe = child.stdin.take();
        if let Stdin::Bytes(bytes) = self.stdin {
            let mut pipe = pipe.take().expect("it is piped");
            // The program may end before it has read everything; that is for the test to judge.
            std::thread::spawn(move || {
                let _ = pipe.write_all(&bytes);
            });
        }
        Running { child, stdin: pipe, line, stdout, stderr, status: None }
    }
}

/// Collects one stream of a child, so that it never blocks on a full pipe.
struct Pump {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    fn start(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                sink.lock().expect("nobody panics with it").extend_from_slice(&buffer[..n]);
            }
        });
        Self { bytes, thread: Some(thread) }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().expect("nobody panics with it")).into_owned()
    }

    fn end(&mut self) -> Vec<u8> {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        std::mem::take(&mut *self.bytes.lock().expect("nobody panics with it"))
    }
}

/// A running command; killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    line: Vec<OsString>,
    stdout: Pump,
    stderr: Pump,
    status: Option<ExitStatus>,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`, and reaps it. Whether it was still running.
    pub(crate) fn kill9(&mut self) -> bool {
        let running = !self.ended();
        if running {
            self.child.kill().expect("a child can be killed");
            let status = self.child.wait().expect("a child can be waited for");
            self.status = Some(status);
            return status.signal() == Some(9);
        }
        false
    }

    /// `kill -9` without reaping it: the process stays as a zombie until this value goes.
    pub(crate) fn kill9_unreaped(&self) {
        self.signal(Signal::KILL);
        let stat = format!("/proc/{}/stat", self.pid());
        wait_for("the killed child is a zombie", Duration::from_secs(10), || {
            let text = std::fs::read_to_string(&stat).ok()?;
            text.rsplit_once(')')?.1.trim_start().starts_with('Z').then_some(())
        });
    }

    /// SIGSTOP: frozen until `cont`.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM.
    pub(crate) fn term(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGINT, as Ctrl-C sends it.
    pub(crate) fn int(&self) {
        self.signal(Signal::INT);
    }

    /// SIGINT to its whole process group, as a terminal sends it.
    pub(crate) fn int_group(&self) {
        rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::INT).expect("it leads a group");
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).expect("the child has not been reaped");
    }

    /// Whether it has ended by itself or otherwise.
    pub(crate) fn ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("a child can be asked");
        }
        self.status.is_some()
    }

    /// The most resident memory that it used so far, in bytes; nothing once it has ended.
    pub(crate) fn peak(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    }

    /// What it wrote to standard error until now.
    pub(crate) fn stderr_so_far(&self) -> String {
        self.stderr.so_far()
    }

    /// Writes to a standard input that was left open.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin_open was called");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("the program reads");
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Its end; kills it and panics when it has not ended by then.
    pub(crate) fn wait(mut self, deadline: Duration) -> Output {
        let what = format!("the end of enlist {:?}", self.line);
        let status = wait_for(&what, deadline, || self.ended().then_some(self.status).flatten());
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let stdout = self.stdout.end();
        let stderr = String::from_utf8_lossy(&self.stderr.end()).into_owned();
        Output { code, signal: status.signal(), stdout, stderr, line: std::mem::take(&mut self.line) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
