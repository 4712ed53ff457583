//! The bits of Python behaviour that the tools' numbers depend on.

use serde_json::Value;

/// Python's truth value: `None`, `False`, 0 and everything empty are false.
pub(super) fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::String(s) => !s.is_empty(),
        Value::Array(a) => !a.is_empty(),
        Value::Object(o) => !o.is_empty(),
    }
}

/// `object.get(key)` where a falsy value is as good as none.
pub(super) fn get<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|v| truthy(v))
}

/// `object.get(key)` as a non-empty string.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    get(object, key).and_then(Value::as_str)
}

/// `choices[0]`, when `choices` is there and not empty.
pub(super) fn first_choice(event: &Value) -> Option<&Value> {
    event.get("choices")?.as_array()?.first()
}

/// The client tokenizer of this replay: whitespace-separated words.
pub(super) fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Incremental UTF-8 decoding: returns what is complete, keeps a cut character in `rest` for the next read.
pub(super) fn decode(rest: &mut Vec<u8>, bytes: &[u8]) -> Result<String, String> {
    rest.extend_from_slice(bytes);
    let valid = match std::str::from_utf8(rest) {
        Ok(_) => rest.len(),
        Err(e) if e.error_len().is_none() => e.valid_up_to(),
        Err(_) => return Err("UnicodeDecodeError: the body is not UTF-8".into()),
    };
    let tail = rest.split_off(valid);
    String::from_utf8(std::mem::replace(rest, tail)).map_err(|e| e.to_string())
}

/// Cuts complete lines off `buffer` at any of `ends`; `\r\n` is one end. The remainder stays. A closing `\r` waits for what
/// follows it.
pub(super) fn take_lines(buffer: &mut String, ends: &[char]) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let Some((at, end)) = buffer.char_indices().find(|(_, c)| ends.contains(c)) else {
            return lines;
        };
        let after = at + end.len_utf8();
        if end == '\r' && after == buffer.len() {
            return lines;
        }
        let after = if end == '\r' && buffer[after..].starts_with('\n') {
            after + 1
        } else {
            after
        };
        lines.push(buffer[..at].to_owned());
        buffer.drain(..after);
    }
}
