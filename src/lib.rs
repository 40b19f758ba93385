//! `enlist` imports recipient lists so that a run can be killed anywhere and run again.

pub mod decode;
pub mod fault;
pub mod import;
pub mod job;
pub mod phone;
pub mod position;
pub mod recipient;
pub mod reject;
pub mod row;
pub mod run;
pub mod settings;
pub mod source;
