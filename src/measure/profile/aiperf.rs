//! AIPerf 0.13.0: one stamp per network read, given to every event that the read completes.

use serde_json::Value;

use super::python::{first_choice, get, text, words};
use super::{Answer, Api, CountedFrom, Figure, Gaps, Profile, Recording, gaps_of, per};

/// The row of the table.
pub(super) static PROFILE: Profile = Profile {
    name: "aiperf",
    version: "0.13.0",
    ttft: "read that completes the first event with content, reasoning or tool-call text - start",
    e2e: "last such event - start",
    n: "client tokenizer on reasoning and output (usage with --use-server-token-count)",
    asks_usage: true,
    replay,
};

#[derive(Default)]
struct Client {
    stamps: Vec<u64>,
    first_output: Option<u64>,
    reasoning: String,
    output: String,
    saw_error: bool,
}

fn replay(recording: &Recording) -> Answer {
    let mut client = Client::default();
    if let Err(why) = client.read_all(recording) {
        return Answer::failed(why);
    }
    let (Some(first), Some(last)) = (client.stamps.first().copied(), client.stamps.last().copied()) else {
        return Answer::failed("no event with content: not a valid record");
    };
    let n = words(&client.reasoning) + words(&client.output);
    let mut answer = Answer {
        ttft_ns: Some(first),
        e2e_ns: Some(last),
        n: Some(n),
        counted_from: Some(CountedFrom::ClientTokenizer),
        per_token: vec![Figure {
            name: "ITL",
            formula: "(E2E - TTFT) / (n - 1)",
            ns: n.checked_sub(1).and_then(|d| per(last.saturating_sub(first), d)),
        }],
        gaps: Some(Gaps {
            name: "ICL",
            formula: "gap between content events",
            ns: gaps_of(&client.stamps),
        }),
        others: vec![
            Figure {
                name: "TTST",
                formula: "second content event - first",
                ns: client.stamps.get(1).map(|second| second.saturating_sub(first) as f64),
            },
            Figure {
                name: "TTFO",
                formula: "first event that is not reasoning - start",
                ns: client.first_output.map(|at| at as f64),
            },
        ],
        ..Answer::default()
    };
    if client.saw_error {
        answer.notes.push("the error inside the stream is ignored: a success");
    }
    answer
}

impl Client {
    fn read_all(&mut self, recording: &Recording) -> Result<(), String> {
        let mut buffer = Vec::new();
        for read in &recording.reads {
            buffer.extend_from_slice(&read.bytes);
            while let Some((message, rest)) = split_message(&buffer) {
                self.message(message, read.at_ns, recording.api)?;
                buffer = rest.to_vec();
            }
        }
        self.message(&buffer, recording.closed_ns, recording.api)
    }

    fn message(&mut self, raw: &[u8], at: u64, api: Api) -> Result<(), String> {
        let raw = String::from_utf8_lossy(raw);
        let (mut data, mut comment, mut error) = (Vec::new(), None, false);
        for line in raw.lines().map(str::trim).filter(|l| !l.is_empty()) {
            match line.split_once(':') {
                Some(("", value)) => comment = comment.or(Some(value.trim().to_owned())),
                Some((name, value)) if name.trim() == "data" => data.push(value.trim()),
                Some((name, value)) => {
                    error |= name.trim().eq_ignore_ascii_case("event") && value.trim().eq_ignore_ascii_case("error");
                }
                None => {}
            }
        }
        if error {
            return Err(format!(
                "error event in the stream: {}",
                comment.as_deref().unwrap_or("unknown")
            ));
        }
        let Ok(event) = serde_json::from_str::<Value>(&data.join("\n")) else {
            return Ok(());
        };
        self.saw_error |= get(&event, "error").is_some();
        self.content(&event, at, api);
        Ok(())
    }

    fn content(&mut self, event: &Value, at: u64, api: Api) {
        let object = event.get("object").and_then(Value::as_str).unwrap_or_default();
        let Some(choice) = first_choice(event) else { return };
        match api {
            Api::Completions if matches!(object, "completion" | "text_completion") => {
                let Some(piece) = text(choice, "text") else { return };
                self.output.push_str(piece);
            }
            Api::Chat if object == "chat.completion.chunk" => {
                let Some(delta) = get(choice, "delta") else { return };
                let content = text(delta, "content").unwrap_or_default();
                if let Some(reasoning) = text(delta, "reasoning_content").or_else(|| text(delta, "reasoning")) {
                    self.reasoning.push_str(reasoning);
                    self.output.push_str(content);
                    self.stamps.push(at);
                    return;
                }
                let call = tool_text(delta);
                if call.is_empty() && content.is_empty() {
                    return;
                }
                self.output.push_str(content);
                self.output.push_str(&call);
            }
            Api::Chat | Api::Completions => return,
        }
        self.stamps.push(at);
        self.first_output.get_or_insert(at);
    }
}

/// Names and arguments of the tool calls in `delta`, joined.
pub(super) fn tool_text(delta: &Value) -> String {
    let calls = delta
        .get("tool_calls")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let functions = calls.iter().filter_map(|call| call.get("function"));
    functions
        .flat_map(|f| [text(f, "name"), text(f, "arguments")])
        .flatten()
        .collect()
}

/// The bytes before and after the first blank line. `\n\n` is looked for first, `\r\n\r\n` only where there is none.
fn split_message(buffer: &[u8]) -> Option<(&[u8], &[u8])> {
    [b"\n\n".as_slice(), b"\r\n\r\n"].into_iter().find_map(|blank| {
        let at = buffer.windows(blank.len()).position(|w| w == blank)?;
        Some((&buffer[..at], &buffer[at + blank.len()..]))
    })
}
