//! The model checker over the router that ships: every order of what two tabs, two agents, a log and a person may do.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a panic is the failure of a test, and the figures are shown")]

use stateright::{Checker, HasDiscoveries, Model};
use std::time::Instant;
use tests_e2e::model::{Budget, Invariant, Scope, Sight};

/// Explores a scope completely and says how much that was.
fn explore(what: &str, scope: Scope, depth: usize) -> (Option<(String, String)>, std::collections::BTreeSet<Sight>) {
    let begun = Instant::now();
    let checker = scope.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = if depth > 0 { checker.target_max_depth(depth) } else { checker };
    let checker = checker.spawn_bfs().join();
    eprintln!(
        "{what}: {} states, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    let found = checker.discoveries().into_iter().next().map(|(name, path)| {
        let how = path.last_state().broke.as_ref().map(|broke| broke.how.clone()).unwrap_or_default();
        let acts: Vec<String> = path.into_actions().iter().map(|act| format!("{act:?}")).collect();
        (name.to_owned(), format!("{name}\n  {how}\n  {}", acts.join("\n  ")))
    });
    (found, checker.model().seen())
}

fn holds(what: &str, budget: Budget) -> std::collections::BTreeSet<Sight> {
    let (found, seen) = explore(what, Scope::new(budget), 0);
    assert!(found.is_none(), "{}", found.unwrap().1);
    seen
}

#[test]
fn small() {
    holds("small", Budget { messages: 2, calls: 2, at_once: 2, ..Budget::default() });
    let _ = Invariant::Turn;
}
