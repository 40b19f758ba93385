//! What a server's errors mean.
//!
//! Owns the verdict on an error and what is said about it. It asks nothing of a server. Invariant: nothing
//! that it says holds a secret of the address: an error's own text is never passed on whole, because clients
//! put the address into it.

use std::error::Error;

use object_store::client::HttpError;

use crate::fault::{Code, Fault};
use crate::location::{Address, Scheme};

use super::connect::Seen;

/// Why a request failed for good.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is no such file.
    Missing,
    /// The file is not the one that was asked for.
    Changed,
    /// Not for this user, or not so; with the status of the answer, where there was one.
    Refused(u16),
    /// The server reads no parts.
    NoRanges,
    /// The part lies behind the end of the file.
    BeyondEnd,
    /// It is not said how long the answer is.
    Unmeasured,
    /// No answer, or none that is of use now.
    Away(String),
    /// Somebody asked to stop.
    Stopped(Fault),
}

/// The verdict on an error of a client, whose last answer was `seen`.
pub(super) fn judge(error: &object_store::Error, seen: &Seen) -> Trouble {
    use object_store::Error as Kind;
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<Kind>() {
            Some(Kind::NotFound { .. }) => return Trouble::Missing,
            Some(Kind::Precondition { .. } | Kind::NotModified { .. }) => return Trouble::Changed,
            Some(Kind::PermissionDenied { .. }) => return Trouble::Refused(403),
            Some(Kind::Unauthenticated { .. }) => return Trouble::Refused(401),
            Some(Kind::NotSupported { .. }) => return Trouble::NoRanges,
            _ => {}
        }
        if error.is::<HttpError>() {
            return Trouble::Away(innermost(error));
        }
        next = error.source();
    }
    match seen.status() {
        404 | 410 => Trouble::Missing,
        412 => Trouble::Changed,
        416 => Trouble::BeyondEnd,
        status @ (408 | 429 | 500..) => Trouble::Away(format!("it answers {status}")),
        200..300 if seen.is_unmeasured() => Trouble::Unmeasured,
        0 | 200..300 => Trouble::Away(innermost(error)),
        status => Trouble::Refused(status),
    }
}

/// What the cause at the bottom says; those above it repeat the address.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

impl Trouble {
    /// The fault that it is when nothing of the file was read yet.
    pub(super) fn before(self, address: &Address) -> Fault {
        match self {
            Self::Stopped(fault) => fault,
            Self::Missing => Fault::new(Code::NotFound, format!("there is no file '{address}'"))
                .hint("check the address, upper and lower case included"),
            Self::Changed => Fault::new(Code::FileChanged, format!("'{address}' was replaced while it was opened")),
            Self::Refused(status) => {
                Fault::new(Code::RemoteRefused, format!("the server refuses '{address}' (status {status})"))
                    .hint(access_hint(address))
            }
            Self::NoRanges | Self::BeyondEnd | Self::Unmeasured => Fault::new(
                Code::RemoteUnmeasured,
                format!("the server reads '{address}' neither in parts nor says how long it is"),
            ),
            Self::Away(why) => {
                let why = address.scrub(&why);
                let fault = Fault::new(Code::RemoteUnreachable, format!("the server of '{address}' is away: {why}"));
                match address.scheme() {
                    Scheme::Web | Scheme::Unknown => fault,
                    // A service that is asked without credentials looks for them on the network.
                    Scheme::S3 | Scheme::Gs | Scheme::Az => fault.hint(format!(
                        "check that the network is there, and what grants access: {}",
                        access_hint(address)
                    )),
                }
            }
        }
    }

    /// The fault that it is once the file was found.
    pub(super) fn after(self, address: &Address) -> Fault {
        match self {
            Self::Changed | Self::BeyondEnd => super::super::changed(address),
            Self::Missing => Fault::new(Code::FileChanged, format!("'{address}' was removed while it was imported")),
            Self::NoRanges | Self::Unmeasured => {
                Fault::new(Code::RemoteUnreachable, format!("the server no longer reads '{address}' in parts"))
            }
            other => other.before(address),
        }
    }
}

/// What grants access to an address.
pub(super) fn access_hint(address: &Address) -> &'static str {
    match address.scheme() {
        Scheme::Web | Scheme::Unknown if address.has_query() => {
            "a signed address may have expired, or be signed for another request than GET: make a new one"
        }
        Scheme::Web | Scheme::Unknown => {
            "write https://USER:PASSWORD@HOST/FILE, or pipe it: 'curl -H … | enlist import -'"
        }
        Scheme::S3 => {
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION (AWS_ENDPOINT_URL for another service than Amazon's), or AWS_SKIP_SIGNATURE=true for a public file"
        }
        Scheme::Gs => {
            "set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT to the file of a key, or GOOGLE_SKIP_SIGNATURE=true for a public file"
        }
        Scheme::Az => "set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
    }
}
