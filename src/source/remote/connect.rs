//! The way to a server.
//!
//! Owns the clients of each service, how long they try and what they are told by the environment. It does not
//! read. Invariant: a password travels only to the host for which it was given, and where the address says
//! https, never in the clear.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig};

use crate::fault::{Code, Fault};
use crate::location::{Address, Scheme};

use super::trouble::{access_hint, innermost};

/// How long a server may be silent in the middle of an answer, as the clients read durations.
const SILENCE: &str = "30 seconds";

/// How long one answer may take in all: 8 MiB at 14 kB a second.
const ANSWER: &str = "10 minutes";

/// Between two tries.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A client that is ready to ask for one file.
pub(super) struct Link {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) key: Path,
    pub(super) seen: Arc<Seen>,
}

/// What the last answer was like, which the errors of the clients do not tell.
#[derive(Debug, Default)]
pub(super) struct Seen {
    status: AtomicU16,
    /// 1 when it did not say how long it is.
    unmeasured: AtomicU16,
}

impl Seen {
    /// The status of the last answer; 0 before the first.
    pub(super) fn status(&self) -> u16 {
        self.status.load(Ordering::Relaxed)
    }

    /// Whether the last answer did not say how long it is.
    pub(super) fn is_unmeasured(&self) -> bool {
        self.unmeasured.load(Ordering::Relaxed) == 1
    }

    fn note(&self, answer: &HttpResponse) {
        self.status.store(answer.status().as_u16(), Ordering::Relaxed);
        self.unmeasured.store(u16::from(!answer.headers().contains_key("content-length")), Ordering::Relaxed);
    }
}

/// Makes the client of an address. One request is tried again for as long as `patience`. Errors: `usage`,
/// `remote_refused` (settings in the environment that do not go together).
pub(super) fn link(address: &Address, patience: Duration) -> Result<Link, Fault> {
    // Another part of the program may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let seen = Arc::new(Seen::default());
    let watching = Watching { seen: Arc::clone(&seen) };
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: PAUSES.0, max_backoff: PAUSES.1, base: 2.0 },
        max_retries: usize::MAX,
        retry_timeout: patience,
    };
    let refused = |error: &object_store::Error| {
        let why = address.scrub(&innermost(error));
        Fault::new(Code::RemoteRefused, format!("'{address}' cannot be asked for: {why}")).hint(access_hint(address))
    };
    let bad_key =
        |_| Fault::new(Code::Usage, format!("'{address}' has a key that is not read: an empty, '.' or '..' part"));
    let key = match address.scheme() {
        Scheme::Web | Scheme::Unknown => Path::default(),
        Scheme::S3 | Scheme::Gs | Scheme::Az => Path::parse(address.key()).map_err(bad_key)?,
    };
    let bucket = address.authority();
    let store: object_store::Result<Arc<dyn ObjectStore>> = match address.scheme() {
        Scheme::Web | Scheme::Unknown => HttpBuilder::new()
            .with_url(address.request_url())
            .with_client_options(web_options(address))
            .with_retry(retry)
            .with_http_connector(watching)
            .build()
            .map(|store| Arc::new(store) as _),
        Scheme::S3 => AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::ReadTimeout), SILENCE)
            .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), ANSWER)
            .with_retry(retry)
            .with_http_connector(watching)
            .build()
            .map(|store| Arc::new(store) as _),
        Scheme::Gs => GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(bucket)
            .with_config(GoogleConfigKey::Client(ClientConfigKey::ReadTimeout), SILENCE)
            .with_config(GoogleConfigKey::Client(ClientConfigKey::Timeout), ANSWER)
            .with_retry(retry)
            .with_http_connector(watching)
            .build()
            .map(|store| Arc::new(store) as _),
        Scheme::Az => MicrosoftAzureBuilder::from_env()
            .with_container_name(bucket)
            .with_config(AzureConfigKey::Client(ClientConfigKey::ReadTimeout), SILENCE)
            .with_config(AzureConfigKey::Client(ClientConfigKey::Timeout), ANSWER)
            .with_retry(retry)
            .with_http_connector(watching)
            .build()
            .map(|store| Arc::new(store) as _),
    };
    Ok(Link { store: store.map_err(|error| refused(&error))?, key, seen })
}

/// How a web server is asked. User and password go into a header, which a redirect to another host loses.
fn web_options(address: &Address) -> ClientOptions {
    let options = ClientOptions::new()
        .with_allow_http(!address.is_encrypted())
        .with_config(ClientConfigKey::ReadTimeout, SILENCE)
        .with_config(ClientConfigKey::Timeout, ANSWER);
    let Some(login) = address.login() else { return options };
    let basic = format!("Basic {}", STANDARD.encode(format!("{}:{}", login.user, login.password)));
    let mut headers = HeaderMap::new();
    if let Ok(mut value) = HeaderValue::from_str(&basic) {
        value.set_sensitive(true);
        headers.insert("authorization", value);
    }
    options.with_default_headers(headers)
}

/// Makes clients that note what is answered.
#[derive(Debug)]
struct Watching {
    seen: Arc<Seen>,
}

impl HttpConnector for Watching {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Watched { client, seen: Arc::clone(&self.seen) }))
    }
}

#[derive(Debug)]
struct Watched {
    client: HttpClient,
    seen: Arc<Seen>,
}

impl HttpService for Watched {
    fn call<'me, 'answer>(
        &'me self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'answer>>
    where
        'me: 'answer,
        Self: 'answer,
    {
        Box::pin(async move {
            let answer = self.client.execute(request).await?;
            self.seen.note(&answer);
            Ok(answer)
        })
    }
}
