//! LLMPerf's OpenAI client: stamps lines, divides by `data:` events, and leaves TTFT inside its ITL.

use serde_json::Value;

use super::python::{first_choice, text, words};
use super::{Answer, CountedFrom, Figure, Gaps, Profile, Recording, gaps_of, per};

/// The row of the table.
pub(super) static PROFILE: Profile = Profile {
    name: "llmperf",
    version: "f1d6bed",
    ttft: "line that holds the first content - start",
    e2e: "body closed - start",
    n: "Llama tokenizer on content, whatever the model; the divisor of its ITL is another: data events",
    asks_usage: false,
    replay,
};

/// `data: ` is cut off by length, whatever the line begins with.
const STEM: usize = 6;

#[derive(Default)]
struct Client {
    stamps: Vec<u64>,
    /// Every non-blank line except `[DONE]`: role-only, finish-only and empty deltas included.
    events: u64,
    text: String,
}

fn replay(recording: &Recording) -> Answer {
    let mut client = Client::default();
    let failed = client.read_all(recording).err();
    let last = client.stamps.last().copied().unwrap_or(0);
    let n = words(&client.text);
    Answer {
        // Without content the tool keeps its 0, which enters the percentiles.
        ttft_ns: Some(client.stamps.first().copied().unwrap_or(0)),
        e2e_ns: Some(if failed.is_some() { 0 } else { recording.closed_ns }),
        n: Some(n),
        counted_from: Some(CountedFrom::ClientTokenizer),
        per_token: vec![Figure {
            name: "ITL",
            formula: "(TTFT + gaps) / data events without [DONE]: TTFT inside, events and not tokens",
            ns: per(last, client.events),
        }],
        gaps: Some(Gaps {
            name: "gaps",
            formula: "gap between content events",
            ns: gaps_of(&client.stamps),
        }),
        events: Some(client.events),
        others: Vec::new(),
        notes: if failed.is_none() && client.stamps.is_empty() {
            vec!["no content: its TTFT stays 0 and is kept"]
        } else {
            vec![]
        },
        failed,
    }
}

impl Client {
    fn read_all(&mut self, recording: &Recording) -> Result<(), String> {
        let mut pending: Vec<u8> = Vec::new();
        for read in &recording.reads {
            pending.extend_from_slice(&read.bytes);
            while let Some(end) = pending.iter().position(|b| matches!(b, b'\n' | b'\r')) {
                let line: Vec<u8> = pending.drain(..=end).collect();
                self.line(&line, read.at_ns)?;
            }
        }
        self.line(&pending, recording.closed_ns)
    }

    fn line(&mut self, line: &[u8], at: u64) -> Result<(), String> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        let data = line.get(STEM..).unwrap_or_default();
        if data == b"[DONE]" {
            return Ok(());
        }
        self.events += 1;
        let event: Value = serde_json::from_slice(data)
            .map_err(|_| "error code -1: a line (a comment, or `data:` without space) is not JSON after 6 bytes".to_owned())?;
        if let Some(error) = event.get("error") {
            let (code, message) = (error.get("code"), error.get("message").and_then(Value::as_str));
            let code = code.map_or_else(|| "-1".to_owned(), Value::to_string);
            return Err(format!("error code {code}: {}", message.unwrap_or("no message")));
        }
        let delta = first_choice(&event).and_then(|c| c.get("delta"));
        let delta = delta.ok_or("error code -1: an event without choices[0].delta")?;
        if let Some(content) = text(delta, "content") {
            self.stamps.push(at);
            self.text.push_str(content);
        }
        Ok(())
    }
}
