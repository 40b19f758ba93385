//! Every test that runs the real binary or the real databases, in one program so that it links once.

#![cfg_attr(not(feature = "failpoints"), allow(unused, reason = "tests that need a crash point are compiled out"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "a toolbox: not every tool is in use at every moment")]
#[macro_use]
mod common;

#[cfg(feature = "failpoints")]
mod alerts;
#[cfg(feature = "failpoints")]
mod anything;
mod at_once;
#[cfg(feature = "failpoints")]
mod between;
mod case;
mod cases;
mod check;
mod cli;
mod crash;
#[cfg(feature = "failpoints")]
mod file_changes;
mod harness;
mod lanes;
mod memory;
#[cfg(feature = "failpoints")]
mod notifications;
#[cfg(feature = "failpoints")]
mod opening;
mod outage;
#[cfg(feature = "failpoints")]
mod queue;
mod readers;
mod refusals;
#[cfg(all(feature = "remote", feature = "failpoints"))]
mod remote;
mod samples;
mod store;
mod tidy;
mod zombie;
