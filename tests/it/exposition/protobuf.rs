//! The protobuf format, decoded again: native buckets beside the classic ones.

use goodput_proxy::aggregate::Snapshot;
use goodput_proxy::expose::protobuf::wire;
use goodput_proxy::expose::{Format, render};
use prost::Message;

use super::scripted::{model, snapshot};

pub(super) fn decode(snapshot: &Snapshot) -> Vec<wire::MetricFamily> {
    let bytes = render(&model(snapshot.clone()), Format::Protobuf).expect("rendered");
    let (mut rest, mut out) = (&*bytes, Vec::new());
    while !rest.is_empty() {
        out.push(wire::MetricFamily::decode_length_delimited(&mut rest).expect("a message"));
    }
    out
}

/// Native buckets as (index, count) again.
fn native(h: &wire::Histogram) -> Vec<(i32, i64)> {
    let (mut out, mut index, mut count, mut deltas) = (Vec::new(), 0, 0, h.positive_delta.iter());
    for span in &h.positive_span {
        index += span.offset;
        for _ in 0..span.length {
            count += deltas.next().expect("a delta for every bucket");
            out.push((index, count));
            index += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    out.retain(|(_, count)| *count > 0);
    out
}

#[test]
fn native_buckets_come_with_the_classic_ones() {
    let snapshot = snapshot();
    let expected = &snapshot.series[0].histograms[0];
    let decoded = decode(&snapshot);
    let ttft = decoded
        .iter()
        .find(|family| family.name == "goodput_ttft_seconds")
        .expect("ttft");
    let h = ttft.metric[0].histogram.as_ref().expect("a histogram");
    assert_eq!((h.schema, h.zero_count, h.sample_count, h.bucket.len()), (5, 1, 4, 3));
    assert_eq!(
        native(h),
        expected
            .native
            .iter()
            .map(|(index, count)| (*index, *count as i64))
            .collect::<Vec<_>>()
    );
    // 300 ms: log2(0.3) * 32 = -55.6, so the bucket that ends at 2^(-55/32).
    assert_eq!(native(h).last(), Some(&(-55, 1)));
    assert!(h.zero_threshold > 0.0 && h.zero_threshold < 1e-30);
    let exemplar = h.bucket[2].exemplar.as_ref().expect("an exemplar");
    assert_eq!((exemplar.value, &h.exemplars), (0.3, &vec![exemplar.clone()]));
    assert_eq!(
        exemplar.timestamp,
        Some(wire::Timestamp {
            seconds: 1_700_000_000,
            nanos: 250_000_000
        })
    );
}

#[test]
fn an_empty_histogram_is_still_a_native_one() {
    let decoded = decode(&snapshot());
    let stall = decoded
        .iter()
        .find(|family| family.name == "goodput_stall_seconds")
        .expect("stall");
    let h = stall.metric[0].histogram.as_ref().expect("a histogram");
    assert_eq!((h.sample_count, h.positive_span.len(), h.schema), (0, 0, 5));
    assert!(h.zero_threshold > 0.0);
}
