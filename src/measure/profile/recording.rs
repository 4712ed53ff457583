//! A recorded response body: what came in which read, and when.

use super::python::truthy;

/// Bytes of one read of the response body, HTTP framing already taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Nanoseconds since the request began.
    pub at_ns: u64,
    /// Body bytes.
    pub bytes: Vec<u8>,
}

/// The OpenAI API a stream belongs to: where a tool finds the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// `/v1/chat/completions`: `choices[0].delta`.
    #[default]
    Chat,
    /// `/v1/completions`: `choices[0].text`.
    Completions,
}

/// One recorded response stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Which API.
    pub api: Api,
    /// Reads in order, `at_ns` never decreasing.
    pub reads: Vec<Read>,
    /// End of the body, nanoseconds since the request began.
    pub closed_ns: u64,
}

impl Recording {
    /// The same stream as the server would send it unasked for usage: events with empty `choices` and a usage are cut out of
    /// their reads, reads that become empty go. None when there is no such event.
    pub(super) fn without_usage_events(&self) -> Option<Self> {
        let whole: Vec<u8> = self.reads.iter().flat_map(|r| r.bytes.iter().copied()).collect();
        let cuts = usage_ranges(&whole);
        if cuts.is_empty() {
            return None;
        }
        let mut offset = 0;
        let mut reads = Vec::with_capacity(self.reads.len());
        for read in &self.reads {
            let kept = (offset..)
                .zip(&read.bytes)
                .filter(|(i, _)| !cuts.iter().any(|c| c.contains(i)));
            let bytes: Vec<u8> = kept.map(|(_, b)| *b).collect();
            offset += read.bytes.len();
            if !bytes.is_empty() || read.bytes.is_empty() {
                reads.push(Read {
                    at_ns: read.at_ns,
                    bytes,
                });
            }
        }
        Some(Self {
            api: self.api,
            reads,
            closed_ns: self.closed_ns,
        })
    }
}

/// Byte ranges of the usage-only events, their blank line included.
fn usage_ranges(whole: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < whole.len() {
        let (length, blank) = event_length(&whole[start..]);
        let end = start + length + blank;
        if is_usage_only(&whole[start..start + length]) {
            ranges.push(start..end);
        }
        start = end;
    }
    ranges
}

/// Length of the first event and of the blank line that ends it.
fn event_length(bytes: &[u8]) -> (usize, usize) {
    for i in 0..bytes.len() {
        for blank in [b"\n\n".as_slice(), b"\r\n\r\n"] {
            if bytes[i..].starts_with(blank) {
                return (i, blank.len());
            }
        }
    }
    (bytes.len(), 0)
}

fn is_usage_only(event: &[u8]) -> bool {
    let Some(data) = event.trim_ascii().strip_prefix(b"data:") else {
        return false;
    };
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(data.trim_ascii()) else {
        return false;
    };
    let no_choice = json.get("choices").and_then(|c| c.as_array()).is_some_and(Vec::is_empty);
    no_choice && json.get("usage").is_some_and(truthy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n";

    fn recording(reads: &[(u64, &str)]) -> Recording {
        let reads = reads
            .iter()
            .map(|(at_ns, s)| Read {
                at_ns: *at_ns,
                bytes: s.as_bytes().to_vec(),
            })
            .collect();
        Recording {
            api: Api::Chat,
            reads,
            closed_ns: 9,
        }
    }

    #[test]
    fn a_usage_event_split_over_reads_is_cut_out_and_its_neighbours_stay() {
        let (head, tail) = USAGE.split_at(20);
        let got = recording(&[(1, &format!("{TOKEN}{head}")), (2, tail), (3, "data: [DONE]\n\n")]).without_usage_events();
        assert_eq!(got, Some(recording(&[(1, TOKEN), (3, "data: [DONE]\n\n")])));
    }

    #[test]
    fn a_stream_without_usage_event_is_left_as_it_is() {
        assert_eq!(recording(&[(1, TOKEN), (2, "data: [DONE]")]).without_usage_events(), None);
    }
}
