//! The requests under way, for the gauges: looked at when someone scrapes, and nowhere else.
//!
//! A request costs one short lock when it begins and one when it ends, on one of [`SHARDS`]; while it runs it only stores to its
//! own atomics ([`super::request::Progress`]).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::request::Request;

/// Independent locks, so that workers seldom meet.
const SHARDS: usize = 16;
/// Most requests looked at. One past it is measured, judged and counted at its end like any other, but missing from the gauges.
pub(super) const MAX_TRACKED: usize = 65_536;

/// Every request under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    shards: [Mutex<Shard>; SHARDS],
    next: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    places: Vec<Option<Arc<Request>>>,
    free: Vec<usize>,
}

/// A request's place among those under way; dropped, it is free again.
#[derive(Debug)]
pub(super) struct Place {
    under_way: Arc<UnderWay>,
    shard: usize,
    at: usize,
}

impl UnderWay {
    /// Enters `request`; none when [`MAX_TRACKED`] are in.
    pub(super) fn enter(self: &Arc<Self>, request: &Arc<Request>) -> Option<Place> {
        let first = self.next.fetch_add(1, Relaxed);
        (0..SHARDS).find_map(|i| {
            let shard = first.wrapping_add(i) % SHARDS;
            let at = lock(&self.shards[shard]).take(request)?;
            Some(Place {
                under_way: Arc::clone(self),
                shard,
                at,
            })
        })
    }

    /// Calls `f` with each request under way, outside the locks.
    pub(super) fn for_each(&self, mut f: impl FnMut(&Arc<Request>)) {
        for shard in &self.shards {
            let requests: Vec<_> = lock(shard).places.iter().flatten().cloned().collect();
            requests.iter().for_each(&mut f);
        }
    }
}

impl Shard {
    /// A place for `request`; none when all are taken.
    fn take(&mut self, request: &Arc<Request>) -> Option<usize> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.places.len() < MAX_TRACKED / SHARDS => {
                self.places.push(None);
                self.places.len() - 1
            }
            None => return None,
        };
        self.places[at] = Some(Arc::clone(request));
        Some(at)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut shard = lock(&self.under_way.shards[self.shard]);
        if let Some(place) = shard.places.get_mut(self.at) {
            *place = None;
            shard.free.push(self.at);
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_cap_requests_are_not_looked_at_until_a_place_is_free() {
        let under_way = Arc::new(UnderWay::default());
        let request = Arc::new(Request::for_tests());
        let count = || {
            let mut n = 0;
            under_way.for_each(|_| n += 1);
            n
        };
        let mut places: Vec<_> = (0..MAX_TRACKED).map(|_| under_way.enter(&request).unwrap()).collect();
        assert!(under_way.enter(&request).is_none());
        assert_eq!(count(), MAX_TRACKED);
        places.swap_remove(7);
        assert!(under_way.enter(&request).is_some(), "wherever it became free");
        places.clear();
        assert_eq!((count(), Arc::strong_count(&request)), (0, 1));
    }
}
