//! The protobuf format: length-delimited `io.prometheus.client.MetricFamily` messages, classic and native buckets together.
//!
//! The messages are written out here as far as they are used: the crates that have them want a protobuf compiler at build time.
//! Field numbers are those of <https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto>.

use prost::Message;

use super::families::Kind;
use super::model::{Exemplar, Family, Histogram, Model, Native, Sample, Value};
use crate::aggregate::HistogramSnapshot;

/// Width of the zero bucket: far below 1 ns, it holds only exact zeros. Above 0, so that a scraper sees a native histogram even
/// while it is empty. The value is the one Prometheus' own client uses (2^-128).
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;
/// Up to this many empty buckets are cheaper written as zeros than as a new span.
const MAX_GAP_IN_SPAN: i64 = 2;

/// The model as delimited protobuf messages.
pub(super) fn render(model: &Model) -> Vec<u8> {
    let mut out = Vec::new();
    for family in &model.families {
        out.extend_from_slice(&message(family).encode_length_delimited_to_vec());
    }
    out
}

fn message(family: &Family) -> wire::MetricFamily {
    let kind = match family.def.kind {
        Kind::Counter => wire::MetricType::Counter,
        Kind::Gauge => wire::MetricType::Gauge,
        Kind::Histogram => wire::MetricType::Histogram,
    };
    wire::MetricFamily {
        name: family.def.name.to_owned(),
        help: family.def.help.to_owned(),
        r#type: kind.into(),
        metric: family.samples.iter().map(|sample| metric(sample, family.def.kind)).collect(),
        unit: family.def.unit.to_owned(),
    }
}

fn metric(sample: &Sample, kind: Kind) -> wire::Metric {
    let label = sample.labels.iter().map(|(name, value)| pair(name, value.as_str())).collect();
    let mut out = wire::Metric {
        label,
        ..wire::Metric::default()
    };
    match &sample.value {
        Value::Number(value) if kind == Kind::Counter => out.counter = Some(wire::Counter { value: *value }),
        Value::Number(value) => out.gauge = Some(wire::Gauge { value: *value }),
        Value::Histogram(h) => out.histogram = Some(histogram(h)),
    }
    out
}

fn pair(name: &str, value: &str) -> wire::LabelPair {
    wire::LabelPair {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

fn histogram(from: &Histogram) -> wire::Histogram {
    let bucket = from.cumulative().map(|(upper_bound, cumulative_count, e)| wire::Bucket {
        cumulative_count,
        upper_bound,
        exemplar: e.map(exemplar),
    });
    let mut out = wire::Histogram {
        sample_count: from.count,
        sample_sum: from.sum,
        bucket: bucket.collect(),
        ..wire::Histogram::default()
    };
    if let Some(Native { buckets, zero }) = &from.native {
        out.schema = HistogramSnapshot::SCHEMA;
        out.zero_threshold = ZERO_THRESHOLD;
        out.zero_count = *zero;
        (out.positive_span, out.positive_delta) = spans(buckets);
        out.exemplars = from.exemplars.iter().flatten().map(exemplar).collect();
    }
    out
}

/// Buckets as runs of neighbours, each count as its difference from the one before.
fn spans(buckets: &[(i32, u64)]) -> (Vec<wire::BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<wire::BucketSpan>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut next, mut last) = (0_i64, 0_i64);
    for (index, count) in buckets {
        let gap = i64::from(*index) - next;
        match spans.last_mut() {
            Some(span) if gap <= MAX_GAP_IN_SPAN => {
                for _ in 0..gap {
                    deltas.push(-last);
                    last = 0;
                    span.length += 1;
                }
                span.length += 1;
            }
            _ => spans.push(wire::BucketSpan {
                offset: i32::try_from(gap).unwrap_or(i32::MAX),
                length: 1,
            }),
        }
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        deltas.push(count - last);
        (last, next) = (count, i64::from(*index) + 1);
    }
    (spans, deltas)
}

fn exemplar(from: &Exemplar) -> wire::Exemplar {
    let nanos = (from.unix_seconds.fract() * 1e9) as i32;
    wire::Exemplar {
        label: vec![pair("trace_id", &from.trace_id)],
        value: from.value,
        timestamp: Some(wire::Timestamp {
            seconds: from.unix_seconds as i64,
            nanos,
        }),
    }
}

/// The messages. Fields that are never set are left out; unknown to a decoder of these, they would be skipped.
pub mod wire {
    #![expect(missing_docs, reason = "names and meanings are those of the published schema")]

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct MetricFamily {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub help: String,
        #[prost(enumeration = "MetricType", tag = "3")]
        pub r#type: i32,
        #[prost(message, repeated, tag = "4")]
        pub metric: Vec<Metric>,
        #[prost(string, tag = "5")]
        pub unit: String,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
    #[repr(i32)]
    pub enum MetricType {
        Counter = 0,
        Gauge = 1,
        Histogram = 4,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Metric {
        #[prost(message, repeated, tag = "1")]
        pub label: Vec<LabelPair>,
        #[prost(message, optional, tag = "2")]
        pub gauge: Option<Gauge>,
        #[prost(message, optional, tag = "3")]
        pub counter: Option<Counter>,
        #[prost(message, optional, tag = "7")]
        pub histogram: Option<Histogram>,
    }

    #[derive(Clone, PartialEq, Eq, prost::Message)]
    pub struct LabelPair {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub value: String,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Gauge {
        #[prost(double, tag = "1")]
        pub value: f64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Counter {
        #[prost(double, tag = "1")]
        pub value: f64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Histogram {
        #[prost(uint64, tag = "1")]
        pub sample_count: u64,
        #[prost(double, tag = "2")]
        pub sample_sum: f64,
        #[prost(message, repeated, tag = "3")]
        pub bucket: Vec<Bucket>,
        #[prost(sint32, tag = "5")]
        pub schema: i32,
        #[prost(double, tag = "6")]
        pub zero_threshold: f64,
        #[prost(uint64, tag = "7")]
        pub zero_count: u64,
        #[prost(message, repeated, tag = "12")]
        pub positive_span: Vec<BucketSpan>,
        #[prost(sint64, repeated, tag = "13")]
        pub positive_delta: Vec<i64>,
        #[prost(message, repeated, tag = "16")]
        pub exemplars: Vec<Exemplar>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Bucket {
        #[prost(uint64, tag = "1")]
        pub cumulative_count: u64,
        #[prost(double, tag = "2")]
        pub upper_bound: f64,
        #[prost(message, optional, tag = "3")]
        pub exemplar: Option<Exemplar>,
    }

    #[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
    pub struct BucketSpan {
        #[prost(sint32, tag = "1")]
        pub offset: i32,
        #[prost(uint32, tag = "2")]
        pub length: u32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Exemplar {
        #[prost(message, repeated, tag = "1")]
        pub label: Vec<LabelPair>,
        #[prost(double, tag = "2")]
        pub value: f64,
        #[prost(message, optional, tag = "3")]
        pub timestamp: Option<Timestamp>,
    }

    #[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
    pub struct Timestamp {
        #[prost(int64, tag = "1")]
        pub seconds: i64,
        #[prost(int32, tag = "2")]
        pub nanos: i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: i32, length: u32) -> wire::BucketSpan {
        wire::BucketSpan { offset, length }
    }

    #[test]
    fn neighbours_and_small_gaps_share_a_span() {
        let (spans, deltas) = spans(&[(-70, 3), (-69, 1), (-66, 5), (-62, 5)]);
        assert_eq!(spans, [span(-70, 5), span(3, 1)]);
        assert_eq!(deltas, [3, -2, -1, 0, 5, 0]);
    }

    #[test]
    fn no_bucket_is_no_span() {
        assert_eq!(spans(&[]), (vec![], vec![]));
    }
}
