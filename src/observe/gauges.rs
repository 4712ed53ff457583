//! What the gauges say: the requests under way, by series, and which of them are past a bound or silent.

use std::collections::HashMap;
use std::sync::Arc;

use super::Observer;
use super::recorder::asked;
use super::request::Request;
use super::rules::Rules;
use crate::aggregate::{InFlight, Series};
use crate::measure::{Slo, Stamp, overdue};

/// Requests under way by series, looked at once per scrape.
pub(super) struct Gauges<'a> {
    observer: &'a Observer,
    /// In force now.
    rules: Arc<Rules>,
    by_series: HashMap<*const Series, InFlight>,
}

impl<'a> Gauges<'a> {
    /// Looks at every request under way.
    pub(super) fn read(observer: &'a Observer, now: Stamp) -> Self {
        let mut gauges = Self {
            observer,
            rules: observer.rules(),
            by_series: HashMap::new(),
        };
        observer.under_way.for_each(|request| gauges.add(request, now));
        gauges
    }

    /// What is under way on `series`.
    pub(super) fn of(&mut self, series: &Arc<Series>) -> InFlight {
        let found = self.by_series.remove(&Arc::as_ptr(series));
        found.unwrap_or_else(|| nothing(&self.rules, series))
    }

    fn add(&mut self, request: &Request, now: Stamp) {
        let (route, facts) = (request.judged_by(), request.facts());
        // Before the series is looked up: tokens come when it is certain.
        let (tokens, source) = request.progress.show();
        let series = self.series(request, facts.model.as_deref());
        let gauge = self
            .by_series
            .entry(Arc::as_ptr(&series))
            .or_insert_with(|| nothing(&self.rules, &series));
        gauge.requests += 1;
        series.tokens_from(tokens, source);
        let mut live = request.progress.load(request.t0);
        if !request.progress.has_head() {
            live.streaming = request.wants_stream(&facts);
        }
        if live.streaming && live.t_last.is_some_and(|last| now.since(last) > route.stalled_ns) {
            gauge.stalled += 1;
        }
        let slos: &[Slo] = if request.judged { &route.slos } else { &[] };
        let Some(late) = overdue(now, &live, &asked(request, facts.model.as_deref()), slos) else {
            return;
        };
        let slot = route.slot.slos[late.slo];
        let slots = gauge.overdue_by_slo.len().max(slot + 1);
        gauge.overdue_by_slo.resize(slots, 0);
        gauge.overdue_by_slo[slot] += 1;
        for bound in late.broken.iter() {
            match gauge.overdue.iter_mut().find(|(b, _)| *b == bound) {
                Some((_, n)) => *n += 1,
                // A bound of rules that are no longer in force.
                None => gauge.overdue.push((bound, 1)),
            }
        }
    }

    /// The series a request counts on for now. Before its reply has begun nothing has confirmed its model, so a name not seen before
    /// is `other` until then; the answer is kept, so that it is looked up once.
    fn series(&self, request: &Request, model: Option<&str>) -> Arc<Series> {
        let mut series = request.series();
        let found = series.get_or_insert_with(|| {
            let route = request.judged_by().slot.route;
            self.observer
                .aggregates
                .series(route, model, request.tenant.as_deref(), false)
        });
        found.current()
    }
}

/// Nothing under way on `series`: every gauge of its route exists at 0.
fn nothing(rules: &Rules, series: &Series) -> InFlight {
    rules
        .routes
        .by_name(series.route())
        .map_or_else(InFlight::default, |route| InFlight {
            requests: 0,
            overdue: route.bounds.iter().map(|b| (b, 0)).collect(),
            overdue_by_slo: Vec::new(),
            stalled: 0,
        })
}
