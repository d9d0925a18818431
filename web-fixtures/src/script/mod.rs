//! The directives a prompt may hold, and what is to be done about them.
//!
//! Decides what a text asks for. Knows nothing of HTTP, of any model API, or of ACP.
//!
//! | directive | does |
//! |---|---|
//! | `@@say TEXT@@` | says TEXT |
//! | `@@tool NAME {json}@@` | calls a tool; the JSON may be left out, and may hold `$last` placeholders |
//! | `@@also NAME {json}@@` | calls a tool together with the one before it, in the same message |
//! | `@@slow SECONDS words...@@` | says the words one by one, spread over that time |
//! | `@@hang SECONDS@@` | says nothing for that long |
//! | `@@error STATUS@@` | fails with that HTTP status |
//! | `@@permission NAME@@` | asks the person for permission (agent only) |
//! | `@@exit CODE@@` | ends the process (agent only) |
//! | `@@garbage@@` | writes a line that is not JSON (agent only) |
//! | `@@silence@@` | never answers |

mod directive;
mod placeholder;
mod step;

pub use directive::{Directive, Problem, parse};
pub use placeholder::{PlaceholderError, Results, ToolResult};
pub use step::{End, Entry, Part, Step, is_agent_note, next_step};

/// The longest echo of a tool result, in characters.
pub const ECHO_LIMIT: usize = 2_000;

/// The first [`ECHO_LIMIT`] characters of `text`.
#[must_use]
pub fn truncate(text: &str) -> String {
    text.chars().take(ECHO_LIMIT).collect()
}

/// Cuts `text` into pieces of a few words whose concatenation is `text`, so that streaming is visible.
#[must_use]
pub fn pieces(text: &str) -> Vec<String> {
    const WORDS_A_PIECE: usize = 3;
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    words.chunks(WORDS_A_PIECE).map(<[&str]>::concat).collect()
}

/// Finds the offered tool that a script means by `name`: the same name, or a name that ends in it after a
/// separator (`panel_add_node` means `mcp__panel__panel_add_node`). The double underscore of MCP wins over
/// other separators, then the shortest name.
#[must_use]
pub fn resolve_tool<'a>(name: &str, offered: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    offered
        .into_iter()
        .filter_map(|candidate| {
            let prefix = candidate.strip_suffix(name)?;
            let rank = if prefix.is_empty() {
                0
            } else if prefix.ends_with("__") {
                1
            } else if prefix.ends_with(['_', '-', '.', '/', ':']) {
                2
            } else {
                return None;
            };
            Some((rank, candidate.len(), candidate))
        })
        .min()
        .map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_tool_name_finds_the_name_an_agent_gives_it() {
        let offered = ["Bash", "mcp__panel__panel_add_node", "mcp__panel__add_node", "other-panel_add_node"];
        assert_eq!(resolve_tool("panel_add_node", offered), Some("mcp__panel__panel_add_node"));
        assert_eq!(resolve_tool("add_node", offered), Some("mcp__panel__add_node"));
        assert_eq!(resolve_tool("Bash", offered), Some("Bash"));
        assert_eq!(resolve_tool("ash", offered), None, "a suffix needs a separator before it");
        assert_eq!(resolve_tool("x", []), None);
    }

    #[test]
    fn pieces_concatenate_to_the_text() {
        for text in ["", "one", "one two three four five ", " lead\nline two  double"] {
            assert_eq!(pieces(text).concat(), text);
        }
        assert!(pieces("a b c d").len() > 1);
    }

    #[test]
    fn truncate_counts_characters_not_bytes() {
        let long = "ä".repeat(ECHO_LIMIT + 5);
        assert_eq!(truncate(&long).chars().count(), ECHO_LIMIT);
    }
}
