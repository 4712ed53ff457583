//! One stream, cut wherever a network may cut it.

use goodput_proxy::measure::Degraded;

use super::super::rig::{DONE, Rig, Step, both, chat, chunked, content, finish, sse_head, usage, wait};
use super::framing::{GAP, script};

/// A stream with text of several bytes a character.
fn recorded() -> String {
    [&content("A"), &content("北京🌍é"), &finish(), &usage(3, 2), DONE].concat()
}

#[test]
fn a_stream_cut_anywhere_passes_at_once_and_gives_the_same_tokens() {
    both(|way| async move {
        let whole = recorded();
        let first = content("A").len();
        let cuts: Vec<usize> = (1..whole.len()).collect();
        let scripts = cuts
            .iter()
            .map(|cut| script(&[whole.as_bytes()[..*cut].to_vec(), whole.as_bytes()[*cut..].to_vec()]))
            .collect();
        let rig = Rig::new(way, scripts);
        let mut client = rig.client();
        for cut in &cuts {
            let from = client.reads.len();
            let reply = client.call(chat()).await;
            assert_eq!(reply.text(), whole, "cut at {cut}");
            let begin = client.reads[from].0;
            let at_once: usize = client.reads[from..].iter().filter(|r| r.0 == begin).map(|r| r.1).sum();
            let part = chunked(&whole.as_bytes()[..*cut]).len();
            assert_eq!(
                at_once,
                reply.head.len() + part,
                "cut at {cut}: the first part waits for nothing"
            );
            let record = rig.records().pop().unwrap();
            let expected = if *cut < first { GAP as f64 } else { 0.0 };
            assert_eq!(
                (record.outcome, record.output_tokens, record.ttft_ms),
                ("ok", Some(2), Some(expected)),
                "cut at {cut}: an event has the time of the read that completes it"
            );
        }
        assert_eq!(rig.snapshot().degraded, [0; Degraded::ALL.len()]);
    });
}

#[test]
fn the_transfer_coding_cut_anywhere_gives_the_same_stream() {
    both(|way| async move {
        let whole = recorded();
        let wire = [chunked(&whole[..100]), chunked(&whole[100..]), b"0\r\n\r\n".to_vec()].concat();
        let scripts = (1..wire.len())
            .map(|cut| {
                vec![
                    sse_head(),
                    Step::Send(wire[..cut].to_vec()),
                    wait(1),
                    Step::Send(wire[cut..].to_vec()),
                ]
            })
            .collect();
        let rig = Rig::new(way, scripts);
        let mut client = rig.client();
        for cut in 1..wire.len() {
            let reply = client.call(chat()).await;
            assert_eq!(reply.text(), whole, "cut at {cut}");
            let record = rig.records().pop().unwrap();
            assert_eq!((record.outcome, record.output_tokens), ("ok", Some(2)), "cut at {cut}");
        }
        assert_eq!(rig.upstream.connections(), 1, "each reply ended where it should");
    });
}

#[test]
fn pieces_of_any_size_give_the_bytes_that_came_in() {
    both(|way| async move {
        let whole = recorded();
        let sizes = [1, 2, 3, 5, 7, 64, 4096];
        let scripts = sizes.iter().map(|size| {
            let pieces: Vec<Vec<u8>> = whole.as_bytes().chunks(*size).map(<[u8]>::to_vec).collect();
            script(&pieces)
        });
        let rig = Rig::new(way, scripts.collect());
        for size in sizes {
            let reply = rig.client().call(chat()).await;
            assert_eq!(reply.text(), whole, "pieces of {size}");
            assert_eq!(rig.records().pop().unwrap().output_tokens, Some(2), "pieces of {size}");
        }
    });
}
