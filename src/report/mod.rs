//! PURE: reports as data, then as text, Markdown or JSON.

pub mod explain;
mod http1;
mod own;
pub mod recorded;
mod stream_file;
mod table;

pub use table::{Align, Format, Table};
