//! Who holds a job: a name that is used once, and how to find out whether its process still lives.
//!
//! Owns the text of `jobs.owner` and the judgement over it. It reads nothing itself: `holder` looks at
//! the machine. Invariant: only a process that is provably gone counts as dead; everything unreadable
//! waits for its lease (rule 10).

/// One claim of one process. The random part makes it unique: a fence alone can be handed out twice
/// after a failover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Random, new for every claim.
    pub nonce: String,
    /// Where the process runs.
    pub process: Process,
}

/// A process, identified so that neither a reboot nor a reused number is mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The kernel's boot id; empty where it cannot be read.
    pub boot: String,
    /// The pid namespace; empty where it cannot be read.
    pub namespace: String,
    /// The process number inside that namespace.
    pub pid: u32,
    /// When it started, in clock ticks since boot; 0 where it cannot be read.
    pub started: u64,
    /// The machine's name, for messages only.
    pub host: String,
}

/// What `/proc` says about a process number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighting {
    /// There is no such process.
    Absent,
    /// It has ended and waits for its parent.
    Zombie,
    /// It runs since this tick.
    Running {
        /// Clock ticks since boot.
        started: u64,
    },
    /// Nothing can be said.
    Unreadable,
}

impl Owner {
    /// The text that is stored: `nonce boot namespace pid started host`.
    pub fn to_text(&self) -> String {
        let Process { boot, namespace, pid, started, host } = &self.process;
        let word = |text: &str| if text.is_empty() { "-".to_owned() } else { text.replace(char::is_whitespace, "_") };
        format!("{} {} {} {pid} {started} {}", self.nonce, word(boot), word(namespace), word(host))
    }

    /// Reads the stored text. A text of another make has an unknowable process.
    pub fn from_text(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let mut word = || words.next().filter(|word| *word != "-").unwrap_or_default().to_owned();
        let nonce = word();
        let boot = word();
        let namespace = word();
        let pid = word().parse().unwrap_or(0);
        let started = word().parse().unwrap_or(0);
        let host = word();
        Self { nonce, process: Process { boot, namespace, pid, started, host } }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = if self.process.host.is_empty() { "unknown host" } else { &self.process.host };
        write!(f, "process {} on {host}", self.process.pid)
    }
}

/// Whether `holder` is provably gone, seen from the process `here`, for which `sighting` looked at
/// the holder's process number.
pub fn is_dead(holder: &Process, here: &Process, sighting: Sighting) -> bool {
    let comparable = !holder.boot.is_empty()
        && holder.boot == here.boot
        && !holder.namespace.is_empty()
        && holder.namespace == here.namespace
        && holder.pid != 0
        && holder.started != 0;
    comparable
        && match sighting {
            Sighting::Absent | Sighting::Zombie => true,
            Sighting::Running { started } => started != holder.started,
            Sighting::Unreadable => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        Process { boot: "b".into(), namespace: "pid:[1]".into(), pid: 7, started: 100, host: "h".into() }
    }

    #[test]
    fn an_owner_reads_back_as_it_was_written() {
        let owner = Owner { nonce: "n".into(), process: process() };
        assert_eq!(Owner::from_text(&owner.to_text()), owner);
        let unknown =
            Owner { nonce: "n".into(), process: Process { boot: String::new(), host: String::new(), ..process() } };
        assert_eq!(Owner::from_text(&unknown.to_text()), unknown);
        assert_eq!(Owner::from_text("made by something else").process.pid, 0);
    }

    #[test]
    fn only_a_process_that_is_provably_gone_is_dead() {
        let here = Process { pid: 8, started: 200, ..process() };
        for (sighting, dead) in [
            (Sighting::Absent, true),
            (Sighting::Zombie, true),
            (Sighting::Running { started: 100 }, false),
            (Sighting::Running { started: 101 }, true),
            (Sighting::Unreadable, false),
        ] {
            assert_eq!(is_dead(&process(), &here, sighting), dead, "{sighting:?}");
        }
        let elsewhere = [
            Process { boot: "c".into(), ..process() },
            Process { namespace: "pid:[2]".into(), ..process() },
            Process { boot: String::new(), ..process() },
            Process { namespace: String::new(), ..process() },
            Process { pid: 0, ..process() },
            Process { started: 0, ..process() },
        ];
        for holder in elsewhere {
            assert!(!is_dead(&holder, &here, Sighting::Absent), "{holder:?}");
        }
    }
}
