//! The reading side through its public face: what it says is what a general JSON library finds, at any cut.

use goodput_proxy::measure::{Channel, Degraded, EventFacts, Stamp};
use goodput_proxy::wire::{Decoder, EventSink, FORMATS, RequestFacts, RequestScanner, format_for};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

fn pieces<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
}

/// A value for a request's key: often of the wanted type, sometimes not.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..5000u64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(1.5)),
        "[a-zA-Z0-9\"\\\\é/.-]{0,12}".prop_map(Value::from),
        Just(Value::from("m".repeat(RequestFacts::MAX_MODEL + 1))),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z]{1,3}|model|stream|include_usage", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

const KEYS: [&str; 15] = [
    "model",
    "stream",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "messages",
    "input",
    "prompt",
    "tools",
    "response_format",
    "stream_options",
    "temperature",
    "user",
    "metadata",
    "logprobs",
];

/// An object in the order given, each key once.
fn write(members: &[(&'static str, Value)]) -> (String, Vec<(&'static str, Value)>) {
    let mut unique: Vec<(&'static str, Value)> = Vec::new();
    for (key, value) in members {
        if unique.iter().all(|(k, _)| k != key) {
            unique.push((key, value.clone()));
        }
    }
    let text: Vec<String> = unique.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
    (format!("{{{}}}", text.join(", ")), unique)
}

fn expected(members: &[(&'static str, Value)]) -> RequestFacts {
    let get = |key: &str| members.iter().find(|(k, _)| *k == key).map(|(_, v)| v);
    let list = |key: &str| get(key).and_then(Value::as_array);
    let len = |key: &str| list(key).map(|a| a.len() as u64);
    RequestFacts {
        model: get("model")
            .and_then(Value::as_str)
            .filter(|m| m.len() <= RequestFacts::MAX_MODEL)
            .map(Into::into),
        stream: get("stream").and_then(Value::as_bool),
        n: get("n").and_then(Value::as_u64),
        max_tokens: members
            .iter()
            .rev()
            .filter(|(k, _)| matches!(*k, "max_tokens" | "max_completion_tokens"))
            .find_map(|(_, v)| v.as_u64()),
        messages: len("messages").or(len("input")),
        prompts: list("prompt")
            .map(|a| a.iter().filter(|p| p.is_string() || p.is_array()).count() as u64)
            .filter(|n| *n > 0),
        tools: len("tools"),
        response_format: get("response_format").is_some_and(|v| !v.is_null()),
        stream_options: get("stream_options").is_some(),
        include_usage: get("stream_options").and_then(|o| o.get("include_usage")?.as_bool()),
    }
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    events: Vec<EventFacts>,
    models: Vec<String>,
    degraded: usize,
}

impl EventSink for Seen {
    fn event(&mut self, _at: Stamp, facts: &EventFacts) {
        self.events.push(*facts);
    }

    fn model(&mut self, name: &str) {
        self.models.push(name.to_owned());
    }

    fn degraded(&mut self, _why: Degraded) {
        self.degraded += 1;
    }
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), Just(json!("")), any::<String>().prop_map(Value::from)]
}

/// A chat chunk and what it should be read as.
fn chunk() -> impl Strategy<Value = (Value, EventFacts)> {
    let choice = (0..4u32, text(), text(), prop::option::of("stop|length"));
    let usage = prop::option::of((0..3u64, 0..3u64));
    (prop::collection::vec(choice, 0..4), usage, any::<bool>()).prop_map(|(choices, usage, index_first)| {
        let mut facts = EventFacts::default();
        let mut list = Vec::new();
        for (index, content, reasoning, finish) in choices {
            let bears = |v: &Value| v.as_str().is_some_and(|s| !s.is_empty());
            if finish.is_some() {
                facts.finish(index);
            }
            for (value, channel) in [(&content, Channel::Text), (&reasoning, Channel::Reasoning)] {
                if bears(value) {
                    facts.fragment(index, channel);
                }
            }
            facts.name_choice(index);
            let delta = json!({"content": content, "reasoning_content": reasoning});
            list.push(if index_first {
                json!({"delta": delta, "finish_reason": finish, "index": index})
            } else {
                // `serde_json` sorts keys: this puts the index last.
                json!({"delta": delta, "finish_reason": finish, "index": index, "a_key": [{"index": 9}]})
            });
        }
        if let Some((prompt, output)) = usage.filter(|(prompt, output)| prompt + output > 0) {
            facts.usage = Some(goodput_proxy::measure::Usage {
                prompt: Some(prompt),
                output: Some(output),
                ..Default::default()
            });
        }
        let usage = usage.map(|(prompt, output)| json!({"prompt_tokens": prompt, "completion_tokens": output}));
        (
            json!({"object": "chat.completion.chunk", "model": "a\"é", "choices": list, "usage": usage}),
            facts,
        )
    })
}

proptest! {
    #[test]
    fn the_request_scanner_finds_what_serde_json_finds(
        members in prop::collection::vec((prop::sample::select(&KEYS[..]), any_value()), 0..12),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let (body, unique) = write(&members);
        prop_assert!(serde_json::from_str::<Value>(&body).is_ok());
        let mut scanner = RequestScanner::new(Some("application/json"), None);
        pieces(body.as_bytes(), &cuts).into_iter().for_each(|piece| scanner.feed(piece));
        prop_assert_eq!(scanner.facts(), expected(&unique));
    }

    #[test]
    fn a_chat_stream_says_what_its_chunks_say_at_any_cut(
        chunks in prop::collection::vec(chunk(), 0..6),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
        crlf in any::<bool>(),
    ) {
        let end = if crlf { "\r\n\r\n" } else { "\n\n" };
        let stream: String = chunks.iter().map(|(c, _)| format!("data: {c}{end}")).collect();
        let mut decoder = Decoder::new(format_for("/v1/chat/completions"), Some("text/event-stream"), None, None);
        let mut seen = Seen::default();
        for piece in pieces(stream.as_bytes(), &cuts) {
            decoder.feed(Stamp::from_nanos(1), piece, &mut seen);
        }
        // A stream's model is told once.
        let models = chunks.iter().take(1).map(|_| "a\"é".to_owned()).collect();
        let events = chunks.into_iter().map(|(_, facts)| facts).collect();
        prop_assert_eq!(seen, Seen { events, models, degraded: 0 });
    }

    #[test]
    fn no_bytes_make_any_format_panic_or_depend_on_the_cuts(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            "(data: |data:|\\{|\\}|\\[|\\]|\"|:|,|\n|\r\n|choices|delta|content|\\[DONE\\]|null|1|\\\\u00|event: error){0,40}".prop_map(String::into_bytes),
        ],
        content_type in prop::sample::select(&["text/event-stream", "application/x-ndjson", "application/json"][..]),
        encoding in prop::sample::select(&[None, Some("gzip"), Some("br"), Some("zstd"), Some("deflate")][..]),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        for format in FORMATS {
            let read = |pieces: &[&[u8]]| {
                let mut decoder = Decoder::new(Some(format), Some(content_type), encoding, None);
                let mut seen = Seen::default();
                pieces.iter().for_each(|piece| decoder.feed(Stamp::from_nanos(1), piece, &mut seen));
                let whole = decoder.finish(Stamp::from_nanos(2), &mut seen);
                (whole, seen)
            };
            let (cut, whole) = (read(&pieces(&bytes, &cuts)), read(&[&bytes]));
            // How much of a broken compressed body comes out before it fails is up to the cuts.
            if encoding.is_none() {
                prop_assert_eq!(cut, whole);
            }
        }
    }
}
