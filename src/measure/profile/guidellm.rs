//! GuideLLM 0.8.1: stamps text lines, ends at `[DONE]`, and its TPOT includes the time to the first token.

use serde_json::Value;

use super::python::{decode, first_choice, get, take_lines, text};
use super::{Answer, Api, CountedFrom, Figure, Profile, Recording, per};

/// The row of the table.
pub(super) static PROFILE: Profile = Profile {
    name: "guidellm",
    version: "0.8.1",
    ttft: "line with the first content, reasoning or tool call - start (its start is after connect and TLS)",
    e2e: "[DONE] (else body closed) - start",
    n: "usage, else content events",
    asks_usage: true,
    replay,
};

/// Where its HTTP client ends a line: `str.splitlines`, so these characters inside a JSON string break the event.
const LINE_ENDS: [char; 10] = [
    '\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}',
];

#[derive(Default)]
struct Client {
    stamps: Vec<u64>,
    first_output: Option<u64>,
    usage: Option<u64>,
    has_output: bool,
    done: Option<u64>,
}

fn replay(recording: &Recording) -> Answer {
    let mut client = Client::default();
    if let Err(why) = client.read_all(recording) {
        return Answer::failed(why);
    }
    let end = client.done.unwrap_or(recording.closed_ns);
    let (first, last) = (client.stamps.first().copied(), client.stamps.last().copied());
    let (n, from) = match client.usage {
        Some(n) => (n, CountedFrom::Usage),
        None => (client.stamps.len() as u64, CountedFrom::Events),
    };
    if !client.has_output && n == 0 {
        return Answer::failed("the reply has neither text, tool calls nor tokens");
    }
    let span = first.zip(last).map(|(first, last)| last.saturating_sub(first));
    Answer {
        ttft_ns: first,
        e2e_ns: Some(end),
        n: Some(n),
        counted_from: Some(from),
        per_token: vec![
            Figure {
                name: "TPOT",
                formula: "(last content event - start) / n: TTFT inside",
                ns: per(last.unwrap_or(end), n),
            },
            Figure {
                name: "ITL",
                formula: "(last content event - first) / (n - 1)",
                ns: span.zip(n.checked_sub(1)).and_then(|(span, d)| per(span, d)),
            },
        ],
        others: vec![Figure {
            name: "TTFOT",
            formula: "first event that is not reasoning - start",
            ns: client.first_output.map(|at| at as f64),
        }],
        notes: if n == 1 {
            vec!["n = 1: no ITL, so a TPOT SLO leaves the request undetermined"]
        } else {
            vec![]
        },
        ..Answer::default()
    }
}

impl Client {
    fn read_all(&mut self, recording: &Recording) -> Result<(), String> {
        let (mut buffer, mut rest) = (String::new(), Vec::new());
        for read in &recording.reads {
            buffer.push_str(&decode(&mut rest, &read.bytes)?);
            for line in take_lines(&mut buffer, &LINE_ENDS) {
                self.line(&line, read.at_ns, recording.api)?;
                if self.done.is_some() {
                    return Ok(());
                }
            }
        }
        self.line(&buffer, recording.closed_ns, recording.api)
    }

    fn line(&mut self, line: &str, at: u64, api: Api) -> Result<(), String> {
        let Some(data) = line.trim().strip_prefix("data:").map(str::trim) else {
            return Ok(());
        };
        if data == "[DONE]" {
            self.done = Some(at);
            return Ok(());
        }
        let event: Value = serde_json::from_str(data).map_err(|e| format!("JSONDecodeError: {e}"))?;
        if let Some(error) = get(&event, "error") {
            let named = ["message", "type", "code"].iter().find_map(|key| get(error, key));
            let what = named.unwrap_or(error);
            let what = what.as_str().map_or_else(|| what.to_string(), str::to_owned);
            return Err(format!("Streaming response returned an error: {what}"));
        }
        if let Some(usage) = get(&event, "usage") {
            let details = usage
                .get("completion_tokens_details")
                .and_then(|d| get(d, "completion_tokens"));
            self.usage = details
                .or_else(|| usage.get("completion_tokens"))
                .and_then(Value::as_u64)
                .or(Some(0));
        }
        let Some(choice) = first_choice(&event) else { return Ok(()) };
        let (reasoning, output) = match (api, choice.get("delta")) {
            (Api::Completions, _) => (false, text(choice, "text").is_some()),
            (Api::Chat, None) => (false, false),
            (Api::Chat, Some(delta)) => (
                get(delta, "reasoning").or_else(|| get(delta, "reasoning_content")).is_some(),
                get(delta, "content").is_some() || get(delta, "tool_calls").is_some(),
            ),
        };
        if reasoning || output {
            self.stamps.push(at);
        }
        if output {
            self.has_output = true;
            self.first_output.get_or_insert(at);
        }
        Ok(())
    }
}
