//! The program: parse the command line, run the command, hand on its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    goodput_proxy::cli::main(std::env::args_os())
}
