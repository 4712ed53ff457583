//! What the events of a stream have in common: all but one text.
//!
//! A model server writes one event like the one before: only the token's text differs. The bytes around the text of the last event
//! are kept, and an event with the same bytes around a text of its own says the same, so it is not scanned: two comparisons and the
//! search for the end of the text instead of a walk through 200 bytes of JSON. Where its blank line came with it, as most do, it is not
//! even searched for its line end.
//!
//! Only the exact bytes count, so what is recognised could not have been read otherwise. The text is not kept. Caps: [`MAX_FRAME`]
//! bytes; a stream that has disappointed [`MAX_MISSES`] times in a row is no longer learned from.

use super::scan::text_end;

/// Longest frame kept, bytes.
pub(crate) const MAX_FRAME: usize = 1024;
/// Events in a row that were learned from and not followed by one alike, after which a stream is given up.
const MAX_MISSES: u8 = 16;

/// The bytes around the one text of the last event.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// What comes before the text, then what comes after it, quotes included.
    bytes: Vec<u8>,
    /// Where the text lies; 0: nothing is learned.
    split: usize,
    misses: u8,
}

impl Frame {
    /// The length of the event that `bytes` begin with, when it is the learned one with another text.
    #[inline]
    pub(crate) fn recall(&self, bytes: &[u8]) -> Option<usize> {
        if self.split == 0 {
            return None;
        }
        let (before, behind) = self.bytes.split_at(self.split);
        let text = bytes.strip_prefix(before)?;
        // An empty text is no token.
        let end = text_end(text).filter(|end| *end > 0)?;
        if !text[end..].starts_with(behind) {
            return None;
        }
        Some(self.bytes.len() + end)
    }

    /// An event has come that was recalled: to learn was worth it.
    #[inline]
    pub(crate) fn met(&mut self) {
        self.misses = 0;
    }

    /// What was learned is not said again.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.split = 0;
    }

    /// Whether the next event that was not recalled is worth learning.
    #[inline]
    pub(crate) fn is_learning(&self) -> bool {
        self.misses < MAX_MISSES
    }

    /// Learns `event`, whose only token-bearing text lies at `text`, not empty and without escapes.
    pub(crate) fn learn(&mut self, event: &[u8], text: std::ops::Range<usize>) {
        self.misses = self.misses.saturating_add(1);
        self.split = 0;
        if event.len() - text.len() > MAX_FRAME {
            return;
        }
        self.bytes.clear();
        self.bytes.reserve(event.len() - text.len());
        self.bytes.extend_from_slice(&event[..text.start]);
        self.bytes.extend_from_slice(&event[text.end..]);
        self.split = text.start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned() -> Frame {
        let mut frame = Frame::default();
        frame.learn(br#"{"a":1,"text":"one","b":null}"#, 15..18);
        frame
    }

    #[test]
    fn the_same_frame_around_any_whole_text_is_recalled_whatever_follows() {
        for text in [
            "two",
            "o",
            r"\n",
            r#"a \"quoted\" word"#,
            "\u{e9}\u{4e2d}",
            r"\u00e9\ud83d",
            r"\\",
        ] {
            let event = format!(r#"{{"a":1,"text":"{text}","b":null}}"#);
            for behind in ["", "\n\n", " ", "}"] {
                assert_eq!(
                    learned().recall((event.clone() + behind).as_bytes()),
                    Some(event.len()),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn anything_else_is_for_the_scanner() {
        for event in [
            r#"{"a":1,"text":"","b":null}"#,
            r#"{"a":2,"text":"one","b":null}"#,
            r#"{"a":1,"text":"one","b":1}"#,
            r#" {"a":1,"text":"one","b":null}"#,
            r#"{"a":1,"text":"one","b":nul"#,
            r#"{"a":1,"text":"one"#,
            r#"{"a":1,"text":"one\"#,
            r#"{"a":1,"text":"one\x","b":null}"#,
            r#"{"a":1,"text":"one\u12g4","b":null}"#,
            r#"{"a":1,"text":"one\u12","b":null}"#,
            "{\"a\":1,\"text\":\"one\ttwo\",\"b\":null}",
            r#"{"a":1,"text":"one","c":"two","b":null}"#,
            "",
        ] {
            assert_eq!(learned().recall(event.as_bytes()), None, "{event}");
        }
        assert_eq!(Frame::default().recall(b"anything"), None);
        let mut forgotten = learned();
        forgotten.forget();
        assert_eq!(forgotten.recall(br#"{"a":1,"text":"one","b":null}"#), None);
    }

    #[test]
    fn a_frame_over_its_cap_is_not_kept_and_a_long_text_does_not_count() {
        let (mut frame, mut event) = (Frame::default(), br#"{"text":""#.to_vec());
        event.resize(MAX_FRAME * 2, b'x');
        event.extend_from_slice(br#""}"#);
        frame.learn(&event, 9..MAX_FRAME * 2);
        assert_eq!(frame.recall(br#"{"text":"y"}"#), Some(12));
        frame.learn(&event, 9..10);
        assert_eq!(frame.recall(&event), None);
    }

    #[test]
    fn a_stream_without_two_events_alike_is_given_up() {
        let mut frame = Frame::default();
        for i in 0..MAX_MISSES {
            assert!(frame.is_learning());
            let event = format!(r#"{{"n":{i},"text":"a"}}"#);
            assert_eq!(frame.recall(event.as_bytes()), None);
            let at = event.len() - 3;
            frame.learn(event.as_bytes(), at..at + 1);
        }
        assert!(!frame.is_learning());
    }
}
