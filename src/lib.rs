//! `enlist` imports recipient lists so that a run can be killed anywhere and run again.

pub mod admission;
pub mod backoff;
pub mod batch;
pub mod clock;
mod crash;
pub mod decode;
pub mod fault;
pub mod holder;
pub mod import;
pub mod job;
pub mod list;
pub mod mapping;
pub mod nearest;
pub mod normalise;
pub mod owner;
pub mod phone;
pub mod position;
pub mod recipient;
pub mod reject;
pub mod row;
pub mod run;
pub mod settings;
pub mod source;
pub mod stop;
pub mod store;
