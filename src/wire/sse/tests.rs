use super::*;

/// The events dispatched, as `(name, data)`.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<(Name, String)>,
    oversize: u32,
    data: Vec<u8>,
}

/// It knows the event that says what the last one said.
impl Handler for Seen {
    fn known(&mut self, bytes: &[u8]) -> Option<usize> {
        let (name, data) = self.events.last()?;
        let plain = *name == Name::Message && !data.is_empty() && !data.contains(['\n', '\r']);
        (plain && bytes.starts_with(data.as_bytes())).then_some(data.len())
    }

    fn again(&mut self) {
        let last = self.events.last().expect("known").clone();
        self.events.push(last);
    }

    fn data(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    fn end(&mut self, name: Name) {
        let data = String::from_utf8(std::mem::take(&mut self.data)).expect("UTF-8");
        self.events.push((name, data));
    }

    fn oversize(&mut self) {
        self.oversize += 1;
    }
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Seen {
    let (mut sse, mut seen) = (Sse::new(), Seen::default());
    for piece in pieces {
        sse.feed(piece, &mut seen);
    }
    seen.data.clear();
    seen
}

/// The data of the events, the same at every cut.
fn events(stream: &str) -> Vec<String> {
    let whole = read(std::iter::once(stream.as_bytes()));
    assert_eq!(read(stream.as_bytes().chunks(1)), whole, "byte by byte: {stream:?}");
    for cut in 1..stream.len() {
        let (a, b) = stream.as_bytes().split_at(cut);
        assert_eq!(read([a, b].into_iter()), whole, "cut at {cut}: {stream:?}");
    }
    whole.events.into_iter().map(|(_, data)| data).collect()
}

// P001
#[test]
fn a_space_after_the_colon_is_optional_and_only_one_is_dropped() {
    assert_eq!(events("data:a\n\ndata: b\n\ndata:  c\n\n"), ["a", "b", " c"]);
}

// P004, P005
#[test]
fn every_line_ending_ends_a_line_once_wherever_it_is_cut() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = format!("data: A{end}data: B{end}{end}data: C{end}{end}");
        assert_eq!(events(&stream), ["A\nB", "C"], "{end:?}");
    }
    assert_eq!(events("data: A\r\ndata: B\r\ndata: C\r\n\r\n"), ["A\nB\nC"]);
    assert_eq!(events("data: A\n\r\ndata: B\r\n\ndata: C\r\r\n"), ["A", "B", "C"]);
}

// P005
#[test]
fn a_carriage_return_ends_the_event_without_waiting_for_a_line_feed() {
    let (mut sse, mut seen) = (Sse::new(), Seen::default());
    sse.feed(b"data: A\r\n\r", &mut seen);
    assert_eq!(seen.events.len(), 1);
    sse.feed(b"\ndata: B\n\n", &mut seen);
    assert_eq!(seen.events.len(), 2);
}

// P006, P007, P009
#[test]
fn comments_ids_and_blank_lines_dispatch_nothing() {
    assert_eq!(
        events("id: 7\ndata: a\n\n: ping\n\n:\n\n\n\nretry: 10\n\nevent: x\n\nid\n\ndata: b\n\n"),
        ["a", "b"]
    );
    assert_eq!(
        events(": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\ndata: a\n\n"),
        ["a"]
    );
}

// P013
#[test]
fn data_lines_of_one_event_are_joined_by_a_line_feed() {
    assert_eq!(
        events("data: {\"a\":\ndata: 1}\nid: 3\ndata\ndata:\ndata: x\n\n"),
        ["{\"a\":\n1}\n\n\nx"]
    );
}

#[test]
fn a_line_of_one_space_is_a_field_and_not_the_end() {
    assert_eq!(events("data: a\n \ndata: b \n\n"), ["a\nb "]);
}

#[test]
fn only_the_exact_field_name_counts() {
    assert_eq!(events("dat: 1\ndatax: 2\n data: 3\nDATA: 4\nd\ndata: 5\ndata : 6\n\n"), ["5"]);
}

#[test]
fn a_byte_order_mark_opens_a_stream_at_most_once() {
    assert_eq!(events("\u{FEFF}data: a\n\n"), ["a"]);
    assert_eq!(events("\u{FEFF}\u{FEFF}data: a\n\ndata: b\n\n"), ["b"]);
    assert_eq!(events("data: a\n\n\u{FEFF}data: b\n\n"), ["a"]);
    let half = [b"\xEF\xBBdata: a\n\ndata: b\n\n".as_slice()];
    assert_eq!(read(half.into_iter()).events, [(Name::Message, "b".to_owned())]);
}

#[test]
fn an_unfinished_event_is_not_dispatched() {
    assert_eq!(events("data: a\n\ndata: b\n"), ["a"]);
    assert_eq!(events("data: a\n\ndata: b"), ["a"]);
}

#[test]
fn an_error_is_known_by_its_event_name_or_its_own_field() {
    let stream = "event: error\ndata: a\n\ndata: b\n\nevent:error\nevent: message\ndata: c\n\nevent: errors\ndata: d\n\nerror: {}\n\n\
                  event: error\nevent\ndata: e\n\nerror:\n\n";
    let expected = [
        (Name::Error, "a"),
        (Name::Message, "b"),
        (Name::Message, "c"),
        (Name::Message, "d"),
        (Name::Error, ""),
        (Name::Message, "e"),
    ];
    events(stream);
    let seen = read(std::iter::once(stream.as_bytes())).events;
    assert_eq!(seen, expected.map(|(name, data)| (name, data.to_owned())));
}

#[test]
fn a_known_event_is_one_only_where_nothing_came_before_its_line_and_the_blank_line_follows() {
    for between in [
        "",
        "id: 1\n",
        ": c\n",
        "event: m\n",
        "event: error\n",
        "error: x\n",
        "error: x\nevent: m\n",
        "data: b\n",
        "data\n",
    ] {
        for end in ["\n\n", "\r\n\r\n", "\r\r", "\nid: 1\n\n", "\ndata: c\n\n", "b\n\n"] {
            for space in ["", " "] {
                let stream = format!("data: a\n\n{between}data:{space}a{end}event: error\n\ndata: a\n\n");
                events(&stream);
                let seen = read(std::iter::once(stream.as_bytes())).events;
                assert_eq!(seen, reference(stream.as_bytes()), "{stream:?}");
            }
        }
    }
}

// P012
#[test]
fn a_line_without_end_is_reported_once_and_the_next_line_is_read() {
    let (mut sse, mut seen) = (Sse::new(), Seen::default());
    let piece = [b'x'; 65_536];
    for _ in 0..MAX_LINE / 65_536 {
        sse.feed(&piece, &mut seen);
    }
    assert_eq!(seen.oversize, 0);
    sse.feed(&piece, &mut seen);
    sse.feed(&piece, &mut seen);
    assert_eq!(seen.oversize, 1);
    sse.feed(b"\ndata: a\n\n", &mut seen);
    assert_eq!((seen.oversize, seen.events.len()), (1, 1));
}

/// The rules once more, for a whole buffer and without any state between reads.
fn reference(stream: &[u8]) -> Vec<(Name, String)> {
    let text = std::str::from_utf8(stream).expect("UTF-8");
    let text = text
        .strip_prefix('\u{FEFF}')
        .unwrap_or(text)
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop();
    let (mut events, mut data, mut name, mut own_error) = (Vec::new(), Vec::new(), Name::Message, false);
    for line in lines {
        if line.is_empty() {
            if !data.is_empty() || own_error {
                events.push((name, data.join("\n")));
            }
            (data, name, own_error) = (Vec::new(), Name::Message, false);
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => data.push(value),
            "event" => name = if value == "error" { Name::Error } else { Name::Message },
            "error" if !value.is_empty() => (name, own_error) = (Name::Error, true),
            _ => {}
        }
    }
    events
}

const BITS: [&str; 26] = [
    "data",
    "data:",
    "data: ",
    "data:  x",
    "data: a\n\n",
    "event",
    "event: m\n",
    "event: error",
    "event:error",
    "event: err",
    "error: x",
    "error:",
    "id: 1",
    ":",
    ": c",
    " ",
    "\n",
    "\n",
    "\n\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\u{FEFF}",
    "é",
    "{\"a\": 1}",
    "or",
];

proptest::proptest! {
    #[test]
    fn any_stream_reads_as_the_rules_say_at_any_cut(
        bits in proptest::collection::vec(proptest::sample::select(&BITS[..]), 0..40),
        cuts in proptest::collection::vec(proptest::prelude::any::<proptest::sample::Index>(), 0..8),
    ) {
        let stream = bits.concat();
        let mut places: Vec<usize> = cuts.iter().map(|c| c.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let seen = read(places.windows(2).map(|w| &stream.as_bytes()[w[0]..w[1]]));
        proptest::prop_assert_eq!(seen.events, reference(stream.as_bytes()));
    }
}
