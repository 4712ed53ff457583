//! What was written, where: file, environment and flags merged into one loose tree. Nothing is typed here; leaves stay scalars that
//! remember their source, so that the check can report every problem in one run.
//!
//! Flag over `GOODPUT__SECTION__KEY` over file. The prefix ends in two underscores since Kubernetes injects `GOODPUT_PORT=tcp://…`
//! for a Service named `goodput`. An empty variable counts as unset.

use std::collections::HashMap;
use std::path::Path;

use config::{Environment, FileFormat, Source, Value, ValueKind};

use super::keys;
use super::problem::{Problem, Wrong, did_you_mean, quoted};

/// Largest configuration file read, bytes.
const MAX_FILE: u64 = 1 << 20;

/// What every variable's name begins with.
const PREFIX: &str = "GOODPUT__";

/// Names the configuration file, as `--config` does.
pub const FILE_VARIABLE: &str = "GOODPUT__CONFIG";

/// The `config` crate's name for the environment as a source.
const ENVIRONMENT: &str = "the environment";

/// Everything a configuration is made of.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file, if one was named.
    pub file: Option<File>,
    /// Environment variables; only `GOODPUT__…` and `RUST_LOG` are looked at.
    pub environment: Vec<(String, String)>,
    /// Flags given.
    pub flags: Vec<Flag>,
}

/// A configuration file's text.
#[derive(Clone, Debug)]
pub struct File {
    /// Name, for problems.
    pub name: String,
    /// Content.
    pub text: String,
    /// Its language.
    pub syntax: Syntax,
}

/// The language of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `.yaml`, `.yml`
    Yaml,
    /// `.toml`
    Toml,
}

/// A flag given on the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// As typed: `--listen`.
    pub name: &'static str,
    /// The key it sets.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

impl Sources {
    /// The process's environment, as far as it is ours.
    pub fn process_environment() -> Vec<(String, String)> {
        std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .filter(|(name, _)| name.to_uppercase().starts_with(PREFIX) || name == "RUST_LOG")
            .collect()
    }
}

impl File {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let name = path.display().to_string();
        let wrong = |what: String, right: &str| Problem::new(name.clone(), "", Wrong::new(what, right));
        let syntax = match path.extension().and_then(|e| e.to_str()) {
            Some("yaml" | "yml") => Syntax::Yaml,
            Some("toml") => Syntax::Toml,
            _ => {
                return Err(wrong(
                    "the file's name says neither YAML nor TOML".to_owned(),
                    "call it `.yaml`, `.yml` or `.toml`",
                ));
            }
        };
        let readable = "name a file that can be read";
        let size = std::fs::metadata(path).map_err(|e| wrong(e.to_string(), readable))?.len();
        if size > MAX_FILE {
            return Err(wrong(format!("the file has {size} bytes"), "keep it within 1 MiB"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => wrong("is not UTF-8 text".to_owned(), "save it as UTF-8"),
            _ => wrong(error.to_string(), readable),
        })?;
        Ok(Self { name, text, syntax })
    }
}

/// Merges the sources; what cannot be merged is reported and left out.
pub(super) fn merge(sources: &Sources) -> (Value, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut builder = config::Config::builder();
    if let Some(file) = &sources.file {
        match parse(file) {
            Ok(table) => builder = builder.add_source(Table(table)),
            Err(problem) => problems.push(problem),
        }
    }
    let set = |name: &str| sources.environment.iter().find(|(n, value)| n == name && !value.is_empty());
    if let Some((_, level)) = set("RUST_LOG") {
        builder = builder.add_source(leaf("RUST_LOG (environment)", "log.level", level));
    }
    let (variables, unknown) = variables(&sources.environment);
    problems.extend(unknown);
    let environment = Environment::with_prefix("GOODPUT")
        .prefix_separator("__")
        .separator("__")
        .ignore_empty(true);
    builder = builder.add_source(environment.source(Some(variables)));
    for flag in &sources.flags {
        builder = builder.add_source(leaf(flag.name, flag.key, &flag.value));
    }
    match builder.build() {
        Ok(merged) => (merged.cache, problems),
        Err(error) => {
            problems.push(Problem::new(
                "configuration",
                "",
                Wrong::new(error.to_string(), "mend or leave out that source"),
            ));
            (Value::new(None, HashMap::<String, Value>::new()), problems)
        }
    }
}

/// The name by which a person knows the key at `path` that came from `origin`.
pub(super) fn place(path: &str, origin: Option<&str>) -> String {
    match origin {
        None => path.to_owned(),
        Some(ENVIRONMENT) => format!("{PREFIX}{} (environment)", path.to_uppercase().replace('.', "__")),
        Some(other) => other.to_owned(),
    }
}

/// A table of values as a source of its own.
#[derive(Clone, Debug)]
struct Table(HashMap<String, Value>);

impl Source for Table {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<HashMap<String, Value>, config::ConfigError> {
        Ok(self.0.clone())
    }
}

fn leaf(origin: &str, key: &str, value: &str) -> Table {
    Table(HashMap::from([(
        key.to_owned(),
        Value::new(Some(&origin.to_owned()), ValueKind::String(value.to_owned())),
    )]))
}

fn parse(file: &File) -> Result<HashMap<String, Value>, Problem> {
    let format = match file.syntax {
        Syntax::Yaml => FileFormat::Yaml,
        Syntax::Toml => FileFormat::Toml,
    };
    // A file that holds comments only is an empty configuration; the YAML reader takes it for a null document.
    let blank = file
        .text
        .lines()
        .all(|line| line.trim_start().is_empty() || line.trim_start().starts_with('#'));
    let text = if blank { "" } else { file.text.as_str() };
    config::File::from_str(text, format).collect().map_err(|error| {
        let why = match error {
            config::ConfigError::FileParse { cause, .. } => cause.to_string(),
            other => other.to_string(),
        };
        let language = if file.syntax == Syntax::Yaml { "YAML" } else { "TOML" };
        // The YAML reader names a key that is there twice as its own type prints it.
        let named = why.strip_prefix("String(\"").and_then(|rest| rest.split_once("\"): "));
        let why = named.map_or_else(|| why.clone(), |(key, what)| format!("`{key}`: {what}"));
        let what = format!("is not a {language} table: {}", why.trim_end());
        Problem::new(file.name.clone(), "", Wrong::new(what, "mend the syntax there"))
    })
}

/// The variables that name a key, and a problem for each that doesn't.
fn variables(environment: &[(String, String)]) -> (HashMap<String, String>, Vec<Problem>) {
    let (mut known, mut problems) = (HashMap::new(), Vec::new());
    for (name, value) in environment {
        let upper = name.to_uppercase();
        let Some(path) = upper.strip_prefix(PREFIX).map(|rest| rest.to_lowercase().replace("__", ".")) else {
            continue;
        };
        if value.is_empty() || upper == FILE_VARIABLE {
            continue;
        }
        let mut wrong = |what: &str, right: String| {
            problems.push(Problem::new(
                format!("{name} (environment)"),
                quoted(value),
                Wrong::new(what, right),
            ));
        };
        if keys::find(&path).is_some() {
            known.insert(upper, value.clone());
        } else if path == "routes" || path.starts_with("routes.") {
            wrong(
                "routes cannot be set in the environment",
                "write them in the file; one SLO for all: GOODPUT__SLO".to_owned(),
            );
        } else if let Some(child) = keys::children(&path).first() {
            wrong(
                "is a section",
                format!("set one of its keys, as in {upper}__{}", child.to_uppercase()),
            );
        } else {
            let leaves = keys::keys().iter().map(|key| key.path).filter(|path| !path.contains('['));
            let right = match did_you_mean(&path, leaves) {
                Some(close) => format!("did you mean {PREFIX}{}?", close.to_uppercase().replace('.', "__")),
                None => "leave it out".to_owned(),
            };
            wrong("no key has this name", right);
        }
    }
    problems.sort_by(|a, b| a.path.cmp(&b.path));
    (known, problems)
}
