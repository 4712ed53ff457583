use super::*;

/// What a visitor saw, as text.
#[derive(Debug, Default, PartialEq)]
struct Log(Vec<String>);

impl Visitor<&'static str> for Log {
    fn scalar(&mut self, act: &'static str, value: Scalar<'_>) {
        self.0.push(match value {
            Scalar::Null => format!("{act}=null"),
            Scalar::Bool(b) => format!("{act}={b}"),
            Scalar::Number { integer, zero } => format!("{act}={integer:?}/{zero}"),
            Scalar::Text { len, text } => {
                let text = text.map(|t| String::from_utf8(t.to_vec()).expect("UTF-8"));
                format!("{act}={len}:{}", text.unwrap_or_else(|| "?".to_owned()))
            }
        });
    }

    fn open(&mut self, act: &'static str, container: Container) {
        self.0.push(format!("{act} {container:?}"));
    }

    fn close(&mut self, act: &'static str, container: Container, len: u64) {
        self.0.push(format!("{act} end {container:?} {len}"));
    }
}

fn scan_pieces<'a>(paths: &[&'static str], pieces: impl Iterator<Item = &'a [u8]>) -> (Ended, Vec<String>) {
    let trie = Trie::compile(paths.iter().map(|p| (*p, *p)));
    let (mut scanner, mut log) = (Scanner::new(), Log::default());
    for piece in pieces {
        scanner.feed(&trie, piece, &mut log);
    }
    (scanner.finish(&trie, &mut log), log.0)
}

/// Scans at every two-way cut and byte by byte, which must all agree.
fn scan(paths: &[&'static str], json: &str) -> (Ended, Vec<String>) {
    let whole = scan_pieces(paths, std::iter::once(json.as_bytes()));
    assert_eq!(scan_pieces(paths, json.as_bytes().chunks(1)), whole, "byte by byte: {json}");
    for cut in 1..json.len() {
        let (a, b) = json.as_bytes().split_at(cut);
        assert_eq!(scan_pieces(paths, [a, b].into_iter()), whole, "cut at {cut}: {json}");
    }
    whole
}

fn value(paths: &[&'static str], json: &str) -> Vec<String> {
    let (ended, log) = scan(paths, json);
    assert_eq!(ended, Ended::Value, "{json}");
    log
}

#[test]
fn values_at_watched_paths_are_seen_in_order_and_nothing_else() {
    let json = r#" { "x" : [1, {"a": 2}], "a" : "hi" , "b": { "c" : [ {"d":true}, 7, {"d":null} ], "a": 3 } , "e":-1.5e3 } "#;
    let seen = value(&["a", "b.c", "b.c[].d", "e", "missing"], json);
    assert_eq!(
        seen,
        [
            "a=2:hi",
            "b.c Array",
            "b.c[].d=true",
            "b.c[].d=null",
            "b.c end Array 3",
            "e=None/false"
        ]
    );
}

#[test]
fn an_escaped_key_is_the_key_it_spells() {
    assert_eq!(value(&["model"], r#"{"mod\u0065l":"x","\u006dodel\u0000":1}"#), ["model=1:x"]);
}

#[test]
fn a_longer_key_with_the_same_start_is_another_key() {
    let long = format!(r#"{{"{}":1,"{}\n":2,"model":3}}"#, "model".repeat(80), "m".repeat(300));
    assert_eq!(value(&["model"], &long), ["model=Some(3)/false"]);
}

#[test]
fn text_is_decoded_and_its_length_is_that_on_the_wire() {
    let seen = value(&["a"], r#"{"a":"q\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"}"#);
    assert_eq!(seen, [format!("a={}:q\"\\/\u{8}\u{c}\n\r\té😀é", 1 + 16 + 6 + 12 + 2)]);
}

#[test]
fn an_unpaired_surrogate_reads_as_a_replacement_character() {
    let seen = value(&["a"], r#"{"a":"\ud83dx\udc00\ud83d\n\ud83d"}"#);
    assert_eq!(seen, ["a=27:\u{FFFD}x\u{FFFD}\u{FFFD}\n\u{FFFD}"]);
}

#[test]
fn text_past_the_cap_is_known_by_its_length_only() {
    for (n, known) in [(MAX_TEXT, true), (MAX_TEXT + 1, false)] {
        let text = "x".repeat(n);
        let shown = if known { text.as_str() } else { "?" };
        assert_eq!(value(&["a"], &format!(r#"{{"a":"{text}"}}"#)), [format!("a={n}:{shown}")]);
        let escaped = format!(r#"{{"a":"\u0078{}"}}"#, "x".repeat(n - 1));
        assert_eq!(value(&["a"], &escaped), [format!("a={}:{shown}", n + 5)]);
    }
}

#[test]
fn containers_tell_their_length() {
    assert_eq!(value(&["a"], r#"{"a":[]}"#), ["a Array", "a end Array 0"]);
    assert_eq!(value(&["a"], r#"{"a":[ {},[[ ]], 1 ]}"#), ["a Array", "a end Array 3"]);
    assert_eq!(value(&["a"], r#"{"a":{ }}"#), ["a Object", "a end Object 0"]);
    assert_eq!(value(&["a"], r#"{"a":{"b":{"a":1},"c":[]}}"#), ["a Object", "a end Object 2"]);
}

#[test]
fn the_root_can_be_any_value() {
    assert_eq!(value(&[""], "12"), ["=Some(12)/false"]);
    assert_eq!(value(&[""], " null\n"), ["=null"]);
    assert_eq!(value(&[""], "[1,2]"), [" Array", " end Array 2"]);
    assert_eq!(value(&["a"], r#""text""#), Vec::<String>::new());
}

#[test]
fn white_space_alone_is_blank() {
    assert_eq!(scan(&["a"], "").0, Ended::Blank);
    assert_eq!(scan(&["a"], " \r\n\t").0, Ended::Blank);
}

#[test]
fn broken_input_is_an_error_and_never_a_value() {
    for json in [
        "{",
        "[",
        "}",
        "]",
        ",",
        ":",
        "{]",
        "[}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "[1,]",
        "[,1]",
        "{,}",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{1:1}",
        "nul",
        "nulll",
        "truex",
        "fals",
        "tru e",
        "01",
        "1.",
        "-",
        "+1",
        "1e",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "{}{}",
        "1 2",
        "[DONE]",
        "{\"a\":[1}",
        "{\"a\":{]}",
        "{\"x\":{\"y\":[}]}}",
        "\u{FEFF}{}",
        "'a'",
    ] {
        assert_eq!(scan(&["a", ""], json).0, Ended::Broken, "{json}");
    }
}

#[test]
fn nesting_far_beyond_any_stack_is_skipped_by_counting() {
    let depth = 100_000;
    let json = format!(r#"{{"x":{}1{},"a":5}}"#, "[".repeat(depth), "]".repeat(depth));
    let seen = scan_pieces(&["a"], json.as_bytes().chunks(4096));
    assert_eq!(seen, (Ended::Value, vec!["a=Some(5)/false".to_owned()]));
    // Deeper than what is checked by kind, brackets only have to balance.
    let mixed = format!("{}{}", "[".repeat(70), "}".repeat(70));
    assert_eq!(
        scan(&["a"], &format!(r#"{{"x":{mixed}}}"#)).0,
        Ended::Broken,
        "the outer levels are still checked"
    );
}

#[test]
fn a_broken_scanner_reads_on_after_a_reset() {
    let trie = Trie::compile([("a", "a")]);
    let (mut scanner, mut log) = (Scanner::new(), Log::default());
    scanner.feed(&trie, br#"{"a":1,"x":[[{"a":"\u00"#, &mut log);
    assert_eq!(scanner.finish(&trie, &mut log), Ended::Broken);
    scanner.reset();
    scanner.feed(&trie, br#"{"a":2}"#, &mut log);
    assert_eq!(scanner.finish(&trie, &mut log), Ended::Value);
    assert_eq!(log.0, ["a=Some(1)/false", "a=Some(2)/false"]);
}
