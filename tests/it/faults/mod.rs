//! Faults that public bug reports of streaming proxies tell of, each held to the right behaviour through the whole proxy, on both
//! ways. [`table`] lists the reports and the tests that answer them.

mod buffering;
mod cuts;
mod endings;
mod framing;
mod headers;
mod leaving;
mod load;
mod messages;
mod patience;
mod program;
mod protocols;
mod reuse;
mod smuggling;
mod table;
mod uploads;
mod wakeups;
