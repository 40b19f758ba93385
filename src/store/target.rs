//! Which database.
//!
//! Owns the reading of a database URL. It opens nothing. Invariant: neither `Display` nor `Debug` shows a
//! password.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::fault::{Code, Fault};

/// The kinds of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Embedded, one file.
    Sqlite,
    /// A server.
    Postgres,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// A database that can be opened.
#[derive(Clone)]
pub struct Target(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Sqlite { path: PathBuf, options: Box<SqliteConnectOptions> },
    Postgres(Box<PgConnectOptions>),
}

impl Target {
    /// Reads `sqlite:PATH`, `sqlite://PATH`, `postgres://…` or `postgresql://…`.
    ///
    /// Anything else is the fault `usage`; the message quotes no more than the scheme, because the rest may
    /// hold a password.
    pub fn parse(url: &str) -> Result<Self, Fault> {
        let url = url.trim();
        let unusable = |what: &str, hint: &'static str| Fault::new(Code::Usage, what).hint(hint);
        if url.starts_with("sqlite:") {
            if url.contains(":memory:") || url.contains("mode=memory") {
                return Err(unusable("an in-memory database would be gone at the end", "name a file: sqlite:PATH"));
            }
            let options = SqliteConnectOptions::from_str(url)
                .map_err(|_| unusable("the database URL after 'sqlite:' is not understood", "write sqlite:PATH"))?;
            let path = options.get_filename().to_path_buf();
            if path.as_os_str().is_empty() {
                return Err(unusable("the database URL 'sqlite:' names no file", "write sqlite:PATH"));
            }
            return Ok(Self(Kind::Sqlite { path, options: Box::new(options) }));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(url).map_err(|_| {
                unusable(
                    "the database URL after 'postgres://' is not understood",
                    "write postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters percent-encoded",
                )
            })?;
            return Ok(Self(Kind::Postgres(Box::new(options))));
        }
        let scheme: String = url.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '+').take(20).collect();
        let scheme = if url.contains(':') { format!("'{scheme}:'") } else { "a URL without a scheme".to_owned() };
        Err(unusable(
            &format!("{scheme} is no database that enlist knows"),
            "write sqlite:PATH or postgres://USER@HOST/DATABASE",
        ))
    }

    /// The SQLite database in a file.
    pub fn sqlite(path: &Path) -> Self {
        let options = SqliteConnectOptions::new().filename(path);
        Self(Kind::Sqlite { path: path.to_path_buf(), options: Box::new(options) })
    }

    /// The database by a name that is the same from every folder, without a password.
    pub fn place(&self) -> String {
        match &self.0 {
            Kind::Sqlite { path, .. } => std::fs::canonicalize(path)
                .or_else(|_| std::path::absolute(path))
                .map_or_else(|_| self.to_string(), |path| path.to_string_lossy().into_owned()),
            Kind::Postgres(_) => self.to_string(),
        }
    }

    /// Which engine it needs.
    pub fn engine(&self) -> Engine {
        match self.0 {
            Kind::Sqlite { .. } => Engine::Sqlite,
            Kind::Postgres(_) => Engine::Postgres,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Sqlite { path, .. } => write!(f, "SQLite {}", path.display()),
            Kind::Postgres(options) => {
                let database = options.get_database().unwrap_or(options.get_username());
                let place = match options.get_socket() {
                    Some(socket) => socket.display().to_string(),
                    None => format!("{}:{}", options.get_host(), options.get_port()),
                };
                write!(f, "PostgreSQL {}@{place}/{database}", options.get_username())
            }
        }
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let target = Target::parse("postgres://ayse:gizli@db.example:6543/lists").expect("a good URL");
        assert_eq!(target.to_string(), "PostgreSQL ayse@db.example:6543/lists");
        assert!(!format!("{target:?}").contains("gizli"));
        for bad in ["mysql://ayse:gizli@h/d", "postgres://ayse:gizli@h:port/d", "ayse:gizli"] {
            let fault = Target::parse(bad).map(|t| t.to_string()).expect_err(bad);
            assert!(!format!("{} {}", fault.message, fault.hint).contains("gizli"), "{bad}");
        }
    }

    #[test]
    fn a_sqlite_url_names_a_file() {
        for (url, path) in
            [("sqlite:a.db", "a.db"), ("sqlite:///tmp/a b.db", "/tmp/a b.db"), ("sqlite:/tmp/a%20b.db", "/tmp/a b.db")]
        {
            assert_eq!(Target::parse(url).expect(url).to_string(), format!("SQLite {path}"));
        }
        assert!(Target::parse("sqlite::memory:").is_err());
        assert!(Target::parse("sqlite:").is_err());
    }
}
