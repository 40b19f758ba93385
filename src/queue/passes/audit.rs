//! The audit, as a pass.
//!
//! Owns which jobs a scheduled audit looks at and what is told. It does not know what is looked for. Invariant: every
//! job is looked at by at least one audit after it finished, and each finding stands in the log.

use std::time::Duration;

use serde_json::{Value, json};

use crate::alert::AlertKind;
use crate::store::{Audit, AuditScope, Finding, Ringing, Store, StoreError};

/// Finished jobs do not change: two windows of a day suffice, also when one is missed.
const RECENT: Duration = Duration::from_secs(2 * 86_400);

/// Subjects that are kept with the run.
const TOLD: usize = 20;

/// Looks once.
pub(super) async fn run(store: &Store) -> Result<Value, StoreError> {
    let mut audit = Audit::default();
    store.audit(AuditScope::Recent(RECENT), &mut audit).await?;
    for finding in &audit.findings {
        tracing::error!(code = finding.code, subject = %finding.subject, "audit: {}", finding.message);
    }
    let findings = crate::run::count_of(audit.findings.len()) + audit.untold;
    if let Some(first) = audit.findings.first() {
        store.outbox(&ringing(first, findings)).await?;
    }
    let subjects: Vec<Value> = audit
        .findings
        .iter()
        .take(TOLD)
        .map(|finding| json!({ "code": finding.code, "subject": finding.subject }))
        .collect();
    Ok(json!({ "findings": findings, "jobs": audit.jobs, "recipients": audit.recipients, "found": subjects }))
}

/// One alert for all that was found: who gets it looks with 'enlist audit'.
fn ringing(first: &Finding, findings: u64) -> Ringing {
    Ringing {
        kind: AlertKind::AuditFindings,
        subject: "audit".to_owned(),
        job: None,
        message: format!("the audit found {findings}; the first: {}: {}", first.subject, first.message),
        details: json!({ "findings": findings, "code": first.code, "subject": first.subject }),
    }
}
