//! Arguments: checked against the table, and described as JSON Schema from it.

use super::{Kind, Param, Spec};
use serde_json::{Map, Value, json};

/// Checks the arguments of a command. Problems are whole sentences that name the argument and what would be right.
///
/// # Errors
/// All problems, so that one answer suffices to mend them.
pub fn check_arguments(spec: &Spec, arguments: &Map<String, Value>) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    for param in spec.params {
        match arguments.get(param.name) {
            None | Some(Value::Null) if param.required => {
                problems.push(format!("`{}` is missing: {}", param.name, param.doc));
            }
            None | Some(Value::Null) => {}
            Some(value) => {
                if let Err(wanted) = fits(param.kind, value) {
                    problems.push(format!("`{}` must be {wanted}, not {}.", param.name, shown(value)));
                }
            }
        }
    }
    for name in arguments.keys() {
        if !spec.params.iter().any(|param| param.name == name) {
            let known: Vec<&str> = spec.params.iter().map(|param| param.name).collect();
            problems.push(format!("`{name}` is no argument of this call; it takes: {}.", known.join(", ")));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn fits(kind: Kind, value: &Value) -> Result<(), String> {
    let ok = match kind {
        Kind::Text => value.as_str().is_some_and(|text| !text.trim().is_empty()),
        Kind::NodeId => is_node_id(value),
        Kind::Slot => value.as_u64().is_some() || value.as_str().is_some_and(|text| !text.is_empty()),
        Kind::Any => true,
        Kind::Flag => value.is_boolean(),
        Kind::Count(low, high) => value.as_u64().is_some_and(|count| (low..=high).contains(&count)),
        Kind::Pair => value.as_array().is_some_and(|pair| pair.len() == 2 && pair.iter().all(Value::is_number)),
        Kind::Texts => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        Kind::NodeIds => value.as_array().is_some_and(|list| list.iter().all(is_node_id)),
        Kind::OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Kind::Choices => value.as_array().is_some_and(|list| list.len() >= 2 && list.iter().all(is_choice)),
        Kind::Items => value.as_array().is_some_and(|list| list.iter().all(is_item)),
    };
    if ok { Ok(()) } else { Err(wanted(kind)) }
}

fn wanted(kind: Kind) -> String {
    match kind {
        Kind::Text => "a text that is not empty".to_owned(),
        Kind::NodeId => "a node id such as 5".to_owned(),
        Kind::Slot => "a slot name or an index from 0".to_owned(),
        Kind::Any => "a value".to_owned(),
        Kind::Flag => "true or false".to_owned(),
        Kind::Count(low, high) => format!("a whole number from {low} to {high}"),
        Kind::Pair => "a list of two numbers".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::NodeIds => "a list of node ids".to_owned(),
        Kind::OneOf(words) => format!("one of {}", words.join(", ")),
        Kind::Choices => "a list of two or more choices, each a text or an object with `label`".to_owned(),
        Kind::Items => "a list of objects with `text` and `status` (pending, active or done)".to_owned(),
    }
}

fn is_node_id(value: &Value) -> bool {
    value.as_i64().is_some()
        || value
            .as_str()
            .is_some_and(|text| !text.is_empty() && text.split(':').all(|part| part.parse::<i64>().is_ok()))
}

fn is_choice(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty()) || value.get("label").is_some_and(Value::is_string)
}

fn is_item(value: &Value) -> bool {
    let status = value.get("status").and_then(Value::as_str).unwrap_or("pending");
    value.get("text").is_some_and(Value::is_string) && ["pending", "active", "done"].contains(&status)
}

/// A value in a message: short, so that a large argument does not flood the answer.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// The JSON Schema of a tool's arguments.
pub fn input_schema(spec: &Spec) -> Map<String, Value> {
    let mut properties = Map::new();
    for param in spec.params {
        properties.insert(param.name.to_owned(), property(param));
    }
    let required: Vec<&str> = spec.params.iter().filter(|param| param.required).map(|param| param.name).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(required));
    schema.insert("additionalProperties".to_owned(), json!(false));
    schema
}

fn property(param: &Param) -> Value {
    let id = json!({"type": ["integer", "string"]});
    let mut schema = match param.kind {
        Kind::Text => json!({"type": "string", "minLength": 1}),
        Kind::NodeId | Kind::Slot => id,
        Kind::Any => json!({}),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Count(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        Kind::Pair => json!({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Kind::NodeIds => json!({"type": "array", "items": id}),
        Kind::OneOf(words) => json!({"type": "string", "enum": words}),
        Kind::Choices => json!({"type": "array", "minItems": 2, "items": {
            "type": "object",
            "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
            "required": ["label"],
        }}),
        Kind::Items => json!({"type": "array", "items": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "status": {"type": "string", "enum": ["pending", "active", "done"]}},
            "required": ["text", "status"],
        }}),
    };
    if let Value::Object(map) = &mut schema {
        map.insert("description".to_owned(), json!(param.doc));
    }
    schema
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use crate::command::{TABLE, by_cmd};

    fn problems(cmd: &str, arguments: Value) -> Vec<String> {
        let spec = by_cmd(cmd).unwrap();
        let Value::Object(map) = arguments else { panic!("an object") };
        check_arguments(spec, &map).err().unwrap_or_default()
    }

    #[test]
    fn wrong_arguments_are_all_named() {
        let found = problems("graph_set_widget", json!({"node_id": "five", "value": 3, "widgit": "steps"}));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().any(|text| text.contains("`widget` is missing")));
        assert!(found.iter().any(|text| text.contains("`node_id` must be a node id")));
        assert!(found.iter().any(|text| text.contains("`widgit` is no argument")));
    }

    #[test]
    fn right_arguments_pass() {
        assert!(problems("graph_set_widget", json!({"node_id": 5, "widget": "steps", "value": null})).len() == 1);
        assert!(problems("graph_set_widget", json!({"node_id": "4:7", "widget": "steps", "value": 20})).is_empty());
        assert!(problems("ask_user", json!({"question": "Which?", "options": ["a", {"label": "b"}]})).is_empty());
        assert!(problems("workflow_list", json!({})).is_empty());
    }

    #[test]
    fn every_schema_names_every_argument() {
        for spec in TABLE {
            let schema = input_schema(spec);
            assert_eq!(schema["properties"].as_object().unwrap().len(), spec.params.len(), "{}", spec.cmd);
        }
    }
}
