//! How a queued prompt stands at ComfyUI, how it ended and what it made, and how that is told. It decides which files of
//! a node's output are outputs; it must not know conversations, sockets or who is told.

use crate::frame::PanelEvent;
use crate::id::PromptId;
use serde_json::{Map, Value, json};

/// Most files of one run that are kept.
const MOST_FILES: usize = 500;
/// Most files that are named in a text.
const MOST_NAMED: usize = 40;
/// Most characters of an error that are kept.
const MOST_ERROR: usize = 2_000;

/// What was seen of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// It waits.
    Queued {
        /// Prompts that are done before it, the running one included.
        ahead: u64,
    },
    /// It is at work.
    Running {
        /// How far the node at work is, where ComfyUI tells us.
        progress: Option<Progress>,
    },
    /// It is over.
    Ended(Ending),
    /// ComfyUI has it neither in its queue nor in its history.
    Absent,
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Progress {
    /// Steps done.
    pub value: u64,
    /// Steps in all.
    pub max: u64,
    /// The node.
    pub node: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Every output node was run or was still valid.
    Success,
    /// A node failed.
    Error,
    /// It was stopped.
    Interrupted,
    /// Nobody knows.
    Unknown,
}

impl Status {
    /// The word on the wire and in the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
        }
    }

    /// The state that a tool names.
    pub fn state(self) -> &'static str {
        match self {
            Self::Success => "done",
            Self::Error => "failed",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
        }
    }
}

/// An end, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ending {
    /// Which.
    pub status: Status,
    /// Files, each once.
    pub files: Vec<File>,
    /// Where it failed or stopped.
    pub fault: Option<Fault>,
}

/// Why or where a run failed or stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fault {
    /// What the node said.
    pub message: Option<String>,
    /// The node.
    pub node_id: Option<String>,
    /// Its type.
    pub node_type: Option<String>,
}

/// A file that a node made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct File {
    /// Its name.
    pub name: String,
    /// The folder below that of its kind; empty: none.
    pub subfolder: String,
    /// `output`, or `temp` for a preview that a restart deletes.
    pub kind: String,
    /// What it holds.
    pub media: &'static str,
}

impl File {
    /// Reads `{filename, subfolder, type}`; `list` is the name of the list that it stood in.
    pub fn read(list: &str, value: &Value) -> Option<Self> {
        let text = |field: &str| value.get(field).and_then(Value::as_str);
        let name = text("filename").filter(|name| !name.is_empty())?.to_owned();
        Some(Self {
            media: media(list, &name),
            name,
            subfolder: text("subfolder").unwrap_or_default().to_owned(),
            kind: text("type").unwrap_or("output").to_owned(),
        })
    }

    fn is_preview(&self) -> bool {
        self.kind == "temp"
    }

    fn path(&self) -> String {
        if self.subfolder.is_empty() { self.name.clone() } else { format!("{}/{}", self.subfolder, self.name) }
    }

    fn to_json(&self) -> Value {
        json!({"filename": self.name, "subfolder": self.subfolder, "type": self.kind, "media": self.media})
    }
}

/// What a file holds: by the list that it stands in, else by its ending.
fn media(list: &str, name: &str) -> &'static str {
    match list {
        "gifs" | "video" | "videos" => return "video",
        "audio" => return "audio",
        _ => {}
    }
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
        Some("png" | "jpg" | "jpeg" | "webp" | "gif" | "bmp" | "avif" | "tif" | "tiff") => "image",
        Some("mp4" | "webm" | "mov" | "mkv" | "avi") => "video",
        Some("flac" | "mp3" | "wav" | "ogg" | "opus" | "m4a") => "audio",
        _ => "file",
    }
}

/// The files in one node's output: whatever list holds objects with a `filename`.
pub fn files_of(output: &Value) -> Vec<File> {
    let lists = output.as_object().into_iter().flatten();
    lists
        .filter_map(|(list, values)| Some((list, values.as_array()?)))
        .flat_map(|(list, values)| values.iter().filter_map(|value| File::read(list, value)))
        .collect()
}

impl Fault {
    /// A fault with its message cut to what is kept.
    pub fn new(message: Option<&str>, node_id: Option<String>, node_type: Option<String>) -> Option<Self> {
        let message = message.map(str::trim).filter(|text| !text.is_empty());
        let message = message.map(|text| text.chars().take(MOST_ERROR).collect());
        let fault = Self { message, node_id, node_type };
        (fault != Self::default()).then_some(fault)
    }

    fn words(&self) -> String {
        let mut words = String::new();
        if let Some(id) = &self.node_id {
            words.push_str(&format!(" at node #{id}"));
            if let Some(kind) = &self.node_type {
                words.push_str(&format!(" ({kind})"));
            }
        }
        if let Some(message) = &self.message {
            words.push_str(&format!(": {message}"));
        }
        words
    }
}

impl Ending {
    /// An end with its files, each once.
    pub fn new(status: Status, files: impl IntoIterator<Item = File>, fault: Option<Fault>) -> Self {
        let mut ending = Self { status, files: Vec::new(), fault };
        ending.add(files);
        ending
    }

    /// Nobody knows how it ended.
    pub fn unknown() -> Self {
        Self::new(Status::Unknown, [], None)
    }

    /// What a panel says.
    pub fn from_panel(event: &PanelEvent) -> Self {
        let status = match event.run_status.as_deref() {
            Some("success") => Status::Success,
            Some("interrupted") => Status::Interrupted,
            Some("error") => Status::Error,
            None if event.error.is_none() => Status::Success,
            _ if event.error.is_some() => Status::Error,
            _ => Status::Unknown,
        };
        let files = event.images.iter().filter_map(|image| File::read("images", image));
        Self::new(status, files, Fault::new(event.error.as_deref(), None, None))
    }

    /// Adds what another witness saw. This one's word on how it ended holds.
    pub fn add(&mut self, files: impl IntoIterator<Item = File>) {
        for file in files {
            let same = |known: &File| {
                (&known.name, &known.subfolder, &known.kind) == (&file.name, &file.subfolder, &file.kind)
            };
            if self.files.len() < MOST_FILES && !self.files.iter().any(same) {
                self.files.push(file);
            }
        }
    }

    /// How it is told to the agent.
    pub fn told(&self, id: &PromptId, title: &str) -> String {
        if self.status == Status::Unknown {
            return format!(
                "[event] What became of run {id} of workflow “{title}” is not known: ComfyUI has it neither in its queue nor \
                 in its history. ComfyUI was restarted, or the run was taken out of the queue or the history. It may have \
                 been carried out: look before you queue it again."
            );
        }
        let mut text = format!("[event] Run {id} of workflow “{title}” ended: {}", self.status.word());
        if let Some(fault) = &self.fault {
            text.push_str(&fault.words());
        }
        if !text.ends_with(['.', '!', '?']) {
            text.push('.');
        }
        let (previews, outputs): (Vec<&File>, Vec<&File>) = self.files.iter().partition(|file| file.is_preview());
        if !outputs.is_empty() {
            text.push_str(&format!(" Outputs: {}.", named(&outputs)));
        }
        if !previews.is_empty() {
            text.push_str(&format!(" Previews, not kept: {}.", named(&previews)));
        }
        if self.files.is_empty() && self.status == Status::Success {
            text.push_str(" It reported no outputs.");
        }
        text
    }

    /// The same for programs.
    pub fn to_json(&self) -> Map<String, Value> {
        let list = |preview: bool| -> Vec<Value> {
            self.files.iter().filter(|file| file.is_preview() == preview).map(File::to_json).collect()
        };
        let mut map = Map::new();
        map.insert("state".to_owned(), json!(self.status.state()));
        if self.status == Status::Unknown {
            return map;
        }
        map.insert("outputs".to_owned(), json!(list(false)));
        map.insert("previews".to_owned(), json!(list(true)));
        if let Some(Fault { message, node_id, node_type }) = &self.fault {
            map.insert("error".to_owned(), json!({"message": message, "node_id": node_id, "node_type": node_type}));
        }
        map
    }

    /// The files as a row of the log holds them.
    pub fn files_json(&self) -> Vec<Value> {
        self.files.iter().map(File::to_json).collect()
    }
}

fn named(files: &[&File]) -> String {
    let name = |file: &&File| match file.media {
        "image" => format!("{} ({})", file.path(), file.kind),
        media => format!("{} ({}, {media})", file.path(), file.kind),
    };
    let names: Vec<String> = files.iter().take(MOST_NAMED).map(name).collect();
    match files.len().checked_sub(MOST_NAMED) {
        Some(more) if more > 0 => format!("{} and {more} more", names.join(", ")),
        _ => names.join(", "),
    }
}

/// How a file that was attached is named.
pub fn file_name(value: &Value) -> Option<String> {
    File::read("images", value).map(|file| format!("{} ({})", file.path(), file.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(list: &str, name: &str, kind: &str) -> File {
        File { name: name.to_owned(), subfolder: String::new(), kind: kind.to_owned(), media: media(list, name) }
    }

    #[test]
    fn every_list_of_files_counts_and_no_other() {
        let output = json!({
            "images": [{"filename": "a.png", "subfolder": "x", "type": "output"}, {"filename": "b.mp4", "type": "output"}],
            "gifs": [{"filename": "c.gif", "type": "temp"}], "audio": [{"filename": "d.bin"}], "animated": [true],
            "text": ["words"], "3d": [{"filename": "e.glb"}],
        });
        let mut found: Vec<(String, &str)> =
            files_of(&output).into_iter().map(|file| (file.path(), file.media)).collect();
        found.sort();
        let wanted =
            [("b.mp4", "video"), ("c.gif", "video"), ("d.bin", "audio"), ("e.glb", "file"), ("x/a.png", "image")];
        assert_eq!(found, wanted.map(|(path, media)| (path.to_owned(), media)));
        assert!(files_of(&Value::Null).is_empty());
    }

    #[test]
    fn files_are_told_once_and_previews_apart() {
        let mut ending = Ending::new(Status::Success, [file("images", "a.png", "output")], None);
        ending.add([
            file("images", "a.png", "output"),
            file("images", "a.png", "temp"),
            file("audio", "s.wav", "output"),
        ]);
        let text = ending.told(&"p1".into(), "W");
        let wanted = "[event] Run p1 of workflow “W” ended: success. Outputs: a.png (output), s.wav (output, audio). \
                      Previews, not kept: a.png (temp).";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_success_without_outputs_says_so_and_a_failure_names_its_node() {
        assert!(Ending::new(Status::Success, [], None).told(&"p".into(), "W").ends_with("It reported no outputs."));
        let fault = Fault::new(Some(" out of memory\n"), Some("5".to_owned()), Some("KSampler".to_owned()));
        let text = Ending::new(Status::Error, [], fault).told(&"p".into(), "W");
        assert!(text.ends_with("ended: error at node #5 (KSampler): out of memory."), "{text}");
    }

    #[test]
    fn report_053_unknown_is_no_success() {
        let event = PanelEvent {
            kind: "executed".to_owned(),
            prompt_id: None,
            run_status: Some("from the future".to_owned()),
            error: None,
            images: Vec::new(),
            extra: Default::default(),
        };
        assert_eq!(Ending::from_panel(&event), Ending::unknown());
        assert!(!Ending::unknown().told(&"p".into(), "W").contains("success"));
    }
}
