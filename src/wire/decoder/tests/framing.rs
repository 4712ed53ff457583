//! What is an event, when it came, and what cannot be read.

use super::*;
use crate::wire::events::MAX_EVENT;

// P002, P003
#[test]
fn an_event_has_the_time_of_the_read_that_completes_it() {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"A\"}}]}\n\n";
    let (head, tail) = event.split_at(30);
    let five = event.repeat(5);
    let seen = sse("openai_chat", &[head, tail, &five, &event[..event.len() - 1], "\n"]);
    let times: Vec<u64> = seen.tokens().iter().map(|(at, ..)| *at).collect();
    assert_eq!(times, [2, 3, 3, 3, 3, 3, 5]);
}

// P010
#[test]
fn characters_cut_by_a_read_stay_whole() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"北🌍\"}}]}\n\n".as_bytes();
    for cut in 1..event.len() {
        let mut decoder = Decoder::new(Some(format("openai_chat")), Some("text/event-stream"), None, None);
        let mut seen = Seen::default();
        decoder.feed(Stamp::from_nanos(1), &event[..cut], &mut seen);
        decoder.feed(Stamp::from_nanos(2), &event[cut..], &mut seen);
        assert_eq!((seen.tokens(), seen.degraded), (vec![(2, 0, TEXT)], vec![]));
    }
}

// P011
#[test]
fn an_event_of_two_mebibytes_is_read() {
    let long = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
        "x".repeat(2 << 20)
    );
    let seen = sse(
        "openai_chat",
        &[&long, "data: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n"],
    );
    assert_eq!(seen.tokens(), [(1, 0, TEXT), (2, 0, TEXT)]);
    assert_eq!(seen.degraded, []);
}

// P011, P012
#[test]
fn an_event_over_the_cap_is_reported_once_and_the_next_is_read() {
    let mut decoder = Decoder::new(Some(format("openai_chat")), Some("text/event-stream"), None, None);
    let mut seen = Seen::default();
    decoder.feed(
        Stamp::from_nanos(1),
        b"data: {\"choices\":[{\"delta\":{\"content\":\"",
        &mut seen,
    );
    let piece = [b'x'; 1 << 16];
    for _ in 0..=MAX_EVENT >> 16 {
        decoder.feed(Stamp::from_nanos(2), &piece, &mut seen);
    }
    decoder.feed(
        Stamp::from_nanos(3),
        b"\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n",
        &mut seen,
    );
    assert_eq!(seen.degraded, [Degraded::Oversize]);
    assert_eq!(seen.tokens(), [(3, 0, TEXT)]);
}

#[test]
fn a_malformed_event_is_reported_and_reading_goes_on() {
    let seen = chat(&[
        "{\"choices\":[{\"del",
        "nonsense",
        "{\"choices\":[{\"delta\":{\"content\":\"y\"}}]}",
        "[DONE",
        "[DONE]x",
        "[DOLE]",
    ]);
    assert_eq!(seen.degraded, [Degraded::Malformed; 5]);
    assert_eq!(seen.tokens(), [(3, 0, TEXT)]);
    assert!(!seen.has_terminal());
}

// P096, P098
#[test]
fn an_event_named_error_is_one_whatever_it_holds() {
    for stream in [
        "event: error\ndata: {\"detail\":\"x\"}\n\n",
        "event: error\ndata: oops\n\n",
        "error: {\"code\":500}\n\n",
    ] {
        let seen = sse("openai_chat", &[stream]);
        assert!(seen.has_error(), "{stream}");
        assert_eq!((seen.events.len(), seen.degraded), (1, vec![]), "{stream}");
    }
}

// P097, P100
#[test]
fn the_end_marker_is_a_terminal_signal_with_any_white_space_around_it() {
    for data in ["[DONE]", " [DONE]", "[DONE] ", "[DONE]\t \r"] {
        let seen = sse("openai_chat", &[&format!("data:{data}\n\n")]);
        assert!(seen.has_terminal() && seen.tokens().is_empty(), "{data:?}");
        assert_eq!(seen.degraded, []);
    }
}

// P068
#[test]
fn lines_of_json_are_events_wherever_they_are_cut() {
    let mut decoder = Decoder::new(Some(format("ollama")), Some("application/x-ndjson"), None, None);
    let mut seen = Seen::default();
    for (at, read) in [
        (1, "{\"message\":{\"content\":\"he"),
        (
            2,
            "llo\"},\"done\":false}\n{\"message\":{\"content\":\"!\"},\"done\":false}\n",
        ),
        (3, "\n{\"done\":true,\"eval_count\":2}"),
    ] {
        decoder.feed(Stamp::from_nanos(at), read.as_bytes(), &mut seen);
    }
    assert!(!seen.has_terminal());
    decoder.finish(Stamp::from_nanos(4), &mut seen);
    assert_eq!(seen.tokens(), [(2, 0, TEXT), (2, 0, TEXT)]);
    assert_eq!(seen.events.last().map(|(at, f)| (*at, f.terminal)), Some((4, true)));
}

// P069
#[test]
fn a_compressed_stream_reads_like_a_plain_one() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n";
    let mut ends = vec![0];
    for _ in 0..3 {
        gzip.write_all(event.as_bytes()).and_then(|()| gzip.flush()).expect("memory");
        ends.push(gzip.get_ref().len());
    }
    let mut decoder = Decoder::new(Some(format("openai_chat")), Some("text/event-stream"), Some("gzip"), None);
    let mut seen = Seen::default();
    for (at, piece) in (1..).zip(ends.windows(2)) {
        let (first, rest) = gzip.get_ref()[piece[0]..piece[1]].split_at(1);
        decoder.feed(Stamp::from_nanos(at * 10), first, &mut seen);
        decoder.feed(Stamp::from_nanos(at * 10 + 1), rest, &mut seen);
    }
    assert_eq!(seen.tokens(), [(11, 0, TEXT), (21, 0, TEXT), (31, 0, TEXT)]);
}

// P069
#[test]
fn a_coding_that_cannot_be_read_degrades_once_and_is_known() {
    let mut decoder = Decoder::new(Some(format("openai_chat")), Some("text/event-stream"), Some("gzip, br"), None);
    let mut seen = Seen::default();
    assert!(decoder.is_stream() && !decoder.is_reading());
    for at in 1..4 {
        decoder.feed(Stamp::from_nanos(at), b"\x1f\x8b\x08 garbage", &mut seen);
    }
    assert_eq!((seen.degraded, seen.events.len()), (vec![Degraded::Encoding], 0));
}

// P016
#[test]
fn the_content_type_decides_without_case_and_parameters() {
    let kind = |name: &str, content_type: Option<&str>, requested: Option<bool>| {
        let decoder = Decoder::new(Some(format(name)), content_type, None, requested);
        (decoder.is_stream(), decoder.is_reading())
    };
    let (stream, whole, opaque) = ((true, true), (false, true), (false, false));
    for (name, content_type, requested, expected) in [
        ("openai_chat", Some("Text/Event-Stream;charset=UTF-8"), None, stream),
        ("openai_chat", Some(" text/event-stream ; x"), Some(false), stream),
        ("openai_chat", Some("application/json"), Some(true), whole),
        ("openai_chat", Some("Application/JSON; charset=utf-8"), None, whole),
        ("openai_chat", Some("application/problem+json"), None, whole),
        ("openai_chat", Some("text/html"), Some(true), opaque),
        ("openai_chat", None, Some(true), stream),
        ("openai_chat", None, None, whole),
        ("ollama", Some("application/x-ndjson"), None, stream),
        ("ollama", Some("application/jsonl"), Some(false), stream),
        ("ollama", Some("application/json; charset=utf-8"), None, stream),
        ("ollama", Some("application/json; charset=utf-8"), Some(false), whole),
    ] {
        assert_eq!(
            kind(name, content_type, requested),
            expected,
            "{name} {content_type:?} {requested:?}"
        );
    }
    let without = Decoder::new(None, Some("text/event-stream"), Some("gzip"), None);
    assert_eq!((without.is_stream(), without.is_reading()), (true, false));
}

#[test]
fn a_decoder_can_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Decoder>();
}

/// What `stream` says, read in `pieces`, without its times.
fn said<'a>(kind: &str, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<EventFacts>, Vec<Degraded>) {
    let mut decoder = Decoder::new(Some(format("openai_chat")), Some(kind), None, None);
    let mut seen = Seen::default();
    pieces.for_each(|piece| decoder.feed(Stamp::from_nanos(1), piece, &mut seen));
    (seen.events.into_iter().map(|(_, facts)| facts).collect(), seen.degraded)
}

#[test]
fn an_event_like_the_last_one_says_the_same_in_any_framing_at_any_cut() {
    let json = |text: &str| format!(r#"{{"id":"1","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#);
    let (one, two, plain) = (json("one"), json("two"), format!("data: {}\n\n", json("x")));
    for name in ["", "event: m\n", "event: error\n", "error: x\n", "error: x\nevent: m\n"] {
        for (space, end) in [
            (" ", "\n\n"),
            ("", "\n\n"),
            (" ", "\r\n\r\n"),
            (" ", "\r\r"),
            (" ", "\nid: 1\n\n"),
            (" ", "\ndata:\n\n"),
            (" ", "\ndata: x\n\n"),
            (" ", " \n\n"),
            (" ", ",\n\n"),
            (" ", "\n"),
        ] {
            let stream = format!(
                "{plain}{name}data:{space}{one}{end}{name}data:{space}{two}{end}{plain}event: error\n\n{plain}data: [DONE]\n\n{plain}"
            );
            let bytes = stream.as_bytes();
            let expected = said("text/event-stream", bytes.chunks(1));
            let errors = expected.0.iter().filter(|facts| facts.error).count();
            let named = name.contains("error: x") || name == "event: error\n";
            assert_eq!(errors > 0, named && !(name.ends_with("m\n")), "{stream:?}: {expected:?}");
            assert_eq!(
                said("text/event-stream", std::iter::once(bytes)),
                expected,
                "whole: {stream:?}"
            );
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            assert_eq!(said("text/event-stream", lines), expected, "by lines: {stream:?}");
            for cut in 1..bytes.len() {
                let (a, b) = bytes.split_at(cut);
                assert_eq!(
                    said("text/event-stream", [a, b].into_iter()),
                    expected,
                    "cut at {cut}: {stream:?}"
                );
            }
        }
    }
    let lines = format!("{one}\n{two}\n{two} \n{two},\n{one}\n");
    let expected = said("application/x-ndjson", lines.as_bytes().chunks(1));
    assert_eq!((expected.0.len(), expected.1.len()), (4, 1));
    assert_eq!(said("application/x-ndjson", std::iter::once(lines.as_bytes())), expected);
}

#[test]
fn an_event_like_the_last_one_is_held_to_the_cap() {
    let event = |len| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
            "x".repeat(len)
        )
    };
    let around = event(0).len() - "data: \n\n".len();
    let most = usize::try_from(MAX_EVENT).unwrap() - around;
    for (len, events) in [(most, 3), (most + 1, 2)] {
        let stream = event(1) + &event(len) + &event(1);
        let seen = said("text/event-stream", std::iter::once(stream.as_bytes()));
        let degraded = vec![Degraded::Oversize; 3 - events];
        assert_eq!((seen.0.len(), seen.1), (events, degraded), "{len}");
    }
}
