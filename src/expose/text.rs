//! Text format 0.0.4, the default, written by the `prometheus` crate.
//!
//! Families go to its encoder one by one, straight from the model. They do not pass through a registry: gathering sorts every
//! family's samples again, which costs more than all the rest (the model is in order already).

use prometheus::proto::{self, MetricFamily, MetricType};
use prometheus::{Result, TextEncoder};

use super::families::Kind;
use super::model::{Family, Histogram, Model, Sample, Value};

/// The model as text 0.0.4. Fails only if the encoder refuses a family, which no valid model can cause.
pub(super) fn render(model: &Model) -> Result<String> {
    let mut out = String::new();
    for family in &model.families {
        let from = out.len();
        TextEncoder::new().encode_utf8(&[to_proto(family)], &mut out)?;
        if family.def.is_untyped() {
            // The encoder knows no untyped families.
            let gauge = format!("# TYPE {} gauge\n", family.def.name);
            if let Some(at) = out[from..].find(&gauge) {
                let (from, to) = (from + at, from + at + gauge.len());
                out.replace_range(from..to, &format!("# TYPE {} untyped\n", family.def.name));
            }
        }
    }
    Ok(out)
}

fn to_proto(family: &Family) -> MetricFamily {
    let mut out = MetricFamily::default();
    out.set_name(family.def.name.to_owned());
    out.set_help(family.def.help.to_owned());
    out.set_field_type(match family.def.kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
        Kind::Histogram => MetricType::HISTOGRAM,
    });
    out.set_metric(family.samples.iter().map(|sample| metric(sample, family.def.kind)).collect());
    out
}

fn metric(sample: &Sample, kind: Kind) -> proto::Metric {
    let labels = sample.labels.iter().map(|(name, value)| {
        let mut pair = proto::LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value(value.as_str().to_owned());
        pair
    });
    let mut out = proto::Metric::from_label(labels.collect());
    match &sample.value {
        Value::Number(n) if kind == Kind::Counter => {
            let mut counter = proto::Counter::default();
            counter.set_value(*n);
            out.set_counter(counter);
        }
        Value::Number(n) => {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(*n);
            out.set_gauge(gauge);
        }
        Value::Histogram(h) => out.set_histogram(histogram(h)),
    }
    out
}

fn histogram(from: &Histogram) -> proto::Histogram {
    let buckets = from.cumulative().map(|(edge, upto, _)| {
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(edge);
        bucket.set_cumulative_count(upto);
        bucket
    });
    let mut out = proto::Histogram::default();
    // The encoder adds the bucket +Inf from the count.
    out.set_bucket(buckets.take(from.edges.len()).collect());
    out.set_sample_count(from.count);
    out.set_sample_sum(from.sum);
    out
}
