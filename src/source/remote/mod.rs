//! Files behind servers: web servers, S3, Google Cloud Storage, Azure.
//!
//! Owns the first contact and what makes two answers the same file. It does not know what the bytes mean.
//! Invariant: after the first answer every request asks for that version of the file, and every answer is
//! compared with it, so a file that is replaced is noticed whatever the server makes of the question.
//!
//! Everything outside is synchronous; what a server answers comes from tasks of the runtime, to which nothing
//! here may block.

mod connect;
mod ranges;
mod trouble;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};
use tokio::runtime::Handle;

use crate::clock::Timestamp;
use crate::fault::{Code, Fault};
use crate::location::Address;

use super::{Glance, magic};
use connect::{Link, link};
use trouble::{Trouble, judge};

pub(super) use ranges::ObjectReader;

/// How much of a file is looked at to see what it is, in bytes.
const HEAD: u64 = 512;

/// How long the first answer may take, retries included, when nothing was begun yet.
const CONTACT: Duration = Duration::from_secs(15);

/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Why to give up, when somebody asked.
type Stopped = Arc<dyn Fn() -> Option<Fault> + Send + Sync>;

/// Refuses an address that can never be read. Error: `usage`.
pub fn check_address(address: &Address) -> Result<(), Fault> {
    address.check()
}

/// A server and the file that is asked of it.
pub struct Server {
    address: Address,
    link: Link,
    patience: Duration,
    stopped: Stopped,
    runtime: Handle,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.address)
    }
}

/// What a server gave.
#[derive(Debug)]
pub enum Reached {
    /// A file that can be read in parts.
    InParts(Object),
    /// A file that can be read once, from its start.
    Once(ObjectReader),
}

impl Server {
    /// Prepares to ask for `address`; nothing is asked yet.
    ///
    /// Credentials and endpoints come from the environment variables that each service names. `patience` is
    /// how long a server may be away once its first answer came; `stopped` is asked all the time. Must be
    /// called where a runtime is, outside its workers. Errors: `usage`, `remote_refused`.
    pub fn new(address: &Address, patience: Duration, stopped: Stopped) -> Result<Self, Fault> {
        address.check()?;
        let runtime = Handle::try_current()
            .map_err(|_| Fault::new(Code::Internal, "an address was opened where no runtime is"))?;
        let link = link(address, patience.min(CONTACT))?;
        Ok(Self { address: address.clone(), link, patience, stopped, runtime })
    }

    /// What the file looks like now. Errors: `not_found`, `remote_refused`, `remote_unreachable`,
    /// `remote_unmeasured`.
    pub fn glance(&self) -> Result<Glance, Fault> {
        let found = match self.ask(Some(0..1)) {
            Err(Trouble::NoRanges | Trouble::BeyondEnd) => self.ask(None),
            answer => answer,
        };
        let meta = found.map_err(|trouble| trouble.before(&self.address))?.meta;
        let modified = has_moment(&meta).then(|| Timestamp::from_millis(meta.last_modified.timestamp_millis()));
        Ok(Glance { bytes: meta.size, modified, tag: meta.e_tag })
    }

    /// Opens the file. Errors as for `glance`.
    pub fn open(&self) -> Result<Reached, Fault> {
        let before = |trouble: Trouble| trouble.before(&self.address);
        let answer = match self.ask(Some(0..HEAD)) {
            // An empty file has no part either.
            Err(Trouble::NoRanges | Trouble::BeyondEnd) => {
                let whole = self.ask(None).map_err(before)?;
                return Ok(Reached::Once(ObjectReader::once(self, whole)));
            }
            answer => answer.map_err(before)?,
        };
        let meta = answer.meta.clone();
        let link = link(&self.address, self.patience)?;
        let head = self.wait(async {
            answer.bytes().await.map_err(|error| judge(&error, &self.link.seen).before(&self.address))
        })?;
        Ok(Reached::InParts(Object(Arc::new(Shared {
            address: self.address.clone(),
            link,
            meta,
            head: head.to_vec(),
            patience: self.patience,
            stopped: Arc::clone(&self.stopped),
            runtime: self.runtime.clone(),
        }))))
    }

    /// One request, for a part or for everything. A wish to stop is `Trouble::Stopped`.
    fn ask(&self, part: Option<std::ops::Range<u64>>) -> Result<GetResult, Trouble> {
        let options = GetOptions { range: part.map(GetRange::Bounded), ..GetOptions::default() };
        let asked = async {
            let answer = self.link.store.get_opts(&self.link.key, options).await;
            Ok(answer.map_err(|error| judge(&error, &self.link.seen)))
        };
        self.wait(asked).unwrap_or_else(|fault| Err(Trouble::Stopped(fault)))
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.runtime.block_on(unless_stopped(work, &self.stopped))
    }
}

/// Does the work, or gives it up when somebody asks to stop.
async fn unless_stopped<T>(work: impl Future<Output = Result<T, Fault>>, stopped: &Stopped) -> Result<T, Fault> {
    let mut work = pin!(work);
    loop {
        if let Ok(done) = tokio::time::timeout(LOOK, &mut work).await {
            return done;
        }
        if let Some(fault) = stopped() {
            return Err(fault);
        }
    }
}

/// Whether the server told when the file was written; the moment zero stands for nothing.
fn has_moment(meta: &ObjectMeta) -> bool {
    meta.last_modified.timestamp_millis() != 0
}

/// One version of a file behind a server; cheap to clone.
#[derive(Clone)]
pub struct Object(Arc<Shared>);

struct Shared {
    address: Address,
    link: Link,
    /// What the first answer said; every other one must say the same.
    meta: ObjectMeta,
    head: Vec<u8>,
    patience: Duration,
    stopped: Stopped,
    runtime: Handle,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({self})")
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.address)
    }
}

impl Object {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.0.meta.size
    }

    /// A reader at its start, which asks for nothing before it is read.
    pub fn reader(&self) -> ObjectReader {
        ObjectReader::in_parts(self)
    }

    /// Whether it must be copied before it can be read: archives and workbooks are read all over the place.
    pub fn must_copy(&self) -> bool {
        magic::is_zip(&self.0.head) || magic::is_ole(&self.0.head)
    }

    /// How to ask for a part of this very version. An entity tag is compared by the server only when it is a
    /// strong one (RFC 9110, section 13.1.1); without one the moment of the last change is.
    fn options(&self, part: std::ops::Range<u64>) -> GetOptions {
        let meta = &self.0.meta;
        let strong = meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
        let since = (strong.is_none() && has_moment(meta)).then_some(meta.last_modified);
        GetOptions {
            range: Some(GetRange::Bounded(part)),
            if_match: strong,
            if_unmodified_since: since,
            ..GetOptions::default()
        }
    }

    /// Whether an answer is about this version. Servers are free to pass over what they are asked.
    fn is_same(&self, answer: &ObjectMeta) -> bool {
        let first = &self.0.meta;
        let same_moment = first.e_tag.is_some() || first.last_modified == answer.last_modified;
        first.size == answer.size && first.e_tag == answer.e_tag && same_moment
    }
}
