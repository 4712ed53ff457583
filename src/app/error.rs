//! Why the proxy cannot run, and what to do about it.

use std::net::SocketAddr;
use std::{fmt, io};

use crate::config::Problem;

/// Why the proxy cannot run.
#[derive(Debug)]
pub enum AppError {
    /// Files that the configuration names cannot be used.
    Files(Vec<Problem>),
    /// An address cannot be bound.
    Bind {
        /// The configuration key that names it.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// No thread, or no runtime on it.
    Runtime(io::Error),
    /// The admin side ended by itself (its thread panicked: the reason is on standard error).
    AdminEnded,
}

impl fmt::Display for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(problems) => {
                let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("\n"))
            }
            Self::Bind { key, address, source } => {
                write!(f, "cannot listen on {address} (`{key}`): {source}")?;
                match source.kind() {
                    io::ErrorKind::AddrInUse => {
                        write!(
                            f,
                            "; stop the program that uses port {}, or choose another (port 0 picks one)",
                            address.port()
                        )
                    }
                    io::ErrorKind::PermissionDenied => write!(f, "; choose a port from 1024 on"),
                    io::ErrorKind::AddrNotAvailable => write!(f, "; no interface of this host has that address (0.0.0.0: all)"),
                    _ => Ok(()),
                }
            }
            Self::Runtime(source) => write!(f, "cannot start a runtime: {source}"),
            Self::AdminEnded => f.write_str("the admin side ended unexpectedly; the reason is above"),
        }
    }
}

impl std::error::Error for AppError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Bind { source, .. } | Self::Runtime(source) => Some(source),
            Self::AdminEnded | Self::Files(_) => None,
        }
    }
}
