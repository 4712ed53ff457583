//! What the gauges say: the requests under way, by series, and which of them are past a bound or silent.

use std::collections::HashMap;
use std::sync::Arc;

use super::Observer;
use super::recorder::asked;
use super::request::Request;
use super::routes::Judged;
use crate::aggregate::{InFlight, Series};
use crate::measure::{Slo, Stamp, overdue};

/// Requests under way by series, looked at once per scrape.
pub(super) struct Gauges<'a> {
    observer: &'a Observer,
    by_series: HashMap<*const Series, InFlight>,
}

impl<'a> Gauges<'a> {
    /// Looks at every request under way.
    pub(super) fn read(observer: &'a Observer, now: Stamp) -> Self {
        let mut gauges = Self {
            observer,
            by_series: HashMap::new(),
        };
        observer.under_way.for_each(|request| gauges.add(request, now));
        gauges
    }

    /// What is under way on `series`.
    pub(super) fn of(&mut self, series: &Arc<Series>) -> InFlight {
        let found = self.by_series.remove(&Arc::as_ptr(series));
        found.unwrap_or_else(|| {
            self.observer
                .routes
                .by_name(series.route())
                .map_or_else(InFlight::default, nothing)
        })
    }

    fn add(&mut self, request: &Request, now: Stamp) {
        let (route, facts) = (self.observer.routes.get(request.route), request.facts());
        let series = self.series(request, facts.model.as_deref());
        let gauge = self.by_series.entry(Arc::as_ptr(&series)).or_insert_with(|| nothing(route));
        gauge.requests += 1;
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
        gauge.overdue_by_slo[late.slo] += 1;
        for (bound, n) in &mut gauge.overdue {
            *n += u64::from(late.broken.contains(*bound));
        }
    }

    /// The series a request counts on for now. Before its reply has begun nothing has confirmed its model, so a name not seen before
    /// is `other` until then; the answer is kept, so that it is looked up once.
    fn series(&self, request: &Request, model: Option<&str>) -> Arc<Series> {
        let mut series = request.series();
        let found = series.get_or_insert_with(|| {
            self.observer
                .aggregates
                .series(request.route, model, request.tenant.as_deref(), false)
        });
        Arc::clone(found)
    }
}

/// Nothing under way on a series of `route`: every gauge exists at 0.
fn nothing(route: &Judged) -> InFlight {
    InFlight {
        requests: 0,
        overdue: route.bounds.iter().map(|b| (b, 0)).collect(),
        overdue_by_slo: vec![0; route.slos.len()],
        stalled: 0,
    }
}
