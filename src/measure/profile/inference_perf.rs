//! inference-perf: every token of a chunk gets the chunk's stamp, so its ITL list holds zeros; E2E runs to the end of the body.

use serde_json::Value;

use super::python::{get, words};
use super::{Answer, Api, CountedFrom, Figure, Gaps, Profile, Recording, gaps_of, per};

/// The row of the table.
pub(super) static PROFILE: Profile = Profile {
    name: "inference-perf",
    version: "7de5ef2",
    ttft: "first content message - start; only with more than one token",
    e2e: "body closed (and output tokenised, not replayed here) - start",
    n: "client tokenizer on content (usage with use_server_output_tokens)",
    asks_usage: true,
    replay,
};

#[derive(Default)]
struct Client {
    /// One stamp per token.
    stamps: Vec<u64>,
    text: String,
    saw_error: bool,
}

fn replay(recording: &Recording) -> Answer {
    let mut client = Client::default();
    if let Err(why) = client.read_all(recording) {
        return Answer::failed(why);
    }
    let n = words(&client.text);
    let span = match client.stamps.as_slice() {
        [first, .., last] => Some((*first, last.saturating_sub(*first))),
        _ => None,
    };
    let mut answer = Answer {
        ttft_ns: span.map(|(first, _)| first),
        e2e_ns: Some(recording.closed_ns),
        n: Some(n),
        counted_from: Some(CountedFrom::ClientTokenizer),
        per_token: vec![
            Figure {
                name: "TPOT",
                formula: "(last content message - first) / (n - 1)",
                ns: span.zip(n.checked_sub(1)).and_then(|((_, span), d)| per(span, d)),
            },
            Figure {
                name: "NTPOT",
                formula: "E2E / n, 0 when n = 0",
                ns: per(recording.closed_ns, n).or(Some(0.0)),
            },
        ],
        gaps: Some(Gaps {
            name: "ITL",
            formula: "gap between tokens, all tokens of a chunk at its stamp",
            ns: gaps_of(&client.stamps),
        }),
        ..Answer::default()
    };
    if span.is_none() {
        answer
            .notes
            .push("fewer than two tokens: no TTFT either, and a TTFT or TPOT SLO counts it as bad");
    }
    if client.saw_error {
        answer.notes.push("the error inside the stream is ignored: a success");
    }
    answer
}

impl Client {
    fn read_all(&mut self, recording: &Recording) -> Result<(), String> {
        let mut buffer: Vec<u8> = Vec::new();
        for read in &recording.reads {
            buffer.extend_from_slice(&read.bytes);
            while let Some(end) = buffer.windows(2).position(|w| w == b"\n\n") {
                let message: Vec<u8> = buffer.drain(..end + 2).collect();
                // `[DONE]` ends the work on this read, not on the stream.
                if self.message(&message, read.at_ns, recording.api)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether the message was `[DONE]`.
    fn message(&mut self, message: &[u8], at: u64, api: Api) -> Result<bool, String> {
        for line in message.split(|b| *b == b'\n').filter(|l| l.starts_with(b"data:")) {
            // Without the space the prefix stays, the line is no JSON and is skipped.
            let data = line.strip_prefix(b"data: ").unwrap_or(line).trim_ascii();
            if data == b"[DONE]" {
                return Ok(true);
            }
            let Ok(event) = serde_json::from_slice::<Value>(data) else {
                continue;
            };
            if !event.is_object() {
                return Err("AttributeError: an event is not a JSON object".into());
            }
            self.saw_error |= get(&event, "error").is_some();
            let Some(choice) = event.get("choices").and_then(|c| c.get(0)) else {
                continue;
            };
            let content = match api {
                Api::Completions => choice.get("text"),
                Api::Chat => match choice.get("delta") {
                    Some(Value::Null) => return Err("AttributeError: a null delta".into()),
                    delta => delta.and_then(|d| d.get("content")),
                },
            };
            if let Some(content) = content.and_then(Value::as_str) {
                self.text.push_str(content);
                self.stamps.extend((0..words(content)).map(|_| at));
            }
        }
        Ok(false)
    }
}
