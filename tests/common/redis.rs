//! A throwaway Redis on a free port. It belongs to a shell that ends it when its standard input closes, so nothing
//! stays behind however the tests end.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::wait::{wait_for, wait_until};

/// A server of one test; ended when dropped.
pub(crate) struct Redis {
    shell: Option<Child>,
    port: u16,
    folder: tempfile::TempDir,
}

const SCRIPT: &str = r#"
"$@" &
server=$!
trap 'kill -9 $server' EXIT
read -r _
"#;

impl Redis {
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("enlist-redis-").tempdir().expect("a temporary folder");
        let mut redis = Self { shell: None, port: 0, folder };
        redis.restart();
        redis
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Ends it as a crash would; what it held is gone.
    pub(crate) fn stop(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            drop(shell.stdin.take());
            shell.wait().expect("the shell ends");
            wait_until("the port is closed", Duration::from_secs(10), || self.connect().is_err());
        }
    }

    /// Starts it, the first time on a free port, then on the same one.
    pub(crate) fn restart(&mut self) {
        for _ in 0..5 {
            if self.port == 0 {
                self.port = free_port();
            }
            let port = self.port.to_string();
            let shell = Command::new("sh")
                .args(["-c", SCRIPT, "redis.sh"])
                .arg(binary())
                .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
                .arg(self.folder.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .process_group(0)
                .spawn();
            self.shell = Some(shell.expect("sh runs"));
            let ready = wait_for("Redis starts or ends", Duration::from_secs(30), || match self.ask(&["PING"]) {
                Some(answer) => Some(answer.starts_with("+PONG")),
                None => self.shell.as_mut()?.try_wait().expect("a child can be asked").map(|_| false),
            });
            if ready {
                return;
            }
            // Another process may have taken the port in the meantime.
            self.port = 0;
        }
        panic!("Redis did not start on any of five free ports");
    }

    /// The number of a key that counts.
    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        let answer = self.ask(&["GET", key])?;
        answer.lines().nth(1)?.trim().parse().ok()
    }

    fn connect(&self) -> std::io::Result<std::net::TcpStream> {
        std::net::TcpStream::connect(("127.0.0.1", self.port))
    }

    /// Sends one command and reads what comes back at first; all answers here are short.
    fn ask(&self, words: &[&str]) -> Option<String> {
        let mut stream = self.connect().ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        std::io::Write::write_all(&mut stream, command.as_bytes()).ok()?;
        let mut buffer = [0; 4096];
        let length = stream.read(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A port that nobody listens on, below those that clients are given.
fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (0..1000).map(|_| fastrand::u16(15_000..32_000)).find(free).expect("a free port between 15000 and 32000")
}

fn binary() -> PathBuf {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&paths).chain([PathBuf::from("/usr/bin"), PathBuf::from("/usr/local/bin")]);
    let found = folders.map(|folder| folder.join("redis-server")).find(|path: &PathBuf| Path::is_file(path));
    found.unwrap_or_else(|| {
        panic!("no Redis server is installed: run 'make test', which installs it (apt-get install redis-server)")
    })
}
