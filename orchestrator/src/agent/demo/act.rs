//! What the helper does about a request: which tools it calls and what it says. It decides no target: a call that is
//! refused for its workflow is explained, and done again only once the person says so.

use super::graph::{self, choose, id_text, shown};
use super::request::{End, Named, Request, understand};
use super::tools::{Tools, Trouble};
use super::voice::Voice;
use routing_core::agent::TurnOutcome;
use routing_core::refusal::Refusal;
use serde_json::{Value, json};
use std::collections::VecDeque;

const HELP: &str = "I am the built-in helper: no model, a few plain requests. I can
- add a KSampler (any node type)
- connect CheckpointLoaderSimple to KSampler, or 4.VAE to 8.vae
- set steps of KSampler to 30
- remove node 5
- build a text-to-image graph
- run (or: run 3 times)
- save, save as my portrait
- new workflow, list workflows, open my portrait
- outline: what is on the canvas
- errors: what is wrong with it
Nodes go by number, type or title. For a real conversation, choose another agent.";

const UNKNOWN: &str = "I did not understand that. I know a few plain requests only, such as “add a KSampler”, “build a \
                       text-to-image graph” or “what is on the canvas”. Say “help” for all of them.";

/// The helper with what it has in mind.
pub(super) struct Helper {
    tools: Tools,
    waiting: Option<Waiting>,
}

/// What a refusal kept from being done, and the target that would let it pass.
struct Waiting {
    requests: VecDeque<Request>,
    target: Value,
}

/// Why a request was not done.
enum Stop {
    /// For a reason that the helper can tell.
    Words(String),
    /// Because of the tools.
    Trouble(Trouble),
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Helper {
    /// A helper with these hands.
    pub(super) fn new(tools: Tools) -> Self {
        Self { tools, waiting: None }
    }

    /// Does everything that a message asks for, up to the first thing that fails.
    pub(super) async fn turn(&mut self, text: &str, voice: &mut Voice) -> TurnOutcome {
        let mut requests: VecDeque<Request> = understand(text).into();
        if requests.is_empty() {
            voice.say(UNKNOWN).await;
        }
        while let Some(request) = requests.pop_front() {
            let done = match &request {
                Request::UseCurrent => self.use_current(&mut requests, voice).await,
                other => self.carry_out(other, voice).await,
            };
            match done {
                Ok(words) => voice.say(&words).await,
                Err(Stop::Words(words)) => {
                    voice.say(&words).await;
                    break;
                }
                Err(Stop::Trouble(Trouble::Refused(refusal))) => {
                    requests.push_front(request);
                    self.wait_for_target(&refusal, requests);
                    voice.say(&explain(&refusal)).await;
                    break;
                }
                Err(Stop::Trouble(Trouble::Unreachable(reason))) => {
                    let message =
                        format!("The canvas tools cannot be reached: {reason}. Start a new chat to connect again.");
                    return TurnOutcome::Failed { code: "protocol".into(), message };
                }
            }
        }
        TurnOutcome::Completed
    }

    fn wait_for_target(&mut self, refusal: &Refusal, requests: VecDeque<Request>) {
        self.waiting = refusal
            .remedy()
            .filter(|remedy| remedy.tool == "panel_set_workflow_target")
            .map(|remedy| Waiting { requests, target: Value::Object(remedy.arguments) });
    }

    async fn use_current(&mut self, requests: &mut VecDeque<Request>, voice: &mut Voice) -> Result<String, Stop> {
        let target = self.waiting.as_ref().map_or_else(|| json!({"mode": "current"}), |waiting| waiting.target.clone());
        self.call("panel_set_workflow_target", target, voice).await?;
        let kept = self.waiting.take().map(|waiting| waiting.requests).unwrap_or_default();
        let again = if kept.is_empty() { "" } else { " and do what you asked for" };
        for request in kept.into_iter().rev() {
            // The same words again would only ask for the target again.
            if request != Request::UseCurrent {
                requests.push_front(request);
            }
        }
        Ok(format!("Good: I take the workflow in front{again}."))
    }

    async fn carry_out(&mut self, request: &Request, voice: &mut Voice) -> Result<String, Stop> {
        match request {
            Request::Help => Ok(HELP.to_owned()),
            Request::Event { text } => Ok(text.clone()),
            Request::Add { class } => self.add(class, voice).await,
            Request::Connect { from, to } => self.connect(from, to, voice).await,
            Request::Set { widget, node, value } => self.set(widget, node.as_ref(), value, voice).await,
            Request::Remove { node } => self.remove(node, voice).await,
            Request::BuildTextToImage => self.build(voice).await,
            Request::New => {
                self.call("panel_new_workflow", json!({}), voice).await?;
                Ok("Here is a new, empty workflow.".to_owned())
            }
            Request::List => {
                let answer = self.call("panel_list_workflows", json!({}), voice).await?;
                Ok(list(&answer))
            }
            Request::Open { name } => {
                self.call("panel_open_workflow", json!({"path": name}), voice).await?;
                Ok(format!("{name} is in front now."))
            }
            Request::Outline => {
                let answer = self.call("panel_graph_outline", json!({}), voice).await?;
                Ok(outline(&answer))
            }
            Request::Errors => {
                let answer = self.call("panel_get_errors", json!({}), voice).await?;
                Ok(errors(&answer))
            }
            Request::Run { times } => {
                let arguments = if *times == 1 { json!({}) } else { json!({"batch_count": times}) };
                self.call("panel_run", arguments, voice).await?;
                Ok("The workflow is queued. I will tell you when it has finished.".to_owned())
            }
            Request::Save { name } => {
                let arguments = name.as_ref().map_or_else(|| json!({}), |name| json!({"name": name}));
                self.call("panel_save_workflow", arguments, voice).await?;
                Ok(name.as_ref().map_or_else(|| "Saved.".to_owned(), |name| format!("Saved as {name}.")))
            }
            // Handled before, because it brings requests back.
            Request::UseCurrent => Ok(String::new()),
        }
    }

    async fn call(&mut self, name: &str, arguments: Value, voice: &Voice) -> Result<Value, Trouble> {
        voice.tool(name, &arguments);
        self.tools.call(name, &arguments).await
    }

    async fn nodes(&mut self, voice: &Voice) -> Result<Vec<Value>, Trouble> {
        let answer = self.call("panel_query_graph", json!({"fields": "detail", "limit": 500}), voice).await?;
        Ok(answer["nodes"].as_array().cloned().unwrap_or_default())
    }

    async fn add(&mut self, class: &str, voice: &Voice) -> Result<String, Stop> {
        let found = self.call("panel_search_nodes", json!({"query": class, "limit": 20}), voice).await?;
        let (meant, classes) = graph::meant_class(&found, class);
        let Some(class_type) = meant else {
            return Err(Stop::Words(match classes.as_slice() {
                [] => format!("There is no node type called {class} here."),
                several => {
                    let some = several.iter().take(6).cloned().collect::<Vec<_>>().join(", ");
                    format!("Several node types fit {class}: {some}. Which one shall I add?")
                }
            }));
        };
        let added = self.call("panel_add_node", json!({"class_type": class_type}), voice).await?;
        Ok(format!("I added {class_type} as node {}.", node_id(&added)))
    }

    async fn connect(&mut self, from: &End, to: &End, voice: &Voice) -> Result<String, Stop> {
        let nodes = self.nodes(voice).await?;
        let source = choose(&nodes, &from.node).map_err(Stop::Words)?;
        let target = choose(&nodes, &to.node).map_err(Stop::Words)?;
        let arguments = graph::link(source, from, target, to).map_err(Stop::Words)?;
        let words = format!(
            "I connected {} of {} to {} of {}.",
            words_of(&arguments["from_output"]),
            shown(source),
            words_of(&arguments["to_input"]),
            shown(target)
        );
        self.call("panel_connect", arguments, voice).await?;
        Ok(words)
    }

    async fn set(&mut self, asked: &str, node: Option<&Named>, value: &Value, voice: &Voice) -> Result<String, Stop> {
        let nodes = self.nodes(voice).await?;
        let node = match node {
            Some(named) => choose(&nodes, named).map_err(Stop::Words)?,
            None => {
                let having: Vec<&Value> = nodes.iter().filter(|node| graph::widget(node, asked).is_some()).collect();
                match having.as_slice() {
                    [one] => *one,
                    [] => return Err(Stop::Words(format!("No node on the canvas has a widget {asked}."))),
                    several => {
                        let names = several.iter().map(|node| shown(node)).collect::<Vec<_>>().join(", ");
                        return Err(Stop::Words(format!(
                            "Several nodes have {asked}: {names}. Say “set {asked} of …”."
                        )));
                    }
                }
            }
        };
        let Some(widget) = graph::widget(node, asked) else {
            let names = graph::names_of_widgets(node).join(", ");
            let names = if names.is_empty() { "none".to_owned() } else { names };
            return Err(Stop::Words(format!("{} has no widget {asked}. Its widgets: {names}.", shown(node))));
        };
        let words = format!("I set {widget} of {} to {}.", shown(node), words_of(value));
        self.call("panel_set_widget", json!({"node_id": node["id"], "widget": widget, "value": value}), voice).await?;
        Ok(words)
    }

    async fn remove(&mut self, named: &Named, voice: &Voice) -> Result<String, Stop> {
        let nodes = self.nodes(voice).await?;
        let node = choose(&nodes, named).map_err(Stop::Words)?;
        self.call("panel_remove_node", json!({"node_id": node["id"]}), voice).await?;
        Ok(format!("I removed {}.", shown(node)))
    }

    async fn build(&mut self, voice: &mut Voice) -> Result<String, Stop> {
        const NODES: [(&str, &str, [i32; 2]); 7] = [
            ("CheckpointLoaderSimple", "Load Checkpoint", [0, 200]),
            ("CLIPTextEncode", "Prompt", [420, 0]),
            ("CLIPTextEncode", "Negative prompt", [420, 260]),
            ("EmptyLatentImage", "Empty Latent Image", [420, 520]),
            ("KSampler", "KSampler", [880, 100]),
            ("VAEDecode", "VAE Decode", [1240, 100]),
            ("SaveImage", "Save Image", [1500, 100]),
        ];
        const LINKS: [(usize, &str, usize, &str); 9] = [
            (0, "MODEL", 4, "model"),
            (0, "CLIP", 1, "clip"),
            (0, "CLIP", 2, "clip"),
            (1, "CONDITIONING", 4, "positive"),
            (2, "CONDITIONING", 4, "negative"),
            (3, "LATENT", 4, "latent_image"),
            (4, "LATENT", 5, "samples"),
            (0, "VAE", 5, "vae"),
            (5, "IMAGE", 6, "images"),
        ];
        voice.say("I build a text-to-image graph: seven nodes, nine links.").await;
        let mut ids = Vec::new();
        for (class_type, title, pos) in NODES {
            let arguments = json!({"class_type": class_type, "title": title, "pos": pos});
            let added = self.call("panel_add_node", arguments, voice).await?;
            ids.push(added["node_id"].clone());
        }
        for (from, output, to, input) in LINKS {
            let arguments =
                json!({"from_node_id": ids[from], "from_output": output, "to_node_id": ids[to], "to_input": input});
            self.call("panel_connect", arguments, voice).await?;
        }
        Ok(format!(
            "It is ready. Put your words into node {} (say “set text of {} to …”), then say “run”.",
            words_of(&ids[1]),
            words_of(&ids[1])
        ))
    }
}

fn words_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn node_id(added: &Value) -> String {
    id_text(&json!({"id": added["node_id"]}))
}

fn list(answer: &Value) -> String {
    let workflows = graph::workflows(answer);
    if workflows.is_empty() {
        return "No workflow is open.".to_owned();
    }
    let lines = workflows.iter().map(|workflow| {
        let text = |field: &str| workflow[field].as_str().unwrap_or_default();
        let mut line = format!("- {}", if text("title").is_empty() { text("handle") } else { text("title") });
        if !text("path").is_empty() {
            line.push_str(&format!(" ({})", text("path")));
        }
        if workflow["active"] == true {
            line.push_str(", in front");
        }
        if workflow["modified"] == true {
            line.push_str(", with unsaved changes");
        }
        line
    });
    format!("Open workflows:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn outline(answer: &Value) -> String {
    let text = [&answer["outline"], &answer["text"], answer].into_iter().find_map(Value::as_str);
    match text.map(str::trim) {
        Some(text) if answer["node_count"] != 0 && !text.is_empty() => format!("On the canvas:\n```\n{text}\n```"),
        Some(_) => "The canvas is empty.".to_owned(),
        None => format!("On the canvas:\n```\n{answer}\n```"),
    }
}

fn errors(answer: &Value) -> String {
    let nodes: Vec<&Value> = answer["nodes"].as_array().into_iter().flatten().collect();
    let lines: Vec<String> = nodes
        .iter()
        .flat_map(|node| {
            let problems = node["problems"].as_array().or_else(|| node["errors"].as_array()).into_iter().flatten();
            let name = format!("{} ({})", words_of(&node["type"]), words_of(&node["node_id"]));
            problems.map(move |problem| format!("- {name}: {}", words_of(&problem["message"]))).collect::<Vec<_>>()
        })
        .collect();
    match (answer["errored_count"].as_u64(), lines.as_slice()) {
        (Some(0), _) => "I see nothing wrong with the graph.".to_owned(),
        (_, []) => format!("What is wrong:\n```\n{answer}\n```"),
        (_, lines) => format!("What is wrong:\n{}", lines.join("\n")),
    }
}

fn explain(refusal: &Refusal) -> String {
    const TAKE: &str =
        "Say “use the current one” if I should work on the workflow in front; I then do what you asked for.";
    match refusal {
        Refusal::WorkflowInstanceMismatch { .. } => {
            format!("The canvas shows another workflow than the one you wrote from, so I changed nothing. {TAKE}")
        }
        Refusal::WorkflowMismatch { wanted, .. } => {
            format!("I am to work on {wanted} only, and another workflow is in front, so I changed nothing. {TAKE}")
        }
        Refusal::TargetAmbiguous { .. } => {
            format!("I do not know which workflow you mean, so I changed nothing. {TAKE}")
        }
        Refusal::TargetGone { .. } => {
            format!("The browser tab that you wrote from is gone, so I changed nothing. {TAKE}")
        }
        Refusal::NotOwner { .. } => {
            format!("That tab belongs to another conversation now, so I changed nothing. {TAKE}")
        }
        Refusal::NoTab { .. } => {
            "No ComfyUI tab is connected to this conversation. Open ComfyUI with the panel.".to_owned()
        }
        Refusal::TargetNotOpen { path, .. } | Refusal::TargetNotActive { path, .. } => {
            format!("{path} is not in front. Say “open {path}” first.")
        }
        Refusal::UnknownOutcome { .. } => {
            "I got no answer, so it may or may not have been done. Say “outline” to see, before you ask for it again."
                .to_owned()
        }
        Refusal::PanelTooOld => {
            "The panel in that tab is too old to change the canvas safely. Update it and reload the page.".to_owned()
        }
        Refusal::Overloaded { .. } => "Too much is waiting just now. Ask again in a moment.".to_owned(),
        Refusal::TargetNameAmbiguous { .. }
        | Refusal::TargetUndetermined
        | Refusal::Superseded
        | Refusal::Blind
        | Refusal::NoReply { .. }
        | Refusal::BadReply { .. }
        | Refusal::Failed { .. }
        | Refusal::BadArguments { .. }
        | Refusal::UnknownCommand { .. }
        | Refusal::StillRunning { .. }
        | Refusal::ConversationClosed => format!("That did not work: {}", refusal.message()),
    }
}
