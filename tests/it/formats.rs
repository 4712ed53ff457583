//! Walks the table of wire formats: each row owns fixtures, and each fixture says the same however its bytes are cut.
//!
//! The fixtures' own format is described in `tests/fixtures/wire/README.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use goodput_proxy::measure::{Degraded, EventFacts, Stamp, Usage};
use goodput_proxy::wire::{Decoder, EventSink, FORMATS, Format, WholeFacts};

#[derive(Default)]
struct Fixture {
    content_type: Option<String>,
    content_encoding: Option<String>,
    asked: Option<bool>,
    eof: bool,
    reads: Vec<(u64, Vec<u8>)>,
}

impl Fixture {
    fn load(path: &Path) -> Self {
        let mut fixture = Self {
            eof: true,
            ..Self::default()
        };
        for line in fs::read_to_string(path).expect("fixture").lines() {
            let reads = &mut fixture.reads;
            if let Some(at) = line.strip_prefix("@ ") {
                reads.push((at.parse().expect("nanoseconds"), Vec::new()));
            } else if let Some((_, read)) = reads.last_mut() {
                match line.split_at(1) {
                    ("|", text) => read.extend_from_slice(format!("{text}\n").as_bytes()),
                    ("-", text) => read.extend_from_slice(text.as_bytes()),
                    ("~", text) => read.extend_from_slice(&unescape(text)),
                    _ => panic!("{}: `{line}`", path.display()),
                }
            } else if let Some((key, value)) = line.split_once(": ").filter(|_| !line.starts_with('#')) {
                match (key, value) {
                    ("content-type", _) => fixture.content_type = Some(value.to_owned()),
                    ("content-encoding", _) => fixture.content_encoding = Some(value.to_owned()),
                    ("asked-to-stream", "none") => fixture.asked = None,
                    ("asked-to-stream", _) => fixture.asked = Some(value == "true"),
                    ("end", _) => fixture.eof = value == "eof",
                    _ => panic!("{}: `{line}`", path.display()),
                }
            }
        }
        assert!(!fixture.reads.is_empty(), "{} has no reads", path.display());
        fixture
    }

    /// What a decoder says when the body comes as `pieces`.
    fn replay<'a>(&self, format: &'static Format, pieces: impl Iterator<Item = (u64, &'a [u8])>) -> Seen {
        let (content_type, encoding) = (self.content_type.as_deref(), self.content_encoding.as_deref());
        let mut decoder = Decoder::new(Some(format), content_type, encoding, self.asked);
        let mut seen = Seen::default();
        let mut last = 0;
        for (at, bytes) in pieces {
            last = at;
            decoder.feed(Stamp::from_nanos(at), bytes, &mut seen);
        }
        seen.stream = decoder.is_stream();
        if self.eof {
            seen.whole = decoder.finish(Stamp::from_nanos(last), &mut seen);
        }
        seen
    }

    fn as_read(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.reads.iter().map(|(at, bytes)| (*at, bytes.as_slice()))
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let (byte, tail) = match (first, tail) {
            (b'\\', [b'n', tail @ ..]) => (b'\n', tail),
            (b'\\', [b'r', tail @ ..]) => (b'\r', tail),
            (b'\\', [b'\\', tail @ ..]) => (b'\\', tail),
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let hex = String::from_utf8(vec![*high, *low]).expect("ASCII");
                (u8::from_str_radix(&hex, 16).expect("hex"), tail)
            }
            (b'\\', _) => panic!("unknown escape in `{text}`"),
            (byte, tail) => (*byte, tail),
        };
        out.push(byte);
        rest = tail;
    }
    out
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    stream: bool,
    models: Vec<String>,
    events: Vec<(u64, EventFacts)>,
    degraded: Vec<Degraded>,
    whole: Option<WholeFacts>,
}

impl EventSink for Seen {
    fn event(&mut self, at: Stamp, facts: &EventFacts) {
        self.events.push((at.as_nanos(), *facts));
    }

    fn model(&mut self, name: &str) {
        self.models.push(name.to_owned());
    }

    fn degraded(&mut self, why: Degraded) {
        self.degraded.push(why);
    }
}

impl Seen {
    /// In the words of an `.expect` file.
    fn summary(&self) -> String {
        let mut out = String::new();
        let mut say = |key: &str, value: String| {
            let value = if value.is_empty() { "-".to_owned() } else { value };
            writeln!(out, "{key} {value}").expect("a string");
        };
        say("stream", self.stream.to_string());
        say("model", self.models.join(" "));
        if let Some(whole) = self.whole {
            say("output", whole.has_output.to_string());
            say("usage", usage(whole.usage));
            say("error", whole.error.to_string());
        } else {
            say("events", self.events.len().to_string());
            let mut tokens: Vec<_> = self.events.iter().flat_map(|(_, f)| f.fragments()).collect();
            tokens.sort_by_key(|f| (f.choice, format!("{:?}", f.channel)));
            for same in tokens.chunk_by(|a, b| a == b) {
                let channel = format!("{:?}", same[0].channel).to_lowercase();
                say("tokens", format!("{} {channel} {}", same[0].choice, same.len()));
            }
            let mut times = self.events.iter().filter(|(_, f)| f.is_token_bearing()).map(|(at, _)| *at);
            let first = times.next();
            let stamp = |at: Option<u64>| at.map_or(String::new(), |at| at.to_string());
            say("first_ns", stamp(first));
            say("last_ns", stamp(times.next_back().or(first)));
            let mut finished: Vec<u32> = self.events.iter().flat_map(|(_, f)| f.finished()).copied().collect();
            finished.sort_unstable();
            finished.dedup();
            say("finished", finished.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
            let usages: Vec<Usage> = self.events.iter().filter_map(|(_, f)| f.usage).collect();
            say("usages", usages.len().to_string());
            say("usage", usages.last().map_or(String::new(), |u| usage(*u)));
            say("terminal", self.events.iter().any(|(_, f)| f.terminal).to_string());
            say("error", self.events.iter().any(|(_, f)| f.error).to_string());
        }
        say(
            "degraded",
            self.degraded.iter().map(|d| d.name()).collect::<Vec<_>>().join(" "),
        );
        out
    }
}

fn usage(usage: Usage) -> String {
    let fields = [
        ("prompt", usage.prompt),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
        ("cached", usage.cached),
    ];
    let given = fields.iter().filter_map(|(name, n)| n.map(|n| format!("{name}={n}")));
    given.collect::<Vec<_>>().join(" ")
}

/// Every fixture of every format.
fn fixtures() -> Vec<(&'static Format, PathBuf, Fixture)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/wire");
    let mut found = Vec::new();
    for format in FORMATS {
        let folder = root.join(format.name);
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{} has no fixtures: {e}", format.name));
        let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("entry").path()).collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "stream"));
        paths.sort();
        assert!(!paths.is_empty(), "{} has no fixtures", format.name);
        found.extend(paths.into_iter().map(|p| (*format, p.clone(), Fixture::load(&p))));
    }
    found
}

#[test]
fn every_format_reads_a_stream_and_a_whole_reply() {
    for format in FORMATS {
        let of_format: Vec<_> = fixtures().into_iter().filter(|(f, ..)| f.name == format.name).collect();
        for stream in [true, false] {
            let read = of_format.iter().any(|(f, _, x)| x.replay(f, x.as_read()).stream == stream);
            assert!(read, "{}: no fixture with stream = {stream}", format.name);
        }
    }
}

#[test]
fn every_fixture_says_what_is_expected_of_it() {
    for (format, path, fixture) in fixtures() {
        let expected = fs::read_to_string(path.with_extension("expect")).expect("an .expect beside every .stream");
        let seen = fixture.replay(format, fixture.as_read()).summary();
        assert_eq!(seen, expected, "{}", path.display());
    }
}

// P002, P003, P010: an event's time is that of the read that completes it, and nothing else depends on where reads cut.
#[test]
fn every_fixture_says_the_same_at_every_cut() {
    for (format, path, fixture) in fixtures() {
        let expected = fixture.replay(format, fixture.as_read());
        let bytes = fixture.as_read().flat_map(|(at, read)| read.chunks(1).map(move |b| (at, b)));
        assert_eq!(fixture.replay(format, bytes), expected, "{} byte by byte", path.display());
        let longest = fixture.reads.iter().map(|(_, read)| read.len()).max().unwrap_or(0);
        for cut in 1..longest {
            let halves = fixture.as_read().flat_map(|(at, read)| {
                let (head, tail) = read.split_at(cut.min(read.len()));
                [(at, head), (at, tail)].into_iter().filter(|(_, piece)| !piece.is_empty())
            });
            assert_eq!(
                fixture.replay(format, halves),
                expected,
                "{} with reads cut at {cut}",
                path.display()
            );
        }
    }
}

#[test]
fn a_stream_that_comes_in_one_read_says_the_same_at_one_time() {
    for (format, path, fixture) in fixtures() {
        let mut expected = fixture.replay(format, fixture.as_read());
        for (at, _) in &mut expected.events {
            *at = 7;
        }
        let joined: Vec<u8> = fixture.as_read().flat_map(|(_, read)| read).copied().collect();
        let seen = fixture.replay(format, [(7, joined.as_slice())].into_iter());
        assert_eq!(seen, expected, "{}", path.display());
    }
}

// P002
#[test]
fn an_event_has_the_time_of_its_last_byte() {
    for (format, path, fixture) in fixtures() {
        let joined: Vec<u8> = fixture.as_read().flat_map(|(_, read)| read).copied().collect();
        let whole = fixture.replay(format, fixture.as_read());
        let by_index = joined.chunks(1).enumerate().map(|(i, b)| (i as u64, b));
        let seen = fixture.replay(format, by_index);
        let mut before = 0;
        for ((at, facts), (_, same)) in seen.events.iter().zip(&whole.events) {
            assert_eq!(facts, same);
            assert!(*at > before, "{}: events end at different bytes", path.display());
            // An SSE event ends with the blank line's first byte, a line with its LF, the last line with the body.
            let last = usize::try_from(*at).expect("an index");
            assert!(
                matches!(joined[last], b'\n' | b'\r') || last + 1 == joined.len(),
                "{}",
                path.display()
            );
            before = *at;
        }
        assert_eq!(seen.events.len(), whole.events.len());
    }
}
