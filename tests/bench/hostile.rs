//! Input made to cost as much as it can: what a server or a client could send so that reading it takes long.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};

/// Bytes of one input: what the proxy reads at once, at most.
const LEN: usize = 64 * 1024;

/// Who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The server, in a reply of this format.
    Server(&'static str),
    /// The client, as a request body.
    Client,
}

/// One input.
#[derive(Debug)]
pub(crate) struct Hostile {
    pub(crate) name: &'static str,
    pub(crate) from: From,
    pub(crate) coding: Option<&'static str>,
    pub(crate) pieces: Vec<Vec<u8>>,
}

/// `start`, then `unit` over and over, up to `len` bytes.
fn filled(start: &str, unit: &str, len: usize) -> Vec<u8> {
    let mut bytes = start.as_bytes().to_vec();
    while bytes.len() < len {
        bytes.extend_from_slice(unit.as_bytes());
    }
    bytes
}

/// What the client or server sends, `start` once and `unit` until a read is full.
const FILLED: &[(&str, From, &str, &str)] = &[
    (
        "a data line without an end",
        CHAT,
        "data: {\"choices\":[{\"delta\":{\"content\":\"",
        "a",
    ),
    ("a comment without an end", CHAT, ":", "a"),
    ("a field without a colon", CHAT, "", "a"),
    ("blank lines", CHAT, "", "\n"),
    ("blank lines, CR LF", CHAT, "", "\r\n"),
    ("short lines", CHAT, "", "a\n"),
    ("empty comments", CHAT, "", ":\n"),
    ("empty ids", CHAT, "", "id:\n"),
    ("empty events", CHAT, "", "data\n\n"),
    ("events of nothing", CHAT, "", "data:{}\n\n"),
    ("events of a number", CHAT, "", "data:0\n\n"),
    ("events that break off", CHAT, "", "data:{\n\n"),
    ("terminal signals", CHAT, "", "data:[DONE]\n\n"),
    ("half terminal signals", CHAT, "", "data:[DO\n\n"),
    ("error events", CHAT, "", "event:error\ndata:0\n\n"),
    ("one event, a byte a line", CHAT, "data:[", "\ndata:["),
    ("one event, empty lines", CHAT, "data:{", "\ndata"),
    (
        "the shortest token",
        COMPLETIONS,
        "",
        "data:{\"choices\":[{\"text\":\"a\"}]}\n\n",
    ),
    (
        "two tokens in turn",
        COMPLETIONS,
        "",
        "data:{\"choices\":[{\"text\":\"a\"}]}\n\ndata:{\"choices\":[{\"text\":\"a\"}] }\n\n",
    ),
    ("empty choices", CHAT, "data: {\"choices\":[", "{},"),
    ("choices with an index", CHAT, "data: {\"choices\":[", "{\"index\":9},"),
    (
        "choices with a token",
        COMPLETIONS,
        "data: {\"choices\":[{\"index\":1,\"text\":\"a\"},",
        "{\"index\":1,\"text\":\"a\"},{\"index\":2,\"text\":\"a\"},{\"index\":3,\"text\":\"a\"},{\"index\":4,\"text\":\"a\"},\
         {\"index\":5,\"text\":\"a\"},{\"index\":6,\"text\":\"a\"},{\"index\":7,\"text\":\"a\"},{\"index\":8,\"text\":\"a\"},\
         {\"index\":9,\"text\":\"a\"},{\"index\":10,\"text\":\"a\"},{\"index\":11,\"text\":\"a\"},{\"index\":12,\"text\":\"a\"},\
         {\"index\":13,\"text\":\"a\"},{\"index\":14,\"text\":\"a\"},{\"index\":15,\"text\":\"a\"},{\"index\":16,\"text\":\"a\"},\
         {\"index\":17,\"text\":\"a\"},",
    ),
    (
        "choices that finish",
        COMPLETIONS,
        "data: {\"choices\":[",
        "{\"index\":1,\"finish_reason\":1},{\"index\":2,\"finish_reason\":1},{\"index\":3,\"finish_reason\":1},\
         {\"index\":4,\"finish_reason\":1},{\"index\":5,\"finish_reason\":1},{\"index\":6,\"finish_reason\":1},\
         {\"index\":7,\"finish_reason\":1},{\"index\":8,\"finish_reason\":1},{\"index\":9,\"finish_reason\":1},\
         {\"index\":10,\"finish_reason\":1},{\"index\":11,\"finish_reason\":1},{\"index\":12,\"finish_reason\":1},\
         {\"index\":13,\"finish_reason\":1},{\"index\":14,\"finish_reason\":1},{\"index\":15,\"finish_reason\":1},\
         {\"index\":16,\"finish_reason\":1},{\"index\":17,\"finish_reason\":1},",
    ),
    ("choices that are numbers", CHAT, "data: {\"choices\":[", "0,"),
    ("choices that are negative", CHAT, "data: {\"choices\":[", "-0.1e1,"),
    (
        "nesting that is read",
        CHAT,
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":",
        "[",
    ),
    ("nesting that is not read", CHAT, "data: {\"x\":", "{\"\":"),
    ("lists opened and closed", CHAT, "data: {\"x\":[[]", ",[]"),
    ("empty keys", CHAT, "data: {\"\":0", ",\"\":0"),
    ("empty keys, spaced", CHAT, "data: {\"\" : 0 ", ", \"\" : 0 "),
    ("keys in escapes", CHAT, "data: {\"\\u006d\":0", ",\"\\u006d\":0"),
    (
        "known keys",
        CHAT,
        "data: {\"error\":0",
        ",\"model\":0,\"usage\":0,\"error\":0",
    ),
    ("usage over and over", CHAT, "data: {\"usage\":{}", ",\"usage\":{}"),
    (
        "counts over and over",
        CHAT,
        "data: {\"usage\":{\"prompt_tokens\":1",
        ",\"prompt_tokens\":1",
    ),
    ("kinds over and over", RESPONSES, "data: {\"type\":\"\"", ",\"type\":\"\""),
    (
        "escapes in a text",
        CHAT,
        "data: {\"choices\":[{\"delta\":{\"content\":\"",
        "\\n",
    ),
    (
        "characters in escapes",
        CHAT,
        "data: {\"choices\":[{\"delta\":{\"content\":\"",
        "\\u0041",
    ),
    (
        "pairs of surrogates",
        CHAT,
        "data: {\"choices\":[{\"delta\":{\"content\":\"",
        "\\ud83d\\ude00",
    ),
    (
        "lone surrogates",
        CHAT,
        "data: {\"choices\":[{\"delta\":{\"content\":\"",
        "\\ud83d",
    ),
    ("escapes that nobody reads", CHAT, "data: {\"x\":[\"", "\\n"),
    ("strings that nobody reads", CHAT, "data: {\"x\":[\"\"", ",\"\""),
    ("digits", CHAT, "data: {\"choices\":[{\"index\":", "1"),
    ("white space", CHAT, "data: {", " "),
    ("blank lines", OLLAMA, "", "\n"),
    ("empty objects", OLLAMA, "", "{}\n"),
    ("numbers", OLLAMA, "", "0\n"),
    ("broken lines", OLLAMA, "", "}\n"),
    ("finished replies", OLLAMA, "", "{\"done\":1}\n"),
    ("a body without an end", From::Client, "{\"messages\":\"", "a"),
    ("empty keys", From::Client, "{\"\":0", ",\"\":0"),
    ("known keys", From::Client, "{\"n\":1", ",\"n\":1"),
    ("models over and over", From::Client, "{\"model\":\"\"", ",\"model\":\"a\""),
    ("keys in escapes", From::Client, "{\"\\u006d\":0", ",\"\\u006d\":0"),
    ("prompts without end", From::Client, "{\"prompt\":[\"\"", ",\"\""),
    ("token ids without end", From::Client, "{\"prompt\":[1", ",1"),
    ("nesting", From::Client, "{\"messages\":", "["),
    ("white space", From::Client, "{", " "),
    ("characters in escapes", From::Client, "{\"model\":\"", "\\u0041"),
    ("digits", From::Client, "{\"n\":", "1"),
];

const CHAT: From = From::Server("openai_chat");
const COMPLETIONS: From = From::Server("openai_completions");
const RESPONSES: From = From::Server("openai_responses");
const OLLAMA: From = From::Server("ollama");

/// Everything above, each in one piece.
pub(crate) fn whole() -> impl Iterator<Item = Hostile> {
    FILLED.iter().map(|(name, from, start, unit)| Hostile {
        name,
        from: *from,
        coding: None,
        pieces: vec![filled(start, unit, LEN)],
    })
}

/// Streams and bodies that come a byte a read.
pub(crate) fn cut() -> Vec<Hostile> {
    let bytes = |name, from, unit: &str| Hostile {
        name,
        from,
        coding: None,
        pieces: unit.repeat(40).bytes().map(|b| vec![b]).collect(),
    };
    vec![
        bytes(
            "a stream",
            CHAT,
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"abc\\u0041\"}}]}\n\n",
        ),
        bytes("empty events", CHAT, "data\n\n"),
        bytes("empty objects", OLLAMA, "{}\n"),
        bytes(
            "a body",
            From::Client,
            "{\"model\":\"abc\",\"messages\":[{\"role\":\"user\",\"content\":\"abc\\u0041\"}]}",
        ),
    ]
}

/// Bytes that a bomb inflates to.
pub(crate) const INFLATED: usize = 256 * 1024;

/// What shrinks to next to nothing.
pub(crate) fn bombs() -> Vec<Hostile> {
    let bomb = |name, from, start: &str, unit: &str| {
        let plain = filled(start, unit, INFLATED);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&plain).expect("to memory");
        Hostile {
            name,
            from,
            coding: Some("gzip"),
            pieces: vec![gzip.finish().expect("to memory")],
        }
    };
    vec![
        bomb("events of nothing", CHAT, "", "data:{}\n\n"),
        bomb("empty objects", OLLAMA, "", "{}\n"),
        bomb("blank lines", OLLAMA, "", "\n"),
        bomb("empty keys", CHAT, "data: {\"\":0", ",\"\":0"),
    ]
}
