//! The tool list, made from the command table.

use rmcp::model::{Tool, ToolAnnotations};
use routing_core::command::{Effect, Retry, Spec, TABLE, input_schema};
use std::sync::Arc;

/// Every row of the table that an agent may issue, in the table's order.
pub(super) fn tools() -> Vec<Tool> {
    TABLE.iter().filter_map(|spec| spec.tool.map(|name| tool(spec, name))).collect()
}

fn tool(spec: &'static Spec, name: &'static str) -> Tool {
    Tool::new(name, spec.doc, Arc::new(input_schema(spec))).with_annotations(annotations(spec))
}

/// Hints for the agent's own permission rules. Adding, connecting and showing destroy nothing; what replaces, removes
/// or closes may.
fn annotations(spec: &Spec) -> ToolAnnotations {
    let destructive = match spec.effect {
        Effect::Query | Effect::View | Effect::Navigate | Effect::Ask => false,
        Effect::Write | Effect::Server => {
            !matches!(spec.cmd, "graph_add_node" | "graph_connect" | "graph_run" | "workflow_save")
        }
    };
    ToolAnnotations::from_raw(
        None,
        Some(spec.read_only()),
        Some(destructive),
        Some(spec.retry == Retry::Resend),
        Some(false),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use serde_json::json;

    #[test]
    fn every_tool_of_the_table_is_listed_with_its_schema() {
        let listed = tools();
        assert_eq!(listed.len(), TABLE.iter().filter(|spec| spec.tool.is_some()).count());
        for tool in &listed {
            let spec = routing_core::command::by_tool(&tool.name).unwrap();
            assert_eq!(tool.description.as_deref(), Some(spec.doc));
            assert_eq!(*tool.input_schema, input_schema(spec));
        }
    }

    #[test]
    fn what_only_looks_is_marked_so() {
        let hints = |name: &str| {
            let tool = tools().into_iter().find(|tool| tool.name == name).unwrap();
            serde_json::to_value(tool.annotations).unwrap()
        };
        let looks =
            json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false});
        assert_eq!(hints("panel_graph_outline"), looks);
        let removes =
            json!({"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false});
        assert_eq!(hints("panel_remove_node"), removes);
        assert_eq!(hints("panel_add_node")["destructiveHint"], false);
    }
}
