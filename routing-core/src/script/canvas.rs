//! A canvas as simple as can be: open workflows, one of them in front, nodes with widgets and links. What a workflow is
//! and when it becomes another instance is as in the real one; nothing is drawn.

use super::format::{NodeSpec, PanelSpec, WorkflowSpec};
use crate::frame::WorkflowIdentity;
use crate::path::WorkflowPath;
use crate::target::{OpenWorkflow, find};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Why a command could not be carried out: a stable word, and what would be valid.
pub(super) type Failure = (&'static str, String);

#[derive(Clone, Debug)]
pub(super) struct Workflow {
    pub(super) uuid: String,
    pub(super) path: Option<WorkflowPath>,
    title: String,
    pub(super) nodes: BTreeMap<String, NodeSpec>,
    pub(super) modified: bool,
}

/// What is open in one browser tab.
#[derive(Clone, Debug)]
pub(super) struct Canvas {
    page: String,
    open: Vec<Workflow>,
    files: Vec<WorkflowSpec>,
    spare: VecDeque<String>,
    front: Option<String>,
    readable: bool,
    mounts: u64,
    prompts: u64,
}

impl Workflow {
    fn new(spec: &WorkflowSpec) -> Self {
        let path = spec.path.as_deref().and_then(|path| WorkflowPath::parse(path).ok());
        let title = spec.title.clone().or_else(|| path.as_ref().map(|path| path.title().to_owned()));
        Self {
            uuid: spec.uuid.clone(),
            title: title.unwrap_or_else(|| "Unsaved Workflow".to_owned()),
            path,
            nodes: spec.nodes.clone(),
            modified: false,
        }
    }

    fn handle(&self) -> String {
        self.path.as_ref().map_or_else(|| format!("tmp:{}", self.uuid), WorkflowPath::handle)
    }

    fn save_to(&mut self, path: WorkflowPath) {
        self.title = path.title().to_owned();
        self.path = Some(path);
    }
}

impl Canvas {
    pub(super) fn new(page: &str, spec: &PanelSpec) -> Self {
        let open: Vec<Workflow> = spec.open.iter().map(Workflow::new).collect();
        Self {
            page: page.to_owned(),
            front: open.first().map(|one| one.uuid.clone()),
            open,
            files: spec.files.clone(),
            spare: spec.spare.iter().cloned().collect(),
            readable: true,
            mounts: 1,
            prompts: 0,
        }
    }

    /// What is in front, unless it cannot be read.
    pub(super) fn identity(&self) -> Option<WorkflowIdentity> {
        let front = self.front().ok().filter(|_| self.readable)?;
        Some(self.identity_of(front))
    }

    fn identity_of(&self, one: &Workflow) -> WorkflowIdentity {
        let mounted = Some(&one.uuid) == self.front.as_ref();
        WorkflowIdentity {
            uuid: one.uuid.as_str().into(),
            path: one.path.clone(),
            handle: one.handle(),
            title: one.title.clone(),
            canvas: mounted.then(|| format!("{}:{}", self.page, self.mounts).as_str().into()),
        }
    }

    pub(super) fn workflow(&self, uuid: &str) -> Option<&Workflow> {
        self.open.iter().find(|one| one.uuid == uuid)
    }

    fn workflow_mut(&mut self, uuid: &str) -> Result<&mut Workflow, String> {
        self.open.iter_mut().find(|one| one.uuid == uuid).ok_or_else(|| format!("workflow {uuid} is not open"))
    }

    pub(super) fn is_front(&self, uuid: &str) -> bool {
        self.front.as_deref() == Some(uuid)
    }

    /// Brings a workflow to the front: another object is mounted.
    pub(super) fn show(&mut self, uuid: &str) -> Result<(), String> {
        self.workflow_mut(uuid)?;
        self.readable = true;
        if !self.is_front(uuid) {
            self.front = Some(uuid.to_owned());
            self.mounts += 1;
        }
        Ok(())
    }

    pub(super) fn create(&mut self, spec: &WorkflowSpec) {
        self.open.push(Workflow::new(spec));
        self.front = Some(spec.uuid.clone());
        self.readable = true;
        self.mounts += 1;
    }

    pub(super) fn rename(&mut self, uuid: &str, path: &str) -> Result<(), String> {
        let path = WorkflowPath::parse(path).map_err(|error| error.to_string())?;
        self.workflow_mut(uuid)?.save_to(path);
        Ok(())
    }

    pub(super) fn load(&mut self, uuid: &str, nodes: &BTreeMap<String, NodeSpec>) -> Result<(), String> {
        let one = self.workflow_mut(uuid)?;
        one.nodes.clone_from(nodes);
        one.modified = true;
        Ok(())
    }

    pub(super) fn unreadable(&mut self) {
        self.readable = false;
    }

    pub(super) fn front(&self) -> Result<&Workflow, Failure> {
        let front = self.front.as_deref().and_then(|uuid| self.workflow(uuid));
        front.ok_or_else(|| ("no_workflow", "No workflow is open.".to_owned()))
    }

    pub(super) fn front_mut(&mut self) -> Result<&mut Workflow, Failure> {
        let front = self.front.clone();
        let found = self.open.iter_mut().find(|one| Some(&one.uuid) == front.as_ref());
        found.ok_or_else(|| ("no_workflow", "No workflow is open.".to_owned()))
    }

    /// The next `prompt_id` of ComfyUI.
    pub(super) fn queue(&mut self) -> String {
        self.prompts += 1;
        format!("{}-run-{}", self.page, self.prompts)
    }

    pub(super) fn list(&self) -> Vec<OpenWorkflow> {
        let one = |one: &Workflow| OpenWorkflow {
            identity: self.identity_of(one),
            active: self.readable && self.is_front(&one.uuid),
            modified: one.modified,
        };
        self.open.iter().map(one).collect()
    }

    /// The open workflow that a name means; absent: the one in front.
    fn named(&self, name: Option<&str>) -> Result<String, Failure> {
        let Some(name) = name else { return self.front().map(|one| one.uuid.clone()) };
        let open = self.list();
        match find(name, &open).as_slice() {
            [only] => Ok(only.identity.uuid.to_string()),
            [] => Err(("not_open", format!("`{name}` is not open."))),
            _ => Err(("ambiguous_name", format!("`{name}` fits several open workflows."))),
        }
    }

    pub(super) fn open_named(&mut self, name: &str) -> Result<(), Failure> {
        match self.named(Some(name)) {
            Ok(uuid) => self.show(&uuid).map_err(|words| ("not_open", words)),
            Err(("ambiguous_name", words)) => Err(("ambiguous_name", words)),
            Err(_) => {
                let wanted = WorkflowPath::parse(name).ok();
                let is_it = |file: &WorkflowSpec| {
                    let path = file.path.as_deref().and_then(|path| WorkflowPath::parse(path).ok());
                    let by_name = path.as_ref().is_some_and(|path| {
                        !name.contains('/') && wanted.as_ref().is_some_and(|one| one.filename() == path.filename())
                    });
                    by_name || path == wanted
                };
                let file = self.files.iter().find(|file| is_it(file)).cloned();
                let file = file.ok_or_else(|| ("not_found", format!("There is no workflow `{name}`.")))?;
                self.create(&file);
                Ok(())
            }
        }
    }

    fn spare(&mut self) -> String {
        self.spare.pop_front().unwrap_or_else(|| format!("{}-new-{}", self.page, self.mounts))
    }

    pub(super) fn make(&mut self) {
        let uuid = self.spare();
        self.create(&WorkflowSpec { uuid, ..WorkflowSpec::default() });
    }

    /// A first save keeps the instance; a copy under another name is another instance.
    pub(super) fn save(&mut self, name: Option<&str>) -> Result<(), Failure> {
        let path = name.map(WorkflowPath::parse).transpose().map_err(|error| ("bad_path", error.to_string()))?;
        let spare = self.spare.front().cloned();
        let front = self.front_mut()?;
        match (path, front.path.clone()) {
            (None, None) => return Err(("name_needed", "It was never saved: give a name.".to_owned())),
            (None, Some(_)) => front.modified = false,
            (Some(path), Some(before)) if path != before => {
                let mut copy = front.clone();
                copy.uuid = spare.unwrap_or_else(|| format!("{}-copy", copy.uuid));
                copy.save_to(path);
                copy.modified = false;
                self.spare.pop_front();
                self.front = Some(copy.uuid.clone());
                self.mounts += 1;
                self.open.push(copy);
            }
            (Some(path), _) => {
                front.save_to(path);
                front.modified = false;
            }
        }
        Ok(())
    }

    pub(super) fn rename_named(&mut self, which: Option<&str>, name: &str) -> Result<(), Failure> {
        let uuid = self.named(which)?;
        self.rename(&uuid, name).map_err(|words| ("bad_path", words))
    }

    pub(super) fn close(&mut self, which: Option<&str>, force: bool) -> Result<(), Failure> {
        let uuid = self.named(which)?;
        let modified = self.workflow(&uuid).is_some_and(|one| one.modified);
        if modified && !force {
            return Err(("unsaved_changes", "It has unsaved changes.".to_owned()));
        }
        self.open.retain(|one| one.uuid != uuid);
        if self.is_front(&uuid) {
            match self.open.last().map(|one| one.uuid.clone()) {
                Some(next) => self.show(&next).map_err(|words| ("not_open", words))?,
                None => self.make(),
            }
        }
        Ok(())
    }

    /// All that can be compared between two runs of a script.
    pub(super) fn told(&self) -> Value {
        let one = |one: &Workflow| json!({"uuid": one.uuid, "path": one.path, "nodes": one.nodes, "front": self.is_front(&one.uuid)});
        Value::Array(self.open.iter().map(one).collect())
    }
}
