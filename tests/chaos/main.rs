//! The long chaos run: `cargo run --release --example chaos -- [--minutes N] [--clients N] [--seed N] [--reloads]
//! [--proxy PATH]`.
//!
//! Half the time over the relay, half over the full server. The proxy is this program once more, as a process of its own, or
//! the one at PATH.

#[path = "mod.rs"]
mod chaos;

use std::process::ExitCode;
use std::time::Duration;

use chaos::arguments::Arguments;
use chaos::{Size, run};

fn main() -> ExitCode {
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(ended) => return ended,
    };
    let (minutes, clients) = (arguments.number("--minutes", 5), arguments.number("--clients", 300));
    let seed = arguments.number("--seed", std::process::id().into());
    let waves = (minutes as usize).max(1);
    let size = Size {
        clients: clients as usize,
        wave: Duration::from_secs(minutes * 60) / (2 * waves as u32),
        waves,
        calm_ms: 2000,
        reloads: arguments.has("--reloads"),
    };
    let program = arguments.program();
    println!("seed {seed}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for relay in [true, false] {
        println!("{}", runtime.block_on(run(&program, relay, seed, size)));
    }
    ExitCode::SUCCESS
}
