//! `goodput-proxy check`: what a valid configuration amounts to, in one line.

use std::process::ExitCode;

use super::{USAGE, report, say};
use crate::config::Config;
use crate::material::Material;

#[expect(clippy::needless_pass_by_value, reason = "every command takes the configuration over")]
pub(super) fn run(config: Config) -> ExitCode {
    if let Err(problems) = Material::load(&config) {
        report(&problems);
        return ExitCode::from(USAGE);
    }
    say(summary(&config));
    ExitCode::SUCCESS
}

/// Addresses, the number of routes, and the SLOs by route.
fn summary(config: &Config) -> String {
    let judged: Vec<String> = config
        .routes
        .iter()
        .filter(|route| !route.slos.is_empty())
        .map(|route| {
            let names: Vec<&str> = route.slos.iter().map(|slo| &*slo.name).collect();
            format!("{} ({})", route.name, names.join(", "))
        })
        .collect();
    let slos = if judged.is_empty() {
        "no SLO: nothing is judged".to_owned()
    } else {
        format!("SLOs: {}", judged.join(", "))
    };
    let (listen, admin, upstream) = (config.listen, config.admin, config.upstream.url());
    format!(
        "OK: {listen} -> {upstream}, admin {admin}; {} routes; {slos}",
        config.routes.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flag, Sources};

    #[test]
    fn the_summary_names_addresses_routes_and_slos() {
        assert_eq!(
            summary(&Config::default()),
            "OK: 0.0.0.0:8080 -> http://127.0.0.1:8000, admin 0.0.0.0:9464; 7 routes; no SLO: nothing is judged"
        );
        let slo = Flag {
            name: "--slo",
            key: "slo",
            value: "ttft:500".to_owned(),
        };
        let config = Config::load(&Sources {
            flags: vec![slo],
            ..Sources::default()
        })
        .unwrap();
        let judged = "chat (default), completions (default), responses (default), messages (default), generate (default)";
        assert!(
            summary(&config).ends_with(&format!("; 7 routes; SLOs: {judged}")),
            "{}",
            summary(&config)
        );
    }
}
