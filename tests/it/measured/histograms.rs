//! Buckets that reach real tails, ranks that are right for few samples, and silence where there is no sample.

use goodput_proxy::aggregate::{HistogramSnapshot, Measure, SeriesSnapshot};
use goodput_proxy::clock;

use super::super::rig::{DONE, Rig, both, chat, chunk, content, finish, wait};
use super::{MS, pass, scraped, sse, value};

/// A reply with its token at `first` and its end at `end`, ms.
fn taking(first: u64, end: u64) -> Vec<super::Step> {
    sse([
        wait(first),
        chunk(content("x")),
        wait(end - first),
        chunk(finish()),
        chunk(DONE),
    ])
}

fn histogram(series: &SeriesSnapshot, measure: Measure) -> &HistogramSnapshot {
    &series.histograms[measure.index()]
}

/// Above every finite edge.
fn beyond(histogram: &HistogramSnapshot) -> u64 {
    *histogram.counts.last().expect("a last bucket")
}

#[test]
fn real_tails_stay_below_the_last_finite_edge() {
    // P104
    both(|way| async move {
        let scripts = [
            taking(135_000, 140_000),
            taking(10, 75_000),
            taking(10, 400_000),
            taking(600_000, 1_100_000),
        ];
        let rig = Rig::new(way, scripts.into());
        let mut client = rig.client();
        for _ in 0..4 {
            assert!(client.call(chat()).await.complete);
        }
        let series = rig.series("chat", "m");
        let (ttft, e2e) = (histogram(&series, Measure::Ttft), histogram(&series, Measure::E2e));
        assert_eq!((ttft.count, beyond(ttft)), (4, 0));
        assert_eq!((e2e.count, beyond(e2e)), (4, 0));
        let last = |h: &HistogramSnapshot| h.edges.last().copied().unwrap_or(0) / 1_000_000_000;
        assert!(last(ttft) >= 600 && last(e2e) >= 1800, "{} {}", last(ttft), last(e2e));
        let scrape = scraped(&rig).await;
        let e2e = |le| {
            value(
                &scrape,
                "goodput_e2e_seconds_bucket",
                &[("route", "chat"), ("model", "m"), ("le", le)],
            )
        };
        assert_eq!(
            (e2e("60"), e2e("120"), e2e("480"), e2e("+Inf")),
            (Some(0.0), Some(1.0), Some(3.0), Some(4.0))
        );
    });
}

#[test]
fn a_value_above_every_bucket_is_counted_and_summed() {
    // P107
    both(|way| async move {
        let rig = Rig::new(way, vec![taking(100_000_000, 200_000_000)]);
        assert!(rig.client().call(chat()).await.complete);
        let series = rig.series("chat", "m");
        for (measure, ms) in [(Measure::Ttft, 100_000_000), (Measure::E2e, 200_000_000)] {
            let h = histogram(&series, measure);
            assert_eq!((h.count, h.sum, beyond(h)), (1, ms * MS, 1), "{measure:?}");
            assert_eq!(h.native.iter().map(|(_, n)| n).sum::<u64>(), 1);
        }
        let scrape = scraped(&rig).await;
        let sum = value(&scrape, "goodput_e2e_seconds_sum", &[("route", "chat"), ("model", "m")]);
        assert_eq!(sum, Some(200_000.0));
    });
}

/// Rolling TTFT over `window`, in ms.
fn rolling(series: &SeriesSnapshot, window: &str) -> Option<[f64; 4]> {
    let mut found = series.rolling.iter();
    let found = found.find(|r| r.measure == Measure::Ttft && &*r.window == window)?;
    Some(found.quantiles.map(|ns| ns as f64 / MS as f64))
}

#[test]
fn every_quantile_of_one_sample_is_that_sample() {
    // P106
    both(|way| async move {
        let rig = Rig::new(way, vec![taking(500, 500)]);
        assert!(rig.client().call(chat()).await.complete);
        assert_eq!(rolling(&rig.series("chat", "m"), "1m"), Some([500.0; 4]));
        let scrape = scraped(&rig).await;
        for quantile in ["0.5", "0.9", "0.95", "0.99"] {
            let labels = [("model", "m"), ("measure", "ttft"), ("window", "5m"), ("quantile", quantile)];
            assert_eq!(value(&scrape, "goodput_rolling_seconds", &labels), Some(0.5), "{quantile}");
        }
    });
}

#[test]
fn p99_of_101_samples_is_the_100th() {
    // P106
    both(|way| async move {
        let rig = Rig::new(way, (1..=101).map(|ms| taking(ms, ms)).collect());
        let mut client = rig.client();
        for _ in 0..101 {
            assert!(client.call(chat()).await.complete);
        }
        assert_eq!(rolling(&rig.series("chat", "m"), "30m"), Some([51.0, 91.0, 96.0, 100.0]));
    });
}

/// Lets `seconds` pass as a running proxy would, with its ticks.
async fn tick(rig: &Rig, seconds: u64) {
    let every = u64::try_from(rig.observer.tick_every().as_millis()).unwrap();
    for _ in 0..seconds * 1000 / every {
        pass(every).await;
        rig.observer.tick(clock::now());
    }
}

#[test]
fn a_scrape_without_samples_is_silent_and_never_nan() {
    // P105
    both(|way| async move {
        let rig = Rig::configured(way, "slo: ttft=1s", vec![taking(500, 500)]);
        let windowed = [
            "goodput_rolling_seconds",
            "goodput_ratio",
            "goodput_rate",
            "goodput_good_tokens_rate",
        ];
        let of = |families: &[super::Parsed], window: &str| {
            windowed.map(|name| {
                let lines = families.iter().flat_map(|f| &f.samples);
                lines
                    .filter(|line| line.name == name && line.label("window") == window)
                    .count()
            })
        };
        // `scraped` refuses whatever is not finite.
        tick(&rig, 5).await;
        assert_eq!(of(&scraped(&rig).await, "1m"), [0; 4]);
        assert!(rig.client().call(chat()).await.complete);
        let [rolling, ratio, rate, tokens] = of(&scraped(&rig).await, "1m");
        assert!(
            rolling > 0 && ratio == 1 && rate > 0 && tokens > 0,
            "{rolling} {ratio} {rate} {tokens}"
        );
        tick(&rig, 15 * 60).await;
        let scrape = scraped(&rig).await;
        assert_eq!((of(&scrape, "1m"), of(&scrape, "5m")), ([0; 4], [0; 4]));
        assert!(of(&scrape, "30m")[0] > 0);
        tick(&rig, 16 * 60).await;
        assert_eq!(of(&scraped(&rig).await, "30m"), [0; 4]);
        assert_eq!(
            value(
                &scraped(&rig).await,
                "goodput_ttft_seconds_count",
                &[("route", "chat"), ("model", "m")]
            ),
            Some(1.0)
        );
    });
}
