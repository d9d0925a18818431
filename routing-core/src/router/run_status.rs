//! `panel_run_status` and `panel_job_status`: which runs and jobs an agent may ask about, which ComfyUI is asked, and what the answer says. Unknown is an
//! answer of its own. It must not decide how a run ended.

use super::calls::Aimed;
use super::commits::Commit;
use super::{Output, Router};
use crate::command::Effect;
use crate::id::{Backend, CallId, PromptId, Seq};
use crate::job;
use crate::ledger::{Call, CallState, Run, Told};
use crate::run::{Progress, Sight};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The command of those who ask about jobs.
pub(super) const JOB_STATUS: &str = "job_status";
/// Ended runs that are told when none is asked for by name.
const LAST: usize = 10;

impl Router {
    /// An agent asks how runs stand.
    pub(super) fn run_status(
        &mut self,
        backend: Backend,
        call: CallId,
        cmd: &'static str,
        args: Map<String, Value>,
        now: u64,
    ) {
        let jobs = cmd == JOB_STATUS;
        let wanted: Vec<PromptId> = match args.get(id_field(jobs)).and_then(Value::as_str) {
            Some(id) => vec![id.into()],
            None => {
                let being_written = self.commits.values().filter_map(Commit::ticket);
                let mut open: Vec<_> = self.runs.iter().chain(being_written).collect();
                open.retain(|(_, run)| run.backend == backend && run.job == jobs);
                // In the order in which they were queued.
                open.sort_by_key(|(_, run)| run.seq.unwrap_or(Seq(u64::MAX)));
                let told = self
                    .told_runs
                    .iter()
                    .rev()
                    .filter(|told| told.run.backend == backend && told.run.job == jobs)
                    .take(LAST);
                open.into_iter().map(|(id, _)| id.clone()).chain(told.map(|told| told.id.clone())).collect()
            }
        };
        let mut asked: BTreeMap<String, Vec<PromptId>> = BTreeMap::new();
        for id in &wanted {
            if self.is_told(id) {
                continue;
            }
            let comfyui = match self.open_run(id) {
                Some(run) => run.comfyui.clone(),
                None => self.comfyui_in_use(&backend),
            };
            if let Some(comfyui) = comfyui {
                asked.entry(comfyui).or_default().push(id.clone());
            }
        }
        let open: BTreeSet<String> = asked.keys().cloned().collect();
        let turn = self.conversation(&backend).turn_at_work();
        let state = CallState::Looking { wanted, open, found: BTreeMap::new() };
        let record = Call { backend, turn, cmd, args, retry_of: None, frame: None, state };
        self.calls.insert(call, record);
        for (comfyui, prompt_ids) in asked {
            self.push(Output::LookAtRuns { comfyui, prompt_ids, jobs, call });
        }
        self.look_done(call, now);
    }

    /// The ticket of a run that is not told of, also while it is being written.
    fn open_run(&self, id: &PromptId) -> Option<&Run> {
        let mut being_written = self.commits.values().filter_map(Commit::ticket);
        self.runs.get(id).or_else(|| being_written.find(|(other, _)| *other == id).map(|(_, run)| run))
    }

    fn is_told(&self, id: &PromptId) -> bool {
        self.told_runs.iter().any(|told| told.id == *id)
    }

    /// The ComfyUI of the tab that a call would go to, else the configured one.
    pub(super) fn comfyui_in_use(&mut self, backend: &Backend) -> Option<String> {
        match self.aim_call(backend, Effect::Query) {
            Aimed::Tab(tab) | Aimed::Wait(tab) => self.comfyui_of(&tab),
            Aimed::Refused(_) => self.config.comfyui.clone(),
        }
    }

    /// A ComfyUI answered a call that asked.
    pub(super) fn looked(
        &mut self,
        call: CallId,
        comfyui: &str,
        seen: BTreeMap<PromptId, Result<Sight, String>>,
        now: u64,
    ) {
        let Some(CallState::Looking { open, found, .. }) = self.calls.get_mut(&call).map(|call| &mut call.state) else {
            return;
        };
        open.remove(comfyui);
        found.extend(seen);
        self.look_done(call, now);
    }

    /// A ComfyUI that a call asked does not answer.
    pub(super) fn comfyui_silent(&mut self, call: CallId, comfyui: &str, why: &str, now: u64) {
        let Some(CallState::Looking { wanted, found, .. }) = self.calls.get(&call).map(|call| &call.state) else {
            return;
        };
        let why = format!("ComfyUI at {comfyui} does not answer: {why}");
        let silent = wanted.iter().filter(|id| !found.contains_key(id) && !self.is_told(id));
        let seen = silent.map(|id| (id.clone(), Err(why.clone()))).collect();
        self.looked(call, comfyui, seen, now);
    }

    /// Answers the call once every ComfyUI has.
    fn look_done(&mut self, call: CallId, now: u64) {
        let Some(record) = self.calls.get(&call).cloned() else { return };
        let CallState::Looking { wanted, open, found } = record.state else { return };
        if !open.is_empty() {
            return;
        }
        let jobs = record.cmd == JOB_STATUS;
        let runs: Vec<Value> = wanted.iter().map(|id| self.standing(id, jobs, found.get(id))).collect();
        let ended: Vec<PromptId> = wanted.into_iter().filter(|id| self.is_told(id)).collect();
        self.carried_by_turn(&record.backend, &ended, now);
        self.answer(call, Ok(if jobs { json!({"jobs": runs}) } else { json!({"runs": runs}) }));
    }

    fn standing(&self, id: &PromptId, job: bool, found: Option<&Result<Sight, String>>) -> Value {
        let told = self.told_runs.iter().rfind(|told| told.id == *id);
        let run = self.open_run(id).or_else(|| told.map(|told| &told.run));
        let mut entry = match (told, run.and_then(|run| run.ending.as_ref()), found) {
            (Some(Told { ending, .. }), _, _)
            | (None, Some(ending), _)
            | (None, None, Some(Ok(Sight::Ended(ending)))) => {
                if job {
                    job::to_json(ending)
                } else {
                    ending.to_json()
                }
            }
            (None, None, Some(Ok(Sight::Running { .. }))) if job => map(json!({"state": "running"})),
            (None, None, Some(Ok(Sight::Absent))) if job => map(json!({
                "state": "unknown", "why": "ComfyUI's Manager has it neither in its queue nor in its history.",
            })),
            (None, None, Some(Ok(Sight::Queued { ahead }))) => map(json!({"state": "queued", "ahead": ahead})),
            (None, None, Some(Ok(Sight::Running { progress }))) => {
                let progress = progress
                    .as_ref()
                    .map(|Progress { value, max, node }| json!({"value": value, "max": max, "node_id": node}));
                map(json!({"state": "running", "progress": progress}))
            }
            (None, None, Some(Ok(Sight::Absent))) => map(json!({
                "state": "unknown", "why": "ComfyUI has it neither in its queue nor in its history.",
            })),
            (None, None, Some(Err(why))) => map(json!({"state": "unknown", "why": why})),
            (None, None, None) => map(json!({
                "state": "unknown", "why": "No ComfyUI is known that could be asked. Its tab tells when it ends.",
            })),
        };
        entry.insert(id_field(job).to_owned(), json!(id));
        if let Some(run) = run {
            entry.insert(if job { "what" } else { "workflow" }.to_owned(), json!(run.title));
        }
        Value::Object(entry)
    }
}

/// What a run or a job is named by.
fn id_field(job: bool) -> &'static str {
    if job { "job_id" } else { "prompt_id" }
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Array(_) | Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => Map::new(),
    }
}
