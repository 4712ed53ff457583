//! PURE: plain HTTP/1.1 heads, read where they lie and written on without what ends at this hop.
//!
//! A request head is either *plain* (nothing in it needs more than passing on) or left to the full server: this module never
//! answers, refuses or repairs. A response head is forwarded as it came, minus hop-by-hop fields.

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{Header, Status};

use super::chunked::Chunked;

/// More fields than this and the head is left to the full server (requests) or read by the larger table (responses).
const PLAIN_FIELDS: usize = 64;

/// Most response fields that can be read here at all; `upstream.max_headers` may be lower.
const RESPONSE_FIELDS: usize = 512;

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// No body.
    None,
    /// Bytes left.
    Length(u64),
    /// Chunked coding.
    Chunked(Chunked),
    /// Until the end of the connection.
    Eof,
}

/// A request head that only needs passing on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestHead {
    /// Bytes of the head, empty line included.
    pub(super) len: usize,
    /// Where the method lies.
    pub(super) method: Range<usize>,
    /// Where the target lies.
    pub(super) target: Range<usize>,
    /// Body bytes to come.
    pub(super) length: u64,
    /// The client asked to close after the reply.
    pub(super) close: bool,
    /// Lines that end here: where each lies, line end included.
    dropped: Option<Range<usize>>,
}

/// What the first bytes of a request are.
#[derive(Debug)]
pub(super) enum Request {
    /// Not a whole head yet.
    Partial,
    /// For the full server: another protocol, upgrade, expectation, coding, several framings, or malformed.
    NotPlain,
    /// Plain.
    Plain(RequestHead),
}

/// Where `part` lies in `whole`.
fn place(whole: &[u8], part: &[u8]) -> Range<usize> {
    let from = part.as_ptr() as usize - whole.as_ptr() as usize;
    from..from + part.len()
}

/// Whether every line of `head` ends in CRLF and no CR stands alone: what others could read differently is not plain.
fn lines_are_strict(head: &[u8]) -> bool {
    let Some((first, behind)) = head.split_first() else {
        return true;
    };
    // A CR wherever an LF follows, and nowhere else. Without a way out of the loop: many bytes at a time.
    let paired = head
        .iter()
        .zip(behind)
        .fold(true, |paired, (a, b)| paired & ((*a == b'\r') == (*b == b'\n')));
    paired && *first != b'\n' && head.last() != Some(&b'\r')
}

/// Reads the request head at the start of `buf`; `see` is shown it and its fields when it is plain.
pub(super) fn request(buf: &[u8], see: impl FnOnce(&RequestHead, &[Header<'_>])) -> Request {
    // Empty lines before the request line, or an HTTP/2 preface.
    if buf.first().is_some_and(|b| !b.is_ascii_uppercase()) || buf.starts_with(b"PRI ") {
        return Request::NotPlain;
    }
    let mut table = [const { MaybeUninit::uninit() }; PLAIN_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let len = match parsed.parse_with_uninit_headers(buf, &mut table) {
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) => return Request::Partial,
        Err(_) => return Request::NotPlain,
    };
    let (Some(method), Some(target), Some(1)) = (parsed.method, parsed.path, parsed.version) else {
        return Request::NotPlain;
    };
    if !matches!(method, "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS")
        || !target.starts_with('/')
        || !target.is_ascii()
        || target.contains('#')
        || !lines_are_strict(&buf[..len])
    {
        return Request::NotPlain;
    }
    let mut head = RequestHead {
        len,
        method: place(buf, method.as_bytes()),
        target: place(buf, target.as_bytes()),
        length: 0,
        close: false,
        dropped: None,
    };
    let (mut hosts, mut lengths) = (0, 0);
    for field in parsed.headers.iter() {
        match known(field.name) {
            Known::Host => {
                hosts += 1;
                if !crate::proxy::headers::is_host(field.value) {
                    return Request::NotPlain;
                }
            }
            Known::ContentLength => {
                lengths += 1;
                let Some(length) = number(field.value) else {
                    return Request::NotPlain;
                };
                head.length = length;
            }
            Known::Connection => {
                for token in tokens(field) {
                    if token.eq_ignore_ascii_case(b"close") {
                        head.close = true;
                    } else if !token.eq_ignore_ascii_case(b"keep-alive") && !token.eq_ignore_ascii_case(b"te") {
                        return Request::NotPlain;
                    }
                }
                if head.dropped.is_some() {
                    return Request::NotPlain;
                }
                head.dropped = Some(line(buf, field));
            }
            Known::Te if field.value.eq_ignore_ascii_case(b"trailers") => {}
            Known::Te | Known::Special => return Request::NotPlain,
            Known::Other => {}
        }
    }
    if hosts != 1 || lengths > 1 {
        return Request::NotPlain;
    }
    see(&head, parsed.headers);
    Request::Plain(head)
}

impl RequestHead {
    /// How much of the body lies in `read` behind the head, bytes.
    pub(super) fn ready(&self, read: &[u8]) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX).min(read.len() - self.len)
    }

    /// Takes the head, as it goes to the upstream, and the `ready` bytes of its body behind it out of `read`, which it begins.
    pub(super) fn take(&self, read: &mut Vec<u8>, ready: usize) -> Vec<u8> {
        let end = self.len + ready;
        // What came alone goes on as it lies.
        let rest = if read.len() > end { read.split_off(end) } else { Vec::new() };
        let mut first = std::mem::replace(read, rest);
        if let Some(line) = &self.dropped {
            first.drain(line.clone());
        }
        first
    }
}

/// The whole line of `field`, with its CRLF: lines are strict and values carry no line ends here.
fn line(buf: &[u8], field: &Header<'_>) -> Range<usize> {
    let start = place(buf, field.name.as_bytes()).start;
    let after = place(buf, field.value).end.max(start);
    let end = memchr::memchr(b'\n', &buf[after..]).map_or(buf.len(), |at| after + at + 1);
    start..end
}

enum Known {
    Host,
    ContentLength,
    Connection,
    Te,
    /// Needs more than passing on.
    Special,
    Other,
}

/// Sorts a request field by name; most are told apart by their length alone.
fn known(name: &str) -> Known {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        2 if is("te") => Known::Te,
        4 if is("host") => Known::Host,
        6 if is("expect") => Known::Special,
        7 if is("upgrade") || is("trailer") => Known::Special,
        10 if is("connection") => Known::Connection,
        10 if is("keep-alive") => Known::Special,
        14 if is("content-length") => Known::ContentLength,
        14 if is("http2-settings") => Known::Special,
        16 if is("proxy-connection") => Known::Special,
        17 if is("transfer-encoding") => Known::Special,
        _ => Known::Other,
    }
}

/// A strict decimal number: digits only.
fn number(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 18 {
        return None;
    }
    value
        .iter()
        .try_fold(0u64, |n, b| b.is_ascii_digit().then(|| n * 10 + u64::from(b - b'0')))
}

/// A response head, read and rewritten.
#[derive(Debug)]
pub(super) struct ResponseHead {
    /// Bytes of the head as it came.
    pub(super) len: usize,
    /// The status.
    pub(super) status: u16,
    /// How its body is framed towards us.
    pub(super) framing: Framing,
    /// The connection can serve another request after the body.
    pub(super) reusable: bool,
}

/// Why a response head cannot be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum BadHead {
    /// Not HTTP/1.x, or its framing cannot be told.
    Malformed,
    /// More bytes or fields than allowed.
    TooLarge,
}

/// How large a response head may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of the head.
    pub(super) bytes: usize,
    /// Its fields.
    pub(super) fields: usize,
}

/// What the first bytes of a response are.
pub(super) type Response = Result<Option<ResponseHead>, BadHead>;

/// Reads the response head at the start of `buf` and appends it to `out` as the client gets it; none while it is incomplete.
/// `see` is shown the fields of a head that is passed on, never of another: an answer of the proxy's own takes its place. A body
/// that ends with the connection leaves chunked, so that the client's connection survives.
pub(super) fn response(
    buf: &[u8],
    to_head_request: bool,
    close: bool,
    limits: Limits,
    out: &mut Vec<u8>,
    mut see: impl FnMut(u16, &[Header<'_>]),
) -> Response {
    let config = httparse::ParserConfig::default();
    let mut table = [const { MaybeUninit::uninit() }; PLAIN_FIELDS];
    let mut large;
    let mut parsed = httparse::Response::new(&mut []);
    let most = limits.fields.min(PLAIN_FIELDS);
    let mut outcome = config.parse_response_with_uninit_headers(&mut parsed, buf, &mut table[..most]);
    if outcome == Err(httparse::Error::TooManyHeaders) && limits.fields > PLAIN_FIELDS {
        large = [const { MaybeUninit::uninit() }; RESPONSE_FIELDS];
        let most = limits.fields.min(RESPONSE_FIELDS);
        outcome = config.parse_response_with_uninit_headers(&mut parsed, buf, &mut large[..most]);
    }
    let len = match outcome {
        Ok(Status::Complete(len)) if len > limits.bytes => return Err(BadHead::TooLarge),
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) if buf.len() > limits.bytes => return Err(BadHead::TooLarge),
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(BadHead::TooLarge),
        Err(_) => return Err(BadHead::Malformed),
    };
    let (Some(status @ 100..), Some(minor)) = (parsed.code, parsed.version) else {
        return Err(BadHead::Malformed);
    };
    let (mut ends, mut keep_alive, mut nominates) = (false, false, false);
    let (mut length, mut coded, mut chunked) = (None, false, false);
    for field in parsed.headers.iter() {
        if is(field, "content-length") {
            let n = number(field.value.trim_ascii()).ok_or(BadHead::Malformed)?;
            if length.replace(n).is_some_and(|before| before != n) {
                return Err(BadHead::Malformed);
            }
        } else if is(field, "transfer-encoding") {
            chunked = !coded && field.value.trim_ascii().eq_ignore_ascii_case(b"chunked");
            coded = true;
        } else if is(field, "connection") {
            for token in tokens(field) {
                if token.eq_ignore_ascii_case(b"close") {
                    ends = true;
                } else if token.eq_ignore_ascii_case(b"keep-alive") {
                    keep_alive = true;
                } else {
                    nominates = true;
                }
            }
        }
    }
    // HTTP/1.0 knows no transfer codings: whoever sends one is not trusted further.
    let mut reusable = !ends && (minor == 1 || (keep_alive && !coded));
    let bodiless = to_head_request || status < 200 || status == 204 || status == 304;
    let framing = if bodiless {
        Framing::None
    } else if coded {
        // Both framings: chunked wins and the connection is not used again (RFC 9112 6.3).
        reusable &= length.is_none();
        if !chunked {
            return Err(BadHead::Malformed);
        }
        Framing::Chunked(Chunked::default())
    } else {
        match length {
            Some(0) => Framing::None,
            Some(n) => Framing::Length(n),
            None => Framing::Eof,
        }
    };
    // A 204 has no body. One that announces it may send it all the same, where the next reply is expected.
    let surplus = status == 204 && (coded || length.is_some_and(|n| n > 0));
    reusable &= framing != Framing::Eof && !surplus;
    see(status, parsed.headers);

    // The head as it comes out, with what may be added and a small body beside it.
    out.reserve(buf.len() + 64);
    let mut length_written = false;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[
        b'0' + (status / 100) as u8,
        b'0' + (status / 10 % 10) as u8,
        b'0' + (status % 10) as u8,
        b' ',
    ]);
    out.extend_from_slice(parsed.reason.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    for field in parsed.headers.iter() {
        let name = field.name;
        let drop = match name.len() {
            7 => is(field, "upgrade"),
            10 => is(field, "connection") || is(field, "keep-alive"),
            // Said twice, it goes on once (RFC 9112 6.3).
            14 if is(field, "content-length") => coded || std::mem::replace(&mut length_written, true),
            16 => is(field, "proxy-connection"),
            _ => false,
        };
        if !(drop || nominates && is_nominated(parsed.headers, name)) {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(field.value);
            out.extend_from_slice(b"\r\n");
        }
    }
    if framing == Framing::Eof {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    if close && status >= 200 {
        out.extend_from_slice(b"Connection: close\r\n");
    }
    out.extend_from_slice(b"\r\n");
    Ok(Some(ResponseHead {
        len,
        status,
        framing,
        reusable,
    }))
}

/// The comma-separated elements of a field's value.
fn tokens<'h>(field: &Header<'h>) -> impl Iterator<Item = &'h [u8]> {
    field.value.split(|b| *b == b',').map(<[u8]>::trim_ascii)
}

/// Whether `Connection` names the field `name`, and may.
fn is_nominated(fields: &[Header<'_>], name: &str) -> bool {
    fields
        .iter()
        .filter(|field| is(field, "connection"))
        .flat_map(tokens)
        .any(|token| token.eq_ignore_ascii_case(name.as_bytes()))
        && crate::proxy::headers::is_nominable(&name.to_ascii_lowercase())
}

fn is(field: &Header<'_>, name: &str) -> bool {
    field.name.len() == name.len() && field.name.eq_ignore_ascii_case(name)
}
