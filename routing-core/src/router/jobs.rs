//! Jobs that agents have done by ComfyUI's Manager: whose they are, and that one is written down before it is begun (rules
//! F4, D6). Their tickets are those of runs. It must not know how the Manager is asked.

use super::commits::Then;
use super::input::JobBegun;
use super::{Output, Router};
use crate::frame::{Download, DownloadProgress};
use crate::id::{Backend, CallId, PromptId, SocketId};
use crate::job::Job;
use crate::ledger::{Call, CallState, Run};
use crate::refusal::Refusal;
use crate::run::Status;
use serde_json::{Map, Value, json};

impl Router {
    /// An agent wants something installed.
    pub(super) fn begin_job(
        &mut self,
        backend: Backend,
        call: CallId,
        cmd: &'static str,
        args: Map<String, Value>,
        now: u64,
    ) {
        let refused = |failure: &str, message: &str| {
            Err(Refusal::Failed { failure: failure.to_owned(), message: message.to_owned() })
        };
        let Some(job) = Job::read(cmd, &args) else {
            return self.answer(call, Err(Refusal::UnknownCommand { name: cmd.to_owned() }));
        };
        let Some(comfyui) = self.comfyui_in_use(&backend) else {
            let message = "No ComfyUI is known: connect a panel, or start the daemon with --comfyui.";
            return self.answer(call, refused("no_comfyui", message));
        };
        let id = PromptId::new(format!("job-{}-{}", self.config.epoch, call.0));
        let run = Run::of_job(backend.clone(), job.what(), None, Some(comfyui.clone()));
        let mut row = self.row(&backend, "job", json!({"prompt_id": id, "what": job.what(), "comfyui": comfyui}), now);
        row.key = Some(format!("ticket:{id}"));
        // It waits in the log until the job ends; no turn takes it.
        row.inbound = true;
        let turn = self.conversation(&backend).turn_at_work();
        let state = CallState::Beginning;
        self.calls.insert(call, Call { backend: backend.clone(), turn, cmd, args, retry_of: None, frame: None, state });
        self.commit(&backend, vec![row], Then::Job { id, run, job, call });
    }

    /// Its ticket is on disk: it is begun.
    pub(super) fn job_written(&mut self, id: PromptId, run: Run, job: Job, call: CallId, now: u64) {
        let Some(comfyui) = run.comfyui.clone() else { return };
        if !self.calls.contains_key(&call) {
            // The conversation was cleared meanwhile, and nobody waits for it.
            return run.seq.into_iter().for_each(|seq| self.settle_unused(&run.backend, None, seq, now));
        }
        let backend = run.backend.clone();
        self.runs.insert(id.clone(), run);
        self.tell_jobs(&backend, None);
        self.push(Output::BeginJob { comfyui, id, job, call });
    }

    /// What the Manager said. What it did not take has no ticket any more.
    pub(super) fn job_begun(&mut self, id: &PromptId, call: CallId, outcome: JobBegun, now: u64) {
        let Some(run) = self.runs.get(id).cloned() else { return };
        let told = match outcome {
            JobBegun::No { code, message } => {
                self.runs.remove(id);
                self.tell_jobs(&run.backend, None);
                if let Some(seq) = run.seq {
                    self.settle_unused(&run.backend, None, seq, now);
                }
                return self.answer(call, Err(Refusal::Failed { failure: code.to_owned(), message }));
            }
            JobBegun::Yes => json!({"job_id": id, "state": "queued", "what": run.title}),
            JobBegun::Unknown { why } => json!({"job_id": id, "state": "unknown", "what": run.title, "why": why}),
        };
        self.watch(id, &run);
        self.answer(call, Ok(told));
    }

    /// Shows every tab of the conversation which installations go on, and how this one ended.
    pub(super) fn tell_jobs(&mut self, backend: &Backend, ended: Option<(&PromptId, &Run, Status)>) {
        let members = self.members(backend);
        let mut frame = self.jobs_of(backend);
        frame.downloads.extend(ended.map(|(id, run, status)| shown(id, run, word(Some(status)))));
        self.send(members, frame);
    }

    /// A tab joined: it is shown what goes on.
    pub(super) fn greet_jobs(&mut self, socket: SocketId, backend: &Backend) {
        let frame = self.jobs_of(backend);
        if !frame.downloads.is_empty() {
            self.to(socket, frame);
        }
    }

    fn jobs_of(&self, backend: &Backend) -> DownloadProgress {
        let mut open: Vec<_> = self.runs.iter().filter(|(_, run)| run.job && run.backend == *backend).collect();
        open.sort_by_key(|(_, run)| run.seq);
        DownloadProgress { downloads: open.into_iter().map(|(id, run)| shown(id, run, word(None))).collect() }
    }
}

fn shown(id: &PromptId, run: &Run, status: &str) -> Download {
    Download { id: id.clone(), name: run.title.clone(), status: status.to_owned() }
}

/// The published panel's words.
fn word(ended: Option<Status>) -> &'static str {
    match ended {
        None => "downloading",
        Some(Status::Success) => "done",
        Some(Status::Error | Status::Interrupted) => "error",
        Some(Status::Unknown) => "unknown",
    }
}
