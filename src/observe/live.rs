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
        let shard = self.next.fetch_add(1, Relaxed) % SHARDS;
        let mut places = lock(&self.shards[shard]);
        let at = match places.free.pop() {
            Some(at) => at,
            None if places.places.len() < MAX_TRACKED / SHARDS => {
                places.places.push(None);
                places.places.len() - 1
            }
            None => return None,
        };
        places.places[at] = Some(Arc::clone(request));
        drop(places);
        Some(Place {
            under_way: Arc::clone(self),
            shard,
            at,
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
