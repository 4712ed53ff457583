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
        handler.data(&bytes[..end]);
        handler.end();
        bytes = &bytes[end + 1..];
    }
    if !bytes.is_empty() {
        handler.data(bytes);
    }
}
