//! The last finished requests, for people who look: timings, tokens, outcome and verdict, and not a word of anyone's text.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

/// Most requests ever kept, whatever the configuration asks for (about 40 MB).
pub const MAX_KEPT: usize = 100_000;

/// One finished request. Durations in milliseconds; absent where the measure has no sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// When it ended, seconds since the epoch.
    pub ended: f64,
    /// Route.
    pub route: Arc<str>,
    /// Model label, not what the client wrote.
    pub model: Arc<str>,
    /// Tenant label, when configured.
    pub tenant: Option<Arc<str>>,
    /// API family.
    pub api: &'static str,
    /// Whether the reply streamed.
    pub streaming: bool,
    /// HTTP status.
    pub status: Option<u16>,
    /// Outcome.
    pub outcome: &'static str,
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// Time to first visible token.
    pub visible_ttft_ms: Option<f64>,
    /// Time per output token.
    pub tpot_ms: Option<f64>,
    /// Largest gap.
    pub stall_ms: Option<f64>,
    /// Time to first body byte.
    pub ttfb_ms: Option<f64>,
    /// End to end.
    pub e2e_ms: f64,
    /// Request upload.
    pub upload_ms: Option<f64>,
    /// Output tokens; absent where the reply was not read.
    pub output_tokens: Option<u64>,
    /// Where that count came from.
    pub token_source: Option<&'static str>,
    /// Prompt tokens, when the server said.
    pub prompt_tokens: Option<u64>,
    /// The SLO it was judged by.
    pub slo: Option<Arc<str>>,
    /// `good`, `bad` or `excluded`.
    pub verdict: Option<&'static str>,
    /// Why it was excluded.
    pub excluded: Option<&'static str>,
    /// Broken bounds.
    pub broken: Vec<&'static str>,
    /// The client stalled the stream, so that later gaps include its time.
    pub client_limited: bool,
    /// How often it was put on an upstream connection.
    pub attempts: u32,
    /// Trace id of its `traceparent`.
    pub trace_id: Option<String>,
}

/// A ring of summaries.
#[derive(Debug)]
pub(super) struct Recent {
    kept: Mutex<VecDeque<Arc<Summary>>>,
    cap: usize,
}

impl Recent {
    /// Keeps the last `cap`, at most [`MAX_KEPT`]; 0 keeps none.
    pub(super) fn new(cap: usize) -> Self {
        Self {
            kept: Mutex::new(VecDeque::new()),
            cap: cap.min(MAX_KEPT),
        }
    }

    pub(super) fn push(&self, summary: Summary) {
        if self.cap == 0 {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= self.cap {
            kept.pop_front();
        }
        kept.push_back(Arc::new(summary));
    }

    /// The last `limit`, newest first.
    pub(super) fn last(&self, limit: usize) -> Vec<Arc<Summary>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().rev().take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(ended: f64) -> Summary {
        Summary {
            ended,
            route: "chat".into(),
            model: "m".into(),
            tenant: None,
            api: "chat",
            streaming: true,
            status: Some(200),
            outcome: "ok",
            ttft_ms: Some(1.5),
            visible_ttft_ms: None,
            tpot_ms: None,
            stall_ms: None,
            ttfb_ms: None,
            e2e_ms: 2.0,
            upload_ms: None,
            output_tokens: None,
            token_source: None,
            prompt_tokens: None,
            slo: None,
            verdict: None,
            excluded: None,
            broken: vec!["ttft"],
            client_limited: false,
            attempts: 1,
            trace_id: None,
        }
    }

    #[test]
    fn the_ring_keeps_the_newest_and_gives_them_newest_first() {
        let recent = Recent::new(3);
        for i in 0..5 {
            recent.push(summary(f64::from(i)));
        }
        let ended = |limit| recent.last(limit).iter().map(|s| s.ended).collect::<Vec<_>>();
        assert_eq!(ended(10), [4.0, 3.0, 2.0]);
        assert_eq!(ended(1), [4.0]);
    }

    #[test]
    fn a_ring_of_none_keeps_none_and_no_ring_exceeds_the_cap() {
        let recent = Recent::new(0);
        recent.push(summary(1.0));
        assert!(recent.last(10).is_empty());
        assert_eq!(Recent::new(usize::MAX).cap, MAX_KEPT);
    }

    #[test]
    fn a_summary_serialises_with_its_units_in_the_names() {
        let json = serde_json::to_value(summary(1.0)).unwrap();
        assert_eq!(
            (&json["ttft_ms"], &json["broken"][0], &json["tpot_ms"]),
            (&1.5.into(), &"ttft".into(), &().into())
        );
    }
}
