//! A receiver that takes JSON by HTTP.
//!
//! Owns the request and what counts as taken: any 2xx. It does not know claims. A redirect is an answer, never
//! followed: what is sent is meant for one host. Invariant: the URL, which is often itself the secret, is never
//! shown; only its host is.

use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};

use crate::claim::SINK_DEADLINE;
use crate::fault::{Code, Fault};

/// The longest header of an answer, in bytes.
const HEADER_MAX: usize = 64 * 1024;

/// A webhook.
#[derive(Clone)]
pub(crate) struct Webhook {
    uri: Uri,
    agent: Agent,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Webhook").field(&self.host()).finish()
    }
}

impl Webhook {
    /// Reads `http://…` or `https://…`.
    pub(crate) fn parse(url: &str) -> Result<Self, Fault> {
        let uri = url.trim().parse::<Uri>().ok();
        let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
        let uri = uri.ok_or_else(|| {
            Fault::new(Code::Config, "the webhook of alerts is no URL")
                .hint("write webhook = \"https://…\" under [alerts]")
        })?;
        Ok(Self { uri, agent: agent(SINK_DEADLINE) })
    }

    /// Its host, which is no secret.
    pub(crate) fn host(&self) -> &str {
        self.uri.host().unwrap_or_default()
    }

    /// Posts `body`; why it was not taken.
    pub(crate) async fn send(&self, body: &Value) -> Result<(), String> {
        let (agent, uri, text) = (self.agent.clone(), self.uri.clone(), body.to_string());
        let key = body["key"].as_str().unwrap_or_default().to_owned();
        let posted = tokio::task::spawn_blocking(move || {
            let post = agent.post(uri).header("Content-Type", "application/json");
            // A key may hold what a header cannot; it stands in the body as well.
            let post = if key.is_ascii() { post.header("X-Enlist-Alert-Key", key) } else { post };
            post.send(text).map(|answer| answer.status().as_u16())
        });
        match posted.await {
            Ok(Ok(200..=299)) => Ok(()),
            Ok(Ok(status)) => Err(format!("it answered {status}")),
            Ok(Err(error)) => Err(plain(&error)),
            Err(_) => Err("the request's thread ended early".to_owned()),
        }
    }
}

/// A client whose every request, from the name's look-up to the last byte, ends within `deadline`.
fn agent(deadline: Duration) -> Agent {
    Agent::config_builder()
        .timeout_global(Some(deadline))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .max_response_header_size(HEADER_MAX)
        .max_idle_connections(0)
        .user_agent(concat!("enlist/", env!("CARGO_PKG_VERSION")))
        .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
        .build()
        .into()
}

/// An error in a few words. A webhook's URL is a secret, so the error's own text is not trusted.
fn plain(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
        ureq::Error::HostNotFound => "its name is not known".to_owned(),
        ureq::Error::ConnectionFailed => "nobody answers there".to_owned(),
        ureq::Error::Io(error) => format!("the connection failed ({})", error.kind()),
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => "TLS with it failed".to_owned(),
        ureq::Error::Protocol(_) => "it does not speak HTTP".to_owned(),
        _ => "the request failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_of_a_webhook_is_ever_shown() {
        let webhook = Webhook::parse("https://hooks.example.com/services/GEHEIM").unwrap();
        assert_eq!(format!("{webhook:?}"), "Webhook(\"hooks.example.com\")");
        for wrong in ["ftp://a/GEHEIM", "GEHEIM", "https:///GEHEIM", ""] {
            let fault = Webhook::parse(wrong).unwrap_err();
            assert!(fault.code == Code::Config && !fault.message.contains("GEHEIM"), "{wrong}");
        }
    }
}
