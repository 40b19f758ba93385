//! What a command said and how it ended, and what can be asserted about it.

use std::ffi::OsString;

/// The password in the tests' wrong URLs: no output may hold it.
pub(crate) const SECRET: &str = "geheimes-wort";

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Output {
    /// The exit code, or 128 + the signal as a shell says it.
    pub(crate) code: i32,
    /// The signal it died of.
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    pub(super) line: Vec<OsString>,
}

impl Output {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The one JSON object on standard output; panics when there is anything else on it.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|e| panic!("standard output is no single JSON object ({e}): {}", self.told()))
    }

    /// The value at a JSON pointer as a number; panics when there is none.
    pub(crate) fn count(&self, name: &str) -> i64 {
        self.json()
            .pointer(&format!("/{}", name.trim_start_matches('/')))
            .and_then(serde_json::Value::as_i64)
            .unwrap_or_else(|| panic!("no number '{name}': {}", self.told()))
    }

    /// `error.code` of the JSON, if any.
    pub(crate) fn error(&self) -> Option<String> {
        self.json().pointer("/error/code").and_then(|code| code.as_str()).map(str::to_owned)
    }

    /// Panics unless it ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}", self.told());
        self
    }

    /// Panics unless it was refused in one line with this exit code and this error code, and with no other word
    /// than the database's name. It must have been asked with `--json`.
    #[track_caller]
    pub(crate) fn refused(&self, exit: i32, code: &str) -> &Self {
        let others: Vec<&str> = self
            .stderr
            .lines()
            .filter(|line| !line.starts_with("database: ") && !line.starts_with("error: "))
            .collect();
        assert!(others.is_empty(), "more than an error is told: {others:?}\n{}", self.told());
        self.stopped(exit, code)
    }

    /// The same for a command that had begun, which may sum up as well.
    #[track_caller]
    pub(crate) fn stopped(&self, exit: i32, code: &str) -> &Self {
        assert_eq!((self.code, self.error().as_deref()), (exit, Some(code)), "{}", self.told());
        assert_eq!(self.count("exit_code"), i64::from(exit), "{}", self.told());
        assert_eq!(self.text().lines().count(), 1, "{}", self.told());
        let errors: Vec<&str> = self.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{}", self.told());
        let json = self.json();
        let message = json["error"]["message"].as_str().unwrap_or_default().replace(['\n', '\r'], " ");
        assert!(!message.is_empty() && errors[0].starts_with(&format!("error: {message}")), "{}", self.told());
        assert!(json["error"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{}", self.told());
        for noise in ["panicked", "RUST_BACKTRACE", "stack backtrace", "WARN", "ERROR", SECRET] {
            assert!(!self.told().contains(noise), "'{noise}' is shown: {}", self.told());
        }
        self
    }

    /// Everything about it, for messages. A password in the command line itself is left out.
    pub(crate) fn told(&self) -> String {
        let words: Vec<_> = self.line.iter().map(|word| word.to_string_lossy().replace(SECRET, "SECRET")).collect();
        format!(
            "enlist {} ended with {}\n--- standard output\n{}--- standard error\n{}",
            words.join(" "),
            self.code,
            self.text(),
            self.stderr
        )
    }
}
