//! Where an input lies: standard input, a path or an address.
//!
//! Owns telling them apart, and what of an address may be shown. It does not open anything. Invariant: what an
//! address prints or stores never holds a password, a query or a part that might be one.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::fault::{Code, Fault};

/// What is shown in place of a query that says more than who may read.
const OTHER_QUERY: &str = "?…";

/// Parameters, in lower case, that only say who may read and until when, of S3, Google, CloudFront and Azure.
const SIGNATURES: &[&str] = &[
    "signature",
    "expires",
    "policy",
    "key-pair-id",
    "awsaccesskeyid",
    "googleaccessid",
    "sig",
    "se",
    "st",
    "sp",
    "sv",
    "sr",
    "spr",
    "sip",
    "si",
    "skoid",
    "sktid",
    "skt",
    "ske",
    "sks",
    "skv",
];

/// How the names of further such parameters begin.
const SIGNATURE_STARTS: &[&str] = &["x-amz-", "x-goog-"];

/// What is done about an address that is not understood.
const FORM_HINT: &str = "write https://HOST/FILE, s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY";

/// Where an input lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// Standard input, which can be read once.
    Stdin,
    /// A path of the file system.
    Path(PathBuf),
    /// A file behind a server.
    Address(Address),
}

impl Location {
    /// What an argument of the command line names: `-` is standard input, `word://…` an address.
    pub fn of(argument: &Path) -> Self {
        if argument.as_os_str() == "-" {
            return Self::Stdin;
        }
        match argument.to_str().and_then(Address::read) {
            Some(address) => Self::Address(address),
            None => Self::Path(argument.to_owned()),
        }
    }
}

/// Whether what a job says about its source names one input: standard input does not, nor does an address
/// of which a part had to be left out.
pub fn names_one_input(source: &str) -> bool {
    source != "-" && !source.ends_with(OTHER_QUERY)
}

/// Who serves an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http://` or `https://`.
    Web,
    /// `s3://`: Amazon S3 and what speaks its language.
    S3,
    /// `gs://`: Google Cloud Storage.
    Gs,
    /// `az://`: Azure Blob Storage.
    Az,
    /// Anything else.
    Unknown,
}

/// User and password of an address, decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password; may be empty.
    pub password: String,
}

/// An address, whose secrets only `request_url` and `login` tell.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    scheme: Scheme,
    /// As written, without user, password and fragment.
    url: String,
    login: Option<Login>,
    shown: String,
    /// Host and port, bucket or container.
    authority: String,
    /// What follows the first slash behind the authority, without the query.
    key: String,
    /// Texts that must not be printed.
    secrets: Vec<String>,
    /// Why it cannot be used.
    wrong: Option<&'static str>,
}

impl Address {
    /// The address that `text` is, if it is one.
    fn read(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once("://")?;
        let is_word = word.len() > 1 && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        if !is_word {
            return None;
        }
        let word = word.to_ascii_lowercase();
        let scheme = match word.as_str() {
            "http" | "https" => Scheme::Web,
            "s3" => Scheme::S3,
            "gs" => Scheme::Gs,
            "az" => Scheme::Az,
            _ => Scheme::Unknown,
        };
        // A key of a bucket may hold the sign of a fragment.
        let rest = if scheme == Scheme::Web { rest.split('#').next().unwrap_or_default() } else { rest };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, authority) = match authority.rsplit_once('@') {
            Some((login, authority)) => (Some(login), authority),
            None => (None, authority),
        };
        let wrong = wrong_with(&Parts { scheme, authority, key, query, login }, text);
        let mut secrets: Vec<String> = Vec::new();
        secrets.extend(login.map(str::to_owned));
        secrets.extend(query.map(str::to_owned));
        let login = login.map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            Login { user: decoded(user), password: decoded(password) }
        });
        secrets.extend(login.iter().map(|login| login.password.clone()));
        let values =
            query.unwrap_or_default().split('&').filter_map(|part| part.split_once('=').map(|(_, value)| value));
        // What is shorter is no secret, and hiding it would hide half of every message.
        secrets.extend(values.filter(|value| value.len() >= 8).map(str::to_owned));
        secrets.retain(|secret| !secret.is_empty());
        let shown = match wrong {
            // Where the password ends cannot be told, so nothing behind the slashes is shown.
            Some(_) if scheme == Scheme::Web => format!("{word}://…"),
            _ => {
                let left_out = query.is_some_and(|query| !is_signature(query));
                let slash = if rest.contains('/') { "/" } else { "" };
                format!("{word}://{authority}{slash}{key}{}", if left_out { OTHER_QUERY } else { "" })
            }
        };
        let url = format!("{word}://{authority}/{key}{}", query.map(|query| format!("?{query}")).unwrap_or_default());
        let (authority, key) = (authority.to_owned(), key.to_owned());
        Some(Self { scheme, url, login, shown, authority, key, secrets, wrong })
    }

    /// Refuses what can never be read. Error: `usage`.
    pub fn check(&self) -> Result<(), Fault> {
        match self.wrong {
            None => Ok(()),
            Some(why) => Err(Fault::new(Code::Usage, format!("'{self}' {why}")).hint(FORM_HINT)),
        }
    }

    /// Who serves it.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The bucket or container, or host and port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// What the bucket calls the file.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is asked of the server, with the query: a secret.
    pub fn request_url(&self) -> &str {
        &self.url
    }

    /// Whether nobody can listen on the way to the server.
    pub fn is_encrypted(&self) -> bool {
        !self.url.starts_with("http://")
    }

    /// Whether a query says more than the path, for example a signature that ends some day.
    pub fn has_query(&self) -> bool {
        self.url.contains('?')
    }

    /// Whether what is shown is all there is, so that somebody else can ask with it.
    pub fn tells_all(&self) -> bool {
        self.login.is_none() && !self.has_query()
    }

    /// Who asks: a secret.
    pub fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// `text`, which somebody else wrote about this address, without its secrets.
    pub fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.shown)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

/// An address, taken apart.
struct Parts<'a> {
    scheme: Scheme,
    authority: &'a str,
    key: &'a str,
    query: Option<&'a str>,
    login: Option<&'a str>,
}

/// Why an address cannot be used, if so.
fn wrong_with(parts: &Parts<'_>, text: &str) -> Option<&'static str> {
    let Parts { scheme, authority, key, query, login } = *parts;
    let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    if scheme == Scheme::Unknown {
        Some("is not read from there")
    } else if text.chars().any(char::is_control) {
        Some("holds a control character")
    } else if authority.is_empty() || port.is_some_and(|port| !port.chars().all(|c| c.is_ascii_digit())) {
        Some("names no host; in a password, write / as %2F, ? as %3F and # as %23")
    } else if scheme == Scheme::Web {
        None
    } else if query.is_some() || login.is_some() {
        Some("has a question mark or a user; what grants access is taken from environment variables")
    } else if key.is_empty() {
        Some("names no file in the bucket")
    } else {
        None
    }
}

/// Whether a query is nothing but a signature: the same file is meant with and without it.
fn is_signature(query: &str) -> bool {
    query.split('&').filter(|part| !part.is_empty()).all(|part| {
        let name = part.split('=').next().unwrap_or_default().to_ascii_lowercase();
        SIGNATURES.contains(&name.as_str()) || SIGNATURE_STARTS.iter().any(|start| name.starts_with(start))
    })
}

/// Text with `%41` written out; what is no such sequence stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        bytes.extend_from_slice(before.as_bytes());
        let byte = from.get(1..3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = from.get(if byte.is_some() { 3 } else { 1 }..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        match Location::of(Path::new(text)) {
            Location::Address(address) => address,
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn arguments_are_told_apart() {
        assert_eq!(Location::of(Path::new("-")), Location::Stdin);
        for path in ["a.csv", "./s3://x", "C://list.csv", "dir/https://x", "a b://c"] {
            assert_eq!(Location::of(Path::new(path)), Location::Path(path.into()), "{path}");
        }
        let schemes = [
            ("HTTPS://host/a", Scheme::Web),
            ("http://host", Scheme::Web),
            ("s3://bucket/a/b c.csv", Scheme::S3),
            ("gs://bucket/a#1.csv", Scheme::Gs),
            ("az://container/a", Scheme::Az),
            ("ftp://host/a", Scheme::Unknown),
        ];
        for (text, scheme) in schemes {
            assert_eq!(address(text).scheme(), scheme, "{text}");
        }
        let parts = address("s3://bucket/a/b#1.csv");
        assert_eq!((parts.authority(), parts.key()), ("bucket", "a/b#1.csv"));
    }

    #[test]
    fn nothing_that_is_shown_holds_a_secret() {
        let secret = "hunter2hunter2";
        for text in [
            format!("https://ayse:{secret}@host:8443/lists/a.csv"),
            format!("https://{secret}@host/a.csv"),
            format!("https://host/a.csv?X-Amz-Signature={secret}&X-Amz-Expires=60"),
            format!("https://host/a.csv?token={secret}#x"),
            format!("https://host/a.csv#{secret}"),
            format!("https://ayse:{secret}/x@host/a.csv"),
            format!("az://container/a.csv?sig={secret}"),
            format!("s3://key:{secret}@bucket/a.csv"),
            format!("ftp://ayse:{secret}@host/a.csv"),
        ] {
            let address = address(&text);
            let said = address.check().err().map(|fault| format!("{fault} {}", fault.hint)).unwrap_or_default();
            let shown = format!("{address} {address:?} {:?} {said}", address.login());
            assert!(!shown.contains(secret), "{text}: {shown}");
        }
    }

    #[test]
    fn the_request_keeps_what_the_display_leaves_out() {
        let address = address("https://ay%40se:p%2Fw@host/a%20b.csv?X-Amz-Signature=abc#top");
        assert_eq!(address.request_url(), "https://host/a%20b.csv?X-Amz-Signature=abc");
        assert_eq!(address.to_string(), "https://host/a%20b.csv");
        let login = address.login().unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("ay@se", "p/w"));
        assert_eq!(address.scrub("GET /a?X-Amz-Signature=abc of p/w"), "GET /a?… of …");
    }

    #[test]
    fn two_queries_of_one_path_are_not_one_input() {
        let signed = address("https://host/a.csv?Signature=1&Expires=2&Key-Pair-Id=3").to_string();
        let export = address("https://host/export?list=7").to_string();
        assert_eq!((signed.as_str(), export.as_str()), ("https://host/a.csv", "https://host/export?…"));
        assert!(names_one_input(&signed) && names_one_input("/a.csv"));
        assert!(!names_one_input(&export) && !names_one_input("-"));
        assert!(address("s3://bucket/a").tells_all() && address("https://host/a").tells_all());
        assert!(!address("https://host/a?Signature=1").tells_all() && !address("https://ayse:b@host/a").tells_all());
    }

    #[test]
    fn addresses_that_lead_nowhere_are_refused() {
        for text in [
            "ftp://host/a",
            "https:///a",
            "s3://bucket",
            "s3:///a",
            "https://u:p/w@h/a",
            "az://c/a?sig=b",
            "https://h/a\u{7}",
            "s3://a:b@c/d",
        ] {
            assert_eq!(address(text).check().map_err(|fault| fault.code), Err(Code::Usage), "{text}");
        }
        for text in ["https://host", "https://[::1]:80/a", "https://[::1]/a", "http://host:80/a", "s3://b/k"] {
            assert!(address(text).check().is_ok(), "{text}");
        }
    }
}
