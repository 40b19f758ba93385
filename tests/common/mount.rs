//! Small and read-only file systems, which only root can mount.

use std::path::Path;
use std::process::Command;

/// Whether this process may mount. Elsewhere the tests of full and read-only disks have nothing to stand on;
/// they say so on standard error.
pub(crate) fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not tested: full and read-only file systems need root");
    }
    root
}

/// A file system in memory; unmounted when dropped.
pub(crate) struct Tmpfs {
    folder: tempfile::TempDir,
}

impl Tmpfs {
    /// One that holds so many bytes.
    pub(crate) fn of(bytes: u64) -> Self {
        let folder = tempfile::Builder::new().prefix("enlist-tmpfs-").tempdir().expect("a temporary folder");
        let options = format!("size={bytes},mode=777");
        mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], folder.path());
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes room.
    pub(crate) fn grow(&self, bytes: u64) {
        mount(&["-o", &format!("remount,size={bytes}")], self.path());
    }

    /// Nothing can be written any more.
    pub(crate) fn freeze(&self) {
        mount(&["-o", "remount,ro"], self.path());
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn mount(options: &[&str], folder: &Path) {
    let status = Command::new("mount").args(options).arg(folder).status().expect("mount runs");
    assert!(status.success(), "mount {options:?} {}: {status}", folder.display());
}
