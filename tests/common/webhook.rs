//! A receiver of alerts that keeps what it got, and a socket that accepts and never answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::wait::wait_for;

/// What came, and when.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

/// A webhook on 127.0.0.1 that answers with a status of the test's choice.
pub(crate) struct Webhook {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Webhook {
    /// One that takes everything.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let webhook = Self { address, status: Arc::new(AtomicU16::new(200)), received: Arc::default() };
        let (status, received) = (webhook.status.clone(), webhook.received.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (status, received) = (status.clone(), received.clone());
                std::thread::spawn(move || answer(stream, &status, &received));
            }
        });
        webhook
    }

    /// Its URL with a path that is a secret.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook/{}", self.address, super::cli::SECRET)
    }

    /// What it answers from now on.
    pub(crate) fn answer(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// Everything that came and was answered with 200, in order.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("nobody panics with it").clone()
    }

    /// How many alerts of a key were taken.
    pub(crate) fn count(&self, key: &str) -> usize {
        self.received().iter().filter(|one| one.body["key"] == key).count()
    }

    /// Waits for the first alert of a key.
    pub(crate) fn wait_for(&self, key: &str, deadline: Duration) -> Received {
        wait_for(&format!("the alert '{key}' arrives"), deadline, || {
            self.received().into_iter().find(|one| one.body["key"] == key)
        })
    }
}

fn answer(stream: TcpStream, status: &AtomicU16, received: &Mutex<Vec<Received>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let status = status.load(Ordering::SeqCst);
    if status == 200 {
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        received.lock().expect("nobody panics with it").push(Received { body, at: Instant::now() });
    }
    let answer = format!("HTTP/1.1 {status} so\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.get_mut().write_all(answer.as_bytes()).ok()
}

/// A socket that accepts and never says a word.
pub(crate) struct Silent {
    address: SocketAddr,
    _listener: TcpListener,
}

impl Silent {
    /// The kernel accepts for a listener that is never asked.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self { address: listener.local_addr().expect("it is bound"), _listener: listener }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
