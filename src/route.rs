//! PURE: which route a request belongs to.
