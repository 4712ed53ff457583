//! `inject_usage`, end to end.

use super::*;

fn rig() -> Rig {
    Rig::with(&Config {
        inject_usage: true,
        ..Config::default()
    })
}

const TOKEN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":7}}\n\n";

fn chunk(text: &str) -> String {
    format!("{:X}\r\n{text}\r\n", text.len())
}

async fn ask(client: &mut Peer, body: &str) {
    let length = body.len();
    client
        .send(format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
        .await;
}

#[tokio::test(start_paused = true)]
async fn usage_is_asked_for_and_its_event_taken_out_again() {
    let mut rig = rig();
    let mut client = rig.client();
    ask(&mut client, "{\"stream\":true}").await;
    let mut upstream = rig.upstream().await;
    let head = upstream.head().await.to_ascii_lowercase();
    assert!(
        head.contains("transfer-encoding: chunked\r\n") && !head.contains("content-length"),
        "{head}"
    );
    assert!(!head.contains("accept-encoding"), "{head}");
    let sent = chunk("{\"stream\":true,\"stream_options\":{\"include_usage\":true}}") + "0\r\n\r\n";
    assert_eq!(upstream.bytes(sent.len()).await, sent);
    let reply = [TOKEN, USAGE, "data: [DONE]\n\n"].map(chunk).concat();
    upstream
        .send(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{reply}0\r\n\r\n"
        ))
        .await;
    client.head().await;
    let want = [TOKEN, "data: [DONE]\n\n"].map(chunk).concat() + "0\r\n\r\n";
    assert_eq!(client.bytes(want.len()).await, want);
    assert_eq!(rig.proxy.observer.recent(1).remove(0).output_tokens, Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_scrape_while_the_stream_runs_counts_its_tokens_from_the_usage_to_come() {
    let mut rig = rig();
    let mut client = rig.client();
    ask(&mut client, "{\"stream\":true}").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    client.head().await;
    upstream.send(chunk(TOKEN)).await;
    client.bytes(chunk(TOKEN).len()).await;
    let snapshot = rig.proxy.observer.snapshot(crate::clock::now());
    let counted = |i: usize| snapshot.series.iter().map(|s| s.output_tokens[i]).sum::<u64>();
    assert_eq!([counted(0), counted(1)], [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asked_itself_keeps_its_event() {
    let mut rig = rig();
    let mut client = rig.client();
    ask(&mut client, "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    upstream
        .send(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{USAGE}",
            USAGE.len()
        ))
        .await;
    let head = client.head().await;
    assert!(head.contains(&format!("content-length: {}\r\n", USAGE.len())), "{head}");
    assert_eq!(client.bytes(USAGE.len()).await, USAGE);
}

#[tokio::test(start_paused = true)]
async fn half_an_event_before_a_reset_is_delivered_and_then_the_client_is_cut_off() {
    let mut rig = rig();
    let mut client = rig.client();
    ask(&mut client, "{\"stream\":true}").await;
    let mut upstream = rig.upstream().await;
    upstream.head().await;
    let sent = chunk("{\"stream\":true,\"stream_options\":{\"include_usage\":true}}") + "0\r\n\r\n";
    upstream.bytes(sent.len()).await;
    let reply = [TOKEN, "data: {\"cho"].map(chunk).concat();
    upstream
        .send(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{reply}"
        ))
        .await;
    client.head().await;
    settle().await;
    drop(upstream);
    assert_eq!(client.rest().await, reply);
}
