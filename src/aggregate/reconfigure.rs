//! New routes, SLOs and label policies while streams run, without a counter that falls.
//!
//! Routes and SLOs are known by name and keep their places for good; those that a new configuration no longer has stay, at the
//! values they had. A series whose edges or SLOs change is replaced: everything counted so far moves to its successor at once,
//! requests that end later follow it ([`Series::current`]), and what running streams still record without a lock is collected
//! with every tick and scrape until the last of them has ended. Where an edge is new, what was counted before lies above it up to
//! the next old edge; every edge that stays is exact.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::labels::{LabelMap, OTHER_ID, UNKNOWN_ID};
use super::series::Series;
use super::setup::Setup;
use super::shape::Shape;
use super::{Aggregates, Registry, lock};

/// The places of a route and of its SLOs, constant for the life of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSlot {
    /// The route's, for [`Aggregates::series`].
    pub route: usize,
    /// For each of its SLOs the index that a verdict names it by.
    pub slos: Vec<usize>,
}

/// Too many different names since the start; only a restart forgets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// More than [`Aggregates::MAX_ROUTES`] routes.
    Routes,
    /// More than [`Aggregates::MAX_SLOS`] SLOs of one route.
    Slos,
}

impl Aggregates {
    /// Most routes, those of former configurations included.
    pub const MAX_ROUTES: usize = 256;
    /// Most SLOs of a route, those of former configurations included.
    pub const MAX_SLOS: usize = 128;

    /// Goes by `setup` from now on; its windows, and whether there are tenants, must be what they were. Gives the place of each of
    /// its routes.
    ///
    /// # Errors
    /// When there have been too many names; nothing has changed then.
    pub fn reconfigure(&self, setup: &Setup) -> Result<Vec<RouteSlot>, Full> {
        // Held first, as by ticks and scrapes: neither sees half of it.
        let _clock = lock(&self.clock);
        let mut registry = lock(&self.registry);
        registry.has_room(setup)?;
        Ok(self.configure(&mut registry, setup))
    }

    pub(super) fn configure(&self, registry: &mut Registry, setup: &Setup) -> Vec<RouteSlot> {
        if let (Some(tenants), Some(policy)) = (&mut registry.tenants, &setup.tenants) {
            tenants.follow(policy);
        }
        let tenants = match (&registry.tenants, &setup.tenants) {
            (Some(tenants), Some(policy)) => tenants.known(policy).into_iter().map(Some).collect(),
            (Some(_), None) => vec![Some(UNKNOWN_ID)],
            (None, _) => vec![None],
        };
        registry.models.iter_mut().for_each(|models| models.follow(&setup.models));
        let mut slots = Vec::with_capacity(setup.routes.len());
        for of in &setup.routes {
            let known = registry.shapes.iter().position(|shape| shape.name == of.name);
            let (shape, slos) = Shape::new(of, known.map(|at| &*registry.shapes[at]), &mut registry.layouts);
            let route = known.unwrap_or(registry.shapes.len());
            if known.is_none() {
                registry.shapes.push(Arc::new(shape));
                registry.models.push(LabelMap::new(&setup.models));
            } else if !registry.shapes[route].is_as(&shape) {
                registry.replace(route, Arc::new(shape));
            }
            let mut models = vec![UNKNOWN_ID];
            if of.has_models {
                models.push(OTHER_ID);
                models.extend(registry.models[route].known(&setup.models));
            }
            for key in models
                .iter()
                .flat_map(|model| tenants.iter().map(move |tenant| (route, *model, *tenant)))
            {
                self.get(registry, key);
            }
            slots.push(RouteSlot { route, slos });
        }
        registry.layouts.prune();
        slots
    }
}

impl Registry {
    fn has_room(&mut self, setup: &Setup) -> Result<(), Full> {
        let mut routes = self.shapes.len();
        for of in &setup.routes {
            let known = self.shapes.iter().find(|shape| shape.name == of.name);
            routes += usize::from(known.is_none());
            let (shape, _) = Shape::new(of, known.map(|shape| &**shape), &mut self.layouts);
            if shape.slos.len() > Aggregates::MAX_SLOS {
                return Err(Full::Slos);
            }
        }
        if routes > Aggregates::MAX_ROUTES {
            Err(Full::Routes)
        } else {
            Ok(())
        }
    }

    fn replace(&mut self, route: usize, shape: Arc<Shape>) {
        for ((_, _, _), series) in self.series.iter_mut().filter(|((of, _, _), _)| *of == route) {
            let new = series.replaced_by(&shape);
            self.replaced.push(std::mem::replace(series, new));
        }
        self.shapes[route] = shape;
    }

    /// Takes over what streams recorded into series that were replaced, and forgets those that nobody can record into any more.
    pub(super) fn collect_replaced(&mut self) {
        self.replaced.retain(|series: &Arc<Series>| {
            let in_use = Arc::strong_count(series) > 1;
            // What the last holder recorded before it let go is seen from here on.
            fence(Ordering::Acquire);
            series.move_on(&series.current());
            in_use
        });
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, what) = match self {
            Self::Routes => (Aggregates::MAX_ROUTES, "route names"),
            Self::Slos => (Aggregates::MAX_SLOS, "SLO names of one route"),
        };
        write!(f, "there have been more than {most} different {what} since the start")
    }
}

impl std::error::Error for Full {}
