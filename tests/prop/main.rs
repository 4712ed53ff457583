//! Property tests: parts of the pure ring against slow, obvious models, and the data path against itself.
#![allow(missing_docs, clippy::unwrap_used)] // helpers of tests panic as the tests do

mod accounting;
mod aggregate;
mod fuzz;
#[path = "../it/rig/mod.rs"]
mod rig;
mod transparent;
mod wire;
