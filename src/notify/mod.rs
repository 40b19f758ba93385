//! Telling a receiver over HTTP.
//!
//! Owns the call: headers, signature, deadlines, redirects, and what of an answer is kept. It does not know the
//! table, nor what becomes of a notification. Invariant: a call ends within its deadline, holds at most 64 KiB of
//! an answer, never leaves the host that was named, and no secret or address stands in what it says.

mod retry_after;
mod signature;

use std::io::Read;
use std::time::Duration;

use ureq::http::Response;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Timeout};
use url::Url;

use crate::clock::{Stopwatch, wall_clock};
use crate::destination::Endpoint;
use crate::notification::Outcome;

pub use signature::{Secret, sign};

/// What of an answer's head and of its body is read.
const READ_MOST: u64 = 64 * 1024;

/// What of an answer's body is kept.
const KEEP_MOST: usize = 2 * 1024;

/// How often a call is redirected within its host.
const REDIRECTS: u32 = 3;

/// How long connecting may take, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a call may take when nobody says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Calls receivers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller {
    agent: Agent,
    secret: Option<Secret>,
    timeout: Duration,
}

/// How a call ended, and what is kept of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What it means.
    pub outcome: Outcome,
    /// The beginning of the answer's body.
    pub response: Option<String>,
    /// What was in the way, where it is not the status that says so.
    pub trouble: Option<String>,
}

/// What is to be done at an address.
#[derive(Clone, Copy)]
enum Errand<'a> {
    /// POST this body.
    Tell(&'a str),
    /// GET whether the key was seen.
    Ask,
}

impl Caller {
    /// Calls that take at most `timeout` each, and are signed where there is a secret.
    pub fn new(secret: Option<Secret>, timeout: Duration) -> Self {
        let agent = Agent::config_builder()
            .timeout_global(Some(timeout))
            .timeout_connect(Some(CONNECT.min(timeout)))
            .http_status_as_error(false)
            // Followed here, within their host.
            .max_redirects(0)
            .max_response_header_size(usize::try_from(READ_MOST).unwrap_or(usize::MAX))
            // A connection that was closed meanwhile would look like a call that may have arrived.
            .max_idle_connections(0)
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .user_agent(concat!("enlist/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Self { agent, secret, timeout }
    }

    /// The longest that `tell` or `ask` takes, redirects included.
    pub fn patience(&self) -> Duration {
        self.timeout * 2
    }

    /// Tells `endpoint`. Blocks for `patience` at most.
    pub fn tell(&self, endpoint: &Endpoint, key: &str, body: &str) -> Reply {
        match Url::parse(endpoint.secret()) {
            Ok(url) => self.follow(url, key, Errand::Tell(body)),
            Err(_) => unreadable(),
        }
    }

    /// Asks `endpoint` whether it has seen the key: `{key}` in the address stands for it, else it becomes the
    /// query parameter `key`. Blocks for `patience` at most.
    pub fn ask(&self, endpoint: &Endpoint, key: &str) -> Reply {
        let text = endpoint.secret();
        // The form in which the placeholder stands in a parsed address.
        let placeholder = ["{key}", "%7Bkey%7D"].into_iter().find(|placeholder| text.contains(placeholder));
        let url = match placeholder {
            Some(placeholder) => Url::parse(&text.replace(placeholder, key)),
            None => Url::parse(text).map(|mut url| {
                url.query_pairs_mut().append_pair("key", key);
                url
            }),
        };
        match url {
            Ok(url) => self.follow(url, key, Errand::Ask),
            Err(_) => unreadable(),
        }
    }

    fn follow(&self, mut url: Url, key: &str, errand: Errand<'_>) -> Reply {
        let watch = Stopwatch::start();
        let mut redirects = 0;
        loop {
            let mut response = match self.call(&url, key, errand) {
                Ok(response) => response,
                Err(error) => return self.failed(&error),
            };
            let status = response.status().as_u16();
            if !response.status().is_redirection() {
                let now = wall_clock();
                let retry_after = header(&response, "retry-after").and_then(|text| retry_after::parse(text, now));
                let outcome = Outcome::Answered { status, retry_after };
                return Reply { outcome, response: beginning(&mut response), trouble: None };
            }
            redirects += 1;
            // Each call has the whole time, so the last one begins before the time is over.
            if redirects > REDIRECTS || watch.worked() > self.timeout {
                return refused(status, "it redirects too often".to_owned());
            }
            match redirected(&url, status, header(&response, "location"), errand) {
                Ok(next) => url = next,
                Err(trouble) => return refused(status, trouble),
            }
        }
    }

    fn call(&self, url: &Url, key: &str, errand: Errand<'_>) -> Result<Response<Body>, ureq::Error> {
        match errand {
            Errand::Ask => self.agent.get(url.as_str()).header("Idempotency-Key", key).call(),
            Errand::Tell(body) => {
                let seconds = wall_clock().millis() / 1_000;
                let mut request = self
                    .agent
                    .post(url.as_str())
                    .header("Content-Type", "application/json")
                    .header("Idempotency-Key", key)
                    .header("X-Enlist-Timestamp", seconds.to_string());
                if let Some(secret) = &self.secret {
                    request = request.header("X-Enlist-Signature", sign(secret, body.as_bytes()));
                }
                request.send(body)
            }
        }
    }

    /// What an error means. Its own text may quote the address, so it is said in other words.
    fn failed(&self, error: &ureq::Error) -> Reply {
        use std::io::ErrorKind;
        let timeout = self.timeout;
        let (outcome, trouble) = match error {
            ureq::Error::HostNotFound => (Outcome::Unreached, "its host name is not known".to_owned()),
            ureq::Error::ConnectionFailed => (Outcome::Unreached, "it cannot be connected to".to_owned()),
            ureq::Error::ConnectProxyFailed(_) => (Outcome::Unreached, "the proxy refuses to connect to it".to_owned()),
            ureq::Error::Tls(what) => (Outcome::Unreached, format!("TLS with it failed: {what}")),
            ureq::Error::Rustls(error) => (Outcome::Unanswered, format!("TLS with it failed: {error}")),
            ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
                (Outcome::Unreached, "connecting to it took too long".to_owned())
            }
            ureq::Error::Timeout(_) => (Outcome::Unanswered, format!("it did not answer within {timeout:?}")),
            ureq::Error::LargeResponseHeader(..) => {
                (Outcome::Unanswered, "the head of its answer is too long".to_owned())
            }
            ureq::Error::Io(error) => match error.kind() {
                ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::AddrNotAvailable => (Outcome::Unreached, format!("it cannot be connected to: {error}")),
                _ => (Outcome::Unanswered, format!("the connection broke: {error}")),
            },
            _ => (Outcome::Unanswered, "it does not speak HTTP as expected".to_owned()),
        };
        Reply { outcome, response: None, trouble: Some(trouble) }
    }
}

/// An answer that amounts to a refusal without being one.
fn refused(status: u16, trouble: String) -> Reply {
    Reply { outcome: Outcome::Answered { status, retry_after: None }, response: None, trouble: Some(trouble) }
}

/// Addresses are checked before they are stored, so somebody has changed this one.
fn unreadable() -> Reply {
    Reply { outcome: Outcome::Unreached, response: None, trouble: Some("its address cannot be read".to_owned()) }
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// Where a redirect leads, or why it is not followed.
///
/// 301, 302, 307 and 308 are followed with the method and the body as they are (RFC 9110, 15.4), within the same
/// host, and never from https to http. 303 means "done, look there" to whoever told something.
fn redirected(from: &Url, status: u16, location: Option<&str>, errand: Errand<'_>) -> Result<Url, String> {
    let followed = matches!((status, errand), (301 | 302 | 307 | 308, _) | (303, Errand::Ask));
    let to = location.filter(|_| followed).and_then(|location| from.join(location).ok());
    let Some(to) = to else { return Err(format!("it answers {status}, which is not followed")) };
    let upgraded = from.scheme() == "http" && to.scheme() == "https";
    let same_place = from.scheme() == to.scheme() && from.port_or_known_default() == to.port_or_known_default();
    let plain = to.username().is_empty() && to.password().is_none();
    if from.host() == to.host() && (upgraded || same_place) && plain {
        Ok(to)
    } else {
        let place = to.origin().ascii_serialization();
        Err(format!("it redirects to {place}, and redirects are followed within the same host only"))
    }
}

/// The beginning of an answer's body as one that any database can hold. The status is known already: whatever
/// happens to the rest of the body changes nothing.
fn beginning(response: &mut Response<Body>) -> Option<String> {
    let mut kept = Vec::new();
    let mut body = response.body_mut().as_reader().take(READ_MOST);
    let mut buffer = [0; 8 * 1024];
    while let Ok(n @ 1..) = body.read(&mut buffer) {
        let room = KEEP_MOST - kept.len();
        kept.extend_from_slice(&buffer[..n.min(room)]);
    }
    let text = String::from_utf8_lossy(&kept).replace('\0', "\u{FFFD}");
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(from: &str, status: u16, to: &str) -> Result<String, String> {
        let from = Url::parse(from).expect(from);
        redirected(&from, status, Some(to), Errand::Tell("")).map(String::from)
    }

    #[test]
    fn redirects_stay_within_their_host() {
        let from = "https://a.example/x/hook";
        assert_eq!(led(from, 307, "../other").as_deref(), Ok("https://a.example/other"));
        assert_eq!(led(from, 308, "https://a.example/y").as_deref(), Ok("https://a.example/y"));
        assert_eq!(led("http://a.example/x", 301, "https://a.example/x").as_deref(), Ok("https://a.example/x"));
        for elsewhere in [
            "https://b.example/x",
            "//b.example/x",
            "http://a.example/x",
            "https://a.example:8443/x",
            "https://a.example@b.example/",
            "https://u:p@a.example/x",
            "https://a.example.b.example/",
        ] {
            assert!(led(from, 307, elsewhere).is_err(), "{elsewhere}");
        }
        assert!(led(from, 303, "/done").is_err());
        assert!(led(from, 304, "/done").is_err());
    }

    #[test]
    fn a_refused_redirect_names_the_place_and_nothing_more() {
        let why = led("https://a.example/x", 307, "https://u:gizli@b.example/token?gizli").unwrap_err();
        assert!(why.contains("https://b.example") && !why.contains("gizli") && !why.contains("token"), "{why}");
    }
}
