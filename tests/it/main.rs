//! One integration binary: links once.
#![allow(missing_docs)]

mod exposition;
mod formats;
mod profiles;
