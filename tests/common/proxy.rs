//! A line between a client and PostgreSQL that can be cut or go silent at a chosen statement.
//!
//! It forwards whole protocol messages from the client. Cutting happens right after the message that holds
//! a text has gone to the server and before any answer to it comes back: the client cannot know whether
//! the server did what it asked. A line can also stall for good in the middle of a large message, or before
//! a statement that a test does not want to arrive, while other lines go on.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::wait::wait_until;

/// What happens to what comes along.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Nothing is forwarded either way, and nothing is closed.
    Hang,
    /// The line is cut at the `left`th message from now that holds `text`; then the mode is `Pass` again.
    Cut {
        text: Vec<u8>,
        left: usize,
    },
    /// The line is cut at the first message that holds `text` after one that holds `mark`, on the same line;
    /// then the mode is `Pass` again.
    CutMarked {
        mark: Vec<u8>,
        text: Vec<u8>,
        delivery: Delivery,
    },
    /// The `left`th message from now of at least `size` bytes stalls its line half-way; then the mode is
    /// `Pass` again.
    Halve {
        size: usize,
        left: usize,
    },
    /// Every line that sends a message with `text` stalls before it.
    Mute {
        text: Vec<u8>,
    },
}

/// When the server gets the message after which a line is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    AtOnce,
    /// It is still under way when the client sees its line cut, and arrives at `release`.
    Late,
}

/// What becomes of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Cut(Delivery),
    /// So many bytes still go through, then nothing until `release`.
    Stall(usize),
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    mode: Mode,
    cuts: usize,
    stalls: usize,
    /// Whether stalled lines stay silent.
    holding: bool,
}

/// A proxy on 127.0.0.1 to one server.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Listens on a free port and forwards to `server`, for example `127.0.0.1:5432`.
    pub(crate) fn to(server: impl Into<String>) -> Self {
        let server = server.into();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Mutex::new(State { mode: Mode::Pass, cuts: 0, stalls: 0, holding: true });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let for_lines = Arc::clone(&shared);
        // The thread ends with the process; a test has a handful of proxies at most.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a server the client sees a closed connection, as it would without a proxy.
                if let Ok(server) = TcpStream::connect(&server) {
                    connect(&client, &server, &for_lines);
                }
            }
        });
        Self { address, shared }
    }

    /// A proxy to the server that `url` names.
    pub(crate) fn to_server_of(url: &str) -> Self {
        Self::to(authority(url).1)
    }

    /// `url` by way of this proxy.
    pub(crate) fn url(&self, url: &str) -> String {
        let (start, host) = authority(url);
        let rest = url.get(start + host.len()..).unwrap_or_default();
        format!("{}{}{rest}", url.get(..start).unwrap_or_default(), self.address)
    }

    /// Lets everything through.
    pub(crate) fn pass(&self) {
        self.set(Mode::Pass);
    }

    /// Goes silent both ways until `pass`.
    pub(crate) fn hang(&self) {
        self.set(Mode::Hang);
    }

    /// Cuts the line of whoever sends the `nth` message (from 1) from now on that holds `text`.
    pub(crate) fn cut_after(&self, text: &str, nth: usize) {
        self.set(Mode::Cut { text: text.as_bytes().to_vec(), left: nth.max(1) });
    }

    /// Cuts the line of whoever first sends a message with `text` after one with `mark`.
    pub(crate) fn cut_after_marked(&self, mark: &str, text: &str, delivery: Delivery) {
        self.set(Mode::CutMarked { mark: mark.as_bytes().to_vec(), text: text.as_bytes().to_vec(), delivery });
    }

    /// Lets only half of the `nth` message (from 1) of at least `size` bytes through; its line then stays
    /// silent, both ends open, until `release`. Other lines pass.
    pub(crate) fn stall_in_message_of(&self, size: usize, nth: usize) {
        self.set(Mode::Halve { size, left: nth.max(1) });
    }

    /// Silences every line that sends `text` from now on, before the text arrives, until `release`.
    pub(crate) fn mute(&self, text: &str) {
        self.set(Mode::Mute { text: text.as_bytes().to_vec() });
    }

    /// Waits for the `n`th stalled line.
    pub(crate) fn wait_for_stall(&self, n: usize) {
        wait_until("a line stalls", Duration::from_secs(60), || self.stalls() >= n);
    }

    /// How many lines stalled.
    pub(crate) fn stalls(&self) -> usize {
        self.shared.state.lock().expect("nobody panics with it").stalls
    }

    /// Lets stalled lines go on, and everything else pass.
    pub(crate) fn release(&self) {
        self.shared.state.lock().expect("nobody panics with it").holding = false;
        self.pass();
    }

    /// How many lines were cut.
    pub(crate) fn cuts(&self) -> usize {
        self.shared.state.lock().expect("nobody panics with it").cuts
    }

    /// Waits for the `n`th cut.
    pub(crate) fn wait_for_cut(&self, n: usize) {
        wait_until("the line is cut", Duration::from_secs(60), || self.cuts() >= n);
    }

    fn set(&self, mode: Mode) {
        self.shared.state.lock().expect("nobody panics with it").mode = mode;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// Waits while the line is silent, then says what becomes of the message. `marked` is the line's memory.
    fn judge(&self, message: &[u8], marked: &mut bool) -> Verdict {
        let guard = self.state.lock().expect("nobody panics with it");
        let mut state = self.changed.wait_while(guard, |s| s.mode == Mode::Hang).expect("nobody panics with it");
        let holds = |text: &[u8]| message.windows(text.len()).any(|window| window == text);
        let verdict = match &mut state.mode {
            Mode::Pass | Mode::Hang => Verdict::Pass,
            Mode::Cut { text, left } if holds(text) => {
                *left -= 1;
                if *left == 0 { Verdict::Cut(Delivery::AtOnce) } else { Verdict::Pass }
            }
            Mode::CutMarked { text, delivery, .. } if *marked && holds(text) => Verdict::Cut(*delivery),
            Mode::CutMarked { mark, .. } => {
                *marked |= holds(mark);
                Verdict::Pass
            }
            Mode::Halve { size, left } if message.len() >= *size => {
                *left -= 1;
                if *left == 0 { Verdict::Stall(message.len() / 2) } else { Verdict::Pass }
            }
            Mode::Mute { text } if holds(text) => Verdict::Stall(0),
            Mode::Cut { .. } | Mode::Halve { .. } | Mode::Mute { .. } => Verdict::Pass,
        };
        match verdict {
            Verdict::Pass => {}
            Verdict::Cut(_) => {
                state.mode = Mode::Pass;
                state.cuts += 1;
            }
            Verdict::Stall(through) => {
                // Half a message is one event, a muted text may come again.
                if through > 0 {
                    state.mode = Mode::Pass;
                }
                state.stalls += 1;
            }
        }
        verdict
    }

    /// Waits until stalled lines may go on.
    fn stay(&self) {
        let guard = self.state.lock().expect("nobody panics with it");
        drop(self.changed.wait_while(guard, |s| s.holding));
    }
}

/// Where host and port stand in a URL.
fn authority(url: &str) -> (usize, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let host = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    (host, &url[host..end])
}

/// Forwards between two sockets on two threads.
fn connect(client: &TcpStream, server: &TcpStream, shared: &Arc<Shared>) {
    // Small messages must not wait for each other.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let pair = || Some((client.try_clone().ok()?, server.try_clone().ok()?));
    let (Some(up), Some(down)) = (pair(), pair()) else { return };
    let (cut, stalled) = (Arc::new(Mutex::new(false)), Arc::new(AtomicBool::new(false)));
    let stalled_up = Arc::clone(&stalled);
    let (cut_up, shared_up, shared_down) = (Arc::clone(&cut), Arc::clone(shared), Arc::clone(shared));
    std::thread::spawn(move || upwards(up.0, up.1, &cut_up, &stalled_up, &shared_up));
    std::thread::spawn(move || downwards(down.1, down.0, &cut, &stalled, &shared_down));
}

/// Client to server, message by message.
fn upwards(mut client: TcpStream, mut server: TcpStream, cut: &Mutex<bool>, stalled: &AtomicBool, shared: &Shared) {
    let (mut buffer, mut chunk, mut greeted) = (Vec::new(), vec![0; 64 * 1024], false);
    // After a match in a Parse message the line stays until its Sync, so that the server really acts on it.
    let (mut until_sync, mut marked) = (false, false);
    'line: while let Ok(n @ 1..) = client.read(&mut chunk) {
        buffer.extend_from_slice(&chunk[..n]);
        while let Some(size) = message_size(&buffer, greeted) {
            let message: Vec<u8> = buffer.drain(..size).collect();
            let kind = if greeted { message[0] } else { 0 };
            // SSLRequest and the like come before the start-up message, which carries version 3.0.
            greeted = greeted || message[4..8] == [0, 3, 0, 0];
            let verdict = if until_sync { Verdict::Cut(Delivery::AtOnce) } else { shared.judge(&message, &mut marked) };
            if let Verdict::Stall(through) = verdict {
                stalled.store(true, Ordering::Relaxed);
                if server.write_all(&message[..through]).is_err() {
                    break 'line;
                }
                shared.stay();
                if server.write_all(&message[through..]).is_err() {
                    break 'line;
                }
                continue;
            }
            let matched = matches!(verdict, Verdict::Cut(_));
            until_sync = matched && matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C');
            let last = matched && !until_sync;
            if last {
                // From here on no answer reaches the client.
                *cut.lock().expect("nobody panics with it") = true;
            }
            if verdict == Verdict::Cut(Delivery::Late) {
                let _ = client.shutdown(Shutdown::Both);
                shared.stay();
            }
            if server.write_all(&message).is_err() {
                break 'line;
            }
            if last {
                let _ = client.shutdown(Shutdown::Both);
                break 'line;
            }
        }
    }
    // Only this half: a reset could make the server lose what it has not read yet.
    let _ = server.shutdown(Shutdown::Write);
}

/// Server to client; after a cut it reads on and throws away.
fn downwards(mut server: TcpStream, mut client: TcpStream, cut: &Mutex<bool>, stalled: &AtomicBool, shared: &Shared) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = server.read(&mut chunk) {
        let guard = shared.state.lock().expect("nobody panics with it");
        drop(shared.changed.wait_while(guard, |s| s.mode == Mode::Hang));
        if stalled.load(Ordering::Relaxed) {
            shared.stay();
        }
        if !*cut.lock().expect("nobody panics with it") && client.write_all(&chunk[..n]).is_err() {
            break;
        }
    }
    // Whoever stalls does not hear either that the other end is closed.
    if stalled.load(Ordering::Relaxed) {
        shared.stay();
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// The size of the first message, once it is whole.
fn message_size(buffer: &[u8], greeted: bool) -> Option<usize> {
    let start = usize::from(greeted);
    let length: [u8; 4] = buffer.get(start..start + 4)?.try_into().ok()?;
    let size = start + usize::try_from(u32::from_be_bytes(length)).ok()?;
    (size >= start + 4 && buffer.len() >= size && (greeted || size >= 8)).then_some(size)
}
