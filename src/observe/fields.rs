//! Header fields as the observer looks them up, whoever parsed them: a map, or a parser's own list that no map was made of.

use std::borrow::Cow;

use http::HeaderMap;

/// The fields of one head.
pub trait Fields {
    /// Every value of the field `name` (lower case), in order.
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;

    /// The first value of the field `name` (lower case) that is visible ASCII.
    fn first_text<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).find_map(text)
    }

    /// The field's value; several lines of one name are one list.
    fn joined<'a>(&'a self, name: &'a str) -> Option<Cow<'a, str>> {
        let mut lines = self.all(name).filter_map(text);
        let first = lines.next()?;
        Some(lines.fold(Cow::Borrowed(first), |list, line| Cow::Owned(format!("{list}, {line}"))))
    }
}

/// A value that is visible ASCII.
fn text(value: &[u8]) -> Option<&str> {
    // Without a way out of the loop: many bytes at a time.
    let visible = value
        .iter()
        .fold(true, |visible, b| visible & (*b == b'\t' || (b' '..0x7f).contains(b)));
    std::str::from_utf8(value).ok().filter(|_| visible)
}

impl Fields for HeaderMap {
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }
}

impl Fields for [httparse::Header<'_>] {
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter()
            // Most names that are equal at all are written alike.
            .filter(move |field| field.name == name || field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_a_map_of_the_same_fields_answer_alike() {
        let list = [("Accept", "a"), ("X-Two", "1"), ("x-two", "2"), ("X-Odd", "\u{e9}")];
        let list = list.map(|(name, value)| httparse::Header {
            name,
            value: value.as_bytes(),
        });
        let mut map = HeaderMap::new();
        for field in &list {
            let name = http::HeaderName::from_bytes(field.name.as_bytes()).unwrap();
            map.append(name, http::HeaderValue::from_bytes(field.value).unwrap());
        }
        for name in ["accept", "x-two", "x-odd", "x-none"] {
            let (ours, theirs): (Vec<_>, Vec<_>) = (list[..].all(name).collect(), map.all(name).collect());
            assert_eq!(ours, theirs, "{name}");
            assert_eq!(list[..].first_text(name), map.first_text(name), "{name}");
            assert_eq!(list[..].joined(name), map.joined(name), "{name}");
        }
        assert_eq!(
            (map.first_text("x-two"), map.joined("x-two").as_deref()),
            (Some("1"), Some("1, 2"))
        );
        assert_eq!(map.first_text("x-odd"), None, "not ASCII");
    }
}
