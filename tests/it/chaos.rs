//! A short chaos run on each way; the long one is `cargo run --release --example chaos`.

#[path = "../chaos/mod.rs"]
mod run;

use std::time::Duration;

use run::Size;
use run::process::Program;

#[test]
fn chaos_disturbs_nobody_else_and_leaves_nothing_behind() {
    let program = Program {
        path: env!("CARGO_BIN_EXE_goodput-proxy").into(),
        arguments: Vec::new(),
    };
    let size = Size {
        clients: 60,
        wave: Duration::from_secs(2),
        waves: 2,
        calm_ms: 500,
        reloads: false,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for relay in [true, false] {
        println!("{}", runtime.block_on(run::run(&program, relay, 7, size)));
    }
}
