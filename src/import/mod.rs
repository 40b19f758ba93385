//! Importing.
pub mod report;
