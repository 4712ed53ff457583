//! goodput-proxy: a transparent streaming reverse proxy that measures the LLM traffic passing through it.
//!
//! Two rings. The *pure* core says what things mean and touches nothing: no clock, no IO, no log, no allocation per event, time is
//! an argument. The *IO* ring moves bytes and knows nothing of meaning. Only [`observe`] joins them.
//!
//! ```text
//!  client                                   goodput-proxy                                    model server
//!    +--> proxy::accept --> connection task
//!              | HTTP/1.1, plain                          | anything else (HTTP/2, upgrade, Expect, chunked upload, odd heads)
//!              v                                          v
//!        proxy::relay: both sockets in one task     proxy::full (hyper) --> service --> proxy::upstream (hyper, polled in place, pool)
//!              |  t0 = clock::now()                       |
//!              +---- observe::Observer::begin(head) ------+--> observe::Exchange     (route, SLOs, live gauges; one per request)
//!              |                                          |
//!              |  request bytes, unmodified, unbuffered --+--> RequestTap -> wire::RequestScanner -> RequestFacts
//!              |                                          |
//!              |<- response head -------------------------+--- Exchange::head: wire::Decoder for route and content type
//!              |<- response bytes, one stamp per read ----+--- Exchange::chunk: Decoder -> EventFacts -> measure::Meter -> gaps
//!              v                                          v
//!        the same bytes to the client               end | error | drop --> Exchange::finish, exactly once
//!                                                           |
//!                                              measure::Record -> measure::judge -> aggregate::Series (one lock a request)
//!                                                           `--> access log, recent requests
//!  scrape --> admin --> aggregate::Snapshot --> expose::Model --> text | OpenMetrics | protobuf
//!  SIGTERM, /drain --> lifecycle: Ready -> Draining (readyz 503) -> Closing -> Stopped
//! ```
//!
//! # Glossary
//!
//! - *TTFT*: from the request head to the first token-bearing event; *TPOT*: the decode span over the tokens after the first event;
//!   *ITL*: one sample per token; *inter-chunk*: one per event; *E2E*: to the end of the body. [`measure`] has the definitions.
//! - *goodput*: the share of judged requests that met every bound of their SLO **and** ended `ok`.
//! - *token-bearing event*: one with non-empty text, reasoning, refusal or tool-call fragment.
//! - *overdue*: in flight and already past a bound; lowers the windowed ratio, not the counters.
//! - *tap*: what reads the bytes as they pass; *degraded*: the tap could not read some part, the bytes went through all the same.
//! - *relay* and *full server*: the short way for plain HTTP/1.1, and the one that understands everything.

pub mod admin;
pub mod aggregate;
pub mod app;
pub mod background;
pub mod cli;
pub mod clock;
pub mod config;
pub mod demo;
pub mod expose;
#[doc(hidden)]
pub mod fuzzing;
pub mod lifecycle;
pub mod material;
pub mod measure;
pub mod mounted;
pub mod observe;
pub mod proxy;
pub mod reload;
pub mod report;
pub mod route;
pub mod telemetry;
pub mod tls;
pub mod wire;
