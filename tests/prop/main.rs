//! Property tests: parts of the pure ring against slow, obvious models.

mod accounting;
mod aggregate;
mod wire;
