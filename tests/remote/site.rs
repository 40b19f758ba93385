//! A web server with one file, which can do everything that servers do wrong.
//!
//! It answers one request per connection, reads parts, compares what the request demands, and keeps a log of
//! what was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// What was asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    /// First and last byte, as the header `Range` has them.
    pub(crate) part: Option<(usize, usize)>,
    pub(crate) if_match: Option<String>,
    pub(crate) authorization: Option<String>,
}

/// How the server behaves.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    /// Its entity tag.
    pub(crate) tag: Option<&'static str>,
    /// `Last-Modified`.
    pub(crate) modified: Option<String>,
    /// Whether it reads parts.
    pub(crate) parts: bool,
    /// Whether it says how long an answer is.
    pub(crate) length: bool,
    /// Whether it compares what a request demands.
    pub(crate) compares: bool,
    /// How many requests are still answered with 503.
    pub(crate) busy: usize,
    /// How many answers still break off in their middle.
    pub(crate) breaks: usize,
    /// The status of every answer.
    pub(crate) refuses: Option<&'static str>,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            tag: Some("\"one\""),
            modified: Some("Tue, 01 Sep 2020 10:00:00 GMT".to_owned()),
            parts: true,
            length: true,
            compares: true,
            busy: 0,
            breaks: 0,
            refuses: None,
        }
    }
}

struct State {
    content: Arc<Vec<u8>>,
    manners: Manners,
    log: Vec<Asked>,
    /// Connections are closed unanswered.
    away: bool,
}

/// A server on 127.0.0.1.
pub(crate) struct Site {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Site {
    pub(crate) fn with(content: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state =
            State { content: Arc::new(content.into()), manners: Manners::default(), log: Vec::new(), away: false };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        // The thread ends with the process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || answer(client, &state));
            }
        });
        Self { address, state }
    }

    /// `http://127.0.0.1:port`.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of its file.
    pub(crate) fn url(&self) -> String {
        format!("{}/lists/spring.csv", self.origin())
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// Changes how it behaves.
    pub(crate) fn behave(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.state().manners);
    }

    /// Puts another file in the place of the present one.
    pub(crate) fn replace(&self, content: impl Into<Vec<u8>>) {
        self.state().content = Arc::new(content.into());
    }

    /// Closes every connection unanswered, or answers again.
    pub(crate) fn set_away(&self, away: bool) {
        self.state().away = away;
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().log)
    }
}

fn read_request(client: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(client.take(64 * 1024)).lines();
    let first = lines.next()?.ok()?;
    let mut words = first.split(' ');
    let mut asked = Asked { method: words.next()?.to_owned(), target: words.next()?.to_owned(), ..Asked::default() };
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim().to_owned();
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
                asked.part = Some((from.parse().ok()?, to.parse().ok()?));
            }
            "if-match" => asked.if_match = Some(value),
            "authorization" => asked.authorization = Some(value),
            _ => {}
        }
    }
    Some(asked)
}

fn answer(mut client: TcpStream, state: &Mutex<State>) {
    let Some(asked) = read_request(&client) else { return };
    let (content, manners, breaks) = {
        let mut state = state.lock().expect("nobody panics with it");
        if state.away {
            let _ = client.shutdown(Shutdown::Both);
            return;
        }
        state.log.push(asked.clone());
        let manners = state.manners.clone();
        state.manners.busy = manners.busy.saturating_sub(1);
        // An answer that is looked at for its head only is no use to break.
        let breaks = manners.breaks > 0 && asked.part.is_none_or(|(from, to)| to - from > 1024);
        state.manners.breaks -= usize::from(breaks);
        (Arc::clone(&state.content), manners, breaks)
    };
    let _ = client.write_all(&head_and_body(&asked, &content, &manners, breaks));
    let _ = client.shutdown(Shutdown::Write);
    // Closing with something unread would reset the line before the client has read everything.
    let _ = client.read_to_end(&mut Vec::new());
}

/// The whole answer; half of its body when it breaks off.
fn head_and_body(asked: &Asked, content: &[u8], manners: &Manners, breaks: bool) -> Vec<u8> {
    let plain =
        |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes();
    if manners.busy > 0 {
        return plain("503 Service Unavailable");
    }
    if let Some(status) = manners.refuses {
        return plain(status);
    }
    let demanded = asked.if_match.as_deref();
    if manners.compares && demanded.is_some() && demanded != manners.tag {
        return plain("412 Precondition Failed");
    }
    let mut head = String::new();
    let body = match asked.part.filter(|_| manners.parts) {
        Some((from, _)) if from >= content.len() => return plain("416 Range Not Satisfiable"),
        Some((from, to)) => {
            let to = to.min(content.len() - 1);
            head += &format!("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{to}/{}\r\n", content.len());
            &content[from..=to]
        }
        None => {
            head += "HTTP/1.1 200 OK\r\n";
            content
        }
    };
    if manners.length {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    if let Some(tag) = manners.tag {
        head += &format!("ETag: {tag}\r\n");
    }
    if let Some(modified) = &manners.modified {
        head += &format!("Last-Modified: {modified}\r\n");
    }
    head += "Connection: close\r\n\r\n";
    let through = if breaks { body.len() / 2 } else { body.len() };
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&body[..through]);
    bytes
}
