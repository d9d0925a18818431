//! The model checker over the router that ships: every order of what two tabs, two agents, a log and a person may do
//! within a budget. The figures go to the error output.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a panic is the failure of a test, and the figures are shown"
)]

use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::time::Instant;
use tests_e2e::model::{Budget, Invariant, Scope, Sight};

/// A broken invariant, and the shortest way to it.
struct Found {
    invariant: &'static str,
    how: String,
}

/// Explores a scope completely, or until what is looked for broke: one invariant, or any.
fn explore(what: &str, scope: Scope, sought: Option<&'static str>) -> (Option<Found>, BTreeSet<Sight>) {
    let begun = Instant::now();
    let until = sought.map_or(HasDiscoveries::AnyFailures, |name| HasDiscoveries::AllOf([name].into()));
    let checker = scope.checker().threads(2).finish_when(until).spawn_bfs().join();
    let (states, depth, seconds) = (checker.unique_state_count(), checker.max_depth(), begun.elapsed().as_secs_f64());
    eprintln!("{what}: {states} states, depth {depth}, {seconds:.1} s");
    let wanted = |name: &str| sought.is_none_or(|sought| sought == name);
    let found = checker.discoveries().into_iter().find(|(name, _)| wanted(name)).map(|(invariant, path)| {
        let how = path.last_state().broke.as_ref().map(|broke| broke.how.clone()).unwrap_or_default();
        let acts: Vec<String> = path.into_actions().iter().map(|act| format!("{act:?}")).collect();
        Found { invariant, how: format!("{invariant}\n  {how}\n  {}", acts.join("\n  ")) }
    });
    (found, checker.model().seen())
}

/// Everything that may happen within a budget, in every order: no invariant breaks, and what the scope is for happened.
fn holds(what: &str, budget: Budget, wanted: &[Sight]) {
    let (found, seen) = explore(what, Scope::new(budget), None);
    assert!(found.is_none(), "{}", found.unwrap().how);
    for sight in wanted {
        assert!(seen.contains(sight), "{what}: {sight:?} never happened");
    }
}

/// Two messages, from any tabs, and two calls, which may be under way at once.
fn base() -> Budget {
    Budget { messages: 2, calls: 2, at_once: 2, ..Budget::default() }
}

/// The same with one call.
fn lean() -> Budget {
    Budget { calls: 1, ..base() }
}

#[test]
fn t4_switches_by_hand_and_by_the_agent() {
    holds("switches", Budget { switches: 1, ..base() }, &[Sight::Applied, Sight::FencedInPanel, Sight::FencedInDaemon]);
}

#[test]
fn g12_calls_that_name_a_tab() {
    holds("named tabs", Budget { named: true, ..base() }, &[Sight::PinRefused, Sight::Remedied]);
}

#[test]
fn t5_t6_connections_and_reloads() {
    let budget = Budget { cuts: 1, reloads: 1, ticks: 1, messages: 1, ..base() };
    holds("connections", budget, &[Sight::Waited, Sight::TargetGone, Sight::Remedied]);
}

#[test]
fn t6_both_tabs_go() {
    holds("kept targets", Budget { cuts: 2, ..lean() }, &[Sight::Armed, Sight::Waited]);
}

#[test]
fn t7_tabs_go_over() {
    holds("owners", Budget { moves: 2, ..base() }, &[Sight::NotOwner, Sight::Remedied]);
}

#[test]
fn f1_two_conversations() {
    let budget = Budget { moves: 1, apart: true, says: 1, fair: true, ..lean() };
    holds("two conversations", budget, &[Sight::NotOwner]);
}

#[test]
fn t2_mixed_turns() {
    let budget = Budget { merges: 1, late_calls: 1, ..base() };
    holds("mixed turns", budget, &[Sight::MixedTurn, Sight::Ambiguous, Sight::Remedied]);
}

#[test]
fn t8_stop_and_send_now() {
    holds("stops", Budget { stops: 2, fails: 1, fair: true, ..lean() }, &[Sight::PutBack]);
}

#[test]
fn b2_new_chat_with_a_slow_log() {
    let budget = Budget { chats: 1, holds: 1, says: 1, fair: true, ..lean() };
    holds("new chat", budget, &[Sight::Cleared]);
}

#[test]
fn g11_lost_replies() {
    let budget = Budget { messages: 1, calls: 3, at_once: 1, cuts: 1, ticks: 1, ..Budget::default() };
    holds("lost replies", budget, &[Sight::Unknown, Sight::Retried]);
}

#[test]
fn g4_pins_of_the_picker() {
    let budget = Budget { picks: 1, switches: 1, ..lean() };
    holds("picker", budget, &[Sight::Guarded, Sight::Remedied]);
}

#[test]
#[ignore = "the same with larger budgets: some ten minutes"]
fn wide() {
    for (what, budget) in [
        ("wide: switches", Budget { switches: 2, calls: 3, ..base() }),
        ("wide: named tabs", Budget { named: true, switches: 1, ..base() }),
        ("wide: connections", Budget { cuts: 1, reloads: 1, ticks: 1, ..base() }),
        ("wide: kept targets", Budget { cuts: 2, ..base() }),
        ("wide: two conversations", Budget { moves: 2, apart: true, fair: true, ..base() }),
        ("wide: mixed turns", Budget { merges: 1, switches: 1, late_calls: 1, ..base() }),
        ("wide: stops", Budget { stops: 2, fails: 1, fair: true, ..base() }),
        ("wide: new chat", Budget { chats: 1, holds: 1, moves: 1, fair: true, ..base() }),
        ("wide: lost replies", Budget { calls: 3, cuts: 1, ticks: 1, ..lean() }),
        ("wide: picker", Budget { picks: 1, switches: 1, ..base() }),
    ] {
        holds(what, budget, &[]);
    }
}

/// With a rule switched off the checker finds a sequence of events that breaks what the rule is for.
fn is_caught(rule: &'static str, budget: Budget, invariant: Invariant) {
    let (found, _) = explore(rule, Scope::new(budget).without(rule), Some(invariant.name()));
    let found = found.unwrap_or_else(|| panic!("without {rule} it does not break"));
    assert_eq!(found.invariant, invariant.name(), "{}", found.how);
}

#[test]
fn broken_t4_is_caught() {
    is_caught("t4", base(), Invariant::Turn);
}

#[test]
fn broken_t7_is_caught() {
    is_caught("t7", Budget { moves: 1, ..base() }, Invariant::Ownership);
}

#[test]
fn broken_g5_is_caught() {
    is_caught("g5", Budget { switches: 1, ..base() }, Invariant::Instance);
}
