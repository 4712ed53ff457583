//! PURE: reports as data, then as text, Markdown or JSON.

mod http1;
pub mod recorded;
mod table;

pub use table::{Align, Format, Table};
