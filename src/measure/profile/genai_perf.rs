//! GenAI-Perf over perf_analyzer: works on reads, not on events.
//!
//! A read that does not begin with `data: ` is glued to the read before it and keeps the *earlier* stamp; several events in one
//! read become one response; a read without text disappears together with its stamp. Only `delta.content` is text.

use serde_json::Value;

use super::python::words;
use super::{Answer, Api, CountedFrom, Figure, Gaps, Profile, Recording, per};

/// The row of the table.
pub(super) static PROFILE: Profile = Profile {
    name: "genai-perf",
    version: "263c5f6 (0.0.16)",
    ttft: "first read with content - start",
    e2e: "last read with content - start",
    n: "client tokenizer on content (no reasoning, no tool calls)",
    asks_usage: false,
    replay,
};

struct Response {
    at: u64,
    raw: String,
    text: String,
}

fn replay(recording: &Recording) -> Answer {
    let mut responses: Vec<Response> = recording
        .reads
        .iter()
        .map(|r| Response {
            at: r.at_ns,
            raw: String::from_utf8_lossy(&r.bytes).into_owned(),
            text: String::new(),
        })
        .collect();
    if let Err(why) = glue(&mut responses) {
        return Answer::failed(why);
    }
    let mut dropped = false;
    for response in &mut responses {
        match text_of_read(&response.raw, recording.api) {
            Ok(text) => response.text = text,
            Err(_) => dropped = true,
        }
    }
    responses.retain(|r| !r.text.is_empty());
    let mut answer = answer(&responses);
    if dropped {
        answer.notes.push("a read that the tool could not parse is dropped");
    }
    answer
}

fn answer(responses: &[Response]) -> Answer {
    let (Some(first), Some(last)) = (responses.first().map(|r| r.at), responses.last().map(|r| r.at)) else {
        return Answer::failed("no read with content: the request is left out of every list but the request count");
    };
    let joined: String = responses.iter().map(|r| r.text.as_str()).collect();
    let n = words(&joined);
    let several = responses.len() > 1;
    let itl = n
        .checked_sub(1)
        .filter(|_| several)
        .and_then(|d| per(last.saturating_sub(first), d));
    let chunk_gap = |pair: &[Response]| {
        let gap = pair[1].at.saturating_sub(pair[0].at);
        (gap as f64 / words(&pair[1].text).max(1) as f64).round_ties_even() as u64
    };
    Answer {
        ttft_ns: Some(first),
        e2e_ns: Some(last),
        n: Some(n),
        counted_from: Some(CountedFrom::ClientTokenizer),
        per_token: vec![Figure {
            name: "ITL",
            formula: "round((E2E - TTFT) / (n - 1)) in whole ns, for more than one read",
            ns: itl.map(f64::round_ties_even),
        }],
        gaps: Some(Gaps {
            name: "chunked ITL (plots only)",
            formula: "gap between reads / tokens of the later one",
            ns: responses.windows(2).map(chunk_gap).collect(),
        }),
        others: vec![Figure {
            name: "TTST",
            formula: "second read with content - first",
            ns: responses.get(1).map(|second| second.at.saturating_sub(first) as f64),
        }],
        ..Answer::default()
    }
}

/// Moves what does not begin with `data: ` to the read before, from the back to the front.
fn glue(responses: &mut [Response]) -> Result<(), String> {
    for i in (1..responses.len()).rev() {
        if is_other_field(&responses[i].raw) || responses[i].raw.starts_with("data: ") {
            continue;
        }
        if !responses[i - 1].raw.contains("data:") {
            return Err("a splintered read follows one without `data:`: the whole profile is given up".into());
        }
        let raw = std::mem::take(&mut responses[i].raw);
        let at = raw.find("data: ").unwrap_or(raw.len());
        responses[i - 1].raw.push_str(&raw[..at]);
        responses[i].raw.push_str(&raw[at..]);
    }
    Ok(())
}

/// The joined content of all events in one read. Several events are merged into the first, which must therefore be JSON with a
/// choice itself.
fn text_of_read(raw: &str, api: Api) -> Result<String, ()> {
    let events: Vec<&str> = raw.trim().split("\n\n").collect();
    if events
        .iter()
        .any(|e| e.starts_with("event:") && e.to_ascii_lowercase().contains("error"))
    {
        return Err(());
    }
    if let [only] = events.as_slice() {
        return text_of_event(only, api);
    }
    let first: Value = serde_json::from_str(remove_prefix(events[0])).map_err(drop)?;
    let place = match api {
        Api::Chat => first.pointer("/choices/0/delta"),
        Api::Completions => first.pointer("/choices/0"),
    };
    place.ok_or(())?;
    events.iter().map(|e| text_of_event(e, api)).collect()
}

fn text_of_event(event: &str, api: Api) -> Result<String, ()> {
    if event.is_empty() || is_other_field(event) {
        return Ok(String::new());
    }
    let data = remove_prefix(event);
    if data == "[DONE]" {
        return Ok(String::new());
    }
    let json: Value = serde_json::from_str(data).map_err(drop)?;
    let choices = json.get("choices");
    if choices.is_none() && api == Api::Completions {
        return Err(());
    }
    let choice = match choices {
        None => &Value::Null,
        Some(list) => list.get(0).ok_or(())?,
    };
    let text = match (json.get("object").and_then(Value::as_str).unwrap_or_default(), api) {
        ("", _) | ("text_completion", Api::Completions) => choice.get("text"),
        ("chat.completion.chunk", Api::Chat) => choice.get("delta").ok_or(())?.get("content"),
        ("chat.completion", Api::Chat) => choice.get("message").ok_or(())?.get("content"),
        _ => return Err(()),
    };
    Ok(text.and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn is_other_field(text: &str) -> bool {
    [":", "event:", "id:", "retry:"].iter().any(|field| text.starts_with(field))
}

fn remove_prefix(event: &str) -> &str {
    event.strip_prefix("data:").unwrap_or(event).trim()
}
