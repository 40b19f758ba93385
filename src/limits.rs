//! How far a run may go: what it may refuse, what it may change, how many write at once.
//!
//! Owns the limits that travel with a job without deciding its outcome; they are no part of its key. It does
//! not know who enforces them. Invariant: a job with other limits is the same job.

use serde::{Deserialize, Serialize};

/// How many refused rows are acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// So many rows.
    Rows(u64),
    /// So many of a hundred rows, judged from the 1,000th row on and at the end.
    Percent(f64),
}

/// What a queued job was told besides what decides its outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// `--max-rejects`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rejects: Option<Budget>,
    /// `--max-changes`: how many of a hundred known people may get another name; nothing means 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_changes: Option<f64>,
    /// `--writers`: how many lanes write at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writers: Option<u16>,
}

impl Limits {
    /// Whether nothing was said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_back_and_say_nothing_when_there_are_none() {
        let limits = Limits { max_rejects: Some(Budget::Percent(2.5)), max_changes: None, writers: Some(3) };
        let text = serde_json::to_string(&limits).unwrap();
        assert_eq!(text, r#"{"max_rejects":{"percent":2.5},"writers":3}"#);
        assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), limits);
        assert!(serde_json::from_str::<Limits>("{}").unwrap().is_default());
    }
}
