//! Lines of JSON, framed without keeping them. A line ends with LF (a CR before it is white space to JSON); the last line counts
//! without one, when the body ends cleanly.

use memchr::memchr;

/// Takes what the lines say.
pub(crate) trait Handler {
    /// A piece of the line.
    fn data(&mut self, bytes: &[u8]);
    /// The line is complete; it may be blank.
    fn end(&mut self);
}

/// Hands on the pieces and ends of the lines in `bytes`.
#[inline]
pub(crate) fn feed<H: Handler>(mut bytes: &[u8], handler: &mut H) {
    while let Some(end) = memchr(b'\n', bytes) {
        if end > 0 {
            handler.data(&bytes[..end]);
        }
        handler.end();
        bytes = &bytes[end + 1..];
    }
    if !bytes.is_empty() {
        handler.data(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Lines {
        ended: Vec<String>,
        open: String,
    }

    impl Handler for Lines {
        fn data(&mut self, bytes: &[u8]) {
            self.open.push_str(std::str::from_utf8(bytes).expect("ASCII"));
        }

        fn end(&mut self) {
            self.ended.push(std::mem::take(&mut self.open));
        }
    }

    // P068
    #[test]
    fn lines_are_told_apart_wherever_they_are_cut() {
        let body = b"one\r\n\ntwo\nthree";
        for cut in 0..=body.len() {
            let mut lines = Lines::default();
            feed(&body[..cut], &mut lines);
            feed(&body[cut..], &mut lines);
            assert_eq!(lines.ended, ["one\r", "", "two"]);
            assert_eq!(lines.open, "three");
        }
    }
}
