//! Findings as `doctor` and `audit` tell them.
//!
//! Owns their shape in text and JSON. It does not know what can be found. Invariant: each says what it is about, what
//! was found and what to do.

use serde::Serialize;

use crate::store::Finding;

/// A finding in an object.
#[derive(Debug, Serialize)]
pub(crate) struct FindingBody<'a> {
    code: &'static str,
    subject: &'a str,
    message: &'a str,
    hint: &'a str,
}

impl<'a> FindingBody<'a> {
    /// The fields of each.
    pub(crate) fn all(findings: &'a [Finding]) -> Vec<Self> {
        let body = |finding: &'a Finding| Self {
            code: finding.code,
            subject: &finding.subject,
            message: &finding.message,
            hint: &finding.hint,
        };
        findings.iter().map(body).collect()
    }
}

/// Two lines for each, or one that says that there is nothing.
pub(crate) fn told(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing is wrong\n".to_owned();
    }
    findings
        .iter()
        .map(|finding| format!("{} ({}): {}\n  {}\n", finding.subject, finding.code, finding.message, finding.hint))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_say_what_and_what_to_do() {
        assert_eq!(told(&[]), "nothing is wrong\n");
        let finding = Finding {
            code: "stuck_job",
            subject: "job 7".to_owned(),
            message: "its lease expired".to_owned(),
            hint: "run it again".to_owned(),
        };
        assert_eq!(told(&[finding]), "job 7 (stuck_job): its lease expired\n  run it again\n");
    }
}
