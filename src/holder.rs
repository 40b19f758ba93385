//! Looks at this machine's processes.
//!
//! Owns the reading of `/proc`. It does not know jobs or leases. Invariant: what cannot be read is said
//! to be unreadable, never absent; where there is no `/proc` nothing is ever provable.

use std::fs;
use std::io::ErrorKind;

use crate::owner::{Owner, Process, Sighting, is_dead};

/// A new owner name for this process.
pub fn claim_owner() -> Owner {
    Owner { nonce: format!("{:016x}", fastrand::u64(..)), process: this_process() }
}

/// Whether the process behind `owner` is provably gone.
pub fn is_gone(owner: &Owner) -> bool {
    is_dead(&owner.process, &this_process(), sight(owner.process.pid))
}

fn this_process() -> Process {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let pid = std::process::id();
    let started = match sight(pid) {
        Sighting::Running { started } => started,
        Sighting::Absent | Sighting::Zombie | Sighting::Unreadable => 0,
    };
    Process {
        boot: read("/proc/sys/kernel/random/boot_id"),
        namespace: fs::read_link("/proc/self/ns/pid")
            .map(|link| link.to_string_lossy().into_owned())
            .unwrap_or_default(),
        pid,
        started,
        host: read("/proc/sys/kernel/hostname"),
    }
}

fn sight(pid: u32) -> Sighting {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse_stat(&stat),
        // The own entry proves that /proc is mounted and readable, so absence means something.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::metadata("/proc/self/stat").is_ok() => {
            Sighting::Absent
        }
        Err(_) => Sighting::Unreadable,
    }
}

/// Reads a `/proc/PID/stat` line: the state is field 3, the start time field 22 (proc(5)); field 2 is the
/// command in parentheses and may itself hold blanks and parentheses.
fn parse_stat(stat: &str) -> Sighting {
    let Some((_, rest)) = stat.rsplit_once(')') else { return Sighting::Unreadable };
    let mut fields = rest.split_whitespace();
    match (fields.next(), fields.nth(18).and_then(|ticks| ticks.parse().ok())) {
        (Some("Z" | "X"), _) => Sighting::Zombie,
        (Some(_), Some(started)) => Sighting::Running { started },
        _ => Sighting::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_behind_the_last_parenthesis() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(parse_stat(line), Sighting::Running { started: 4711 });
        assert_eq!(parse_stat(&line.replace(" S ", " Z ")), Sighting::Zombie);
        assert_eq!(parse_stat("7 (a) S 1"), Sighting::Unreadable);
        assert_eq!(parse_stat(""), Sighting::Unreadable);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_not_gone_and_a_reaped_child_is() {
        let mine = claim_owner();
        assert!(!is_gone(&mine));
        let mut child = std::process::Command::new("true").spawn().expect("spawn true");
        let pid = child.id();
        child.wait().expect("reap it");
        let gone = Owner { process: Process { pid, started: 1, ..mine.process }, ..mine };
        assert!(is_gone(&gone));
    }
}
