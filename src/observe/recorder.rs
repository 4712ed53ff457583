//! The end of a request: verdict, aggregates, log, and the list of recent requests, in one place and once.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::request::Request;
use super::{Observer, Summary, access_log};
use crate::aggregate::{Finished, Series};
use crate::clock;
use crate::measure::{Asked, Judgement, Record, Slo, Verdict, judge};

/// A request that has ended.
pub(super) struct Ended<'a> {
    pub(super) record: &'a Record,
    pub(super) series: &'a Arc<Series>,
    /// The model as the client wrote it.
    pub(super) model: Option<&'a str>,
    /// Output tokens that went to the series while the reply ran.
    pub(super) tokens_counted: u64,
    /// Of those, what a scrape has seen.
    pub(super) tokens_shown: u64,
}

/// Judges, counts, logs and remembers it.
pub(super) fn record(observer: &Observer, request: &Request, ended: &Ended<'_>) {
    let route = request.judged_by();
    let slos: &[Slo] = if request.judged { &route.slos } else { &[] };
    let verdict = judge(ended.record, &asked(request, ended.model), slos, &route.itl);
    let unix_seconds = clock::unix_seconds();
    ended.series.apply(&Finished {
        record: ended.record,
        api: request.api,
        // The aggregates know SLOs by their places there, which outlast a configuration.
        verdict: verdict.and_then(|v| {
            Some(Verdict {
                slo: *route.slot.slos.get(v.slo)?,
                ..v
            })
        }),
        tokens_counted: ended.tokens_counted,
        tokens_shown: ended.tokens_shown,
        trace: request.trace.as_ref().map(|id| (id.as_str(), unix_seconds)),
    });
    let summary = summary(request, ended, slos, verdict, unix_seconds);
    access_log::log(&summary);
    observer.recent.push(summary);
}

/// What the request said that an SLO may ask about.
pub(super) fn asked<'a>(request: &'a Request, model: Option<&'a str>) -> Asked<'a> {
    Asked {
        model,
        tenant: request.tenant.as_deref(),
        headers: &request.slo_headers,
        bounds: request.bounds,
    }
}

fn summary(request: &Request, ended: &Ended<'_>, slos: &[Slo], verdict: Option<Verdict>, unix_seconds: f64) -> Summary {
    let (r, series) = (ended.record, ended.series);
    let ms = |ns: u64| ns as f64 / 1e6;
    Summary {
        ended: unix_seconds,
        route: Arc::clone(series.route()),
        model: Arc::clone(series.model()),
        tenant: series.tenant().cloned(),
        api: request.api,
        streaming: r.streaming,
        status: r.status,
        outcome: r.outcome.name(),
        ttft_ms: r.ttft_ns().map(ms),
        visible_ttft_ms: r.visible_ttft_ns().map(ms),
        tpot_ms: r.decode().map(|(span, tokens)| span as f64 / tokens as f64 / 1e6),
        stall_ms: r.stall_ns.map(ms),
        ttfb_ms: r.ttfb_ns().map(ms),
        e2e_ms: ms(r.e2e_ns()),
        upload_ms: r.upload_ns().map(ms),
        output_tokens: r.read.then_some(r.tokens.output),
        token_source: r.read.then(|| r.tokens.source.name()),
        prompt_tokens: r.tokens.prompt,
        slo: verdict.and_then(|v| slos.get(v.slo)).map(|s| Arc::clone(&s.name)),
        verdict: verdict.map(|v| match v.judgement {
            Judgement::Good => "good",
            Judgement::Bad { .. } => "bad",
            Judgement::Excluded(_) => "excluded",
        }),
        excluded: verdict.and_then(|v| match v.judgement {
            Judgement::Excluded(why) => Some(why.name()),
            Judgement::Good | Judgement::Bad { .. } => None,
        }),
        broken: verdict.map_or_else(Vec::new, |v| v.broken().iter().map(|b| b.name()).collect()),
        client_limited: r.client_limited,
        attempts: request.attempts.load(Relaxed),
        trace_id: request.trace.as_ref().map(|id| id.as_str().to_owned()),
    }
}
