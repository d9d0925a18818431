//! What every driver knows of tools: how ours are recognised behind each agent's prefix, which others may run, and
//! how a call is put into a few words.

use serde_json::Value;

/// The name under which agents know our MCP server.
pub(super) const SERVER: &str = "panel";

/// Prefixes that agents put before the tools of that server.
const PREFIXES: [&str; 6] = ["mcp__panel__", "mcp_panel_", "mcp.panel.", "panel__", "panel-", "panel/"];

const DETAIL_CHARACTERS: usize = 80;

/// The tool's own name, without an agent's prefix for our server.
pub(super) fn plain_name(name: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Whether a name can only be that of one of our tools.
pub(super) fn is_ours(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
}

/// Whether a tool may run: ours, or one that the person allowed by its exact name.
pub(super) fn may_run(name: &str, allowed: &[String]) -> bool {
    is_ours(name) || allowed.iter().any(|allowed| allowed == name)
}

/// What an agent is told about a tool that it may not use.
pub(super) fn refusal(name: &str, agent: &str) -> String {
    format!(
        "{name} is not available in this conversation. Work on the canvas with the tools of the \"{SERVER}\" server. \
         Only the person can allow {name}, with allow_tools in [agents.{agent}] of the configuration."
    )
}

/// A call's arguments in a few words.
pub(super) fn detail(input: &Value) -> String {
    let Some(fields) = input.as_object() else { return String::new() };
    let words = fields.iter().filter_map(|(name, value)| match value {
        Value::String(text) => Some(format!("{name}: {text}")),
        Value::Number(number) => Some(format!("{name}: {number}")),
        Value::Bool(flag) => Some(format!("{name}: {flag}")),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    });
    let text = words.take(4).collect::<Vec<_>>().join(", ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(DETAIL_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn our_tools_are_known_behind_every_agents_prefix() {
        for name in
            ["mcp__panel__panel_run", "mcp_panel_panel_run", "panel__panel_run", "panel-panel_run", "panel/panel_run"]
        {
            assert!(is_ours(name), "{name}");
            assert_eq!(plain_name(name), "panel_run");
        }
        for name in
            ["Bash", "mcp__other__panel_run", "mcp__panel__", "mcp__panel_evil__x", "xmcp__panel__run", "panel_run"]
        {
            assert!(!is_ours(name), "{name}");
        }
        assert_eq!(plain_name("Bash"), "Bash");
    }

    #[test]
    fn another_tool_runs_only_under_its_exact_name() {
        let allowed = ["Bash".to_owned()];
        assert!(may_run("Bash", &allowed));
        assert!(!may_run("BashOutput", &allowed) && !may_run("bash", &allowed) && !may_run("Read", &allowed));
    }

    #[test]
    fn a_detail_is_short_and_of_one_line() {
        assert_eq!(detail(&json!({"node": 5, "text": "a\nb", "deep": {"x": 1}})), "node: 5, text: a b");
        assert_eq!(detail(&json!({"t": "ä".repeat(200)})).chars().count(), DETAIL_CHARACTERS + 1);
        assert_eq!(detail(&json!([1])), "");
    }
}
