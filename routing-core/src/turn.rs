//! Messages that wait, the batch that a turn takes, and the target that the turn gets (rules T1 to T3, T8, T9).

use crate::frame::WorkflowIdentity;
use crate::id::{Backend, MessageId, PromptId, Seq, TabIdentity, TabKey, WorkflowUuid};
use crate::refusal::NoTarget;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Where a message came from, recorded when it is received (rule T1) and kept for as long as it waits (rule T8).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The tab.
    pub tab: TabKey,
    /// What that tab says of itself, by which it is known again after a restart of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<TabIdentity>,
    /// The conversation that the tab took part in.
    pub backend: Backend,
    /// The workflow that was in front, as the panel proved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowIdentity>,
}

impl Origin {
    /// The instance that the message was composed for.
    pub fn stamp(&self) -> Option<&WorkflowUuid> {
        self.workflow.as_ref().map(|workflow| &workflow.uuid)
    }

    /// One origin: the same tab showing the same instance, in the same conversation.
    pub fn same(&self, other: &Self) -> bool {
        self.tab == other.tab && self.backend == other.backend && self.stamp() == other.stamp()
    }
}

/// Who speaks in a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Source {
    /// The person. `None`: the origin is not known (rule T9).
    Person {
        /// Where it was said.
        #[serde(default)]
        origin: Option<Origin>,
    },
    /// The daemon: a completion, an answer, an error. Never makes a batch ambiguous (rule T3).
    Event,
}

/// One message for the agent, committed to the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// Its row.
    pub seq: Seq,
    /// The panel's id, for messages of the person.
    pub mid: Option<MessageId>,
    /// The text for the agent.
    pub text: String,
    /// Put before the text, for the agent only.
    pub context: Option<String>,
    /// Who speaks.
    pub source: Source,
    /// It was in a turn before and was put back (rule T8).
    pub requeued: bool,
    /// It starts no turn: it goes along with the next one that something else starts.
    pub quiet: bool,
    /// The run that it tells of.
    pub run: Option<PromptId>,
}

impl Item {
    /// What the daemon says.
    pub fn event(text: String, run: Option<PromptId>) -> Self {
        let source = Source::Event;
        Self { seq: Seq::default(), mid: None, text, context: None, source, requeued: false, quiet: false, run }
    }

    fn origin(&self) -> Option<Option<&Origin>> {
        match &self.source {
            Source::Person { origin } => Some(origin.as_ref()),
            Source::Event => None,
        }
    }

    /// Whether the daemon speaks.
    pub fn is_event(&self) -> bool {
        matches!(self.source, Source::Event)
    }
}

/// Takes the next batch (rule T2): one message of the person, with every event that waits. A message that was put back
/// takes along the ones after it that have the same origin, because the person asked to send them now.
pub fn take_batch(queue: &mut VecDeque<Item>) -> Vec<Item> {
    let Some(first) = queue.iter().position(|item| !item.is_event()) else {
        return queue.drain(..).collect();
    };
    let lead = queue[first].clone();
    let mut open = true;
    let mut batch = Vec::new();
    let mut rest = VecDeque::new();
    for item in queue.drain(..) {
        let joins = match item.origin() {
            None => true,
            Some(_) if item.seq == lead.seq => true,
            Some(origin) => {
                let same = match (origin, lead.origin().flatten()) {
                    (Some(one), Some(other)) => one.same(other),
                    _ => false,
                };
                open = open && same;
                open && lead.requeued
            }
        };
        if joins { batch.push(item) } else { rest.push_back(item) }
    }
    *queue = rest;
    batch
}

/// Puts a batch back at the front, in its order (rule T8): each message keeps its origin. `quiet`: events start no turn
/// by themselves. `told`: the agent had them.
pub fn put_back(queue: &mut VecDeque<Item>, batch: Vec<Item>, quiet: bool, told: bool) {
    for mut item in batch.into_iter().rev() {
        item.requeued = told || (item.requeued || !item.is_event());
        item.quiet = item.is_event() && (quiet || item.quiet);
        queue.push_front(item);
    }
}

/// What a turn acts on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aim {
    /// The tab, or why there is none.
    pub pin: Result<TabKey, NoTarget>,
    /// The instance that its calls are stamped with.
    pub stamp: Option<WorkflowUuid>,
}

impl Aim {
    /// No target: calls that need one are refused.
    pub fn none(reason: NoTarget) -> Self {
        Self { pin: Err(reason), stamp: None }
    }

    /// A tab and an instance.
    pub fn at(tab: TabKey, stamp: Option<WorkflowUuid>) -> Self {
        Self { pin: Ok(tab), stamp }
    }
}

/// What the rules need to know of a tab.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TabFacts {
    /// The tab.
    pub tab: TabKey,
    /// The conversation that it takes part in now.
    pub backend: Backend,
    /// It has a socket.
    pub live: bool,
    /// It has a canvas.
    pub interactive: bool,
    /// What is in front in it.
    pub workflow: Option<WorkflowUuid>,
}

/// Target of the turn that takes a batch (rules T2, T3, T9), and the origin that it establishes, if it does.
pub fn aim(batch: &[Item], backend: &Backend, last: Option<&Aim>, tabs: &[TabFacts]) -> (Aim, Option<Origin>) {
    let origins: Vec<Option<&Origin>> = batch.iter().filter_map(Item::origin).collect();
    let Some(first) = origins.first() else {
        return (inherited(backend, last, tabs), None);
    };
    let Some(lead) = *first else { return (Aim::none(NoTarget::UnknownOrigin), None) };
    if origins.iter().any(|origin| origin.is_none()) {
        return (Aim::none(NoTarget::UnknownOrigin), None);
    }
    if !origins.iter().flatten().all(|origin| origin.same(lead)) {
        return (Aim::none(NoTarget::MixedOrigins), None);
    }
    let Some(tab) = tabs.iter().find(|tab| tab.tab == lead.tab) else {
        return (Aim::none(NoTarget::UnknownOrigin), None);
    };
    if lead.backend != *backend || tab.backend != *backend {
        return (Aim::none(NoTarget::OwnershipLost), None);
    }
    (Aim::at(lead.tab.clone(), lead.stamp().cloned()), Some(lead.clone()))
}

/// Events alone (rule T3): the last established origin if its tab is live here, else the only live tab, else nothing. A
/// turn that failed closed established nothing, and an event adopts nothing on its behalf (rule T2).
fn inherited(backend: &Backend, last: Option<&Aim>, tabs: &[TabFacts]) -> Aim {
    if let Some(Aim { pin: Err(reason), .. }) = last {
        return Aim::none(*reason);
    }
    let here: Vec<&TabFacts> =
        tabs.iter().filter(|tab| tab.live && tab.interactive && tab.backend == *backend).collect();
    if let Some(Aim { pin: Ok(tab), stamp }) = last
        && here.iter().any(|fact| fact.tab == *tab)
    {
        return Aim::at(tab.clone(), stamp.clone());
    }
    match here.as_slice() {
        [only] => Aim::at(only.tab.clone(), only.workflow.clone()),
        _ => Aim::none(NoTarget::NothingToInherit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(tab: &str, uuid: &str) -> Origin {
        Origin {
            tab: tab.into(),
            identity: None,
            backend: "claude".into(),
            workflow: Some(WorkflowIdentity {
                uuid: uuid.into(),
                path: None,
                handle: format!("tmp:{uuid}"),
                title: uuid.to_owned(),
                canvas: None,
            }),
        }
    }

    fn item(seq: u64, source: Source) -> Item {
        Item {
            seq: Seq(seq),
            mid: None,
            text: seq.to_string(),
            context: None,
            source,
            requeued: false,
            quiet: false,
            run: None,
        }
    }

    fn said(seq: u64, tab: &str, uuid: &str) -> Item {
        item(seq, Source::Person { origin: Some(origin(tab, uuid)) })
    }

    fn fact(tab: &str, backend: &str, live: bool) -> TabFacts {
        TabFacts { tab: tab.into(), backend: backend.into(), live, interactive: true, workflow: Some("now".into()) }
    }

    fn seqs(batch: &[Item]) -> Vec<u64> {
        batch.iter().map(|item| item.seq.0).collect()
    }

    #[test]
    fn t2_the_scheduler_takes_one_message_and_every_event() {
        let mut queue: VecDeque<Item> =
            [item(1, Source::Event), said(2, "t1", "w1"), said(3, "t1", "w1"), item(4, Source::Event)].into();
        assert_eq!(seqs(&take_batch(&mut queue)), [1, 2, 4]);
        assert_eq!(seqs(&take_batch(&mut queue)), [3]);
        assert!(take_batch(&mut queue).is_empty());
    }

    #[test]
    fn t8_what_was_put_back_takes_along_its_own_origin_only() {
        let mut queue: VecDeque<Item> = [said(2, "t1", "w1"), said(3, "t2", "w2"), said(4, "t1", "w1")].into();
        put_back(&mut queue, vec![said(1, "t1", "w1")], false, true);
        assert_eq!(seqs(&take_batch(&mut queue)), [1, 2]);
        assert_eq!(seqs(&take_batch(&mut queue)), [3]);
        assert_eq!(seqs(&take_batch(&mut queue)), [4]);
    }

    #[test]
    fn t2_a_mixed_batch_fails_closed() {
        let tabs = [fact("t1", "claude", true), fact("t2", "claude", true)];
        let backend = "claude".into();
        let (aim_mixed, established) = aim(&[said(1, "t1", "w1"), said(2, "t2", "w2")], &backend, None, &tabs);
        assert_eq!(aim_mixed, Aim::none(NoTarget::MixedOrigins));
        assert_eq!(established, None);
        let (same_tab, _) = aim(&[said(1, "t1", "w1"), said(2, "t1", "w9")], &backend, None, &tabs);
        assert_eq!(same_tab, Aim::none(NoTarget::MixedOrigins));
    }

    #[test]
    fn t3_an_event_rides_along_or_inherits() {
        let tabs = [fact("t1", "claude", true), fact("t2", "claude", true)];
        let backend = "claude".into();
        let (with_user, _) = aim(&[item(1, Source::Event), said(2, "t2", "w2")], &backend, None, &tabs);
        assert_eq!(with_user, Aim::at("t2".into(), Some("w2".into())));
        let last = Aim::at("t1".into(), Some("w1".into()));
        let event = [item(1, Source::Event)];
        assert_eq!(aim(&event, &backend, Some(&last), &tabs).0, last);
        assert_eq!(aim(&event, &backend, None, &tabs).0, Aim::none(NoTarget::NothingToInherit));
        let one = [fact("t1", "codex", true), fact("t2", "claude", true)];
        assert_eq!(aim(&event, &backend, Some(&last), &one).0, Aim::at("t2".into(), Some("now".into())));
        let failed = Aim::none(NoTarget::MixedOrigins);
        assert_eq!(aim(&event, &backend, Some(&failed), &one).0, failed);
    }

    #[test]
    fn t9_an_unknown_or_foreign_origin_fails_closed() {
        let backend = "claude".into();
        let gone_over = [fact("t1", "codex", true)];
        assert_eq!(aim(&[said(1, "t1", "w1")], &backend, None, &gone_over).0, Aim::none(NoTarget::OwnershipLost));
        assert_eq!(aim(&[said(1, "t9", "w1")], &backend, None, &gone_over).0, Aim::none(NoTarget::UnknownOrigin));
        let unknown = item(1, Source::Person { origin: None });
        assert_eq!(aim(&[unknown], &backend, None, &gone_over).0, Aim::none(NoTarget::UnknownOrigin));
    }
}
