//! Expectations: what must come is waited for, what must not come is looked for once all is quiet.

use super::format::{Ended, Step};
use super::pattern::matches;
use super::stage::Stage;
use serde_json::{Map, Value, json};

/// Frames that are shown when the one that was expected is not among them.
const SHOWN: usize = 12;

impl Stage<'_> {
    /// Checks an expectation. `Err`: what was seen instead.
    pub(super) fn expect(&mut self, step: &Step) -> Result<(), Value> {
        match step {
            Step::Sees { panel, frame, times: None } => {
                let pattern = self.filled(frame)?;
                self.tab(panel)?;
                let seen = self.eventually(|stage| stage.count(panel, &pattern) > 0);
                if seen { Ok(()) } else { Err(self.last_frames(panel)) }
            }
            Step::Sees { panel, frame, times: Some(times) } => {
                let pattern = self.filled(frame)?;
                self.tab(panel)?;
                self.eventually(|stage| stage.count(panel, &pattern) >= *times);
                self.settle();
                match self.count(panel, &pattern) {
                    count if count == *times => Ok(()),
                    count => Err(json!({"times": count, "frames": self.last_frames(panel)})),
                }
            }
            Step::Never { panel, frame } => {
                let pattern = self.filled(frame)?;
                self.settle();
                let found = self.tab(panel)?.seen().iter().find(|frame| matches(&pattern, frame)).cloned();
                found.map_or(Ok(()), Err)
            }
            Step::Outcome { call, is: Ended::Pending } => {
                self.settle();
                match self.calls.get(call) {
                    Some(None) => Ok(()),
                    other => Err(told(other.and_then(Option::as_ref))),
                }
            }
            Step::Outcome { call, is } => {
                self.eventually(|stage| stage.calls.get(call).is_some_and(Option::is_some));
                let outcome = self.calls.get(call).and_then(Option::as_ref).cloned();
                let fits = match (is, &outcome) {
                    (Ended::Ok(pattern), Some(Ok(result))) => matches(&self.filled(pattern)?, result),
                    (Ended::Refused(code), Some(Err(refusal))) => refusal["code"] == code.as_str(),
                    (Ended::RefusedWith(pattern), Some(Err(refusal))) => matches(&self.filled(pattern)?, refusal),
                    (Ended::Ok(_) | Ended::Refused(_) | Ended::RefusedWith(_) | Ended::Pending, _) => false,
                };
                if fits { Ok(()) } else { Err(told(outcome.as_ref())) }
            }
            Step::Canvas { panel, workflow, nodes, count, path, front } => {
                self.tab(panel)?;
                self.settle();
                self.canvas_is(panel, workflow, nodes, *count, path.as_deref(), *front)
            }
            Step::Prompted { agent, nth, has, lacks } => {
                let fits = |stage: &Self| {
                    stage.prompt(agent, *nth).is_some_and(|text| {
                        has.iter().all(|part| text.contains(part)) && !lacks.iter().any(|part| text.contains(part))
                    })
                };
                if self.eventually(fits) {
                    return Ok(());
                }
                Err(json!(self.agents.get(agent).map(|seen| &seen.prompts)))
            }
            Step::Counts { agent, starts, stops, prompts, interrupts } => {
                let counted = |stage: &Self| {
                    let seen = stage.agents.get(agent).cloned().unwrap_or_default();
                    [seen.starts, seen.stops, seen.prompts.len(), seen.interrupts]
                };
                let wanted = [starts, stops, prompts, interrupts];
                let fits = |stage: &Self| {
                    wanted.iter().zip(counted(stage)).all(|(wanted, seen)| wanted.is_none_or(|wanted| wanted == seen))
                };
                self.eventually(fits);
                self.settle();
                if fits(self) {
                    return Ok(());
                }
                let [starts, stops, prompts, interrupts] = counted(self);
                Err(json!({"starts": starts, "stops": stops, "prompts": prompts, "interrupts": interrupts}))
            }
            Step::Connected { panel, is } => {
                self.tab(panel)?;
                let fits = |stage: &Self| stage.tabs.get(panel).is_some_and(|tab| tab.line().is_some() == *is);
                self.eventually(fits);
                self.settle();
                if fits(self) { Ok(()) } else { Err(json!(!is)) }
            }
            other => Err(json!({"not an expectation": other})),
        }
    }

    fn canvas_is(
        &self,
        panel: &str,
        uuid: &str,
        nodes: &Map<String, Value>,
        count: Option<usize>,
        path: Option<&str>,
        front: Option<bool>,
    ) -> Result<(), Value> {
        let pattern = self.filled(&Value::Object(nodes.clone()))?;
        let Some(canvas) = self.tabs.get(panel).map(|tab| &tab.canvas) else { return Err(Value::Null) };
        let Some(workflow) = canvas.workflow(uuid) else { return Err(canvas.told()) };
        let fits = matches(&pattern, &json!(workflow.nodes))
            && count.is_none_or(|count| workflow.nodes.len() == count)
            && path.is_none_or(|path| workflow.path.as_ref().map(crate::path::WorkflowPath::as_str) == Some(path))
            && front.is_none_or(|front| canvas.is_front(uuid) == front);
        if fits { Ok(()) } else { Err(canvas.told()) }
    }

    fn count(&self, panel: &str, pattern: &Value) -> usize {
        let frames = self.tabs.get(panel).map(|tab| tab.seen()).unwrap_or_default();
        frames.iter().filter(|frame| matches(pattern, frame)).count()
    }

    fn last_frames(&self, panel: &str) -> Value {
        let frames = self.tabs.get(panel).map(|tab| tab.seen()).unwrap_or_default();
        json!(frames.iter().rev().take(SHOWN).collect::<Vec<_>>())
    }

    fn prompt(&self, agent: &str, nth: Option<usize>) -> Option<&String> {
        let prompts = &self.agents.get(agent)?.prompts;
        match nth {
            None => prompts.last(),
            Some(nth) => prompts.get(nth.checked_sub(1)?),
        }
    }
}

fn told(outcome: Option<&Result<Value, Value>>) -> Value {
    match outcome {
        None => json!("pending"),
        Some(Ok(result)) => json!({"ok": result}),
        Some(Err(refusal)) => json!({"refused": refusal}),
    }
}
