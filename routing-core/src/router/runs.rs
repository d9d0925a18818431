//! Runs that agents queued: whose they are, which of three witnesses is believed about their end (the panel, ComfyUI's
//! socket, ComfyUI's history), and that each end is told once (rules F3, D6). It must not know how ComfyUI is asked.

use super::commits::Then;
use super::conversation::Phase;
use super::{Output, Router};
use crate::frame::{Ack, PanelEvent};
use crate::id::{Backend, PromptId, Seq, SocketId, TabKey, TurnId};
use crate::job;
use crate::ledger::{Run, Told};
use crate::refusal::Refusal;
use crate::run::{Ending, Sight, Status};
use crate::turn::Item;
use serde_json::{Value, json};

/// Ended runs that no ticket was opened for yet.
const EARLY: usize = 64;
/// Told runs that are remembered.
const TOLD: usize = 256;
/// How long a panel's word waits for ComfyUI's, which may know of more outputs.
const AGREE_MS: u64 = 2_000;
/// How long a panel may still tell of a run that its ComfyUI knew and does not know any more.
const GONE_MS: u64 = 3_000;
/// The same for one that it never knew: it may be the wrong ComfyUI that is asked.
const NEVER_SEEN_MS: u64 = 60_000;
/// How long a ComfyUI may be away before what was queued there is told to be of unknown end.
const GIVEN_UP_MS: u64 = 24 * 60 * 60 * 1_000;
/// Longest id that is taken for one.
const MOST_ID: usize = 200;

/// What the answer to `graph_run` says.
pub(super) enum Queued {
    /// These prompts wait at ComfyUI.
    Runs(Vec<PromptId>),
    /// ComfyUI took nothing.
    Refused(String),
    /// It names no prompt: whether there is one is not known.
    Unknown,
}

/// Only ids that ComfyUI gave count as queued.
pub(super) fn queued(result: Option<&Value>) -> Queued {
    let field = |name: &str| result.and_then(|result| result.get(name));
    let lists = ["prompt_ids", "queued_prompt_ids"].into_iter().filter_map(|name| field(name)?.as_array());
    let mut ids: Vec<PromptId> = Vec::new();
    for id in field("prompt_id").into_iter().chain(lists.flatten()).filter_map(Value::as_str) {
        let known = ids.iter().any(|known| known.as_str() == id);
        if !known && !id.is_empty() && id.len() <= MOST_ID {
            ids.push(id.into());
        }
    }
    if !ids.is_empty() {
        return Queued::Runs(ids);
    }
    let says = |value: &&Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Array(_) | Value::Bool(_) | Value::Null | Value::Number(_) => false,
    };
    let error = field("error").filter(says).or_else(|| field("node_errors").filter(says));
    match error {
        Some(Value::String(text)) => Queued::Refused(text.clone()),
        Some(error) => Queued::Refused(format!("ComfyUI refused to run this: {error}")),
        None if field("queued").and_then(Value::as_bool) == Some(false) => {
            Queued::Refused("The panel says that nothing was queued and not why. See panel_get_errors.".to_owned())
        }
        None => Queued::Unknown,
    }
}

impl Router {
    /// Opens the ticket of each run (rules F3, D6): it counts once it is on disk. Returns whether there is one; if not,
    /// nobody knows whether something was queued.
    ///
    /// # Errors
    /// Nothing was queued.
    pub(super) fn run_queued(
        &mut self,
        backend: &Backend,
        tab: &TabKey,
        result: Option<&Value>,
        now: u64,
    ) -> Result<bool, Refusal> {
        let ids = match queued(result) {
            Queued::Runs(ids) => ids,
            Queued::Unknown => return Ok(false),
            Queued::Refused(message) => return Err(Refusal::Failed { failure: "rejected".to_owned(), message }),
        };
        let title = self.tabs.get(tab).map(|tab| tab.title.clone()).unwrap_or_default();
        let comfyui = self.comfyui_of(tab);
        for id in ids {
            let run = Run::new(backend.clone(), tab.clone(), title.clone(), None, comfyui.clone());
            let body = json!({"prompt_id": id, "tab": tab, "title": title, "comfyui": comfyui});
            let mut row = self.row(backend, "run", body, now);
            row.key = Some(format!("ticket:{id}"));
            // It waits in the log until its run ends; no turn takes it.
            row.inbound = true;
            self.commit(backend, vec![row], Then::Ticket { id, run, dropped: false });
        }
        Ok(true)
    }

    /// The ComfyUI of a tab: where its socket came from, else the configured one. No frame names it.
    pub(super) fn comfyui_of(&self, tab: &TabKey) -> Option<String> {
        let socket = self.live_socket(tab).and_then(|socket| self.sockets.get(&socket));
        socket.and_then(|socket| socket.comfyui.clone()).or_else(|| self.config.comfyui.clone())
    }

    /// A stored ticket is open again, and its ComfyUI is asked.
    pub(super) fn restore_ticket(&mut self, backend: &Backend, seq: Seq, body: &Value) {
        let text = |field: &str| body.get(field).and_then(Value::as_str);
        let Some(id) = text("prompt_id").map(PromptId::from) else { return };
        let tab = TabKey::from(text("tab").unwrap_or_default());
        // The name of its tab is not given to another one.
        let job = text("what").map(str::to_owned);
        if job.is_none() {
            self.tab_is_taken(&tab);
        }
        let comfyui = text("comfyui").map(str::to_owned).or_else(|| self.config.comfyui.clone());
        let title = text("title").unwrap_or_default().to_owned();
        let run = match job {
            Some(what) => Run::of_job(backend.clone(), what, Some(seq), comfyui),
            None => Run::new(backend.clone(), tab, title, Some(seq), comfyui),
        };
        self.watch(&id, &run);
        self.runs.insert(id, run);
    }

    /// The ticket of a run is on disk, or cannot be. A run that ended before is delivered at once.
    pub(super) fn run_ticket(&mut self, id: &PromptId, run: Run, now: u64) {
        self.watch(id, &run);
        self.runs.insert(id.clone(), run);
        if let Some(at) = self.early_runs.iter().position(|(early, _)| early == id)
            && let Some((_, event)) = self.early_runs.remove(at)
        {
            self.panel_told(id, Ending::from_panel(&event), now);
        }
    }

    pub(super) fn watch(&mut self, id: &PromptId, run: &Run) {
        if let Some(comfyui) = run.comfyui.clone() {
            self.push(Output::WatchRun { comfyui, prompt_id: id.clone(), job: run.job });
        }
    }

    pub(super) fn unwatch(&mut self, id: &PromptId, run: &Run) {
        if let Some(comfyui) = run.comfyui.clone() {
            self.push(Output::UnwatchRun { comfyui, prompt_id: id.clone() });
        }
    }

    /// A conversation is cleared: its tickets go (rule B1). Returns their rows.
    pub(super) fn drop_runs(&mut self, backend: &Backend) -> Vec<Seq> {
        let goes = |run: &Run| run.backend == *backend && !run.job;
        let (gone, kept) = std::mem::take(&mut self.runs).into_iter().partition(|(_, run)| goes(run));
        self.runs = kept;
        self.told_runs.retain(|told| !goes(&told.run));
        gone.iter().for_each(|(id, run)| self.unwatch(id, run));
        gone.into_values().filter_map(|run| run.seq).collect()
    }

    /// A panel says that a run ended.
    pub(super) fn run_reported(&mut self, socket: SocketId, key: &TabKey, id: PromptId, event: PanelEvent, now: u64) {
        let here = self.tabs.get(key).map(|tab| tab.backend.clone());
        // Only the tab that queued it, or one of the same conversation, is believed.
        let believed = |run: &Run| !run.job && (run.tab == *key || Some(&run.backend) == here.as_ref());
        let ours = match self.runs.get(&id) {
            Some(run) if believed(run) => {
                self.panel_told(&id, Ending::from_panel(&event), now);
                true
            }
            Some(_) => false,
            None => match self.told_runs.iter().position(|told| told.id == id && believed(&told.run)) {
                Some(at) => {
                    self.told_again(at, Ending::from_panel(&event), now);
                    true
                }
                None => {
                    // The person's own run, or one whose ticket is still on its way.
                    self.early_runs.push_back((id.clone(), event));
                    if self.early_runs.len() > EARLY {
                        self.early_runs.pop_front();
                    }
                    false
                }
            },
        };
        self.to(socket, Ack::new(true, "completion").with("prompt_id", id.as_str()).with("ours", ours));
    }

    /// The panel's word on a run of ours: told with what ComfyUI knows of it, if that comes soon.
    fn panel_told(&mut self, id: &PromptId, ending: Ending, now: u64) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let asked = run.comfyui.as_ref().is_some_and(|comfyui| !self.silent_comfyuis.contains(comfyui));
        if !asked || run.sight == Some(Sight::Absent) {
            return self.complete(id, ending, now);
        }
        run.ending.get_or_insert(ending);
        run.due = Some(now + AGREE_MS);
    }

    /// A run that was told of is reported again: absorbed, unless nothing was known of its end and now something is.
    fn told_again(&mut self, at: usize, ending: Ending, now: u64) {
        let unknown = self.told_runs.get(at).is_some_and(|told| told.ending.status == Status::Unknown);
        if !unknown || ending.status == Status::Unknown {
            return;
        }
        if let Some(Told { id, run, .. }) = self.told_runs.remove(at) {
            self.tell(Told { id, run: Run { seq: None, ..run }, ending }, now);
        }
    }

    /// ComfyUI says how runs stand.
    pub(super) fn runs_seen(
        &mut self,
        comfyui: &str,
        runs: Vec<(PromptId, Sight)>,
        call: Option<crate::id::CallId>,
        now: u64,
    ) {
        if self.silent_comfyuis.remove(comfyui) {
            // What was to be given up only because nobody could be asked is waited for again.
            let there = self.runs.values_mut().filter(|run| run.comfyui.as_deref() == Some(comfyui));
            there.filter(|run| run.ending.is_none() && run.sight != Some(Sight::Absent)).for_each(|run| run.due = None);
        }
        for (id, sight) in &runs {
            if self.runs.get(id).is_some_and(|run| run.comfyui.as_deref() == Some(comfyui)) {
                self.run_seen(id, sight.clone(), now);
            }
        }
        if let Some(call) = call {
            let found = runs.into_iter().map(|(id, sight)| (id, Ok(sight))).collect();
            self.looked(call, comfyui, found, now);
        }
    }

    fn run_seen(&mut self, id: &PromptId, sight: Sight, now: u64) {
        let Some(run) = self.runs.get_mut(id) else { return };
        match sight {
            Sight::Ended(mut ending) => {
                let seen_by_panel = run.ending.take();
                ending.add(seen_by_panel.into_iter().flat_map(|ending| ending.files));
                self.complete(id, ending, now);
            }
            Sight::Absent => match run.ending.take() {
                Some(ending) => self.complete(id, ending, now),
                None => {
                    let known_before = matches!(run.sight, Some(Sight::Queued { .. } | Sight::Running { .. }));
                    let grace = if known_before { GONE_MS } else { NEVER_SEEN_MS };
                    run.sight = Some(Sight::Absent);
                    run.due = Some(run.due.map_or(now + grace, |due| due.min(now + grace)));
                }
            },
            sight @ (Sight::Queued { .. } | Sight::Running { .. }) => {
                run.sight = Some(sight);
                if run.ending.is_none() {
                    run.due = None;
                }
            }
        }
    }

    /// ComfyUI does not answer: what its panels said is told without it.
    pub(super) fn comfyui_down(&mut self, comfyui: &str, why: &str, call: Option<crate::id::CallId>, now: u64) {
        self.silent_comfyuis.insert(comfyui.to_owned());
        let waiting: Vec<PromptId> = self
            .runs
            .iter()
            .filter(|(_, run)| run.comfyui.as_deref() == Some(comfyui) && run.ending.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        for id in waiting {
            self.run_due(&id, now);
        }
        let there = self.runs.values_mut().filter(|run| run.comfyui.as_deref() == Some(comfyui));
        there.for_each(|run| run.due = run.due.or(Some(now + GIVEN_UP_MS)));
        if let Some(call) = call {
            self.comfyui_silent(call, comfyui, why, now);
        }
    }

    /// No other witness came in time.
    pub(super) fn run_due(&mut self, id: &PromptId, now: u64) {
        let ending = self.runs.get_mut(id).and_then(|run| run.ending.take());
        self.complete(id, ending.unwrap_or_else(Ending::unknown), now);
    }

    fn complete(&mut self, id: &PromptId, ending: Ending, now: u64) {
        let Some(run) = self.runs.remove(id) else { return };
        self.unwatch(id, &run);
        if run.job {
            self.tell_jobs(&run.backend, Some((id, &run, ending.status)));
        }
        self.tell(Told { id: id.clone(), run, ending }, now);
    }

    /// Tells the conversation, and settles the ticket in the same transaction.
    fn tell(&mut self, told: Told, now: u64) {
        let Told { id, run, ending } = &told;
        let backend = run.backend.clone();
        let kind = if run.job { "job" } else { "run" };
        let text = if run.job { job::told(id, &run.title, ending) } else { ending.told(id, &run.title) };
        let mut about = json!({"event": kind, "prompt_id": id, "status": ending.status.word(), "title": run.title});
        if !run.job {
            about["images"] = json!(ending.files_json());
            about["tab"] = json!(run.tab);
        }
        // That nothing is known does not take the place of what may yet be.
        let key = match ending.status {
            Status::Unknown => format!("{kind}-unknown:{id}"),
            Status::Success | Status::Error | Status::Interrupted => format!("{kind}:{id}"),
        };
        let mut row = self.event_row(&backend, &text, Some(key), about, now);
        row.settles = run.seq.into_iter().collect();
        let item = Item::event(text, Some(id.clone()));
        let run = Some(Box::new(told.clone()));
        self.commit(&backend, vec![row], Then::Inject { item, dropped: false, told_in: None, run });
        self.told_runs.push_back(told);
        if self.told_runs.len() > TOLD {
            self.told_runs.pop_front();
        }
    }

    /// Its end could not be written down: the ticket stays open and is tried again.
    pub(super) fn tell_later(&mut self, told: Told, due: u64) {
        self.told_runs.retain(|known| known.id != told.id);
        let run = Run { ending: Some(told.ending), due: Some(due), ..told.run };
        self.runs.insert(told.id, run);
    }

    /// The running turn was told by a tool how these runs ended: it carries their events, and they start no turn of
    /// their own.
    pub(super) fn carried_by_turn(&mut self, backend: &Backend, ids: &[PromptId], now: u64) {
        let turn = self.conversations.get(backend).and_then(|one| one.turn.as_ref());
        let Some(turn) = turn.filter(|turn| turn.phase == Phase::Running).map(|turn| turn.id) else { return };
        for commit in self.commits.values_mut().filter(|commit| commit.backend == *backend) {
            if let Then::Inject { item, told_in, .. } = &mut commit.then
                && item.run.as_ref().is_some_and(|id| ids.contains(id))
            {
                *told_in = Some(turn);
            }
        }
        self.carry(backend, turn, |item| item.run.as_ref().is_some_and(|id| ids.contains(id)), now);
    }

    /// Moves waiting events into the running turn, which settles them. Returns whether that turn still runs.
    pub(super) fn carry(&mut self, backend: &Backend, turn: TurnId, which: impl Fn(&Item) -> bool, now: u64) -> bool {
        let one = self.conversation(backend);
        if one.turn.as_ref().is_none_or(|running| running.id != turn || running.phase != Phase::Running) {
            return false;
        }
        let (taken, waiting) = one.queue.drain(..).partition::<Vec<Item>, _>(|item| item.is_event() && which(item));
        one.queue = waiting.into();
        if let Some(running) = one.turn.as_mut().filter(|_| !taken.is_empty()) {
            running.batch.extend(taken);
            let takes: Vec<u64> = running.batch.iter().map(|item| item.seq.0).collect();
            // A restart must find that these were taken, too.
            let row = self.row(backend, "turn_start", json!({"turn": turn, "mids": [], "takes": takes}), now);
            self.commit(backend, vec![row], Then::Show);
        }
        true
    }
}
