//! Sequences of events that the model checker once found to break an invariant, shortest first. Each must be possible and
//! must break nothing; the checks at each step are the model checker's own.

use stateright::Model;
use tests_e2e::model::{Act, Budget, Kind, Scope};

fn replay(budget: Budget, acts: &[Act]) {
    let scope = Scope::new(budget);
    let mut worlds = scope.init_states();
    let mut world = worlds.remove(0);
    for act in acts {
        let mut possible = Vec::new();
        scope.actions(&world, &mut possible);
        assert!(possible.contains(act), "{act:?} cannot happen; only {possible:?}");
        let Some(next) = scope.next_state(&world, *act) else { panic!("{act:?} leads nowhere") };
        world = next;
        assert!(world.broke.is_none(), "after {act:?}: {:?}", world.broke);
        for property in scope.properties() {
            assert!((property.condition)(&scope, &world), "after {act:?}: {}", property.name);
        }
    }
}

fn budget() -> Budget {
    Budget { messages: 2, calls: 2, at_once: 2, ..Budget::default() }
}

#[test]
fn t4_what_an_ended_turn_opened_does_not_aim_the_next_one() {
    let open = Act::Call(0, Kind::Open(None));
    let acts = [Act::Say(0), Act::Say(0), Act::Ready(0), open, Act::End(0), Act::Ready(0), Act::Execute(0)];
    replay(budget(), &[&acts[..], &[Act::Call(0, Kind::Read)]].concat());
}

#[test]
fn t4_a_call_that_waited_for_its_tab_does_not_run_in_the_next_turn() {
    let before = [Act::Say(0), Act::Ready(0), Act::Switch(0), Act::Say(0), Act::Cut { tab: 0, kept: false }];
    let after = [Act::Call(0, Kind::Write), Act::End(0), Act::Ready(0), Act::Join { tab: 0, reload: false }];
    replay(Budget { switches: 1, cuts: 1, ..budget() }, &[&before[..], &after[..]].concat());
}

#[test]
fn t4_a_target_kept_for_the_next_tab_is_not_the_next_turns() {
    let cut = |tab| Act::Cut { tab, kept: false };
    let before = [Act::Say(0), Act::Ready(0), Act::Say(1), cut(0), cut(1), Act::Call(0, Kind::Current), Act::End(0)];
    let after = [Act::Ready(0), Act::Join { tab: 0, reload: false }, Act::Call(0, Kind::Read)];
    replay(Budget { cuts: 2, ..budget() }, &[&before[..], &after[..]].concat());
}

#[test]
fn t7_a_reply_from_a_tab_that_went_over_moves_no_target() {
    let new = Act::Call(0, Kind::New);
    replay(Budget { moves: 1, ..budget() }, &[Act::Say(1), Act::Ready(0), new, Act::Move(1), new, Act::Execute(1)]);
}

#[test]
fn g10_a_pin_that_does_not_fit_is_remedied_in_its_own_tab() {
    let pin = Act::Call(0, Kind::Pinned(Some(1)));
    replay(Budget { named: true, ..budget() }, &[Act::Say(0), Act::Say(1), Act::Ready(0), pin, Act::Execute(1)]);
}

#[test]
fn g11_a_retry_is_answered_by_the_panel_that_was_asked_first() {
    let before = [Act::Say(0), Act::Ready(0), Act::Say(1), Act::Call(0, Kind::Write), Act::End(0), Act::Ready(0)];
    let lost = [Act::Cut { tab: 0, kept: true }, Act::Join { tab: 0, reload: false }];
    replay(Budget { cuts: 1, ..budget() }, &[&before[..], &lost[..], &[Act::Call(0, Kind::Retry)]].concat());
}
