//! Properties: the scanner reads what `serde_json` reads, at any cut, in any spelling.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// JSON as written: members in order, keys possibly given twice.
#[derive(Clone, Debug)]
enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

const KEYS: [&str; 6] = ["a", "b", "model", "a\"b", "é", ""];

/// Watched: all of these at once. `b` below the root, and `model` below it, are on the way to one only.
const PATHS: [&str; 7] = ["", "a", "a.b", "a[]", "a[].b", "b.model.a", "model"];

fn json() -> impl Strategy<Value = Json> {
    let number = prop_oneof![
        any::<u64>().prop_map(|n| n.to_string()),
        any::<i32>().prop_map(|n| n.to_string()),
        (any::<i16>(), 0..1000u32, -9..9i32).prop_map(|(a, b, e)| format!("{a}.{b:03}e{e}")),
        Just("18446744073709551616".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number.prop_map(Json::Number),
        any::<String>().prop_map(Json::Text),
        (250..260usize).prop_map(|n| Json::Text("é".repeat(n / 2))),
    ];
    leaf.prop_recursive(6, 48, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
            prop::collection::vec((prop::sample::select(&KEYS[..]), inner), 0..6).prop_map(Json::Object),
        ]
    })
}

/// Whether a key at `path` may be given twice, so that the last value is the one that stands: a visitor hears of the second
/// value, and can drop what the first one held, where the path itself is watched or nothing below it is.
fn may_repeat(path: &str) -> bool {
    let leads_on = |watched: &&str| watched.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    !path.contains('[') && (PATHS.contains(&path) || !PATHS.iter().any(leads_on))
}

/// Writes JSON in one of its many spellings, picked by `style`.
struct Writer<'a> {
    out: String,
    style: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Writer<'_> {
    fn pick(&mut self) -> u8 {
        *self.style.next().expect("a cycle of at least one")
    }

    fn space(&mut self) {
        let blank = ["", "", "", " ", "\n", " \t\r\n"][usize::from(self.pick()) % 6];
        self.out.push_str(blank);
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            if self.pick().is_multiple_of(4) {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    self.out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                let quoted = serde_json::to_string(&c).expect("a character");
                self.out.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
        self.out.push('"');
    }

    fn value(&mut self, json: &Json, path: &str) {
        self.space();
        match json {
            Json::Null => self.out.push_str("null"),
            Json::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Json::Number(n) => self.out.push_str(n),
            Json::Text(text) => self.text(text),
            Json::Array(elements) => {
                self.out.push('[');
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    self.value(element, &format!("{path}[]"));
                }
                self.space();
                self.out.push(']');
            }
            Json::Object(members) => {
                self.out.push('{');
                let mut written = Vec::new();
                for (key, member) in members {
                    let below = if path.is_empty() {
                        (*key).to_owned()
                    } else {
                        format!("{path}.{key}")
                    };
                    if written.contains(key) && !may_repeat(&below) {
                        continue;
                    }
                    if !written.is_empty() {
                        self.out.push(',');
                    }
                    written.push(*key);
                    self.space();
                    self.text(key);
                    self.space();
                    self.out.push(':');
                    self.value(member, &below);
                }
                self.space();
                self.out.push('}');
            }
        }
        self.space();
    }
}

fn write(json: &Json, style: &[u8]) -> String {
    let mut writer = Writer {
        out: String::new(),
        style: style.iter().cycle(),
    };
    writer.value(json, "");
    writer.out
}

/// What stands at the watched paths, the last of a key given twice.
#[derive(Debug, Default)]
struct Last(Vec<(&'static str, String)>);

impl Last {
    fn put(&mut self, path: &'static str, value: String) {
        if !path.contains('[') {
            self.0.retain(|(p, _)| !p.starts_with(path));
        }
        self.0.push((path, value));
    }
}

impl Visitor<&'static str> for Last {
    fn scalar(&mut self, path: &'static str, value: Scalar<'_>) {
        let value = match value {
            Scalar::Null => "null".to_owned(),
            Scalar::Bool(b) => b.to_string(),
            Scalar::Number { integer, zero } => format!("{integer:?} {zero}"),
            Scalar::Text { len, text } => {
                assert_eq!(len == 0, text == Some(b""));
                format!("{:?}", text.map(|t| String::from_utf8(t.to_vec()).expect("UTF-8")))
            }
        };
        self.put(path, value);
    }

    fn open(&mut self, path: &'static str, container: Container) {
        self.put(path, format!("{container:?}"));
    }

    fn close(&mut self, path: &'static str, container: Container, len: u64) {
        let open = self
            .0
            .iter_mut()
            .rev()
            .find(|(p, v)| *p == path && *v == format!("{container:?}"));
        let (_, value) = open.expect("opened before");
        // A key given twice is two members here and one there.
        let len = if container == Container::Object { len.min(1) } else { len };
        value.push_str(&format!(" {len}"));
    }
}

/// What `serde_json` has at `path`, in the same words.
fn reference(value: &Value, path: &'static str) -> Vec<(&'static str, String)> {
    let mut at = vec![value];
    for step in path.split('.').filter(|s| !s.is_empty()) {
        let key = step.trim_end_matches("[]");
        at = at.into_iter().filter_map(|v| v.as_object()?.get(key)).collect();
        if step.ends_with("[]") {
            at = at.into_iter().filter_map(Value::as_array).flatten().collect();
        }
    }
    let say = |value: &Value| match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => format!("{:?} {}", n.as_u64(), n.as_f64() == Some(0.0)),
        Value::String(s) => format!("{:?}", Some(s).filter(|s| s.len() <= MAX_TEXT)),
        Value::Array(a) => format!("Array {}", a.len()),
        Value::Object(o) => format!("Object {}", o.len().min(1)),
    };
    at.into_iter().map(|v| (path, say(v))).collect()
}

fn trie() -> Trie<&'static str> {
    Trie::compile(PATHS.map(|p| (p, p)))
}

/// Cuts `bytes` at the places that `cuts` names.
fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
}

fn scan(pieces: &[&[u8]]) -> (Ended, Last) {
    let (trie, mut scanner, mut last) = (trie(), Scanner::new(), Last::default());
    for piece in pieces {
        scanner.feed(&trie, piece, &mut last);
    }
    (scanner.finish(&trie, &mut last), last)
}

proptest! {
    #[test]
    fn the_scanner_reads_what_serde_json_reads(
        json in json(),
        style in prop::collection::vec(any::<u8>(), 1..64),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let text = write(&json, &style);
        let value: Value = serde_json::from_str(&text).expect("valid by construction");
        let (ended, mut seen) = scan(&pieces(text.as_bytes(), &cuts));
        prop_assert_eq!(ended, Ended::Value);
        let mut expected: Vec<_> = PATHS.iter().flat_map(|p| reference(&value, p)).collect();
        // Both orders are those of the input within a path.
        expected.sort_by_key(|(p, _)| *p);
        seen.0.sort_by_key(|(p, _)| *p);
        prop_assert_eq!(seen.0, expected);
    }

    #[test]
    fn damaged_json_never_panics_and_reads_the_same_at_any_cut(
        json in json(),
        style in prop::collection::vec(any::<u8>(), 1..64),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        struct Nothing;
        impl Visitor<&'static str> for Nothing {
            fn scalar(&mut self, _: &'static str, _: Scalar<'_>) {}
            fn open(&mut self, _: &'static str, _: Container) {}
            fn close(&mut self, _: &'static str, _: Container, _: u64) {}
        }
        let mut bytes = write(&json, &style).into_bytes();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let end = |pieces: &[&[u8]]| {
            let (trie, mut scanner) = (trie(), Scanner::new());
            pieces.iter().for_each(|piece| scanner.feed(&trie, piece, &mut Nothing));
            scanner.finish(&trie, &mut Nothing)
        };
        let whole = end(&[&bytes]);
        prop_assert_eq!(end(&pieces(&bytes, &cuts)), whole);
        if serde_json::from_slice::<Value>(&bytes).is_ok() {
            prop_assert_eq!(whole, Ended::Value);
        }
    }
}
