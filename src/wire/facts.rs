//! Under construction.

/// Compiled tables.
#[derive(Debug)]
pub(crate) struct Tables {}
