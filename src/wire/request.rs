//! Reads a request body as it streams by.

use super::RequestFacts;

/// Gathers [`RequestFacts`] in constant memory, whatever the body's size and key order.
#[derive(Debug)]
pub struct RequestScanner {
    facts: RequestFacts,
}

impl RequestScanner {
    /// A scanner for a body with these headers.
    pub fn new(content_type: Option<&str>, content_encoding: Option<&str>) -> Self {
        let _ = (content_type, content_encoding);
        Self {
            facts: RequestFacts::default(),
        }
    }

    /// Body bytes on their way to the upstream.
    pub fn feed(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// What the body has said so far.
    pub fn facts(&self) -> RequestFacts {
        self.facts.clone()
    }
}
