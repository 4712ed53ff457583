//! Transparency of the data path with the taps on: whatever the bytes, their framing and their cuts, out comes what went in, and
//! the cuts of a stream change nothing in its record but times.

use std::time::Duration;

use goodput_proxy::observe::Summary;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::rig::{DONE, Rig, Step, Way, both, chat, chunked, content, finish, usage, wait};

/// How a body is delimited.
#[derive(Clone, Debug)]
enum Framing {
    Length,
    /// HTTP chunks of these sizes, over and over.
    Chunked(Vec<usize>),
    /// By the end of the connection.
    Eof,
}

impl Framing {
    /// The header line, and the body as it goes over the wire.
    fn frame(&self, body: &[u8]) -> (String, Vec<u8>) {
        match self {
            Self::Length => (format!("Content-Length: {}\r\n", body.len()), body.to_vec()),
            Self::Eof => (String::new(), body.to_vec()),
            Self::Chunked(sizes) => {
                let mut wire = Vec::new();
                for piece in pieces(body, sizes) {
                    wire.extend(chunked(piece));
                }
                wire.extend_from_slice(b"0\r\n\r\n");
                ("Transfer-Encoding: chunked\r\n".to_owned(), wire)
            }
        }
    }
}

/// `bytes` in pieces of these sizes, over and over.
fn pieces<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut out = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((*size).min(bytes.len()));
        out.push(piece);
        bytes = rest;
    }
    out
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![vec(1..40usize, 1..8), vec(20..3000usize, 1..5)]
}

fn framing(eof: bool) -> impl Strategy<Value = Framing> {
    let delimited = prop_oneof![Just(Framing::Length), sizes().prop_map(Framing::Chunked)];
    delimited.prop_flat_map(move |f| {
        if eof {
            prop_oneof![3 => Just(f), 1 => Just(Framing::Eof)].boxed()
        } else {
            Just(f).boxed()
        }
    })
}

/// Pieces of streams of several kinds, sound and unsound.
fn stream_piece() -> impl Strategy<Value = Vec<u8>> {
    let known = select(vec![
        content("a"),
        content("\\u00e9 \\\" [DONE]"),
        finish(),
        usage(5, 7),
        DONE.to_owned(),
        ": ping\n\n".to_owned(),
        "event: error\ndata: {\"error\":{\"message\":\"x\"}}\n\n".to_owned(),
        "data:{\"choices\":[{\"delta\":{\"reasoning\":\"x\"}}]}\r\n\r\n".to_owned(),
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}}]}\n\n".to_owned(),
        "{\"message\":{\"content\":\"x\"},\"done\":false}\n".to_owned(),
        "data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n".to_owned(),
        "data: {\"broken".to_owned(),
        "\u{feff}".to_owned(),
        "\n\r\n".to_owned(),
    ]);
    prop_oneof![4 => known.prop_map(String::into_bytes), 1 => vec(any::<u8>(), 0..60)]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => vec(stream_piece(), 0..30).prop_map(|pieces| pieces.concat()),
        1 => vec(any::<u8>(), 0..6000),
    ]
}

/// What is said about a reply's content, true or not.
fn head_lines() -> impl Strategy<Value = String> {
    let kind = select(vec![
        "",
        "Content-Type: text/event-stream\r\n",
        "Content-Type: application/x-ndjson\r\n",
        "Content-Type: application/json\r\n",
        "Content-Type: application/octet-stream\r\n",
    ]);
    let coding = select(vec![
        "",
        "",
        "",
        "Content-Encoding: gzip\r\n",
        "Content-Encoding: br\r\n",
        "Content-Encoding: zstd\r\n",
    ]);
    (kind, coding).prop_map(|(kind, coding)| format!("{kind}{coding}"))
}

/// One exchange.
#[derive(Clone, Debug)]
struct Exchange {
    path: &'static str,
    request: Vec<u8>,
    request_framing: Framing,
    request_cuts: Vec<usize>,
    head: String,
    reply: Vec<u8>,
    reply_framing: Framing,
    reply_cuts: Vec<usize>,
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let path = select(vec![
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/api/chat",
        "/v1/embeddings",
        "/x",
    ]);
    let request = prop_oneof![
        Just(br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"\u00e9"}]}"#.to_vec()),
        body()
    ];
    let up = (path, request, framing(false), sizes());
    let down = (head_lines(), body(), framing(true), sizes());
    (up, down).prop_map(
        |((path, request, request_framing, request_cuts), (head, reply, reply_framing, reply_cuts))| Exchange {
            path,
            request,
            request_framing,
            request_cuts,
            head,
            reply,
            reply_framing,
            reply_cuts,
        },
    )
}

async fn goes_through(way: Way, x: &Exchange) {
    let (line, wire) = x.reply_framing.frame(&x.reply);
    let whole = [format!("HTTP/1.1 200 OK\r\n{}{line}\r\n", x.head).into_bytes(), wire].concat();
    let mut script = vec![Step::Body];
    for piece in pieces(&whole, &x.reply_cuts) {
        script.extend([Step::Send(piece.to_vec()), wait(1)]);
    }
    if matches!(x.reply_framing, Framing::Eof) {
        script.push(Step::Close);
    }
    let rig = Rig::new(way, vec![script]);
    let mut client = rig.client();
    let (line, wire) = x.request_framing.frame(&x.request);
    let whole = [
        format!(
            "POST {} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{line}\r\n",
            x.path
        )
        .into_bytes(),
        wire,
    ]
    .concat();
    for piece in pieces(&whole, &x.request_cuts) {
        client.send(piece).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let reply = client.reply().await;
    assert!(reply.complete, "{way:?}");
    assert_eq!(reply.status(), 200);
    assert!(reply.body == x.reply, "{way:?}: the reply has changed");
    assert!(rig.upstream.only().body == x.request, "{way:?}: the request has changed");
    assert_eq!(rig.records().len(), 1);
}

/// A record without what the cuts may change: times, but not whether there are any.
fn timeless(record: &Summary) -> Summary {
    let any = |ms: Option<f64>| ms.map(|_| 0.0);
    Summary {
        ended: 0.0,
        ttft_ms: any(record.ttft_ms),
        visible_ttft_ms: any(record.visible_ttft_ms),
        tpot_ms: any(record.tpot_ms),
        stall_ms: any(record.stall_ms),
        ttfb_ms: any(record.ttfb_ms),
        e2e_ms: 0.0,
        ..record.clone()
    }
}

/// What is recorded, and counted as gaps and tokens, of `stream` sent in these pieces.
async fn recorded(way: Way, stream: &[u8], framing: &Framing, cuts: &[usize]) -> (Summary, Vec<u64>, [u64; 5]) {
    let (line, wire) = framing.frame(stream);
    let mut script = vec![Step::Send(
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{line}\r\n").into_bytes(),
    )];
    for piece in pieces(&wire, cuts) {
        script.extend([Step::Send(piece.to_vec()), wait(1)]);
    }
    if matches!(framing, Framing::Eof) {
        script.push(Step::Close);
    }
    let rig = Rig::new(way, vec![script]);
    rig.client().call(chat()).await;
    let series = rig.series("chat", "m");
    let mut counts: Vec<u64> = series.histograms.iter().map(|h| h.count).collect();
    counts.extend(series.output_tokens);
    (timeless(&rig.record()), counts, rig.snapshot().degraded)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_out_are_bytes_in_whatever_their_framing_and_cuts(x in exchange()) {
        both(|way| {
            let x = &x;
            async move { goes_through(way, x).await }
        });
    }

    #[test]
    fn the_cuts_of_a_stream_change_nothing_but_times(
        pieces in vec(stream_piece(), 0..20),
        done in any::<bool>(),
        framing in framing(true),
        cuts in sizes(),
    ) {
        let mut stream = pieces.concat();
        if done {
            stream.extend_from_slice(DONE.as_bytes());
        }
        both(|way| {
            let (stream, framing, cuts) = (&stream, &framing, &cuts);
            async move {
                let whole = recorded(way, stream, &Framing::Length, &[usize::MAX]).await;
                let cut = recorded(way, stream, framing, cuts).await;
                assert_eq!(cut, whole, "{way:?}");
            }
        });
    }
}
