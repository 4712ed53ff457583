use super::*;

fn facts(body: &str) -> RequestFacts {
    let read = |pieces: &[&[u8]]| {
        let mut scanner = RequestScanner::new(Some("application/json"), None);
        for piece in pieces {
            scanner.feed(piece);
        }
        scanner.facts()
    };
    let whole = read(&[body.as_bytes()]);
    for cut in 1..body.len() {
        let (a, b) = body.as_bytes().split_at(cut);
        assert_eq!(read(&[a, b]), whole, "cut at {cut}: {body}");
    }
    whole
}

#[test]
fn the_wanted_keys_are_found_behind_the_big_part() {
    let body = r#"{"messages":[{"role":"user","content":"\"model\":\"no\""},{"model":"no","stream":false}],
        "tools":[{"type":"function"}],"response_format":{"type":"json_object"},"n":2,"max_completion_tokens":64,
        "stream_options":{"include_usage":true},"stream":true,"model":"m"}"#;
    let expected = RequestFacts {
        model: Some("m".into()),
        stream: Some(true),
        n: Some(2),
        max_tokens: Some(64),
        messages: Some(2),
        prompts: None,
        tools: Some(1),
        response_format: true,
        stream_options: true,
        include_usage: Some(true),
    };
    assert_eq!(facts(body), expected);
}

#[test]
fn the_last_of_a_key_given_twice_counts() {
    let read = facts(
        r#"{"model":"a","model":"b","stream":true,"stream":null,"n":2,"n":"x","tools":[1],"tools":null,"response_format":{},"response_format":null}"#,
    );
    let expected = RequestFacts {
        model: Some("b".into()),
        ..RequestFacts::default()
    };
    assert_eq!(read, expected);
    let options = facts(r#"{"stream_options":{"include_usage":true},"stream_options":null}"#);
    assert_eq!((options.stream_options, options.include_usage), (true, None));
}

#[test]
fn every_name_of_the_token_limit_is_known() {
    for (body, limit) in [
        (r#"{"max_tokens":1}"#, Some(1)),
        (r#"{"max_completion_tokens":2}"#, Some(2)),
        (r#"{"max_output_tokens":3}"#, Some(3)),
        (r#"{"max_new_tokens":4}"#, Some(4)),
        (r#"{"n_predict":-1}"#, None),
        (r#"{"options":{"num_predict":6}}"#, Some(6)),
        (r#"{"parameters":{"max_new_tokens":7}}"#, Some(7)),
        (r#"{"sampling_params":{"max_new_tokens":8}}"#, Some(8)),
        (r#"{"max_tokens":9,"max_completion_tokens":null}"#, Some(9)),
        (r#"{"max_completion_tokens":10,"max_tokens":11}"#, Some(11)),
    ] {
        assert_eq!(facts(body).max_tokens, limit, "{body}");
    }
}

#[test]
fn prompts_are_strings_or_token_lists_and_a_token_list_is_one_prompt() {
    for (body, prompts) in [
        (r#"{"prompt":"a"}"#, None),
        (r#"{"prompt":["a","b"]}"#, Some(2)),
        (r#"{"prompt":[[1,2],[3]]}"#, Some(2)),
        (r#"{"prompt":[1,2,3]}"#, None),
        (r#"{"prompt":[]}"#, None),
        (r#"{"prompt":["a"],"prompt":["a","b","c"]}"#, Some(3)),
        (r#"{"prompt":["a"],"prompt":"b"}"#, None),
    ] {
        assert_eq!(facts(body).prompts, prompts, "{body}");
    }
}

#[test]
fn a_list_input_counts_as_messages_and_messages_win() {
    assert_eq!(facts(r#"{"input":[1,2]}"#).messages, Some(2));
    assert_eq!(facts(r#"{"input":"text"}"#).messages, None);
    assert_eq!(facts(r#"{"messages":[1],"input":[1,2]}"#).messages, Some(1));
}

#[test]
fn a_model_name_past_the_cap_is_unknown() {
    let model = |n| facts(&format!(r#"{{"model":"{}"}}"#, "m".repeat(n))).model;
    assert_eq!(model(RequestFacts::MAX_MODEL).map(|m| m.len()), Some(RequestFacts::MAX_MODEL));
    assert_eq!(model(RequestFacts::MAX_MODEL + 1), None);
    const { assert!(RequestFacts::MAX_MODEL == crate::wire::scan::MAX_TEXT) };
}

#[test]
fn what_is_no_json_object_says_nothing() {
    for body in [
        "",
        "[]",
        "null",
        "x",
        "model=m&stream=true",
        r#"[{"model":"m"}]"#,
        r#""model""#,
    ] {
        assert_eq!(facts(body), RequestFacts::default(), "{body}");
    }
}

// P042
#[test]
fn a_large_body_is_read_in_constant_memory() {
    let mut scanner = RequestScanner::new(None, None);
    scanner.feed(br#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,"#);
    let piece = [b'A'; 1 << 16];
    for _ in 0..160 {
        scanner.feed(&piece);
    }
    scanner.feed(br#""}}]}],"model":"m","stream":true}"#);
    let facts = scanner.facts();
    assert_eq!(
        (facts.model.as_deref(), facts.stream, facts.messages),
        (Some("m"), Some(true), Some(1))
    );
}

// P023
#[test]
fn a_compressed_body_is_read_and_an_unreadable_one_stays_unknown() {
    let body = br#"{"model":"m","stream":true}"#;
    let zstd = zstd::bulk::compress(body, 3).expect("memory");
    for (encoding, bytes, model) in [
        ("zstd", zstd.as_slice(), Some("m")),
        ("zstd, gzip", &zstd, None),
        ("zstd", body, None),
    ] {
        let mut scanner = RequestScanner::new(Some("application/json"), Some(encoding));
        bytes.chunks(5).for_each(|piece| scanner.feed(piece));
        assert_eq!(scanner.facts().model.as_deref(), model, "{encoding}");
    }
}

// P044
#[test]
fn a_form_or_a_sound_holds_no_facts() {
    for content_type in ["multipart/form-data; boundary=x", "Audio/wav"] {
        let mut scanner = RequestScanner::new(Some(content_type), None);
        scanner.feed(br#"{"model":"m"}"#);
        assert_eq!(scanner.facts(), RequestFacts::default());
    }
}
