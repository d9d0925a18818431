//! What each command does to the simulated canvas. Admission is not its business: who calls has asked.

use super::canvas::{Canvas, Failure, Workflow};
use super::format::NodeSpec;
use serde_json::{Map, Value, json};

/// Carries a command out.
pub(super) fn execute(canvas: &mut Canvas, cmd: &str, args: &Map<String, Value>) -> Result<Value, Failure> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    match cmd {
        "workflow_list" => Ok(json!({"workflows": canvas.list()})),
        "workflow_open" => canvas.open_named(text("path").unwrap_or_default()).map(|()| json!({})),
        "workflow_new" => {
            canvas.make();
            Ok(json!({}))
        }
        "workflow_save" | "workflow_save_as" => canvas.save(text("name")).map(|()| json!({})),
        "workflow_rename" => canvas.rename_named(text("path"), text("name").unwrap_or_default()).map(|()| json!({})),
        "workflow_close" => {
            let force = args.get("force").and_then(Value::as_bool).unwrap_or(false);
            canvas.close(text("path"), force).map(|()| json!({}))
        }
        "graph_outline" | "graph_query" | "graph_screenshot" => {
            let front = canvas.front()?;
            Ok(json!({"text": outline(front), "nodes": front.nodes}))
        }
        "graph_get_errors" => Ok(json!({"errors": []})),
        "graph_add_node" => {
            let front = canvas.front_mut()?;
            let id = next_id(front);
            let class_type = text("class_type").unwrap_or_default().to_owned();
            let node = NodeSpec { class_type, title: text("title").map(str::to_owned), ..NodeSpec::default() };
            front.nodes.insert(id.clone(), node);
            front.modified = true;
            Ok(json!({"node_id": id}))
        }
        "graph_remove_node" => {
            let front = canvas.front_mut()?;
            let id = id(args, "node_id");
            if front.nodes.remove(&id).is_none() {
                return Err(unknown_node(&id));
            }
            for node in front.nodes.values_mut() {
                node.inputs.retain(|_, from| from.get(0).and_then(Value::as_str) != Some(&id));
            }
            front.modified = true;
            Ok(json!({}))
        }
        "graph_connect" => {
            let (from, to) = (id(args, "from_node_id"), id(args, "to_node_id"));
            let output = args.get("from_output").cloned().unwrap_or_default();
            if !canvas.front()?.nodes.contains_key(&from) {
                return Err(unknown_node(&from));
            }
            let node = node(canvas, &to)?;
            node.inputs.insert(id(args, "to_input"), json!([from, output]));
            Ok(json!({}))
        }
        "graph_disconnect" => {
            let node = node(canvas, &id(args, "node_id"))?;
            match args.get("input") {
                Some(_) => drop(node.inputs.remove(&id(args, "input"))),
                None => node.inputs.clear(),
            }
            Ok(json!({}))
        }
        "graph_set_widget" => {
            let node = node(canvas, &id(args, "node_id"))?;
            let value = args.get("value").cloned().unwrap_or_default();
            let previous = node.widgets.insert(text("widget").unwrap_or_default().to_owned(), value);
            Ok(json!({"previous": previous}))
        }
        "graph_edit_node" => {
            let node = node(canvas, &id(args, "node_id"))?;
            let previous = node.title.clone();
            if let Some(title) = text("title") {
                node.title = Some(title.to_owned());
            }
            Ok(json!({"previous_title": previous}))
        }
        "graph_run" => {
            canvas.front()?;
            Ok(json!({"prompt_id": canvas.queue()}))
        }
        "nodes_search" => Ok(json!({"nodes": [{"class_type": text("query")}]})),
        other => Err(("not_simulated", format!("The simulated canvas does not know `{other}`."))),
    }
}

fn outline(workflow: &Workflow) -> String {
    let line = |(id, node): (&String, &NodeSpec)| format!("{id} {}", node.class_type);
    workflow.nodes.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn next_id(workflow: &Workflow) -> String {
    let highest = workflow.nodes.keys().filter_map(|id| id.parse::<u64>().ok()).max().unwrap_or(0);
    (highest + 1).to_string()
}

/// A node id or a slot, as text.
fn id(args: &Map<String, Value>, name: &str) -> String {
    match args.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn unknown_node(id: &str) -> Failure {
    ("unknown_node", format!("There is no node {id} in the workflow in front."))
}

fn node<'a>(canvas: &'a mut Canvas, id: &str) -> Result<&'a mut NodeSpec, Failure> {
    let front = canvas.front_mut()?;
    front.modified = true;
    front.nodes.get_mut(id).ok_or_else(|| unknown_node(id))
}
