//! Reads a request body as it streams by: a few top-level values, wherever in the body they stand.
//!
//! Constant memory for any size and key order. As with `serde_json`, the last of a key given twice counts. A body that is not a
//! JSON object says nothing more; the upstream will refuse it, that is not ours to do.

use std::sync::{Arc, LazyLock};

use super::RequestFacts;
use super::inflate::Inflate;
use super::scan::{Container, Scalar, Scanner, Visitor};
use super::trie::Trie;

/// Gathers [`RequestFacts`] from a request body.
#[derive(Debug)]
pub struct RequestScanner {
    scanner: Scanner,
    inflate: Option<Inflate>,
    reader: Reader,
    /// The body is of a kind that holds no JSON.
    opaque: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Model,
    Stream,
    N,
    MaxTokens,
    Messages,
    Input,
    Prompt,
    PromptElement,
    Tools,
    ResponseFormat,
    StreamOptions,
    IncludeUsage,
}

static PATHS: LazyLock<Trie<Act>> = LazyLock::new(|| {
    Trie::compile([
        ("model", Act::Model),
        ("stream", Act::Stream),
        ("n", Act::N),
        ("max_tokens", Act::MaxTokens),
        ("max_completion_tokens", Act::MaxTokens),
        ("max_output_tokens", Act::MaxTokens),
        ("max_new_tokens", Act::MaxTokens),
        ("n_predict", Act::MaxTokens),
        ("options.num_predict", Act::MaxTokens),
        ("parameters.max_new_tokens", Act::MaxTokens),
        ("sampling_params.max_new_tokens", Act::MaxTokens),
        ("messages", Act::Messages),
        ("input", Act::Input),
        ("prompt", Act::Prompt),
        ("prompt[]", Act::PromptElement),
        ("tools", Act::Tools),
        ("response_format", Act::ResponseFormat),
        ("stream_options", Act::StreamOptions),
        ("stream_options.include_usage", Act::IncludeUsage),
    ])
});

impl RequestScanner {
    /// A scanner for a body with these headers (several lines of one name joined by commas).
    pub fn new(content_type: Option<&str>, content_encoding: Option<&str>) -> Self {
        let opaque = content_type.is_some_and(|t| {
            let kind = t.split('/').next().unwrap_or_default().trim();
            ["multipart", "audio", "image", "video"]
                .iter()
                .any(|k| kind.eq_ignore_ascii_case(k))
        });
        Self {
            scanner: Scanner::new(),
            inflate: if opaque {
                None
            } else {
                content_encoding.and_then(Inflate::for_encoding)
            },
            reader: Reader::default(),
            opaque,
        }
    }

    /// Body bytes on their way to the upstream.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.opaque || self.scanner.is_broken() {
            return;
        }
        let (scanner, reader) = (&mut self.scanner, &mut self.reader);
        match &mut self.inflate {
            None => scanner.feed(&PATHS, bytes, reader),
            Some(inflate) => {
                // A coding that cannot be read leaves the facts unknown, which is all there is to say about it.
                let _ = inflate.feed(bytes, |plain| scanner.feed(&PATHS, plain, reader));
            }
        }
    }

    /// What the body has said so far.
    pub fn facts(&self) -> RequestFacts {
        RequestFacts {
            messages: self.reader.facts.messages.or(self.reader.input),
            ..self.reader.facts.clone()
        }
    }
}

#[derive(Debug, Default)]
struct Reader {
    facts: RequestFacts,
    input: Option<u64>,
    /// Strings and lists in the list `prompt`; a list of numbers is one prompt.
    prompts: u64,
}

impl Visitor<Act> for Reader {
    fn scalar(&mut self, act: Act, value: Scalar<'_>) {
        self.forget(act);
        let facts = &mut self.facts;
        match (act, value) {
            (Act::Model, Scalar::Text { text: Some(text), .. }) => {
                facts.model = std::str::from_utf8(text).ok().map(Arc::from);
            }
            (Act::Stream, Scalar::Bool(stream)) => facts.stream = Some(stream),
            (Act::N, Scalar::Number { integer, .. }) => facts.n = integer,
            (Act::MaxTokens, Scalar::Number { integer, .. }) => facts.max_tokens = integer.or(facts.max_tokens),
            (Act::PromptElement, Scalar::Text { .. }) => self.prompts += 1,
            (Act::ResponseFormat, value) => facts.response_format = value != Scalar::Null,
            (Act::IncludeUsage, Scalar::Bool(wanted)) => facts.include_usage = Some(wanted),
            _ => {}
        }
    }

    fn open(&mut self, act: Act, container: Container) {
        self.forget(act);
        match act {
            Act::PromptElement if container == Container::Array => self.prompts += 1,
            Act::ResponseFormat => self.facts.response_format = true,
            _ => {}
        }
    }

    fn close(&mut self, act: Act, container: Container, len: u64) {
        if container == Container::Object {
            return;
        }
        match act {
            Act::Messages => self.facts.messages = Some(len),
            Act::Input => self.input = Some(len),
            Act::Tools => self.facts.tools = Some(len),
            Act::Prompt => self.facts.prompts = Some(self.prompts).filter(|n| *n > 0),
            _ => {}
        }
    }
}

impl Reader {
    /// A value for `act` begins: what an earlier one said no longer counts.
    fn forget(&mut self, act: Act) {
        let facts = &mut self.facts;
        match act {
            Act::Model => facts.model = None,
            Act::Stream => facts.stream = None,
            Act::N => facts.n = None,
            // Several keys share it: the last that is a count stands.
            Act::MaxTokens => {}
            Act::Messages => facts.messages = None,
            Act::Input => self.input = None,
            Act::Prompt => {
                facts.prompts = None;
                self.prompts = 0;
            }
            Act::PromptElement => {}
            Act::Tools => facts.tools = None,
            Act::ResponseFormat => facts.response_format = false,
            Act::StreamOptions => {
                facts.stream_options = true;
                facts.include_usage = None;
            }
            Act::IncludeUsage => facts.include_usage = None,
        }
    }
}

#[cfg(test)]
mod tests;
