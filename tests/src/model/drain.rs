//! Questions about the future of a state, answered on a copy of it: does the remedy work, and does everything end?

use super::agent::{Call, Doing, Kind};
use super::watch::{Invariant, Sight};
use super::world::{Stands, World};
use routing_core::refusal::Refusal;
use routing_core::router::Input;

/// Rounds after which something that has not ended never will.
const ROUNDS: usize = 24;
/// How many remedies may lead to one another.
const CHAIN: usize = 3;

/// If everyone now does what they have to and time passes, every call is answered, and every message is settled.
pub(super) fn nothing_is_lost(world: &World) -> bool {
    if world.broke.is_some() || (world.calls.is_empty() && !world.left.fair) {
        return true;
    }
    let mut copy = world.clone();
    copy.inside = true;
    for _ in 0..ROUNDS {
        copy.settle();
        if copy.left.fair {
            copy.everyone_works();
        }
        if copy.calls.is_empty() && !copy.left.fair {
            return true;
        }
        let Some((at, _)) = copy.router.poll_timeout() else { continue };
        copy.now = copy.now.max(at);
        copy.input(Input::Tick);
    }
    let settled = |stands: Stands| matches!(stands, Stands::Settled | Stands::Dropped);
    copy.calls.is_empty() && (!copy.left.fair || copy.messages.iter().all(|one| settled(one.stands)))
}

impl World {
    fn settle(&mut self) {
        self.log.slow = false;
        self.answer_log();
    }

    fn everyone_works(&mut self) {
        for backend in 0..self.agents.len() {
            if self.agents[backend].clearing {
                self.cleared(backend);
            }
            match self.agents[backend].doing {
                Doing::Waking(_) => self.ready(backend),
                Doing::Turn(_) => self.ends(backend),
                Doing::Off | Doing::Idle => {}
            }
        }
    }

    /// Every connected panel carries out what it has.
    fn panels_work(&mut self) {
        while let Some(tab) =
            (0..self.tabs.len()).find(|tab| self.tabs[*tab].socket.is_some() && !self.tabs[*tab].inbox.is_empty())
        {
            self.execute(tab);
        }
    }

    /// A refusal was told: its remedy is called, and what that one names in turn if it is refused itself, until one
    /// reports success; then the refused command passes (invariant 6). Whenever a tab of the conversation is connected.
    pub(super) fn follow_remedy(&mut self, call: &Call, refusal: &Refusal) {
        // What to do about an unknown outcome is to look; a retry by its token has its own check.
        let looks = matches!(refusal, Refusal::UnknownOutcome { .. });
        let Some(remedy) = refusal.remedy().filter(|_| !looks) else { return };
        if self.connected(call.backend).is_empty() || self.broke.is_some() {
            return;
        }
        let mut copy = self.clone();
        copy.inside = true;
        copy.settle();
        // Calls that the agent made beside this one are over before it acts on the refusal.
        copy.panels_work();
        let mut remedy = remedy;
        for _ in 0..CHAIN {
            let number = copy.call_named(call.backend, &remedy.tool, remedy.arguments.clone());
            copy.panels_work();
            match copy.heard.get(&number) {
                Some(Ok(())) => return self.call_again(copy, call, refusal),
                Some(Err(next)) if next.remedy().is_some_and(|next| next != remedy) => {
                    remedy = next.remedy().unwrap_or(remedy);
                }
                told => {
                    let kind = call.kind;
                    let how = format!("{kind:?} was refused: {refusal:?}; its remedy {remedy:?} came to {told:?}");
                    return self.breaks(Invariant::Remedy, how);
                }
            }
        }
        self.breaks(Invariant::Remedy, format!("{:?} was refused: {refusal:?}; its remedies do not end", call.kind));
    }

    /// The remedy reported success: now the refused command passes.
    fn call_again(&mut self, mut copy: Self, call: &Call, refusal: &Refusal) {
        // A tab that the call named and that is not there, or not ours, is the caller's to replace.
        let named_badly = matches!(refusal, Refusal::NotOwner { .. } | Refusal::TargetGone { .. });
        // A panel that refused a retry has proved that nothing ran, so the call is made anew.
        let disproved = call.kind == Kind::Retry && !call.rids.is_empty();
        let again = if named_badly || disproved { call.kind.anywhere() } else { call.kind };
        let second = copy.call(call.backend, again);
        copy.panels_work();
        let told = copy.heard.get(&second).cloned();
        if told != Some(Ok(())) {
            let how = format!("{:?} was refused: {refusal:?}; after its remedy {again:?} came to {told:?}", call.kind);
            return self.breaks(Invariant::Remedy, how);
        }
        if let Some(broke) = copy.broke {
            return self.breaks(broke.invariant, format!("after a remedy: {}", broke.how));
        }
        self.saw(Sight::Remedied);
    }
}
