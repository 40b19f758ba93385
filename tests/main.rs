//! Every test that runs the real binary or the real databases, in one program so that it links once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "a toolbox: not every tool is in use at every moment")]
#[macro_use]
mod common;

#[cfg(feature = "failpoints")]
mod at_once;
#[cfg(feature = "failpoints")]
mod between;
mod case;
mod cases;
mod crash;
#[cfg(feature = "failpoints")]
mod file_changes;
mod harness;
mod lanes;
#[cfg(feature = "failpoints")]
mod opening;
mod outage;
mod samples;
mod store;
mod tidy;
mod zombie;
