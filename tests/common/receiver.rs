//! A receiver of notifications: a real socket that records what it is told and answers as it was scripted.
//!
//! It honours keys: what it has done under a key it does not do again, and answers 200.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What it does about one POST.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Does the work and answers 200.
    Accept,
    /// Does nothing and answers with this status and these header lines.
    Answer(u16, Vec<String>),
    /// Does the work and closes the line without an answer.
    AcceptAndDrop,
    /// Closes the line without having done anything.
    Drop,
    /// Does nothing and answers nothing for so long.
    Hang(Duration),
    /// Does the work and answers 200 with a body of so many bytes.
    Flood(usize),
}

impl Act {
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new())
    }
}

/// One call as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    /// By lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn key(&self) -> &str {
        self.header("idempotency-key")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a notification is JSON")
    }
}

#[derive(Default)]
struct Seen {
    calls: Vec<Call>,
    /// How often the work was done for a key.
    done: BTreeMap<String, u32>,
    /// How many POSTs the script has answered.
    acts: usize,
}

struct Shared {
    script: Box<dyn Fn(usize) -> Act + Send + Sync>,
    seen: Mutex<Seen>,
    over: AtomicBool,
}

/// The receiver; it stops listening when dropped.
pub(crate) struct Receiver {
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Answers POSTs as scripted, in order of arrival, and accepts whatever comes after.
    pub(crate) fn scripted(acts: impl Into<Vec<Act>>) -> Self {
        let acts = acts.into();
        Self::deciding(move |n| acts.get(n).cloned().unwrap_or(Act::Accept))
    }

    /// Answers the `n`th POST as `script` says.
    pub(crate) fn deciding(script: impl Fn(usize) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared =
            Arc::new(Shared { script: Box::new(script), seen: Mutex::default(), over: AtomicBool::new(false) });
        let of_thread = shared.clone();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.over.load(Ordering::SeqCst) {
                    return;
                }
                let shared = of_thread.clone();
                // A caller that dies in the middle is nothing to complain about.
                std::thread::spawn(move || drop(serve(stream, &shared)));
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.shared.seen.lock().expect("nobody panics with it")
    }

    /// Every call so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.seen().calls.clone()
    }

    /// Every POST so far.
    pub(crate) fn told(&self) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.method == "POST").collect()
    }

    /// How often the work was done for each key.
    pub(crate) fn done(&self) -> BTreeMap<String, u32> {
        self.seen().done.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the listener up.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let call = read(&stream)?;
    let mut seen = shared.seen.lock().expect("nobody panics with it");
    let key = call.key().to_owned();
    let known = seen.done.contains_key(&key);
    if call.method == "GET" {
        let named = call.path.contains(&key);
        seen.calls.push(call);
        drop(seen);
        return answer(&mut stream, if known && named { 200 } else { 404 }, &[], b"");
    }
    seen.calls.push(call);
    let act = (shared.script)(seen.acts);
    seen.acts += 1;
    if matches!(act, Act::Accept | Act::AcceptAndDrop | Act::Flood(_)) && !known {
        *seen.done.entry(key).or_default() += 1;
    }
    drop(seen);
    match act {
        Act::Accept => answer(&mut stream, 200, &[], b"thank you"),
        Act::Answer(status, lines) => answer(&mut stream, status, &lines, b"no"),
        Act::AcceptAndDrop | Act::Drop => Ok(()),
        Act::Hang(time) => {
            // Until the caller goes away, or the time is over.
            stream.set_read_timeout(Some(time))?;
            stream.read(&mut [0]).map(drop)
        }
        Act::Flood(bytes) => answer(&mut stream, 200, &[], &vec![b'x'; bytes]),
    }
}

fn read(stream: &TcpStream) -> std::io::Result<Call> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Call { method, path, headers, body, at: Instant::now() })
}

fn answer(stream: &mut TcpStream, status: u16, lines: &[String], body: &[u8]) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} As scripted\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    for line in lines {
        head.push_str(line);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
