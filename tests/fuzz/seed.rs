//! Writes `corpus/<target>/` for every target: `cargo run --example seed`, from any folder.

mod seeds;

use std::fs;
use std::path::Path;

use goodput_proxy::fuzzing::TARGETS;

fn main() -> std::io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (target, _) in TARGETS {
        let corpus = here.join("corpus").join(target);
        fs::create_dir_all(&corpus)?;
        for (number, seed) in seeds::seeds(target, &here.join("../..")).iter().enumerate() {
            fs::write(corpus.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
