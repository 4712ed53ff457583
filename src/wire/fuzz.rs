//! PURE: what is asserted of the reading side for any bytes (see [`crate::fuzzing`]).

use super::sse::{self, Name, Sse};
use super::{Decoder, EventSink, FORMATS, RequestFacts, RequestScanner, WholeFacts};
use crate::fuzzing::pieces;
use crate::measure::{Degraded, EventFacts, Stamp};

const TYPES: [&str; 3] = ["text/event-stream", "application/x-ndjson", "application/json"];
const CODINGS: [&str; 5] = ["gzip", "deflate", "br", "zstd", "identity"];

#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<EventFacts>,
    models: Vec<String>,
    degraded: Vec<Degraded>,
    whole: Option<WholeFacts>,
}

impl EventSink for Seen {
    fn event(&mut self, _at: Stamp, facts: &EventFacts) {
        self.events.push(*facts);
    }

    fn model(&mut self, name: &str) {
        self.models.push(name.to_owned());
    }

    fn degraded(&mut self, why: Degraded) {
        self.degraded.push(why);
    }
}

fn read(pick: u8, coding: Option<&str>, pieces: &[&[u8]]) -> Seen {
    let (format, kind) = (usize::from(pick) % FORMATS.len(), usize::from(pick) / FORMATS.len());
    let mut decoder = Decoder::new(Some(FORMATS[format]), Some(TYPES[kind % TYPES.len()]), coding, None);
    let mut seen = Seen::default();
    for piece in pieces {
        decoder.feed(Stamp::from_nanos(1), piece, &mut seen);
    }
    seen.whole = decoder.finish(Stamp::from_nanos(2), &mut seen);
    seen
}

/// What a reply says does not depend on how it was cut.
pub(crate) fn decode_any(data: &[u8]) {
    let Some(([pick, cut], body)) = data.split_first_chunk::<2>() else {
        return;
    };
    assert_eq!(read(*pick, None, &pieces(body, *cut)), read(*pick, None, &[body]));
}

/// A compressed body is read or reported, once, and never read on after that.
pub(crate) fn inflate(data: &[u8]) {
    let Some(([pick, coding, cut], body)) = data.split_first_chunk::<3>() else {
        return;
    };
    let coding = CODINGS[usize::from(*coding) % CODINGS.len()];
    let seen = read(*pick, Some(coding), &pieces(body, *cut));
    let of_coding = |why: &&Degraded| matches!(why, Degraded::Encoding | Degraded::InflateCap);
    let reported = seen.degraded.iter().filter(of_coding).count();
    assert!(reported <= 1, "{:?}", seen.degraded);
    assert!(reported == 0 || seen.whole.is_none(), "read on after a failure");
}

/// A request body says what `serde_json` finds in it, at any cut.
pub(crate) fn request_scan(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let facts = |pieces: &[&[u8]]| {
        let mut scanner = RequestScanner::new(Some("application/json"), None);
        pieces.iter().for_each(|piece| scanner.feed(piece));
        scanner.facts()
    };
    let whole = facts(&[body]);
    assert_eq!(facts(&pieces(body, *cut)), whole);
    let Ok(json) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body) else {
        return;
    };
    let model = json.get("model").and_then(|model| model.as_str());
    assert_eq!(whole.model.as_deref(), model.filter(|m| m.len() <= RequestFacts::MAX_MODEL));
    assert_eq!(whole.stream, json.get("stream").and_then(serde_json::Value::as_bool));
    assert_eq!(whole.stream_options, json.contains_key("stream_options"));
    let messages = json.get("messages").and_then(|list| list.as_array());
    let input = json.get("input").and_then(|list| list.as_array());
    assert_eq!(whole.messages, messages.or(input).map(|list| list.len() as u64));
}

#[derive(Debug, Default, PartialEq)]
struct Events {
    open: Vec<u8>,
    ended: Vec<(Vec<u8>, bool)>,
}

/// It knows the event that says what the last one said.
impl sse::Handler for Events {
    fn known(&mut self, bytes: &[u8]) -> Option<usize> {
        let (data, is_error) = self.ended.last()?;
        let plain = !is_error && !data.is_empty() && memchr::memchr2(b'\n', b'\r', data).is_none();
        (plain && bytes.starts_with(data)).then_some(data.len())
    }

    fn again(&mut self) {
        self.ended.extend_from_within(self.ended.len() - 1..);
    }

    fn data(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
    }

    fn end(&mut self, name: Name) {
        self.ended.push((std::mem::take(&mut self.open), name == Name::Error));
    }

    fn oversize(&mut self) {}
}

/// A stream has the events that the WHATWG rules, read over the whole of it, find; so at any cut.
pub(crate) fn sse(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let mut events = Events::default();
    let mut stream = Sse::new();
    for piece in pieces(body, *cut) {
        stream.feed(piece, &mut events);
    }
    assert_eq!(events.ended, by_the_rules(body));
}

/// Lines of the whole text first, then fields, then events.
fn by_the_rules(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
    let mut rest = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut ended = Vec::new();
    let (mut data, mut is_error, mut own_error): (Option<Vec<u8>>, _, _) = (None, false, false);
    while let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        rest = if rest[end] == b'\r' {
            after.strip_prefix(b"\n").unwrap_or(after)
        } else {
            after
        };
        if line.is_empty() {
            if data.is_some() || own_error {
                ended.push((data.take().unwrap_or_default(), is_error));
            }
            (is_error, own_error) = (false, false);
            continue;
        }
        let mut parts = line.splitn(2, |b| *b == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => match &mut data {
                Some(data) => data.extend_from_slice(&[b"\n", value].concat()),
                None => data = Some(value.to_vec()),
            },
            b"event" => is_error = value == b"error",
            b"error" if !value.is_empty() => (is_error, own_error) = (true, true),
            _ => {}
        }
    }
    ended
}
