//! The engine's replies as bytes: what was asked for, and a body that turns token ticks into it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

use super::plan::Fault;

/// How long a stalled stream pauses.
const STALL: Duration = Duration::from_millis(1500);

/// What a request asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Ask {
    chat: bool,
    stream: bool,
    usage: bool,
    model: String,
    /// `max_tokens` or `max_completion_tokens`.
    pub(super) max_tokens: Option<u64>,
    /// White-space words of the prompt.
    pub(super) prompt_tokens: u64,
}

impl Ask {
    /// Reads a request body for `path`.
    pub(super) fn parse(path: &str, body: &[u8]) -> Result<Self, String> {
        let chat = match path {
            "/v1/chat/completions" => true,
            "/v1/completions" => false,
            _ => return Err(format!("the demo engine does not serve {path}")),
        };
        let body: Value = serde_json::from_slice(body).map_err(|e| format!("the request body is not JSON: {e}"))?;
        let text = |value: &Value| value.as_str().map_or(0, |s| s.split_whitespace().count() as u64);
        let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let prompt_tokens = messages.iter().map(|m| text(&m["content"])).sum::<u64>() + text(&body["prompt"]);
        Ok(Self {
            chat,
            stream: body["stream"].as_bool().unwrap_or(false),
            usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
            model: body["model"].as_str().unwrap_or("demo").to_owned(),
            max_tokens: body["max_completion_tokens"].as_u64().or_else(|| body["max_tokens"].as_u64()),
            prompt_tokens,
        })
    }
}

/// A response body.
#[derive(Debug)]
pub(super) enum Reply {
    /// All at once.
    Whole(Option<Bytes>),
    /// Event by event.
    Stream(Box<Stream>),
}

/// A stream under way.
#[derive(Debug)]
pub(super) struct Stream {
    ask: Ask,
    output: u64,
    fault: Option<Fault>,
    tokens: mpsc::Receiver<()>,
    sent: u64,
    pause: Option<Pin<Box<Sleep>>>,
    over: bool,
}

impl Reply {
    /// A body of one piece.
    pub(super) fn whole(body: String) -> Self {
        Self::Whole(Some(Bytes::from(body)))
    }

    /// The reply to `ask`: at once when it streams, else when its last token is there.
    pub(super) async fn begin(ask: Ask, output: u64, fault: Option<Fault>, mut tokens: mpsc::Receiver<()>) -> Response<Self> {
        let (kind, body) = if ask.stream {
            let stream = Stream {
                ask,
                output,
                fault,
                tokens,
                sent: 0,
                pause: None,
                over: false,
            };
            ("text/event-stream; charset=utf-8", Self::Stream(Box::new(stream)))
        } else {
            while tokens.recv().await.is_some() {}
            ("application/json", Self::whole(whole(&ask, output).to_string()))
        };
        let mut response = Response::new(body);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

impl Stream {
    /// The position of whatever goes wrong: the middle.
    const fn middle(&self) -> u64 {
        self.output / 2
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        let ticked = std::task::ready!(self.tokens.poll_recv(cx));
        if ticked.is_none() {
            self.over = true;
            return Poll::Ready(Some(Err(io::Error::other("the engine stopped"))));
        }
        if self.sent == self.middle() {
            match self.fault {
                Some(Fault::InStream) => {
                    self.over = true;
                    let error = json!({"error": {"message": "simulated failure", "type": "InternalServerError", "code": 500}});
                    return Poll::Ready(Some(Ok(Bytes::from(format!("data: {error}\n\ndata: [DONE]\n\n")))));
                }
                Some(Fault::Reset) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(io::Error::other("simulated reset"))));
                }
                Some(Fault::Stall) => self.pause = Some(Box::pin(sleep(STALL))),
                Some(Fault::Overloaded | Fault::Internal) | None => {}
            }
        }
        Poll::Ready(Some(Ok(self.token())))
    }

    /// The events that go out with the next token.
    fn token(&mut self) -> Bytes {
        let mut out = String::new();
        if self.sent == 0 && self.ask.chat {
            push(
                &mut out,
                &self.event(json!({"delta": {"role": "assistant", "content": ""}}), false),
            );
        }
        self.sent += 1;
        let last = self.sent == self.output;
        let word = format!("word{} ", self.sent % 10);
        let piece = if self.ask.chat {
            json!({"delta": {"content": word}})
        } else {
            json!({"text": word})
        };
        push(&mut out, &self.event(piece, last));
        if last {
            if self.ask.usage {
                let mut usage = base(&self.ask);
                usage["choices"] = json!([]);
                usage["usage"] = usage_of(&self.ask, self.output);
                push(&mut out, &usage);
            }
            out.push_str("data: [DONE]\n\n");
            self.over = true;
        }
        Bytes::from(out)
    }

    fn event(&self, mut choice: Value, last: bool) -> Value {
        choice["index"] = json!(0);
        choice["finish_reason"] = if last { json!("length") } else { Value::Null };
        let mut event = base(&self.ask);
        event["choices"] = json!([choice]);
        event
    }
}

fn push(out: &mut String, event: &Value) {
    out.push_str("data: ");
    out.push_str(&event.to_string());
    out.push_str("\n\n");
}

fn base(ask: &Ask) -> Value {
    let object = if ask.chat {
        "chat.completion.chunk"
    } else {
        "text_completion"
    };
    json!({"id": "demo", "object": object, "created": 0, "model": ask.model})
}

fn whole(ask: &Ask, output: u64) -> Value {
    let text = "word ".repeat(usize::try_from(output).unwrap_or_default());
    let mut reply = base(ask);
    reply["object"] = json!(if ask.chat { "chat.completion" } else { "text_completion" });
    reply["choices"] = match ask.chat {
        true => json!([{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}]),
        false => json!([{"index": 0, "text": text, "finish_reason": "length"}]),
    };
    reply["usage"] = usage_of(ask, output);
    reply
}

fn usage_of(ask: &Ask, output: u64) -> Value {
    json!({"prompt_tokens": ask.prompt_tokens, "completion_tokens": output, "total_tokens": ask.prompt_tokens + output})
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(body) => Poll::Ready(body.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => stream.poll(cx).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_none(),
            Self::Stream(stream) => stream.over,
        }
    }
}
