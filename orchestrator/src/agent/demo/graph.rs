//! Nodes as `panel_query_graph` describes them, and how the helper chooses among them. Pure.

use super::request::{End, Named};
use serde_json::{Value, json};

/// Finds the one node that is meant among `nodes`; the error says, for people, why it is not one.
pub(super) fn choose<'a>(nodes: &'a [Value], named: &Named) -> Result<&'a Value, String> {
    let exact: Vec<&Value> = nodes.iter().filter(|node| fits(node, named, str::eq_ignore_ascii_case)).collect();
    let found = match exact.as_slice() {
        [] => nodes.iter().filter(|node| fits(node, named, contains)).collect(),
        _ => exact,
    };
    let name = match named {
        Named::Id(id) => format!("node {id}"),
        Named::Word(word) => word.clone(),
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(format!("I found no {name} on the canvas.")),
        several => {
            let ids: Vec<String> = several.iter().map(|node| shown(node)).collect();
            Err(format!("There are several: {}. Tell me which one by its number.", ids.join(", ")))
        }
    }
}

fn fits(node: &Value, named: &Named, same: fn(&str, &str) -> bool) -> bool {
    match named {
        Named::Id(id) => &id_text(node) == id,
        Named::Word(word) => {
            let word = squeezed(word);
            [&node["type"], &node["title"]]
                .into_iter()
                .filter_map(Value::as_str)
                .any(|name| same(&squeezed(name), &word))
        }
    }
}

fn contains(name: &str, word: &str) -> bool {
    name.to_lowercase().contains(&word.to_lowercase())
}

/// A name without spaces and signs, so that `load checkpoint` is `LoadCheckpoint`.
pub(super) fn squeezed(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).collect()
}

/// `KSampler (5)`.
pub(super) fn shown(node: &Value) -> String {
    format!("{} ({})", node["type"].as_str().unwrap_or("node"), id_text(node))
}

/// A node's id as text, whatever its JSON type.
pub(super) fn id_text(node: &Value) -> String {
    match &node["id"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The arguments that link two nodes. Slots that are not named are chosen by their types, free inputs first; the error
/// says, for people, why none fits.
pub(super) fn link(from: &Value, from_end: &End, to: &Value, to_end: &End) -> Result<Value, String> {
    let outputs = slots(from, "outputs", from_end.slot.as_deref());
    let inputs = slots(to, "inputs", to_end.slot.as_deref());
    let pairs = outputs.iter().flat_map(|output| inputs.iter().map(move |input| (*output, *input)));
    let fitting: Vec<(&Value, &Value)> = pairs.filter(|(output, input)| same_type(output, input)).collect();
    let free =
        |pair: &&(&Value, &Value)| pair.1.get("from_node_id").is_none() && pair.1.get("from_subgraph_input").is_none();
    let chosen = fitting.iter().find(free).or_else(|| fitting.first());
    let (output, input) = match (chosen, &from_end.slot, &to_end.slot) {
        (Some((output, input)), _, _) => (output["name"].clone(), input["name"].clone()),
        // What was named in full is for the panel to judge: it knows inputs that a description leaves out.
        (None, Some(output), Some(input)) => (json!(output), json!(input)),
        (None, _, _) => {
            return Err(format!("No output of {} fits an input of {}. {}", shown(from), shown(to), types(from, to)));
        }
    };
    Ok(json!({"from_node_id": from["id"], "from_output": output, "to_node_id": to["id"], "to_input": input}))
}

fn slots<'a>(node: &'a Value, side: &str, named: Option<&str>) -> Vec<&'a Value> {
    let all = node[side].as_array().into_iter().flatten();
    all.filter(|slot| named.is_none_or(|name| slot["name"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(name))))
        .collect()
}

fn same_type(output: &Value, input: &Value) -> bool {
    let (Some(gives), Some(takes)) = (output["type"].as_str(), input["type"].as_str()) else { return false };
    gives == "*" || takes == "*" || takes.split(',').any(|one| one == gives)
}

fn types(from: &Value, to: &Value) -> String {
    let list = |node: &Value, side: &str| {
        let names = slots(node, side, None);
        let names: Vec<&str> = names.iter().filter_map(|slot| slot["type"].as_str()).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    format!("The one gives {}; the other takes {}.", list(from, "outputs"), list(to, "inputs"))
}

/// The name of the widget that is meant, as the node spells it.
pub(super) fn widget<'a>(node: &'a Value, asked: &str) -> Option<&'a str> {
    let asked = squeezed(asked);
    names_of_widgets(node).into_iter().find(|name| squeezed(name).eq_ignore_ascii_case(&asked))
}

/// The names of a node's widgets. A description lists them as objects or as a map.
pub(super) fn names_of_widgets(node: &Value) -> Vec<&str> {
    match &node["widgets"] {
        Value::Array(list) => list.iter().filter_map(|widget| widget["name"].as_str()).collect(),
        Value::Object(map) => map.keys().map(String::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The types that a search found, and the one among them that is meant, if that is clear.
pub(super) fn meant_class(found: &Value, asked: &str) -> (Option<String>, Vec<String>) {
    let nodes: Vec<&Value> = found["nodes"].as_array().into_iter().flatten().collect();
    let classes: Vec<String> = nodes.iter().filter_map(|node| node["class_type"].as_str().map(str::to_owned)).collect();
    let asked = squeezed(asked);
    let same = |field: &str| {
        nodes.iter().find(|node| node[field].as_str().is_some_and(|name| squeezed(name).eq_ignore_ascii_case(&asked)))
    };
    let exact = same("class_type").or_else(|| same("title")).and_then(|node| node["class_type"].as_str());
    let meant = match (exact, classes.as_slice()) {
        (Some(exact), _) => Some(exact.to_owned()),
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
    };
    (meant, classes)
}

/// Every open workflow in an answer of `panel_list_workflows`, however it is grouped.
pub(super) fn workflows(answer: &Value) -> Vec<&Value> {
    match answer {
        Value::Array(list) => list.iter().flat_map(workflows).collect(),
        Value::Object(map) if map.contains_key("handle") => vec![answer],
        Value::Object(map) => map.values().flat_map(workflows).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]
mod tests {
    use super::*;

    fn nodes() -> Vec<Value> {
        vec![
            json!({"id": 3, "type": "KSampler", "title": "KSampler", "widgets": [{"name": "sampler_name"}],
                "inputs": [{"name": "model", "type": "MODEL"}, {"name": "positive", "type": "CONDITIONING", "from_node_id": 6},
                    {"name": "negative", "type": "CONDITIONING"}], "outputs": []}),
            json!({"id": 6, "type": "CLIPTextEncode", "title": "Prompt", "outputs": [{"name": "CONDITIONING", "type": "CONDITIONING"}]}),
            json!({"id": "7", "type": "CLIPTextEncode", "title": "Negative", "outputs": [{"name": "CONDITIONING", "type": "CONDITIONING"}]}),
        ]
    }

    fn word(text: &str) -> Named {
        Named::Word(text.into())
    }

    #[test]
    fn a_node_is_found_by_number_type_or_title_and_doubt_is_told() {
        let nodes = nodes();
        assert_eq!(choose(&nodes, &Named::Id("7".into())).unwrap()["id"], "7");
        assert_eq!(choose(&nodes, &word("k sampler")).unwrap()["id"], 3);
        assert_eq!(choose(&nodes, &word("negative")).unwrap()["id"], "7");
        assert_eq!(choose(&nodes, &word("sampler")).unwrap()["id"], 3);
        assert!(choose(&nodes, &word("cliptextencode")).unwrap_err().contains("(6), CLIPTextEncode (7)"));
        assert!(choose(&nodes, &word("VAE")).unwrap_err().contains("no VAE"));
    }

    #[test]
    fn slots_are_chosen_by_type_and_free_ones_first() {
        let nodes = nodes();
        let end = |slot: Option<&str>| End { node: word("x"), slot: slot.map(str::to_owned) };
        let free = link(&nodes[1], &end(None), &nodes[0], &end(None)).unwrap();
        assert_eq!(
            free,
            json!({"from_node_id": 6, "from_output": "CONDITIONING", "to_node_id": 3, "to_input": "negative"})
        );
        let named = link(&nodes[1], &end(None), &nodes[0], &end(Some("Positive"))).unwrap();
        assert_eq!(named["to_input"], "positive");
        assert!(link(&nodes[0], &end(None), &nodes[1], &end(None)).unwrap_err().contains("gives nothing"));
        let unseen = link(&nodes[1], &end(Some("CONDITIONING")), &nodes[0], &end(Some("seed"))).unwrap();
        assert_eq!(unseen["to_input"], "seed", "the panel knows more than the description");
    }

    #[test]
    fn widgets_classes_and_workflows_are_recognised_in_their_spellings() {
        assert_eq!(widget(&nodes()[0], "Sampler_Name"), Some("sampler_name"));
        assert_eq!(widget(&json!({"widgets": {"cfg": 1}}), "CFG"), Some("cfg"));
        let found = json!({"nodes": [{"class_type": "KSamplerAdvanced", "title": "x"}, {"class_type": "KSampler", "title": "y"}]});
        assert_eq!(meant_class(&found, "ksampler").0.as_deref(), Some("KSampler"));
        assert_eq!(meant_class(&found, "sampler").0, None);
        let grouped = json!({"tabs": [{"tab": "t1", "workflows": [{"handle": "a"}, {"handle": "b"}]}], "n": 2});
        assert_eq!(workflows(&grouped).len(), 2);
    }
}
