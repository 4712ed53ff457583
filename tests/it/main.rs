//! One integration binary: links once.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used)] // helpers of tests panic as the tests do

mod cancel;
mod chaos;
mod cli;
mod config;
mod demo;
mod dependencies;
mod deploy;
mod explain;
mod exposition;
mod faults;
mod formats;
mod goodput;
mod inject;
mod layering;
mod limits;
mod measured;
mod own_replies;
mod priority;
mod profiles;
mod readme;
mod reload;
mod rig;
mod timing;
mod tls;
