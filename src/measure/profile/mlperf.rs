//! MLPerf Inference: the OpenAI-API load generator (mlcommons/endpoints) and LoadGen's own arithmetic beside it.
//!
//! LoadGen sees no bytes: the system under test reports first token, completion and count to it. Its TPOT is computed here from
//! the same marks.

use serde_json::Value;

use super::aiperf::tool_text;
use super::python::{first_choice, get, text, words};
use super::{Answer, Api, CountedFrom, Figure, Gaps, Profile, Recording, gaps_of, per};

/// The row of the table.
pub(super) static PROFILE: Profile = Profile {
    name: "mlperf",
    version: "endpoints ea33275, LoadGen 6.0.17",
    ttft: "first chunk with content, reasoning or tool calls - issued (LoadGen: - scheduled arrival)",
    e2e: "body closed - issued",
    n: "client tokenizer on reasoning, output and tool calls",
    asks_usage: true,
    replay,
};

#[derive(Default)]
struct Client {
    /// Chunks that are handed on: those with text, and a tool call when it comes first.
    stamps: Vec<u64>,
    content: Vec<String>,
    reasoning: Vec<String>,
    tools: Vec<String>,
}

fn replay(recording: &Recording) -> Answer {
    let mut client = Client::default();
    let mut buffer: Vec<u8> = Vec::new();
    for read in &recording.reads {
        buffer.extend_from_slice(&read.bytes);
        let Some(end) = buffer.windows(2).rposition(|w| w == b"\n\n") else {
            continue;
        };
        let batch: Vec<u8> = buffer.drain(..end + 2).collect();
        client.batch(&batch, read.at_ns, recording.api);
    }
    client.batch(&buffer, recording.closed_ns, recording.api);
    let Some(first) = client.stamps.first().copied() else {
        return Answer::failed("no chunk with content: no TTFT and no TPOT");
    };
    let n = client.count(0);
    let after_first = client.count(1);
    let span = recording.closed_ns.saturating_sub(first);
    let mut answer = Answer {
        ttft_ns: Some(first),
        e2e_ns: Some(recording.closed_ns),
        n: Some(n),
        counted_from: Some(CountedFrom::ClientTokenizer),
        per_token: vec![
            Figure {
                name: "TPOT",
                formula: "(E2E - TTFT) / tokens after the first chunk",
                ns: per(span, after_first),
            },
            Figure {
                name: "LoadGen TPOT",
                formula: "(E2E - TTFT) / (n - 1) in whole ns; divides by -1 when n <= 1",
                ns: Some(loadgen_tpot(span, n) as f64),
            },
        ],
        gaps: Some(Gaps {
            name: "chunk_delta",
            formula: "gap between chunks",
            ns: gaps_of(&client.stamps),
        }),
        ..Answer::default()
    };
    if n <= 1 {
        answer
            .notes
            .push("n <= 1: LoadGen logs an error and still stores the negative quotient");
    }
    answer
}

/// LoadGen's integer division. A count of 1 is replaced by 0 after its error, so the divisor is -1 for both.
fn loadgen_tpot(span: u64, n: u64) -> i64 {
    let span = i64::try_from(span).unwrap_or(i64::MAX);
    let divisor = if n <= 1 {
        -1
    } else {
        i64::try_from(n - 1).unwrap_or(i64::MAX)
    };
    span / divisor
}

impl Client {
    /// One network read's complete messages. The first malformed one ends the batch.
    fn batch(&mut self, batch: &[u8], at: u64, api: Api) {
        for line in batch.split(|b| *b == b'\n') {
            let Some(start) = line.windows(5).position(|w| w == b"data:") else {
                continue;
            };
            let data = line[start + 5..].trim_ascii();
            if !data.starts_with(b"{") {
                continue;
            }
            let Ok(event) = serde_json::from_slice::<Value>(data) else {
                return;
            };
            let Some(choice) = first_choice(&event) else { continue };
            match api {
                Api::Completions => self.piece(text(choice, "text"), None, "", at),
                Api::Chat => {
                    let Some(delta) = get(choice, "delta") else { continue };
                    let reasoning = text(delta, "reasoning_content").or_else(|| text(delta, "reasoning"));
                    self.piece(text(delta, "content"), reasoning, &tool_text(delta), at);
                }
            }
        }
    }

    fn piece(&mut self, content: Option<&str>, reasoning: Option<&str>, tool: &str, at: u64) {
        if !tool.is_empty() {
            self.tools.push(tool.to_owned());
        }
        if let Some(content) = content {
            self.content.push(content.to_owned());
        } else if let Some(reasoning) = reasoning {
            self.reasoning.push(reasoning.to_owned());
        } else if tool.is_empty() || !self.stamps.is_empty() {
            return;
        }
        self.stamps.push(at);
    }

    /// Tokens after the first `skip` chunks of the channel that came first: reasoning, else content, else tool calls.
    fn count(&self, skip: usize) -> u64 {
        let (r, c, t) = match (self.reasoning.is_empty(), self.content.is_empty()) {
            (false, _) => (skip, 0, 0),
            (true, false) => (0, skip, 0),
            (true, true) => (0, 0, skip),
        };
        let channels = [(&self.reasoning, r), (&self.content, c), (&self.tools, t)];
        channels
            .iter()
            .map(|(pieces, from)| words(&pieces.get(*from..).unwrap_or_default().concat()))
            .sum()
    }
}
