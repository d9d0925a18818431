//! How outcomes read for an agent: a result as content, a refusal as an error that names its remedy.

use crate::config::nearest;
use rmcp::model::{CallToolResult, ContentBlock};
use routing_core::command::{Spec, TABLE};
use routing_core::refusal::Refusal;
use serde_json::{Value, json};

/// The answer to a call. `spec` is the row of the tool, if there is one.
pub(super) fn answer(spec: Option<&Spec>, outcome: Result<Value, Refusal>) -> CallToolResult {
    match outcome {
        Ok(result) => success(spec, result),
        Err(refusal) => refused(&refusal),
    }
}

fn success(spec: Option<&Spec>, mut result: Value) -> CallToolResult {
    let content = match picture(&mut result) {
        Some(picture) => picture,
        None => ContentBlock::text(text(spec, &result)),
    };
    let mut answer = CallToolResult::success(vec![content]);
    answer.structured_content = Some(if result.is_object() { result } else { json!({"result": result}) });
    answer
}

/// An outline is made for reading, so it goes as it is (a legacy panel calls it `text`); all else is compact JSON.
fn text(spec: Option<&Spec>, result: &Value) -> String {
    let outline = spec.is_some_and(|spec| spec.cmd == "graph_outline");
    match result.get("outline").or_else(|| result.get("text")).and_then(Value::as_str) {
        Some(text) if outline => text.to_owned(),
        Some(_) | None => result.to_string(),
    }
}

/// Takes a picture out of a result, `{image, mimeType}`: an agent sees it, and its text would only cost.
fn picture(result: &mut Value) -> Option<ContentBlock> {
    let kind = result.get("mimeType")?.as_str()?.to_owned();
    let taken = result.get_mut("image")?;
    let image = taken.as_str()?;
    let bare = image.split_once(";base64,").map_or(image, |(_, bare)| bare).to_owned();
    result.as_object_mut()?.remove("image");
    Some(ContentBlock::image(bare, kind))
}

/// A refusal: readable, with its code and remedy beside it.
pub(super) fn refused(refusal: &Refusal) -> CallToolResult {
    let hint = match refusal {
        Refusal::UnknownCommand { name } => hint(name),
        _ => String::new(),
    };
    let mut answer = CallToolResult::error(vec![ContentBlock::text(format!("{}{hint}", refusal.message()))]);
    answer.structured_content = Some(json!({"refusal": refusal.to_wire()}));
    answer
}

fn hint(name: &str) -> String {
    let tools: Vec<&str> = TABLE.iter().filter_map(|spec| spec.tool).collect();
    // An agent that knows a command by its name on the wire means its tool.
    let meant = TABLE.iter().find(|spec| spec.cmd == name).and_then(|spec| spec.tool).or_else(|| nearest(name, &tools));
    meant.map_or_else(|| format!(" The tools are: {}.", tools.join(", ")), |meant| format!(" Did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use routing_core::command::by_cmd;

    fn shown(answer: &CallToolResult) -> Value {
        serde_json::to_value(answer).unwrap()
    }

    #[test]
    fn results_are_compact_and_structured() {
        let one = shown(&answer(None, Ok(json!({"node_id": 5, "title": "x"}))));
        assert_eq!(one["content"][0]["text"], r#"{"node_id":5,"title":"x"}"#);
        assert_eq!(one["structuredContent"], json!({"node_id": 5, "title": "x"}));
        assert_eq!(one["isError"], false);
        let list = shown(&answer(None, Ok(json!([1, 2]))));
        assert_eq!(list["content"][0]["text"], "[1,2]");
        assert_eq!(list["structuredContent"], json!({"result": [1, 2]}));
    }

    #[test]
    fn an_outline_is_plain_text_and_nothing_else_is() {
        let result = json!({"text": "1 KSampler\n2 VAEDecode", "nodes": 2});
        let outline = shown(&answer(by_cmd("graph_outline"), Ok(result.clone())));
        assert_eq!(outline["content"][0]["text"], "1 KSampler\n2 VAEDecode");
        assert_eq!(outline["structuredContent"], result);
        let other = shown(&answer(by_cmd("graph_query"), Ok(result.clone())));
        assert_eq!(other["content"][0]["text"], result.to_string());
    }

    #[test]
    fn a_picture_is_an_image_and_stands_nowhere_else() {
        let result = json!({"image": "data:image/png;base64,QUJD", "mimeType": "image/png", "width": 3});
        let one = shown(&answer(by_cmd("graph_screenshot"), Ok(result)));
        assert_eq!(one["content"], json!([{"type": "image", "data": "QUJD", "mimeType": "image/png"}]));
        assert_eq!(one["structuredContent"], json!({"mimeType": "image/png", "width": 3}));
    }

    #[test]
    fn a_refusal_names_code_and_remedy() {
        let refusal = Refusal::WorkflowMismatch { wanted: "a.json".into(), active: None };
        let one = shown(&answer(None, Err(refusal.clone())));
        assert_eq!(one["isError"], true);
        assert_eq!(one["content"][0]["text"], refusal.message());
        assert_eq!(one["structuredContent"]["refusal"], refusal.to_wire());
    }

    #[test]
    fn an_unknown_tool_is_told_its_neighbour() {
        for (name, meant) in [("panel_add_nod", "panel_add_node"), ("graph_run", "panel_run")] {
            let one = shown(&refused(&Refusal::UnknownCommand { name: name.into() }));
            assert!(one["content"][0]["text"].as_str().unwrap().ends_with(&format!(" Did you mean {meant}?")), "{one}");
        }
        let none = shown(&refused(&Refusal::UnknownCommand { name: "zzz".into() }));
        assert!(none["content"][0]["text"].as_str().unwrap().contains("panel_run"), "{none}");
    }
}
