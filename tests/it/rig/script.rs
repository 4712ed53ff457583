//! The words that scripts are written in: steps, chunks, and the events of a chat stream.

use std::time::Duration;

use super::upstream::Step;

/// Writes `text` in one write.
pub fn send(text: impl AsRef<[u8]>) -> Step {
    Step::Send(text.as_ref().to_vec())
}

/// Lets `ms` milliseconds pass.
pub fn wait(ms: u64) -> Step {
    Step::Wait(Duration::from_millis(ms))
}

/// A response head for an SSE stream, chunked.
pub fn sse_head() -> Step {
    send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n")
}

/// `data` as one HTTP chunk.
pub fn chunk(data: impl AsRef<[u8]>) -> Step {
    Step::Send(chunked(data))
}

/// `data` framed as one HTTP chunk.
pub fn chunked(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    let mut out = format!("{:x}\r\n", data.len()).into_bytes();
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
    out
}

/// The end of a chunked body.
pub fn last_chunk() -> Step {
    send("0\r\n\r\n")
}

/// A chat chunk event with `text` as content of choice 0.
pub fn content(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
}

/// A finish event of choice 0.
pub fn finish() -> String {
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_owned()
}

/// A closing usage event.
pub fn usage(prompt: u64, completion: u64) -> String {
    format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{}}}}}\n\n",
        prompt + completion
    )
}

/// The terminal signal.
pub const DONE: &str = "data: [DONE]\n\n";

/// A complete reply with a length.
pub fn reply(status: &str, content_type: &str, body: &str) -> Vec<Step> {
    vec![
        Step::Body,
        send(format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )),
    ]
}
