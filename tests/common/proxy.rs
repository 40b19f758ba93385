//! A line between a client and PostgreSQL that can be cut or go silent at a chosen statement.
//!
//! It forwards whole protocol messages from the client. Cutting happens right after the message that holds
//! a text has gone to the server and before any answer to it comes back: the client cannot know whether
//! the server did what it asked.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
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
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    mode: Mode,
    cuts: usize,
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
        let state = Mutex::new(State { mode: Mode::Pass, cuts: 0 });
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
    /// Waits while the line is silent, then says whether the message is the one to cut after.
    fn judge(&self, message: &[u8]) -> bool {
        let guard = self.state.lock().expect("nobody panics with it");
        let mut state = self.changed.wait_while(guard, |s| s.mode == Mode::Hang).expect("nobody panics with it");
        let Mode::Cut { text, left } = &mut state.mode else { return false };
        if !message.windows(text.len()).any(|window| window == &text[..]) {
            return false;
        }
        *left -= 1;
        if *left == 0 {
            state.mode = Mode::Pass;
            state.cuts += 1;
            return true;
        }
        false
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
    let cut = Arc::new(Mutex::new(false));
    let (cut_up, shared_up, shared_down) = (Arc::clone(&cut), Arc::clone(shared), Arc::clone(shared));
    std::thread::spawn(move || upwards(up.0, up.1, &cut_up, &shared_up));
    std::thread::spawn(move || downwards(down.1, down.0, &cut, &shared_down));
}

/// Client to server, message by message.
fn upwards(mut client: TcpStream, mut server: TcpStream, cut: &Mutex<bool>, shared: &Shared) {
    let (mut buffer, mut chunk, mut greeted) = (Vec::new(), vec![0; 64 * 1024], false);
    // After a match in a Parse message the line stays until its Sync, so that the server really acts on it.
    let mut until_sync = false;
    'line: while let Ok(n @ 1..) = client.read(&mut chunk) {
        buffer.extend_from_slice(&chunk[..n]);
        while let Some(size) = message_size(&buffer, greeted) {
            let message: Vec<u8> = buffer.drain(..size).collect();
            let kind = if greeted { message[0] } else { 0 };
            // SSLRequest and the like come before the start-up message, which carries version 3.0.
            greeted = greeted || message[4..8] == [0, 3, 0, 0];
            let matched = until_sync || shared.judge(&message);
            until_sync = matched && matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C');
            let last = matched && !until_sync;
            if last {
                // From here on no answer reaches the client.
                *cut.lock().expect("nobody panics with it") = true;
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
fn downwards(mut server: TcpStream, mut client: TcpStream, cut: &Mutex<bool>, shared: &Shared) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = server.read(&mut chunk) {
        let guard = shared.state.lock().expect("nobody panics with it");
        drop(shared.changed.wait_while(guard, |s| s.mode == Mode::Hang));
        if !*cut.lock().expect("nobody panics with it") && client.write_all(&chunk[..n]).is_err() {
            break;
        }
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
