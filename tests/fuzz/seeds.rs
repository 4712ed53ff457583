//! What fuzzing begins with: the recorded replies, the shipped configurations, and requests that once meant trouble somewhere.

#![allow(unreachable_pub)] // part of two binaries

use std::fs;
use std::path::{Path, PathBuf};

use goodput_proxy::wire::FORMATS;

const REQUESTS: [&str; 8] = [
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
    r#"{"messages":[{"role":"user","content":"a \" } ] \\ b"}],"n":2,"model":"a/b","stream":true,"stream_options":{"include_usage":false}}"#,
    r#"{"prompt":["a","b",[1,2]],"max_tokens":16,"model":"m","n":3}"#,
    r#"{"input":["a",{"type":"x"}],"tools":[{}],"response_format":{"type":"json_object"},"model":null}"#,
    r#"{"mod\u0065l":"\ud83d\ude00","stream":false,"max_completion_tokens":1e2}"#,
    r#"{"a":{"model":"no","stream":true},"b":[[[[{}]]]],"stream":true}"#,
    r#"[{"stream":true}]"#,
    " { } ",
];

const HEADS: [&str; 15] = [
    "POST /v1/chat/completions HTTP/1.1\r\nHost: llm\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    "GET /health HTTP/1.1\r\nHost: llm\r\nConnection: close\r\nAccept: */*\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "GET http://other/path?q=1 HTTP/1.1\r\nHost: a\r\nConnection: X-A, Authorization\r\nX-A: 1\r\nAuthorization: b\r\n\r\n",
    "GET //other/path HTTP/1.1\r\nHost: a\r\nTE: trailers, deflate\r\nTrailer: x\r\n\r\n",
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, keep-alive\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    "GET / HTTP/1.1\nHost: a\n\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost : a\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\nbody",
    "HTTP/1.1 204 \r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\nConnection: close, X-B\r\nX-B: 1\r\n\r\nbad",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
];

const CHUNKED: [&str; 6] = [
    "5\r\nhello\r\n00A;name=\"v\"\r\n, wide wor\r\n2\r\nld\r\n0\r\nX-Tokens: 5\r\n\r\n",
    "0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "5\nhello\n0\n\n",
    "0x5\r\nhello\r\n",
    "FFFFFFFFFFFFFFFF\r\n",
    "-1\r\n \r\n1 \r\na\r\n0\r\n\r\n",
];

/// One small chat stream as each coding writes it: the coding's index in the target, and the bytes in hexadecimal.
const CODED: [(u8, &str); 6] = [
    (
        0,
        "1f8b08000000000002034b492c49b452a8564acec8cf4c4e2d56b28aae56cacc4b49ad50b232d0514a49cd294954b2024ae7e795a4e69528592965a4e6e4e42bd5d6c6d67271a5803547bbf8fbb9c6727101000a9ae90e4b000000",
    ),
    // Flushed after the first bytes.
    (
        0,
        "1f8b08000000000002034a492c49b452a8564acec8cf4c4e2d56b28aae56cacc4b49ad50b232d05102000000ffff4b49cd294954b2024ae7e795a4e69528592965a4e6e4e42bd5d6c6d67271a5803547bbf8fbb9c6727101000a9ae90e4b000000",
    ),
    (
        1,
        "789c4b492c49b452a8564acec8cf4c4e2d56b28aae56cacc4b49ad50b232d0514a49cd294954b2024ae7e795a4e69528592965a4e6e4e42bd5d6c6d67271a5803547bbf8fbb9c672710100bb891836",
    ),
    (
        1,
        "4b492c49b452a8564acec8cf4c4e2d56b28aae56cacc4b49ad50b232d0514a49cd294954b2024ae7e795a4e69528592965a4e6e4e42bd5d6c6d67271a5803547bbf8fbb9c672710100",
    ),
    (
        2,
        "1b4a00009c05eebe6138cdc3023ebda6b8bf16d9db8299202c64a9d0d5973a227db00107ece380cfd180c30ed8f80e8e3e490879e32919cbc4490c0504d73707f86f8713",
    ),
    (
        3,
        "28b52ffd04583d020052840f1690b56d4bad35cd05c0de8db85434249c9b52533d7fe966a5300e8298adb2d613f39adf1b6da39457776c5ebd30dc03abe85c913b60f3249357c161a30601000d0c010a561b3753",
    ),
];

/// The inputs for `target`, control bytes in front.
pub fn seeds(target: &str, repository: &Path) -> Vec<Vec<u8>> {
    let cuts = |bodies: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        let cut = |body: &Vec<u8>| [0_u8, 1, 7].map(|cut| [&[cut], body.as_slice()].concat());
        bodies.iter().flat_map(cut).collect()
    };
    let texts = |list: &[&str]| list.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let replies = || replies(repository);
    match target {
        "decode_any" => replies()
            .into_iter()
            .map(|r| [&[r.pick(), 7], r.body.as_slice()].concat())
            .collect(),
        "sse" | "strip" => cuts(replies().into_iter().filter(|r| r.kind == 0).map(|r| r.body).collect()),
        "inflate" => {
            let coded = CODED.iter().map(|(coding, hex)| ([0, *coding, 7], digits(hex)));
            coded.map(|(control, body)| [control.as_slice(), &body].concat()).collect()
        }
        "request_scan" | "splice" => cuts(texts(&REQUESTS)),
        "headers" | "relay_head" => cuts(texts(&HEADS)),
        "chunked" => cuts(texts(&CHUNKED)),
        "config_yaml" => files(&repository.join("config"), "yaml")
            .iter()
            .map(|path| read(path))
            .collect(),
        _ => panic!("no target {target}"),
    }
}

struct Reply {
    format: u8,
    /// SSE, lines, whole.
    kind: u8,
    body: Vec<u8>,
}

impl Reply {
    fn pick(&self) -> u8 {
        self.format + self.kind * FORMATS.len() as u8
    }
}

/// Every recorded reply, without the boundaries of its reads.
fn replies(repository: &Path) -> Vec<Reply> {
    let mut replies = Vec::new();
    for (number, format) in (0..).zip(FORMATS) {
        for path in files(&repository.join("tests/fixtures/wire").join(format.name), "stream") {
            let text = String::from_utf8(read(&path)).expect("UTF-8");
            let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            let content_type = value("content-type: ");
            let kind = if content_type.starts_with("text/event-stream") {
                0
            } else {
                2 - u8::from(content_type.contains("ndjson"))
            };
            replies.push(Reply {
                format: number,
                kind,
                body: body(&text),
            });
        }
    }
    assert!(replies.len() > 30, "the fixtures are there");
    replies
}

fn body(text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    for line in text.lines().skip_while(|line| !line.starts_with("@ ")) {
        match line.split_at(1) {
            ("|", text) => body.extend_from_slice(format!("{text}\n").as_bytes()),
            ("-", text) => body.extend_from_slice(text.as_bytes()),
            ("~", text) => body.extend(unescaped(text)),
            _ => {}
        }
    }
    body
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        (_, rest) = match (first, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => (out.extend(digits(&String::from_utf8_lossy(&[*high, *low]))), tail),
            (b'\\', [b'n', tail @ ..]) => (out.push(b'\n'), tail),
            (b'\\', [b'r', tail @ ..]) => (out.push(b'\r'), tail),
            (b'\\', [byte, tail @ ..]) | (byte, tail) => (out.push(*byte), tail),
        };
    }
    out
}

fn digits(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("hex") as u8;
    hex.as_bytes()
        .chunks_exact(2)
        .map(|pair| digit(pair[0]) * 16 + digit(pair[1]))
        .collect()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
