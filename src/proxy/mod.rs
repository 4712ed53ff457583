//! The data path: client connections in, the upstream's replies out, byte for byte.

pub mod upstream;
