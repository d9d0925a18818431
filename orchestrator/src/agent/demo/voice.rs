//! How the helper speaks: word by word, so that a person sees an agent at work, and never half a block too little.

use super::super::handle::Reporter;
use super::super::tool;
use routing_core::agent::AgentEvent;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;

/// Speaks for one session.
pub(super) struct Voice {
    reporter: Reporter,
    /// Makes block ids unique over processes.
    prefix: String,
    blocks: u64,
    pause: Duration,
    growing: Option<(String, String)>,
}

impl Voice {
    /// A voice that pauses so long between two words.
    pub(super) fn new(reporter: Reporter, prefix: String, pause: Duration) -> Self {
        Self { reporter, prefix, blocks: 0, pause, growing: None }
    }

    /// Where the ends of turns are reported.
    pub(super) fn reporter(&mut self) -> &mut Reporter {
        &mut self.reporter
    }

    /// Says a text as one block. Cancelled in the middle, [`Voice::stop`] finishes what was said.
    pub(super) async fn say(&mut self, text: &str) {
        self.stop();
        self.blocks += 1;
        let id = format!("{}-{}", self.prefix, self.blocks);
        self.growing = Some((id.clone(), String::new()));
        for word in text.split_inclusive(char::is_whitespace) {
            if let Some((_, said)) = &mut self.growing {
                said.push_str(word);
            }
            self.reporter.say(AgentEvent::Delta { id: id.clone(), text: word.to_owned() });
            sleep(self.pause).await;
        }
        self.stop();
    }

    /// Finishes the block that was being said.
    pub(super) fn stop(&mut self) {
        if let Some((id, text)) = self.growing.take().filter(|(_, text)| !text.is_empty()) {
            self.reporter.say(AgentEvent::Text { id, text });
        }
    }

    /// Tells of a tool call.
    pub(super) fn tool(&self, name: &str, arguments: &Value) {
        self.reporter.say(AgentEvent::Tool { name: name.to_owned(), detail: tool::detail(arguments) });
    }
}
