//! One integration binary: links once.
#![allow(missing_docs)]

mod config;
mod exposition;
mod formats;
mod profiles;
