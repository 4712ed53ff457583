//! Every definition profile against every recorded answer of the tool it follows.

use goodput_proxy::measure::profile::{Answer, Api, CountedFrom, PROFILES, Read, Recording, find};
use serde_json::Value;

const VECTORS: &str = include_str!("../fixtures/vectors/openai_chat.json");

/// The key of a tool's answers in the file, and the profile that must reproduce them.
const TOOLS: [(&str, &str); 8] = [
    ("vllm0.19.1", "vllm-bench-0.19"),
    ("vllm0.32.0", "vllm-bench-0.32"),
    ("vllm0.33.0", "vllm-bench"),
    ("aiperf-0.13.0", "aiperf"),
    ("genai-perf-263c5f6 (stream without usage event)", "genai-perf"),
    ("llmperf-f1d6bed (stream without usage event)", "llmperf"),
    ("guidellm-0.8.1", "guidellm"),
    ("inference-perf-7de5ef2", "inference-perf"),
];

/// The file rounds to 1e-3 ms.
const TOLERANCE_MS: f64 = 1.001e-3;

/// How many values the file holds, so that none is skipped unseen.
const VALUES: usize = 933;

#[test]
fn every_answer_of_every_tool_is_reproduced() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for vector in file["vectors"].as_array().unwrap() {
        let recording = recording(vector);
        let expected = vector["expect"].as_object().unwrap();
        assert_eq!(
            expected.len(),
            TOOLS.len(),
            "{}: a tool is missing from the table",
            vector["id"]
        );
        for (tool, profile) in TOOLS {
            let answer = find(profile).unwrap().answer(&recording);
            for (key, want) in expected[tool].as_object().unwrap() {
                compared += 1;
                if let Err(got) = compare(profile, &answer, key, want) {
                    wrong.push(format!("{} {tool} {key}: want {want}, got {got}", vector["id"]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(compared, VALUES);
}

/// TTFT 500 ms, 100 tokens, 700 ms of decode: the best known disagreement.
#[test]
fn the_worked_example_gives_7_07_and_12_00_and_with_a_role_event_11_88() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let hundredths = |id: &str, profile: &str, figure: &str| {
        let vector = file["vectors"].as_array().unwrap().iter().find(|v| v["id"] == id).unwrap();
        let answer = find(profile).unwrap().answer(&recording(vector));
        (answer.figure(figure).unwrap().ns.unwrap() / 1e4).round() as u64
    };
    assert_eq!(hundredths("TV1", "genai-perf", "ITL"), 707);
    assert_eq!(hundredths("TV1", "llmperf", "ITL"), 1200);
    assert_eq!(hundredths("TV1b", "llmperf", "ITL"), 1188);
    assert_eq!(hundredths("TV1", "guidellm", "TPOT"), 1200);
}

/// MLPerf has no recorded answers: the load generator's formula on the stream whose first event holds five of ten tokens.
#[test]
fn mlperf_divides_by_the_tokens_after_the_first_chunk_and_loadgen_by_n_minus_one() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let vector = file["vectors"].as_array().unwrap().iter().find(|v| v["id"] == "TV6").unwrap();
    let answer = find("mlperf").unwrap().answer(&recording(vector));
    assert_eq!(
        (answer.ttft_ns, answer.e2e_ns, answer.n),
        (Some(100_000_000), Some(150_000_000), Some(10))
    );
    assert_eq!(answer.figure("TPOT").unwrap().ns, Some(10_000_000.0));
    assert_eq!(answer.figure("LoadGen TPOT").unwrap().ns, Some(5_555_555.0));
    assert_eq!(answer.gaps.unwrap().ns, [10_000_000; 5]);
}

#[test]
fn loadgen_stores_a_negative_tpot_for_one_token() {
    let token = r#"data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"a"}}]}"#;
    let reads = vec![Read {
        at_ns: 500,
        bytes: format!("{token}\n\n").into_bytes(),
    }];
    let answer = find("mlperf").unwrap().answer(&Recording {
        api: Api::Chat,
        reads,
        closed_ns: 700,
    });
    assert_eq!(answer.figure("LoadGen TPOT").unwrap().ns, Some(-200.0));
    assert_eq!(answer.figure("TPOT").unwrap().ns, None);
}

#[test]
fn completions_text_is_read_by_every_tool_that_has_that_endpoint() {
    let event = |text: &str| format!("data: {{\"object\":\"text_completion\",\"choices\":[{{\"text\":\"{text}\"}}]}}\n\n");
    let reads = [(100, event("a ")), (140, event("b ")), (140, "data: [DONE]\n\n".into())];
    let reads = reads.map(|(at_ns, text): (u64, String)| Read {
        at_ns,
        bytes: text.into_bytes(),
    });
    let recording = Recording {
        api: Api::Completions,
        reads: reads.into(),
        closed_ns: 150,
    };
    for profile in PROFILES {
        let answer = profile.answer(&recording);
        if profile.name == "llmperf" {
            assert!(
                answer.failed.unwrap().contains("choices[0].delta"),
                "its client is for chat only"
            );
            continue;
        }
        assert_eq!(
            (answer.ttft_ns, answer.n, answer.failed),
            (Some(100), Some(2), None),
            "{}",
            profile.name
        );
    }
}

#[test]
fn profile_names_are_unique() {
    for profile in PROFILES {
        assert!(std::ptr::eq(find(profile.name).unwrap(), *profile), "{}", profile.name);
    }
}

fn recording(vector: &Value) -> Recording {
    let ns = |v: &Value| (v.as_f64().unwrap() * 1e6).round() as u64;
    let read = |r: &Value| Read {
        at_ns: ns(&r["t_ms"]),
        bytes: r["bytes"].as_str().unwrap().as_bytes().to_vec(),
    };
    assert_eq!(vector["start_ms"], 0);
    Recording {
        api: Api::Chat,
        reads: vector["reads"].as_array().unwrap().iter().map(read).collect(),
        closed_ns: ns(&vector["conn_close_ms"]),
    }
}

/// `Err` says what came instead.
fn compare(profile: &str, answer: &Answer, key: &str, want: &Value) -> Result<(), String> {
    let ms = |ns: Option<f64>| ns.map(|v| v / 1e6);
    let whole = |ns: Option<u64>| ms(ns.map(|v| v as f64));
    let figure = |name: &str| ms(answer.figure(name).and_then(|f| f.ns));
    let gaps: Vec<f64> = answer
        .gaps
        .iter()
        .flat_map(|g| g.ns.iter().map(|ns| *ns as f64 / 1e6))
        .collect();
    let n = answer.n.map(|n| n as f64);
    let per_second = |count: Option<f64>, ns: Option<u64>| count.zip(ns).filter(|p| p.1 > 0).map(|(c, ns)| c / (ns as f64 / 1e9));
    let got = match (profile, key) {
        (_, "failed" | "errored") => return ok(answer.failed.is_some(), &answer.failed),
        ("aiperf", "valid") => return ok(want == &Value::Bool(answer.failed.is_none()), &answer.failed),
        ("llmperf", "err") => return error_code(answer, want),
        (_, "itl_first8" | "icl" | "itl_list") => return list(&gaps, want),
        (_, "itl_count") => return ok(want.as_u64() == Some(gaps.len() as u64), &gaps.len()),
        (_, "ttft") => whole(answer.ttft_ns),
        (_, "e2e" | "e2el") => whole(answer.e2e_ns),
        (_, "n" | "osl") => n,
        ("llmperf", "events") => answer.events.map(|e| e as f64),
        (_, "tpot") => figure("TPOT"),
        (_, "itl") if profile == "llmperf" => figure("ITL").or(Some(0.0)),
        (_, "itl") => figure("ITL"),
        (_, "ntpot") => figure("NTPOT"),
        (_, "ttst") => figure("TTST"),
        (_, "ttfo") => figure("TTFO"),
        (_, "ttfot") => figure("TTFOT"),
        (_, "tps_user") => figure("ITL").map(|ms| 1e3 / ms),
        (_, "tput" | "e2e_tps") => per_second(n, answer.e2e_ns),
        _ => return Err("no such key in the test".into()),
    };
    // GenAI-Perf's lists hold one value or none.
    let want = want
        .as_array()
        .map_or(Some(want), |list| list.first())
        .and_then(Value::as_f64);
    let same = match (want, got) {
        (Some(w), Some(g)) => (w - g).abs() <= TOLERANCE_MS,
        (None, None) => true,
        _ => false,
    };
    ok(same, &got)
}

fn ok(same: bool, got: &dyn std::fmt::Debug) -> Result<(), String> {
    if same { Ok(()) } else { Err(format!("{got:?}")) }
}

fn list(got: &[f64], want: &Value) -> Result<(), String> {
    let want: Vec<f64> = want.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    let first = &got[..got.len().min(8)];
    ok(
        first.len() == want.len() && first.iter().zip(&want).all(|(g, w)| (g - w).abs() <= TOLERANCE_MS),
        &first,
    )
}

fn error_code(answer: &Answer, want: &Value) -> Result<(), String> {
    let said = answer.failed.as_deref();
    let same = match want.as_i64() {
        Some(code) => said.is_some_and(|s| s.starts_with(&format!("error code {code}:"))),
        None => said.is_none(),
    };
    ok(same, &said)
}

#[test]
fn the_source_of_n_is_named() {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let of = |id: &str, profile: &str| {
        let vector = file["vectors"].as_array().unwrap().iter().find(|v| v["id"] == id).unwrap();
        find(profile).unwrap().answer(&recording(vector)).counted_from.unwrap()
    };
    assert_eq!(of("TV5", "guidellm"), CountedFrom::Usage);
    assert_eq!(of("TV5b", "guidellm"), CountedFrom::Events);
    assert_eq!(of("TV5b", "vllm-bench"), CountedFrom::ClientTokenizer);
}
