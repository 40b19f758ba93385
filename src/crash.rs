//! Places where the tests let the process die.
//!
//! Owns nothing else. Without the feature `failpoints` a point is nothing at all. Invariant: the action
//! `return` ends the process at once, as SIGKILL would.

/// A named place. Configured by `FAILPOINTS`, for example `import::before_commit=3*off->return`.
pub(crate) fn point(name: &str) {
    fail::fail_point!(name, |_| std::process::abort());
    // Read where the points are compiled out.
    let _ = name;
}
