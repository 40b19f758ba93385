//! Where the end of a job is told: an address, and what is known about whoever listens there.
//!
//! Owns the reading of addresses and what of them may be shown. It calls nobody. Invariant: an address holds no
//! user and no password, and neither `Display` nor `Debug` shows its path or query, which may hold a token.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::notification::Receiver;

/// The longest address.
const LENGTH_MAX: usize = 2_048;

/// An `http` or `https` address.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Endpoint(String);

/// Whether what is sent can be read on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privacy {
    /// It is encrypted, or does not leave this machine.
    Private,
    /// It crosses a network as it is.
    Plain,
}

impl Endpoint {
    /// Reads an address. The error does not quote it: it may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let url = Url::parse(text).map_err(|why| format!("the address to notify is not understood ({why})"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("the address to notify must begin with https:// or http://".to_owned());
        }
        if text.len() > LENGTH_MAX {
            return Err(format!("the address to notify is longer than {LENGTH_MAX} characters"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the address to notify holds a user or a password, which would be stored with the job; \
                        leave it out and let the receiver check the signature"
                .to_owned());
        }
        if url.fragment().is_some() {
            return Err("the address to notify has a part after '#', which is never sent".to_owned());
        }
        Ok(Self(url.into()))
    }

    /// An address read back from the store.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// The whole address, for the store and for calling it; never for a message.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether what is sent there can be read on its way.
    pub fn privacy(&self) -> Privacy {
        let Ok(url) = Url::parse(&self.0) else { return Privacy::Plain };
        let local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if local || url.scheme() == "https" { Privacy::Private } else { Privacy::Plain }
    }
}

impl std::fmt::Display for Endpoint {
    /// Scheme, host and port; `/…` stands for a path or a query.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ok(url) = Url::parse(&self.0) else { return f.write_str("an unreadable address") };
        let rest = if url.path() == "/" && url.query().is_none() { "" } else { "/…" };
        write!(f, "{}{rest}", url.origin().ascii_serialization())
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Whom to tell how a job ended. Travels with the job, so that any worker can; no part of its key, and no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Where to.
    pub url: Endpoint,
    /// What the receiver does with keys.
    pub receiver: Receiver,
    /// Where a receiver of kind `lookup` tells whether it has seen a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup_url: Option<Endpoint>,
    /// For how long to try, in seconds.
    pub give_up_secs: u64,
}

impl Destination {
    /// For how long to try, counted from the job's end.
    pub fn give_up(&self) -> Duration {
        Duration::from_secs(self.give_up_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_path_and_query() {
        for (text, shown) in [
            ("https://hooks.example.com/services/T0/abcdef", "https://hooks.example.com/…"),
            ("https://example.com?token=abcdef", "https://example.com/…"),
            ("http://[::1]:8080/", "http://[::1]:8080"),
            ("https://example.com:8443", "https://example.com:8443"),
        ] {
            let endpoint = Endpoint::parse(text).expect(text);
            assert_eq!(endpoint.to_string(), shown);
            assert!(!format!("{endpoint:?}").contains("abcdef"));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_quoted() {
        let long = format!("https://example.com/{}", "gizli".repeat(500));
        for bad in [
            "gizli",
            "ftp://gizli/x",
            "https://ayse:gizli@h/x",
            "https://gizli@h/x",
            "http://",
            "https://h/#gizli",
            &long,
        ] {
            let why = Endpoint::parse(bad).expect_err(bad);
            assert!(!why.contains("gizli"), "{why}");
        }
    }

    #[test]
    fn only_encrypted_and_local_addresses_are_private() {
        for (text, privacy) in [
            ("https://example.com/x", Privacy::Private),
            ("http://example.com/x", Privacy::Plain),
            ("http://10.0.0.7/x", Privacy::Plain),
            ("http://127.0.0.1:8080/x", Privacy::Private),
            ("http://[::1]/x", Privacy::Private),
            ("http://localhost/x", Privacy::Private),
        ] {
            assert_eq!(Endpoint::parse(text).expect(text).privacy(), privacy, "{text}");
        }
    }
}
