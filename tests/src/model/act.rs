//! What may happen next, and its doing.

use super::agent::{Doing, Kind};
use super::world::{Aim, BACKENDS, Message, Stands, World};
use routing_core::id::MessageId;
use routing_core::router::Input;
use serde_json::json;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// The person says something in a tab.
    Say(usize),
    /// A panel carries out its next command and answers.
    Execute(usize),
    /// The person brings another workflow to the front.
    Switch(usize),
    /// A connection is lost. `kept`: the panel got what was on its way.
    Cut {
        /// Which tab.
        tab: usize,
        /// Whether its commands arrived.
        kept: bool,
    },
    /// A tab connects again.
    Join {
        /// Which tab.
        tab: usize,
        /// After a reload of the page: its workflows are new instances.
        reload: bool,
    },
    /// A tab goes over to the other conversation.
    Move(usize),
    /// The person stops the turn.
    Stop {
        /// In which tab.
        tab: usize,
        /// Send now: the interrupted message goes back to the queue.
        requeue: bool,
    },
    /// New chat.
    NewChat(usize),
    /// The person pins the workflow in front.
    Pick(usize),
    /// An agent is up.
    Ready(usize),
    /// An agent does not start.
    Fail(usize),
    /// An agent calls a tool.
    Call(usize, Kind),
    /// An agent takes what waits into its turn.
    Merge(usize),
    /// An agent's turn ends.
    End(usize),
    /// An agent says something.
    Speak(usize),
    /// An agent is gone after New chat.
    Cleared(usize),
    /// The log becomes slow.
    Hold,
    /// The slow log answers one transaction.
    Answer,
    /// The next deadline passes.
    Tick,
}

/// Everything that may happen in this state.
pub(super) fn possible(world: &World, acts: &mut Vec<Act>) {
    for tab in 0..world.tabs.len() {
        of_tab(world, tab, acts);
    }
    for backend in 0..BACKENDS.len() {
        of_agent(world, backend, acts);
    }
    let left = &world.left;
    if left.holds > 0 && !world.log.slow {
        acts.push(Act::Hold);
    }
    if world.log.slow && !world.log.open.is_empty() {
        acts.push(Act::Answer);
    }
    if left.ticks > 0 && world.router.poll_timeout().is_some() {
        acts.push(Act::Tick);
    }
}

fn of_tab(world: &World, tab: usize, acts: &mut Vec<Act>) {
    let (left, one) = (&world.left, &world.tabs[tab]);
    if !one.inbox.is_empty() {
        acts.push(Act::Execute(tab));
    }
    if one.socket.is_none() {
        acts.push(Act::Join { tab, reload: false });
        if left.reloads > 0 {
            acts.push(Act::Join { tab, reload: true });
        }
        return;
    }
    if left.messages > 0 {
        acts.push(Act::Say(tab));
    }
    if left.switches > 0 {
        acts.push(Act::Switch(tab));
    }
    if left.cuts > 0 {
        acts.push(Act::Cut { tab, kept: false });
        if !one.inbox.is_empty() {
            acts.push(Act::Cut { tab, kept: true });
        }
    }
    if left.moves > 0 {
        acts.push(Act::Move(tab));
    }
    let works = !matches!(world.agents[one.backend].doing, Doing::Off | Doing::Idle);
    if left.stops > 0 && works {
        acts.push(Act::Stop { tab, requeue: false });
        acts.push(Act::Stop { tab, requeue: true });
    }
    if left.chats > 0 {
        acts.push(Act::NewChat(tab));
    }
    if left.picks > 0 {
        acts.push(Act::Pick(tab));
    }
}

fn of_agent(world: &World, backend: usize, acts: &mut Vec<Act>) {
    let (left, agent) = (&world.left, &world.agents[backend]);
    if agent.clearing {
        acts.push(Act::Cleared(backend));
    }
    let open = world.calls.values().filter(|call| call.backend == backend).count();
    let may_call = open < usize::from(left.at_once);
    match agent.doing {
        Doing::Off => {}
        Doing::Idle => {
            if may_call && left.late_calls > 0 {
                calls(world, backend, acts);
            }
        }
        Doing::Waking(_) => {
            acts.push(Act::Ready(backend));
            if left.fails > 0 {
                acts.push(Act::Fail(backend));
            }
        }
        Doing::Turn(_) => {
            acts.push(Act::End(backend));
            if left.says > 0 {
                acts.push(Act::Speak(backend));
            }
            let waits = |one: &Message| one.backend == backend && one.stands == Stands::Waiting && one.seq.is_some();
            if left.merges > 0 && world.messages.iter().any(waits) {
                acts.push(Act::Merge(backend));
            }
            if may_call && left.calls > 0 {
                calls(world, backend, acts);
            }
        }
    }
}

fn calls(world: &World, backend: usize, acts: &mut Vec<Act>) {
    let mut kinds = vec![Kind::Write, Kind::Read, Kind::Current, Kind::Open(None), Kind::New];
    if world.left.named {
        kinds.push(Kind::List);
        kinds.push(Kind::Pinned(None));
        for tab in 0..world.tabs.len() {
            kinds.extend([Kind::CurrentIn(tab), Kind::Open(Some(tab)), Kind::Pinned(Some(tab))]);
        }
    }
    if world.doubtful.is_some() {
        kinds.push(Kind::Retry);
    }
    acts.extend(kinds.into_iter().map(|kind| Act::Call(backend, kind)));
}

/// Carries out one thing.
pub(super) fn apply(world: &mut World, act: &Act) {
    match *act {
        Act::Say(tab) => {
            world.left.messages -= 1;
            say(world, tab);
        }
        Act::Execute(tab) => world.execute(tab),
        Act::Switch(tab) => {
            world.left.switches -= 1;
            world.switch(tab);
        }
        Act::Cut { tab, kept } => {
            world.left.cuts -= 1;
            world.cut(tab, kept);
        }
        Act::Join { tab, reload } => {
            world.left.reloads -= u8::from(reload);
            world.join(tab, reload);
        }
        Act::Move(tab) => {
            world.left.moves -= 1;
            let other = 1 - world.tabs[tab].backend;
            world.tabs[tab].backend = other;
            world.apply_kept(tab);
            world.says(tab, &json!({"type": "set_backend", "backend": BACKENDS[other]}));
        }
        Act::Stop { tab, requeue } => {
            world.left.stops -= 1;
            world.says(tab, &json!({"type": "interrupt", "requeue": requeue}));
        }
        Act::NewChat(tab) => {
            world.left.chats -= 1;
            world.says(tab, &json!({"type": "new_session"}));
        }
        Act::Pick(tab) => {
            world.left.picks -= 1;
            let path = world.tabs[tab].front().path.clone();
            world.says(tab, &json!({"type": "set_workflow_target", "mode": "pinned", "path": path}));
        }
        Act::Ready(backend) => world.ready(backend),
        Act::Fail(backend) => {
            world.left.fails -= 1;
            world.fails(backend);
        }
        Act::Call(backend, kind) => {
            match world.agents[backend].turn() {
                Some(_) => world.left.calls -= 1,
                None => world.left.late_calls -= 1,
            }
            world.call(backend, kind);
        }
        Act::Merge(backend) => {
            world.left.merges -= 1;
            world.merges(backend);
        }
        Act::End(backend) => world.ends(backend),
        Act::Speak(backend) => {
            world.left.says -= 1;
            world.speaks(backend);
        }
        Act::Cleared(backend) => world.cleared(backend),
        Act::Hold => {
            world.left.holds -= 1;
            world.log.slow = true;
        }
        Act::Answer => {
            world.answer_one();
            world.log.slow = !world.log.open.is_empty();
        }
        Act::Tick => {
            world.left.ticks -= 1;
            if let Some((at, _)) = world.router.poll_timeout() {
                world.now = world.now.max(at);
                world.input(Input::Tick);
            }
        }
    }
}

fn say(world: &mut World, tab: usize) {
    let one = &world.tabs[tab];
    let message = Message {
        mid: MessageId::new(format!("m{}", world.messages.len() + 1)),
        origin: Aim { tab, uuid: one.front().uuid.clone() },
        backend: one.backend,
        seq: None,
        stands: Stands::Waiting,
    };
    let frame = json!({"type": "user_message", "mid": message.mid, "text": message.marker()});
    world.messages.push(message);
    world.says(tab, &frame);
}
