//! Long jobs at a ComfyUI that its Manager carries out: node packs and models that are installed. What is asked for, and how
//! it is told. A job has a ticket like a run; it must not know conversations or how the Manager is asked.

use crate::id::PromptId;
use crate::run::{Ending, Status};
use serde_json::{Map, Value, json};

/// What the Manager is asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Install a node pack.
    NodePack {
        /// Its name in the registry, or `author/repository`.
        id: String,
        /// A version, `latest` or `nightly`.
        version: String,
        /// Its repository, for `nightly`.
        repository: Option<String>,
    },
    /// Download a model.
    Model {
        /// For people.
        name: String,
        /// What it is, such as `checkpoint` or `lora`.
        kind: String,
        /// Where from. ComfyUI's Manager decides whether that is allowed.
        url: String,
        /// How the file is called.
        filename: String,
        /// The folder below `models`, or `default`.
        folder: String,
        /// Which models it goes with, such as `SDXL`.
        base: String,
    },
}

impl Job {
    /// Reads the checked arguments of `nodes_install` or `model_install`. `None`: of another command.
    pub fn read(cmd: &str, args: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| args.get(name).and_then(Value::as_str).map(str::to_owned);
        let or = |name: &str, usual: &str| text(name).unwrap_or_else(|| usual.to_owned());
        match cmd {
            "nodes_install" => Some(Self::NodePack {
                id: text("id")?,
                version: or("version", "latest"),
                repository: text("repository"),
            }),
            "model_install" => {
                let filename = text("filename")?;
                Some(Self::Model {
                    name: or("name", &filename),
                    kind: text("type")?,
                    url: text("url")?,
                    folder: or("folder", "default"),
                    base: or("base", "other"),
                    filename,
                })
            }
            _ => None,
        }
    }

    /// What it installs.
    pub fn what(&self) -> String {
        match self {
            Self::NodePack { id, version, .. } => format!("node pack {id} ({version})"),
            Self::Model { name, .. } => format!("model {name}"),
        }
    }

    /// What has to be done before it can be used.
    fn then(what: &str) -> &'static str {
        if what.starts_with("node pack") {
            "Its nodes are there after ComfyUI was restarted and its page reloaded."
        } else {
            "It is there once the page's node definitions are refreshed."
        }
    }
}

/// How the end of a job is told to the agent.
pub fn told(id: &PromptId, what: &str, ending: &Ending) -> String {
    let said = ending.fault.as_ref().and_then(|fault| fault.message.as_deref());
    let said = said.map(|said| format!(": {}", said.trim_end_matches('.'))).unwrap_or_default();
    match ending.status {
        Status::Success => format!("[event] Job {id}, the installation of {what}, is done{said}. {}", Job::then(what)),
        Status::Error => format!("[event] Job {id}, the installation of {what}, failed{said}."),
        Status::Interrupted => format!("[event] Job {id}, the installation of {what}, was stopped{said}."),
        Status::Unknown => format!(
            "[event] What became of job {id}, the installation of {what}, is not known: ComfyUI does not answer, or its Manager \
             has it neither in its queue nor in its history, as after a restart of ComfyUI. It may have been carried out: look \
             before you ask for it again."
        ),
    }
}

/// The same for programs.
pub fn to_json(ending: &Ending) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("state".to_owned(), json!(ending.status.state()));
    if let Some(message) = ending.fault.as_ref().and_then(|fault| fault.message.as_ref()) {
        map.insert("message".to_owned(), json!(message));
    }
    map
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use crate::run::Fault;

    fn read(cmd: &str, args: Value) -> Option<Job> {
        Job::read(cmd, args.as_object().unwrap())
    }

    #[test]
    fn what_is_not_said_is_the_usual() {
        let pack = read("nodes_install", json!({"id": "comfyui-kjnodes"})).unwrap();
        assert_eq!(pack.what(), "node pack comfyui-kjnodes (latest)");
        let model = json!({"url": "https://x/y", "filename": "y.safetensors", "type": "lora"});
        let Job::Model { name, folder, base, .. } = read("model_install", model).unwrap() else { panic!("a model") };
        assert_eq!((name.as_str(), folder.as_str(), base.as_str()), ("y.safetensors", "default", "other"));
        assert_eq!(read("graph_run", json!({})), None);
    }

    #[test]
    fn an_end_says_what_to_do_and_unknown_is_no_success() {
        let id = "job-1".into();
        let end = |status, words: Option<&str>| Ending::new(status, [], Fault::new(words, None, None));
        let pack = told(&id, "node pack x (latest)", &end(Status::Success, None));
        assert!(
            pack.ends_with("is done. Its nodes are there after ComfyUI was restarted and its page reloaded."),
            "{pack}"
        );
        let model = told(&id, "model y", &end(Status::Error, Some("no space.")));
        assert_eq!(model, "[event] Job job-1, the installation of model y, failed: no space.");
        assert!(!told(&id, "model y", &Ending::unknown()).contains("done"));
    }
}
