//! The model checker's model: the very [`routing_core::router::Router`] that ships, with two browser tabs, two workflows
//! in each, two agents and a log around it, all of which do whatever they may in every order. What must hold is watched
//! from outside, by what the router sends, so that the check does not repeat the router's own reasoning.

mod act;
mod agent;
mod drain;
mod panel;
mod watch;
mod world;

pub use act::Act;
pub use agent::{Agent, Call, Kind};
pub use panel::{Flow, Tab};
pub use watch::{Broke, Invariant, Sight};
pub use world::{Aim, Budget, World};

use stateright::{Model, Property};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is explored: how often each thing may happen, and which rules are switched off.
#[derive(Debug, Default)]
pub struct Scope {
    /// How often each thing may happen.
    pub budget: Budget,
    /// Rules that are switched off in the router, and `g5` also in the panels.
    pub broken: BTreeSet<&'static str>,
    seen: AtomicU64,
}

impl Scope {
    /// All rules on.
    pub fn new(budget: Budget) -> Self {
        Self { budget, broken: BTreeSet::new(), seen: AtomicU64::new(0) }
    }

    /// With one rule switched off.
    #[must_use]
    pub fn without(mut self, rule: &'static str) -> Self {
        self.broken.insert(rule);
        self
    }

    /// What happened in any of the explored states: proves that a check that found nothing had something to look at.
    pub fn seen(&self) -> BTreeSet<Sight> {
        let bits = self.seen.load(Ordering::Relaxed);
        Sight::ALL.iter().copied().filter(|sight| bits & (1 << *sight as u64) != 0).collect()
    }
}

impl Model for Scope {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.budget, self.broken.clone())]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        if world.broke.is_none() {
            act::possible(world, acts);
        }
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        let mut next = world.clone();
        act::apply(&mut next, &act);
        self.seen.fetch_or(next.sights.take(), Ordering::Relaxed);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn intact(world: &World, invariant: Invariant) -> bool {
            world.broke.as_ref().is_none_or(|broke| broke.invariant != invariant)
        }
        vec![
            Property::always(Invariant::Instance.name(), |_, world| intact(world, Invariant::Instance)),
            Property::always(Invariant::Turn.name(), |_, world| intact(world, Invariant::Turn)),
            Property::always(Invariant::Steady.name(), |_, world| intact(world, Invariant::Steady)),
            Property::always(Invariant::Ownership.name(), |_, world| intact(world, Invariant::Ownership)),
            Property::always(Invariant::Once.name(), |_, world| intact(world, Invariant::Once)),
            Property::always(Invariant::Remedy.name(), |_, world| intact(world, Invariant::Remedy)),
            Property::always(Invariant::Frames.name(), |_, world| intact(world, Invariant::Frames)),
            Property::always(Invariant::Nothing.name(), |_, world| drain::nothing_is_lost(world)),
        ]
    }
}
