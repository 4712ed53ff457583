//! Passing over what nobody watches.

use super::{CHECKED_NESTING, Scanner, State, bytes, text};

impl Scanner {
    /// Passes over an unwatched container, from anywhere inside it but a string.
    pub(super) fn skip(&mut self, bytes: &[u8], mut at: usize) -> usize {
        loop {
            at = bytes::bracket_or_quote(bytes, at);
            let Some(&byte) = bytes.get(at) else { return at };
            at += 1;
            match byte {
                b'"' => {
                    let end = bytes::string_end(bytes, at);
                    if bytes.get(end) != Some(&b'"') {
                        self.text.start(text::Role::Skipped);
                        return self.go(State::Text, at);
                    }
                    at = end + 1;
                }
                b'{' | b'[' => {
                    if self.skip_depth < CHECKED_NESTING {
                        let bit = 1 << self.skip_depth;
                        self.skip_kinds = if byte == b'{' {
                            self.skip_kinds | bit
                        } else {
                            self.skip_kinds & !bit
                        };
                    }
                    self.skip_depth = self.skip_depth.saturating_add(1);
                }
                _ => {
                    self.skip_depth -= 1;
                    let was_object = self.skip_kinds >> self.skip_depth.min(CHECKED_NESTING - 1) & 1 == 1;
                    if self.skip_depth < CHECKED_NESTING && was_object != (byte == b'}') {
                        return self.go(State::Error, at);
                    }
                    if self.skip_depth == 0 {
                        self.value_done();
                        return at;
                    }
                }
            }
        }
    }
}
