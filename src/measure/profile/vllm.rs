//! `vllm bench serve` (`--backend openai-chat`, `openai`): 0.33.0, and how 0.32.0 and 0.19.1 differ.
//!
//! One stamp per parsed message. A message is complete at its blank line *or* as soon as the buffered text after `data: ` is
//! valid JSON, so a late blank line does not delay it. What counts as a token changed twice, see [`Release`].

use serde_json::Value;

use super::python::{decode, first_choice, get, text, truthy, words};
use super::{Answer, Api, CountedFrom, Figure, Gaps, Profile, Recording, gaps_of, per};

const TTFT: &str = "first counted message - start";
const N: &str = "usage.completion_tokens, else client tokenizer on the text";

/// The current release.
pub(super) static V0_33: Profile = Profile {
    name: "vllm-bench",
    version: "0.33.0",
    ttft: "first message with content, reasoning (not reasoning_content), tool calls, or empty content without a role",
    e2e: "last counted message - start",
    n: N,
    asks_usage: true,
    replay: |recording| replay(recording, Release::V0_33),
};

/// The release before the role-only delta stopped counting.
pub(super) static V0_32: Profile = Profile {
    name: "vllm-bench-0.32",
    version: "0.32.0",
    ttft: TTFT,
    e2e: "last message with choices (a finish-only one too) - start",
    n: N,
    asks_usage: true,
    replay: |recording| replay(recording, Release::V0_32),
};

/// The last checked release in which the usage message extends E2E.
pub(super) static V0_19: Profile = Profile {
    name: "vllm-bench-0.19",
    version: "0.19.1",
    ttft: TTFT,
    e2e: "last message before [DONE] (usage or error too) - start",
    n: N,
    asks_usage: true,
    replay: |recording| replay(recording, Release::V0_19),
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Release {
    /// Every message with choices counts, every message moves the end, no token is still a success.
    V0_19,
    /// Only messages with choices move the end; a stream without one has failed.
    V0_32,
    /// Only messages with output count; reads are no longer stripped of their surrounding white space.
    V0_33,
}

#[derive(Default)]
struct Client {
    stamps: Vec<u64>,
    last: u64,
    text: String,
    usage: Option<u64>,
    saw_error: bool,
}

fn replay(recording: &Recording, release: Release) -> Answer {
    let mut client = Client::default();
    if let Err(why) = client.read_all(recording, release) {
        return Answer::failed(why);
    }
    // For completions, 0.19.1 already asks for a token.
    if client.stamps.is_empty() && (release > Release::V0_19 || recording.api == Api::Completions) {
        return Answer::failed("never received a valid chunk to calculate TTFT");
    }
    let (n, from) = match client.usage.filter(|n| *n > 0) {
        Some(n) => (n, CountedFrom::Usage),
        None => (words(&client.text), CountedFrom::ClientTokenizer),
    };
    // A stream without a counted message is a success with zeros in 0.19.1.
    let ttft = client.stamps.first().copied().unwrap_or(0);
    let mut answer = Answer {
        ttft_ns: Some(ttft),
        e2e_ns: Some(client.last),
        n: Some(n),
        counted_from: Some(from),
        per_token: vec![Figure {
            name: "TPOT",
            formula: "(E2E - TTFT) / (n - 1)",
            ns: n.checked_sub(1).and_then(|d| per(client.last.saturating_sub(ttft), d)),
        }],
        gaps: Some(Gaps {
            name: "ITL",
            formula: "gap between counted messages",
            ns: gaps_of(&client.stamps),
        }),
        ..Answer::default()
    };
    if n == 1 {
        answer
            .notes
            .push("n = 1: no TPOT in the statistics, and 0 (good) for --goodput");
    }
    if client.saw_error {
        answer.notes.push("the error inside the stream is ignored: a success");
    }
    answer
}

impl Client {
    fn read_all(&mut self, recording: &Recording, release: Release) -> Result<(), String> {
        let (mut buffer, mut rest) = (String::new(), Vec::new());
        for read in &recording.reads {
            let bytes = if release == Release::V0_33 {
                read.bytes.as_slice()
            } else {
                read.bytes.trim_ascii()
            };
            if bytes.is_empty() {
                continue;
            }
            buffer.push_str(&decode(&mut rest, bytes)?);
            if release == Release::V0_19 && !rest.is_empty() {
                return Err("UnicodeDecodeError: a character is cut by a read".into());
            }
            for message in take_messages(&mut buffer) {
                self.message(&message, read.at_ns, recording.api, release)?;
            }
        }
        Ok(())
    }

    fn message(&mut self, message: &str, at: u64, api: Api, release: Release) -> Result<(), String> {
        if message.starts_with(':') {
            return Ok(());
        }
        let chunk = message.strip_prefix("data: ").unwrap_or(message);
        if chunk == "[DONE]" {
            return Ok(());
        }
        let event: Value =
            serde_json::from_str(chunk).map_err(|e| format!("JSONDecodeError: a message is not `data: ` and JSON ({e})"))?;
        self.saw_error |= get(&event, "error").is_some();
        let choice = first_choice(&event);
        let counts = match (choice, api) {
            (None, _) => false,
            (Some(choice), Api::Chat) if release == Release::V0_33 => has_output(choice),
            (Some(choice), Api::Chat) if choice.get("delta").is_none() => return Err("KeyError: 'delta'".into()),
            (Some(_), _) => true,
        };
        if counts {
            self.stamps.push(at);
            self.last = at;
            let piece = match api {
                Api::Chat => choice.and_then(|c| c.get("delta")).and_then(|d| text(d, "content")),
                Api::Completions => choice.and_then(|c| text(c, "text")),
            };
            self.text.push_str(piece.unwrap_or_default());
        } else if let Some(usage) = get(&event, "usage") {
            self.usage = usage.get("completion_tokens").and_then(Value::as_u64);
        }
        if release == Release::V0_19 && api == Api::Chat {
            self.last = at;
        }
        Ok(())
    }
}

fn has_output(choice: &Value) -> bool {
    let Some(delta) = choice.get("delta").filter(|d| d.is_object()) else {
        return false;
    };
    let any = ["content", "reasoning", "tool_calls", "function_call"]
        .iter()
        .any(|key| delta.get(key).is_some_and(truthy));
    any || (delta.get("content").and_then(Value::as_str) == Some("") && delta.get("role").is_none())
}

fn take_messages(buffer: &mut String) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some((message, rest)) = buffer.split_once("\n\n") {
        let (message, rest) = (message.trim().to_owned(), rest.to_owned());
        *buffer = rest;
        if !message.is_empty() {
            messages.push(message);
        }
    }
    let complete = buffer.strip_prefix("data: ").map(str::trim).is_some_and(|content| {
        content == "[DONE]" || (!content.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(content).is_ok())
    });
    if complete {
        messages.push(std::mem::take(buffer).trim().to_owned());
    }
    messages
}
