//! Which database a command works on.
//!
//! Owns the order in which it is chosen and the folder of the default one. It does not know what is in the
//! database. Invariant: a URL with its password is never shown.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::cli::config::{Config, Origin, Valued, Variables};
use crate::fault::{Code, Fault};
use crate::store::Target;

/// The database options of the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags<'a> {
    /// `--database-url`.
    pub(crate) url: Option<&'a str>,
    /// `--database-url-file`.
    pub(crate) url_file: Option<&'a Path>,
}

/// The database that was chosen.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// Which one.
    pub(crate) target: Target,
    /// Who named it.
    pub(crate) origin: Origin,
    /// The file of the default database, which enlist's own folder holds.
    pub(crate) own_file: Option<PathBuf>,
}

/// The variable that other programs of an application share; it is trusted only after a look.
pub(crate) const SHARED_VARIABLE: &str = "DATABASE_URL";

impl Choice {
    /// Follows the order: option, `ENLIST_DATABASE_URL(_FILE)`, configuration file, `DATABASE_URL`, own file.
    pub(crate) fn make(flags: &Flags<'_>, variables: &Variables, config: &Config) -> Result<Self, Fault> {
        match named(flags, variables, config)? {
            Some(Valued { value, origin }) => {
                let target = Target::parse(value.trim()).map_err(|fault| {
                    let message = format!("{} (from {origin})", fault.message);
                    let fault = Fault { message, ..fault };
                    // It was set for another program, so the remedy is not to mend it.
                    let is_shared = origin == Origin::Variable(SHARED_VARIABLE);
                    if is_shared { fault.hint("name enlist's own database with --database-url") } else { fault }
                })?;
                Ok(Self { target, origin, own_file: None })
            }
            None => {
                let folder = variables.folder("XDG_DATA_HOME", ".local/share").ok_or_else(|| {
                    Fault::new(
                        Code::Config,
                        "no database is named, and neither HOME nor XDG_DATA_HOME says where one could be",
                    )
                    .hint("pass --database-url, for example sqlite:enlist.db")
                })?;
                let file = folder.join("enlist/enlist.db");
                Ok(Self { target: Target::sqlite(&file), origin: Origin::Default, own_file: Some(file) })
            }
        }
    }

    /// Whether enlist has to look first if the database is its own.
    pub(crate) fn is_shared(&self) -> bool {
        self.origin == Origin::Variable(SHARED_VARIABLE)
    }

    /// The answer when a shared database does not hold enlist's tables.
    pub(crate) fn not_ours(&self) -> Fault {
        let message = format!(
            "DATABASE_URL names {}, which does not hold enlist's tables and may belong to another application",
            self.target
        );
        Fault::new(Code::DatabaseNotFound, message).hint(
            "to use it, set ENLIST_DATABASE_URL to it or run 'enlist migrate --database-url \"$DATABASE_URL\"' once; \
             else name another database with --database-url",
        )
    }

    /// Makes the folder (0700) and the empty file (0600) of the default database, where they are missing.
    pub(crate) fn prepare(&self) -> Result<(), Fault> {
        let Some(file) = &self.own_file else { return Ok(()) };
        let unwritable = |error: std::io::Error| {
            Fault::new(Code::UnwritableFile, format!("the database '{}' cannot be created: {error}", file.display()))
        };
        if let Some(folder) = file.parent() {
            private_folder(folder).map_err(unwritable)?;
        }
        match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(unwritable(error)),
            _ => Ok(()),
        }
    }
}

/// Creates a folder that only its owner may enter, with its parents; an existing one stays as it is.
pub(crate) fn private_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The URL that someone named, in the order of the contract.
fn named(flags: &Flags<'_>, variables: &Variables, config: &Config) -> Result<Option<Valued<String>>, Fault> {
    if let Some(url) = flags.url {
        return Ok(Some(Valued::new(url.to_owned(), Origin::Flag("--database-url"))));
    }
    if let Some(path) = flags.url_file {
        return read_url(path, &Origin::Flag("--database-url-file")).map(Some);
    }
    match (variables.get("ENLIST_DATABASE_URL"), variables.get("ENLIST_DATABASE_URL_FILE")) {
        (Some(_), Some(_)) => {
            let message = "both ENLIST_DATABASE_URL and ENLIST_DATABASE_URL_FILE are set";
            return Err(Fault::new(Code::Config, message).hint("unset one of them"));
        }
        (Some(url), None) => {
            return Ok(Some(Valued::new(url.to_string_lossy().into_owned(), Origin::Variable("ENLIST_DATABASE_URL"))));
        }
        (None, Some(path)) => {
            return read_url(Path::new(path), &Origin::Variable("ENLIST_DATABASE_URL_FILE")).map(Some);
        }
        (None, None) => {}
    }
    if let Some(url) = &config.database_url {
        return Ok(Some(url.clone()));
    }
    if let Some(path) = &config.database_url_file {
        return read_url(&path.value, &path.origin).map(Some);
    }
    let shared = variables.get(SHARED_VARIABLE);
    Ok(shared.map(|url| Valued::new(url.to_string_lossy().into_owned(), Origin::Variable(SHARED_VARIABLE))))
}

fn read_url(path: &Path, origin: &Origin) -> Result<Valued<String>, Fault> {
    let wrong = |what: String| {
        Fault::new(Code::Config, format!("the database URL file '{}' (from {origin}) {what}", path.display()))
            .hint("it holds one line with the URL")
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    match text.trim() {
        "" => Err(wrong("is empty".to_owned())),
        url if url.lines().count() > 1 => Err(wrong("holds more than one line".to_owned())),
        url => Ok(Valued::new(url.to_owned(), origin.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(flags: &Flags<'_>, variables: &Variables, config: &Config) -> Origin {
        Choice::make(flags, variables, config).unwrap().origin
    }

    #[test]
    fn the_database_is_chosen_in_the_stated_order() {
        let file = Path::new("/etc/enlist/enlist.toml");
        let config = Config::parse("database_url = 'sqlite:c.db'", file).unwrap();
        let flags = Flags { url: Some("sqlite:f.db"), url_file: None };
        let all = Variables::from([
            ("ENLIST_DATABASE_URL", "sqlite:e.db"),
            ("DATABASE_URL", "sqlite:d.db"),
            ("HOME", "/home/a"),
        ]);
        let shared = Variables::from([("DATABASE_URL", "sqlite:d.db"), ("ENLIST_DATABASE_URL", "")]);
        let none = Flags::default();
        assert_eq!(origin(&flags, &all, &config), Origin::Flag("--database-url"));
        assert_eq!(origin(&none, &all, &config), Origin::Variable("ENLIST_DATABASE_URL"));
        assert_eq!(origin(&none, &shared, &config), Origin::File(file.to_owned()));
        assert_eq!(origin(&none, &shared, &Config::default()), Origin::Variable(SHARED_VARIABLE));
        let own = Choice::make(&none, &Variables::from([("HOME", "/home/a")]), &Config::default()).unwrap();
        assert_eq!(own.own_file.unwrap(), Path::new("/home/a/.local/share/enlist/enlist.db"));
        assert!(Choice::make(&none, &Variables::default(), &Config::default()).is_err());
    }

    #[test]
    fn a_url_file_holds_one_line_and_two_variables_are_a_conflict() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        std::fs::write(&path, "sqlite:x.db\n").unwrap();
        let flags = Flags { url: None, url_file: Some(&path) };
        assert_eq!(origin(&flags, &Variables::default(), &Config::default()), Origin::Flag("--database-url-file"));
        for wrong in ["", "\n", "a\nb"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(Choice::make(&flags, &Variables::default(), &Config::default()).is_err(), "{wrong:?}");
        }
        let both = Variables::from([("ENLIST_DATABASE_URL", "a"), ("ENLIST_DATABASE_URL_FILE", "b")]);
        let fault = Choice::make(&Flags::default(), &both, &Config::default()).unwrap_err();
        assert_eq!(fault.code, Code::Config);
    }

    #[test]
    fn the_default_database_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let variables = Variables::from([("XDG_DATA_HOME", home.path().to_str().unwrap())]);
        let choice = Choice::make(&Flags::default(), &variables, &Config::default()).unwrap();
        choice.prepare().unwrap();
        choice.prepare().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&home.path().join("enlist")), 0o700);
        assert_eq!(mode(&home.path().join("enlist/enlist.db")), 0o600);
    }
}
