//! The long chaos run: `cargo run --release --example chaos -- [--minutes N] [--clients N] [--seed N] [--reloads]
//! [--proxy PATH]`.
//!
//! Half the time over the relay, half over the full server. The proxy is this program once more, as a process of its own, or
//! the one at PATH.

#[path = "mod.rs"]
mod chaos;

use std::process::ExitCode;
use std::time::Duration;

use chaos::process::Program;
use chaos::{Size, run};

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "proxy") {
        arguments.remove(1);
        return goodput_proxy::cli::main(arguments);
    }
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let given = arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
        given.map_or(default, |n| {
            n.parse().unwrap_or_else(|_| panic!("{name} takes a number, not {n}"))
        })
    };
    let (minutes, clients) = (number("--minutes", 5), number("--clients", 300));
    let seed = number("--seed", std::process::id().into());
    let waves = (minutes as usize).max(1);
    let size = Size {
        clients: clients as usize,
        wave: Duration::from_secs(minutes * 60) / (2 * waves as u32),
        waves,
        calm_ms: 2000,
        reloads: arguments.iter().any(|a| a == "--reloads"),
    };
    let program = Program::chosen(&arguments);
    println!("seed {seed}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for relay in [true, false] {
        println!("{}", runtime.block_on(run(&program, relay, seed, size)));
    }
    ExitCode::SUCCESS
}
