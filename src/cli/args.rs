//! The flags that make a configuration.

use std::path::PathBuf;

use clap::Args;

use crate::config::{FILE_VARIABLE, File, Flag, Problem, Sources};

/// Flags of `run`, `check` and `healthcheck`. Values stay text: the configuration check reads them, so that a wrong flag is
/// reported together with everything else.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ConfigArgs {
    /// Configuration file, YAML or TOML [environment: GOODPUT__CONFIG]; without one, the built-in defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Traffic address [default: 0.0.0.0:8080]; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The model server [default: http://127.0.0.1:8000]: http://host:port, https://host:port or unix:/path
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Address of metrics and probes [default: 0.0.0.0:9464]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// One SLO for every LLM route that has none: "ttft:500 tpot:15 e2el:2000" (ms) or "ttft=500ms,tpot=15ms,e2e=2s"
    #[arg(long, value_name = "SPEC")]
    slo: Option<String>,
    /// The share of requests that should be good [default: 0.99]
    #[arg(long, value_name = "RATIO")]
    objective: Option<String>,
    /// text or json [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log filter [default: info]; also RUST_LOG
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
}

impl ConfigArgs {
    /// The configuration file, if one is named here or in `environment`.
    pub(super) fn file(&self, environment: &[(String, String)]) -> Option<PathBuf> {
        let variable = || {
            let named = |(name, value): &&(String, String)| name.to_uppercase() == FILE_VARIABLE && !value.is_empty();
            environment.iter().find(named).map(|(_, path)| path.into())
        };
        self.config.clone().or_else(variable)
    }

    /// These flags, the file, and `environment`; and why the file could not be read, where that is so.
    pub(super) fn sources(&self, environment: Vec<(String, String)>) -> (Sources, Option<Problem>) {
        let read = self.file(&environment).map(|path| File::read(&path)).transpose();
        let (file, unread) = match read {
            Ok(file) => (file, None),
            Err(problem) => (None, Some(problem)),
        };
        let flags = [
            ("--listen", "listen", &self.listen),
            ("--upstream", "upstream.url", &self.upstream),
            ("--admin", "admin", &self.admin),
            ("--slo", "slo", &self.slo),
            ("--objective", "objective", &self.objective),
            ("--log-format", "log.format", &self.log_format),
            ("--log-level", "log.level", &self.log_level),
        ];
        let flags = flags.into_iter().filter_map(|(name, key, value)| {
            Some(Flag {
                name,
                key,
                value: value.clone()?,
            })
        });
        let sources = Sources {
            file,
            environment,
            flags: flags.collect(),
        };
        (sources, unread)
    }
}
