//! The configuration file, and where each value came from.
//!
//! Owns the file's place, keys and checks. It does not know what the values do. Invariant: a key that is
//! not known is an error, never ignored; the working directory is never looked at.

mod entry;
mod passes;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::alerting::{AlertConfig, refuse_others};
use crate::cli::notify::NotifyConfig;
use crate::cli::values;
use crate::fault::{Code, Fault};
use crate::job::LANES_MAX;
use crate::queue::PassTimes;

pub(crate) use entry::Entry;
pub(crate) use passes::PassConfig;

/// The environment as it was when the program began.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// A variable; an empty one counts as unset, as compose files leave them.
    pub(crate) fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(std::ffi::OsStr::new(name)).filter(|value| !value.is_empty())
    }

    /// An absolute folder from `$XDG_…`, else below `$HOME`; relative ones are ignored, as XDG asks.
    pub(crate) fn folder(&self, xdg: &str, below_home: &str) -> Option<PathBuf> {
        let absolute = |name| self.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute(xdg).or_else(|| Some(absolute("HOME")?.join(below_home)))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Variables {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An option of the command line.
    Flag(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// The configuration file.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => path.display().fmt(f),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Valued<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it came from.
    pub(crate) origin: Origin,
}

impl<T> Valued<T> {
    /// A value from somewhere.
    pub(crate) fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the configuration file says; `None` where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// `database_url`.
    pub(crate) database_url: Option<Valued<String>>,
    /// `database_url_file`; relative to the configuration file's folder.
    pub(crate) database_url_file: Option<Valued<PathBuf>>,
    /// `claims_url`.
    pub(crate) claims_url: Option<Valued<String>>,
    /// `[alerts]`.
    pub(crate) alerts: AlertConfig,
    /// `region`.
    pub(crate) region: Option<Valued<String>>,
    /// `batch_size`.
    pub(crate) batch_size: Option<Valued<u32>>,
    /// `writers`.
    pub(crate) writers: Option<Valued<u16>>,
    /// `lease`.
    pub(crate) lease: Option<Valued<Duration>>,
    /// `max_connections`.
    pub(crate) max_connections: Option<Valued<u32>>,
    /// `log_format`.
    pub(crate) log_format: Option<Valued<LogFormat>>,
    /// `color`.
    pub(crate) color: Option<Valued<Color>>,
    /// `progress`.
    pub(crate) progress: Option<Valued<bool>>,
    /// `[notify]`.
    pub(crate) notify: NotifyConfig,
    /// `[passes]` and `[retention]`.
    pub(crate) passes: PassConfig,
}

/// The keys of the file.
const KEYS: [&str; 15] = [
    "database_url",
    "database_url_file",
    "claims_url",
    "alerts",
    "region",
    "batch_size",
    "writers",
    "lease",
    "max_connections",
    "log_format",
    "color",
    "progress",
    "notify",
    "passes",
    "retention",
];

impl Config {
    /// Reads `--config`, else the user's file, else the machine's; none of them is also an answer.
    pub(crate) fn load(flag: Option<&Path>, variables: &Variables) -> Result<Self, Fault> {
        if let Some(path) = flag {
            return match File::open(path) {
                Ok(file) => Self::read(&file, path),
                Err(error) => Err(unreadable(path, &error)),
            };
        }
        let user = variables.folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("enlist/enlist.toml"));
        for path in user.into_iter().chain([PathBuf::from("/etc/enlist/enlist.toml")]) {
            match File::open(&path) {
                Ok(file) => return Self::read(&file, &path),
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(unreadable(&path, &error)),
            }
        }
        Ok(Self::default())
    }

    /// Reads the file; one that defines a command to run is refused when others may write it.
    fn read(file: &File, path: &Path) -> Result<Self, Fault> {
        let text = std::io::read_to_string(file).map_err(|error| unreadable(path, &error))?;
        let config = Self::parse(&text, path)?;
        if config.alerts.sinks.command.is_some() {
            let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
            refuse_others(&metadata, path)?;
        }
        Ok(config)
    }

    /// What `text`, which stands at `path`, says.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, Fault> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count());
            Fault::new(Code::Config, format!("line {line} of '{}' is no TOML: {}", path.display(), error.message()))
        })?;
        let mut config = Self { file: Some(path.to_owned()), ..Self::default() };
        for (key, value) in &table {
            let entry = Entry { path, key, value };
            match key.as_str() {
                "database_url" => config.database_url = Some(entry.text(|text| Ok(text.to_owned()))?),
                "database_url_file" => {
                    let folder = path.parent().unwrap_or(Path::new(""));
                    config.database_url_file = Some(entry.text(|text| Ok(folder.join(text)))?);
                }
                "claims_url" => config.claims_url = Some(entry.text(|text| Ok(text.to_owned()))?),
                "alerts" => config.alerts = AlertConfig::parse(value, path)?,
                "region" => config.region = Some(entry.text(values::region)?),
                "batch_size" => config.batch_size = Some(entry.number(1, u32::MAX)?),
                "writers" => config.writers = Some(entry.number(1, LANES_MAX)?),
                "lease" => config.lease = Some(entry.text(values::lease)?),
                "max_connections" => config.max_connections = Some(entry.number(1, u32::MAX)?),
                "log_format" => config.log_format = Some(entry.word()?),
                "color" => config.color = Some(entry.word()?),
                "progress" => config.progress = Some(entry.switch()?),
                "notify" => config.notify = NotifyConfig::parse(&entry)?,
                "passes" => config.passes.read_times(&entry)?,
                "retention" => config.passes.read_retention(&entry)?,
                _ => return Err(entry.unknown(&KEYS)),
            }
        }
        if config.database_url.is_some() && config.database_url_file.is_some() {
            let message = format!("'{}' sets both database_url and database_url_file", path.display());
            return Err(Fault::new(Code::Config, message).hint("keep one of them"));
        }
        Ok(config)
    }
}

impl Config {
    /// When the scheduled passes run, and how long things are kept.
    pub(crate) fn pass_times(&self) -> PassTimes {
        self.passes.times()
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Fault {
    Fault::new(Code::Config, format!("the configuration '{}' cannot be read: {error}", path.display()))
        .hint("check the path and its permissions, or name another file with --config")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Fault> {
        Config::parse(text, Path::new("/etc/enlist/enlist.toml"))
    }

    #[test]
    fn every_key_is_read_and_remembers_its_file() {
        let config = parse(
            "database_url_file = 'url'\nregion = 'tr'\nbatch_size = 500\nwriters = 2\nlease = '1m'\n\
             max_connections = 9\nlog_format = 'json'\ncolor = 'never'\nprogress = false\n",
        )
        .unwrap();
        let origin = Origin::File("/etc/enlist/enlist.toml".into());
        assert_eq!(config.region, Some(Valued::new("TR".to_owned(), origin.clone())));
        assert_eq!(config.lease.unwrap().value, Duration::from_secs(60));
        assert_eq!(config.database_url_file.unwrap().value, Path::new("/etc/enlist/url"));
        assert_eq!(config.log_format.unwrap().value, LogFormat::Json);
        assert_eq!(config.progress, Some(Valued::new(false, origin)));
    }

    #[test]
    fn unknown_keys_name_their_neighbour_and_wrong_values_their_shape() {
        assert_eq!(parse("databse_url = 'x'").unwrap_err().hint, "did you mean 'database_url'?");
        for wrong in ["writers = 0", "writers = 65", "writers = '2'", "lease = '10ms'", "color = 'pink'", "region ="] {
            assert_eq!(parse(wrong).unwrap_err().code, Code::Config, "{wrong}");
        }
        assert!(parse("a = 1\n[[").unwrap_err().message.contains("line 2"));
        assert!(parse("database_url = 'a'\ndatabase_url_file = 'b'").is_err());
    }

    #[test]
    fn folders_are_absolute_or_below_home() {
        let variables = Variables::from([("XDG_DATA_HOME", "relative"), ("HOME", "/home/a")]);
        assert_eq!(variables.folder("XDG_DATA_HOME", ".local/share"), Some("/home/a/.local/share".into()));
        let variables = Variables::from([("XDG_DATA_HOME", "/data"), ("HOME", "")]);
        assert_eq!(variables.folder("XDG_DATA_HOME", ".local/share"), Some("/data".into()));
        assert_eq!(variables.folder("XDG_CONFIG_HOME", ".config"), None);
    }

    #[test]
    fn a_named_file_that_is_missing_is_an_error() {
        let missing = Path::new("/nonexistent/enlist.toml");
        assert_eq!(Config::load(Some(missing), &Variables::default()).unwrap_err().code, Code::Config);
    }
}
