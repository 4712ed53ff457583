//! The command line: which command, its flags, and the exit code.

mod args;
mod check;
mod demo;
mod explain;
mod healthcheck;
mod run;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::config::{Config, Problem, Sources};
use crate::reload::Origin;
use args::ConfigArgs;

/// Exit code of a usage or configuration error.
const USAGE: u8 = 2;

const AFTER_HELP: &str = "Every flag is also a key of the configuration file and an environment variable GOODPUT__SECTION__KEY; \
a flag stands above the environment, the environment above the file.

Exit codes: 0 clean stop, 1 failure at run time, 2 usage or configuration, 130 interrupted twice.";

/// A transparent streaming reverse proxy that measures TTFT, TPOT, ITL, E2E and goodput of live LLM traffic.
#[derive(Debug, Parser)]
#[command(name = "goodput-proxy", version, about, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxy (the default command)
    Run(ConfigArgs),
    /// Read the configuration, print every problem, exit 0 or 2
    Check(ConfigArgs),
    /// A simulated engine and traffic around the real proxy: a first look, nothing else needed
    Demo(demo::DemoArgs),
    /// Replay a recorded stream under every definition: each tool's TTFT, TPOT or ITL, E2E and n, with the formulas
    Explain(explain::ExplainArgs),
    /// Exit 0 when the local admin endpoint is live (for compose files and exec probes), else 1
    Healthcheck(ConfigArgs),
}

/// The names of all commands.
pub fn commands() -> Vec<String> {
    let names = Cli::command();
    names.get_subcommands().map(|c| c.get_name().to_owned()).collect()
}

/// Runs the command that `arguments` (the program's name first) ask for.
pub fn main<A>(arguments: impl IntoIterator<Item = A>) -> ExitCode
where
    A: Into<std::ffi::OsString> + Clone,
{
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is no reason to fail twice.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match cli.command.unwrap_or(Command::Run(cli.run)) {
        Command::Run(args) => with_sources(&args, |config, sources| {
            let path = args.file(&sources.environment);
            run::run(
                config,
                Origin {
                    path,
                    sources,
                    ..Origin::default()
                },
            )
        }),
        Command::Check(args) => with_config(&args, check::run),
        Command::Demo(args) => demo::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Healthcheck(args) => with_config(&args, healthcheck::run),
    }
}

/// Loads the configuration and goes on with it, or prints every problem.
fn with_config(args: &ConfigArgs, then: impl FnOnce(Config) -> ExitCode) -> ExitCode {
    with_sources(args, |config, _| then(config))
}

/// As [`with_config`], with what the configuration was made of.
fn with_sources(args: &ConfigArgs, then: impl FnOnce(Config, Sources) -> ExitCode) -> ExitCode {
    let (sources, unread) = args.sources(Sources::process_environment());
    match (Config::load(&sources), unread) {
        (Ok(config), None) => then(config, sources),
        (loaded, unread) => {
            // A file that cannot be read hides no problem of flags and environment.
            let problems: Vec<Problem> = unread.into_iter().chain(loaded.err().unwrap_or_default()).collect();
            report(&problems);
            ExitCode::from(USAGE)
        }
    }
}

fn report(problems: &[Problem]) {
    for problem in problems {
        complain(problem);
    }
    let (count, noun) = (problems.len(), if problems.len() == 1 { "problem" } else { "problems" });
    complain(format_args!("{count} {noun} in the configuration"));
}

/// One line for people on standard error; a closed one is nobody's loss.
fn complain(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// One line on standard output.
fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
