//! What the metrics are called, what they mean, and how they are written.
//!
//! [`families`] is the one table of names, types, labels and help. A snapshot of the aggregates, the proxy's own counters and the
//! configuration become one [`model::Model`]; every format (text 0.0.4, OpenMetrics, protobuf) is a rendering of that model, so
//! they cannot disagree. Nothing here does IO but [`ProcessSample`], which reads `/proc`.

pub mod families;
pub mod model;
mod negotiate;
mod openmetrics;
mod process;
pub mod protobuf;
mod stats;
mod text;

pub use families::reference;
pub use model::{Configured, Model};
pub use negotiate::{Format, accepts_gzip, format_for};
pub use process::ProcessSample;
pub use stats::ProxyStats;

/// The model in `format`, as bytes. Fails only if an encoder refuses it, which no valid model can cause.
pub fn render(model: &Model, format: Format) -> prometheus::Result<Vec<u8>> {
    Ok(match format {
        Format::Text => text::render(model)?.into_bytes(),
        Format::OpenMetrics => openmetrics::render(model).into_bytes(),
        Format::Protobuf => protobuf::render(model),
    })
}
