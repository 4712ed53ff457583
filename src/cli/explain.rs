//! `explain`: one recorded stream under every definition.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use super::{USAGE, complain};
use crate::report::{Format, explain, recorded};

/// Flags of `explain`.
#[derive(clap::Args, Debug)]
pub(super) struct ExplainArgs {
    /// The recording: JSON lines with `t_ns` and `b64`, a `.stream` file, or a plain event stream (then only n). `-` reads standard input
    #[arg(value_name = "STREAM")]
    stream: PathBuf,
    /// One profile instead of all
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// text, markdown or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// The request's path, where the recording does not hold it
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &ExplainArgs) -> ExitCode {
    match text(args) {
        Ok(text) => match std::io::stdout().lock().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            // A reader that had enough (`| head`) is no failure of ours.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(why) => {
            complain(why);
            ExitCode::from(USAGE)
        }
    }
}

fn text(args: &ExplainArgs) -> Result<String, String> {
    let name = args.stream.display();
    let bytes = read(args).map_err(|e| format!("{name}: {e}; give the path of a recording, or - for standard input"))?;
    let mut recorded = recorded::parse(&bytes).map_err(|e| format!("{name}: {e}"))?;
    if let Some(path) = &args.path {
        recorded.set_path(path);
    }
    let Some(rows) = explain::rows(&recorded, args.profile.as_deref()) else {
        let known: Vec<&str> = explain::names().collect();
        let asked = args.profile.as_deref().unwrap_or_default();
        return Err(format!("--profile {asked}: no such profile; use one of {}", known.join(", ")));
    };
    Ok(explain::render(&recorded, &rows, args.format))
}

fn read(args: &ExplainArgs) -> std::io::Result<Vec<u8>> {
    // One byte more than is taken, so that a file over the cap is told from one at it.
    let cap = recorded::MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    if args.stream.as_os_str() == "-" {
        std::io::stdin().lock().take(cap).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(&args.stream)?.take(cap).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
