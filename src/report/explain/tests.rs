use super::*;
use crate::measure::profile::{Read, Recording};

/// TTFT 500 ms, 100 tokens, 700 ms of decode, with a role-only event first.
fn worked_example() -> Recorded {
    let event = |delta: &str| format!("data: {{\"object\":\"chat.completion.chunk\",\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    let mut reads = vec![Read {
        at_ns: 0,
        bytes: event("{\"role\":\"assistant\",\"content\":\"\"}").into_bytes(),
    }];
    reads.extend((0..100).map(|i| {
        let at_ns = 500_000_000 + i * 700_000_000 / 99;
        Read {
            at_ns,
            bytes: event("{\"content\":\"t \"}").into_bytes(),
        }
    }));
    reads.push(Read {
        at_ns: 1_200_000_000,
        bytes: b"data: [DONE]\n\n".to_vec(),
    });
    let recording = Recording {
        api: Api::Chat,
        reads,
        closed_ns: 1_200_000_000,
    };
    Recorded {
        recording,
        timed: true,
        complete: true,
        ..Recorded::default()
    }
}

#[test]
fn the_table_holds_every_profile_and_its_own_names() {
    let recorded = worked_example();
    let text = render(&recorded, &rows(&recorded, None).unwrap(), Format::Text);
    let line = |name: &str| {
        text.lines()
            .find(|l| l.starts_with(name))
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert!(line("genai-perf").starts_with("genai-perf 500.0 ITL 7.07 "), "{text}");
    assert!(line("llmperf").starts_with("llmperf 500.0 ITL 11.88 "), "{text}");
    assert!(
        line("guidellm").starts_with("guidellm 500.0 TPOT 12.00, ITL 7.07 1200.0 100 events"),
        "{text}"
    );
    for name in names() {
        assert!(text.contains(&format!("{name} (")), "{name} has no definition");
    }
}

#[test]
fn goodput_reads_the_recording_with_the_live_decoder_and_meter() {
    let recorded = worked_example();
    let row = &rows(&recorded, Some("goodput")).unwrap()[0];
    assert_eq!(
        (row.answer.ttft_ns, row.answer.e2e_ns, row.answer.n),
        (Some(500_000_000), Some(1_200_000_000), Some(100))
    );
    assert_eq!(row.answer.figure("TPOT").unwrap().ns, Some(700_000_000.0 / 99.0));
}

#[test]
fn one_profile_can_be_asked_for_and_an_unknown_one_is_none() {
    let recorded = worked_example();
    assert_eq!(rows(&recorded, Some("llmperf")).unwrap().len(), 1);
    assert_eq!(rows(&recorded, Some("nothing")), None);
}

#[test]
fn without_times_only_counts_are_told() {
    let recorded = Recorded {
        timed: false,
        ..worked_example()
    };
    let json: Value =
        serde_json::from_str(&render(&recorded, &rows(&recorded, Some("guidellm")).unwrap(), Format::Json)).unwrap();
    assert_eq!(json["profiles"][0]["ttft_ms"], Value::Null);
    assert_eq!(json["profiles"][0]["n"], 100);
}

#[test]
fn another_api_is_explained_by_goodput_alone() {
    let recorded = Recorded {
        path: Some("/v1/messages".into()),
        ..worked_example()
    };
    assert_eq!(
        rows(&recorded, None).unwrap().iter().map(|r| r.name).collect::<Vec<_>>(),
        ["goodput"]
    );
    assert_eq!(rows(&recorded, Some("aiperf")), Some(vec![]));
}

#[test]
fn a_reply_that_is_not_200_has_failed_for_every_tool() {
    let recorded = Recorded {
        status: Some(429),
        ..worked_example()
    };
    let rows = rows(&recorded, None).unwrap();
    assert!(rows[1..].iter().all(|r| r.answer.failed.as_deref() == Some("status 429")));
}
