//! Addresses in a program that was built without the feature `remote`.
//!
//! Owns saying so. It knows no server. Invariant: no value of `Object`, `ObjectReader` or `Server` exists.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use crate::fault::{Code, Fault};
use crate::location::Address;

use super::Glance;

/// A file behind a server: there is none.
#[derive(Debug, Clone)]
pub struct Object(Infallible);

/// Its bytes.
#[derive(Debug)]
pub struct ObjectReader(Infallible);

/// A connection to a server: there is none.
#[derive(Debug)]
pub struct Server(Infallible);

/// What a server gave.
#[derive(Debug)]
pub enum Reached {
    /// A file that can be read in parts.
    InParts(Object),
    /// A file that can be read once, from its start.
    Once(ObjectReader),
}

/// Refuses every address: `usage` where it could never be read, else `remote_not_built`.
pub fn check_address(address: &Address) -> Result<(), Fault> {
    address.check()?;
    Err(Fault::new(Code::RemoteNotBuilt, format!("'{address}' is an address, and this program was built without them")))
}

impl Server {
    /// Refuses, as `check_address` does.
    pub fn new(
        address: &Address,
        _patience: Duration,
        _stopped: Arc<dyn Fn() -> Option<Fault> + Send + Sync>,
    ) -> Result<Self, Fault> {
        check_address(address).and_then(|()| Err(Fault::new(Code::RemoteNotBuilt, "there are no servers")))
    }

    /// What the file looks like now.
    pub fn glance(&self) -> Result<Glance, Fault> {
        match self.0 {}
    }

    /// Opens the file.
    pub fn open(&self) -> Result<Reached, Fault> {
        match self.0 {}
    }
}

impl Object {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        match self.0 {}
    }

    /// A reader at its start.
    pub fn reader(&self) -> ObjectReader {
        match self.0 {}
    }

    /// Whether it must be copied before it can be read.
    pub fn must_copy(&self) -> bool {
        match self.0 {}
    }
}

impl fmt::Display for Object {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl Read for ObjectReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        match self.0 {}
    }
}
