//! What the tests stand on: databases, the binary, data, and the uninterrupted run as the oracle.

#[macro_use]
pub(crate) mod engine;
pub(crate) mod cli;
pub(crate) mod data;
pub(crate) mod halt;
pub(crate) mod mount;
pub(crate) mod oracle;
pub(crate) mod output;
pub(crate) mod postgres;
pub(crate) mod proxy;
pub(crate) mod receiver;
pub(crate) mod redis;
pub(crate) mod rejects;
pub(crate) mod wait;
pub(crate) mod webhook;
