//! What a scan hands on.

/// A scalar at a watched path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A number.
    Number {
        /// Its value, when written as a non-negative integer that fits.
        integer: Option<u64>,
        /// Whether it is zero in any spelling.
        zero: bool,
    },
    /// A string.
    Text {
        /// Bytes between the quotes as written on the wire.
        len: u64,
        /// The decoded text; none past [`MAX_TEXT`] bytes.
        text: Option<&'a [u8]>,
    },
}

/// Object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    /// `{}`.
    Object,
    /// `[]`.
    Array,
}

/// Takes what stands at the watched paths, in the order of the input.
pub(crate) trait Visitor<A> {
    /// A scalar.
    fn scalar(&mut self, act: A, value: Scalar<'_>);
    /// An object or array begins; what is watched in it follows.
    fn open(&mut self, act: A, container: Container);
    /// It ended with `len` members or elements.
    fn close(&mut self, act: A, container: Container, len: u64);
}
