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
mod constants;
mod corpus;
mod crash;
mod duplicates;
#[cfg(feature = "failpoints")]
mod file_changes;
mod harness;
mod lanes;
mod memory;
mod mending;
mod newcomer;
#[cfg(feature = "failpoints")]
mod notifications;
mod once;
#[cfg(feature = "failpoints")]
mod opening;
mod outage;
mod pages;
#[cfg(feature = "failpoints")]
mod passes;
mod profiles;
#[cfg(feature = "failpoints")]
mod queue;
mod readers;
mod refusals;
#[cfg(all(feature = "remote", feature = "failpoints"))]
mod remote;
mod samples;
mod store;
mod tidy;
mod twin;
mod upgrade;
mod zombie;
