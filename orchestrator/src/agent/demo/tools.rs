//! The helper's hands: our own tools, called over the same MCP endpoint and with the same kind of handle as any agent.

use super::super::McpEndpoint;
use routing_core::refusal::Refusal;
use serde_json::{Value, json};
use std::time::Duration;

/// No tool that the helper uses waits for a person, so none takes longer.
const CALL_DEADLINE: Duration = Duration::from_secs(180);

/// Calls tools.
pub(super) struct Tools {
    client: reqwest::Client,
    endpoint: McpEndpoint,
    calls: u64,
}

/// Why a call brought no result.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The call was refused.
    Refused(Refusal),
    /// The tools could not be reached, or answered in a way that cannot be read.
    Unreachable(String),
}

impl Tools {
    /// Hands at this endpoint.
    ///
    /// # Errors
    /// When no HTTP client can be made, in words.
    pub(super) fn new(endpoint: McpEndpoint) -> Result<Self, String> {
        let client = reqwest::Client::builder().no_proxy().timeout(CALL_DEADLINE).build();
        client.map(|client| Self { client, endpoint, calls: 0 }).map_err(|error| error.to_string())
    }

    /// Calls a tool and returns its structured result.
    pub(super) async fn call(&mut self, name: &str, arguments: &Value) -> Result<Value, Trouble> {
        self.calls += 1;
        let request = json!({
            "jsonrpc": "2.0", "id": self.calls, "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        });
        let sent = self
            .client
            .post(&self.endpoint.url)
            .bearer_auth(&self.endpoint.bearer)
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18")
            .json(&request)
            .send()
            .await;
        // An error of the client quotes the address, and the address holds the handle.
        let unreachable = |error: reqwest::Error| Trouble::Unreachable(error.without_url().to_string());
        let answer = sent.and_then(reqwest::Response::error_for_status).map_err(unreachable)?;
        let body = answer.text().await.map_err(unreachable)?;
        read(&body)
    }
}

fn read(body: &str) -> Result<Value, Trouble> {
    let unreadable = || Trouble::Unreachable("the answer of the tools cannot be read".into());
    let answer: Value = match serde_json::from_str(body) {
        Ok(answer) => answer,
        // A server may wrap its one answer in a stream of events.
        Err(_) => {
            let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
            data.filter_map(|data| serde_json::from_str(data.trim()).ok()).next_back().ok_or_else(unreadable)?
        }
    };
    if let Some(message) = answer["error"]["message"].as_str() {
        return Err(Trouble::Unreachable(message.to_owned()));
    }
    let result = answer.get("result").ok_or_else(unreadable)?;
    let said = result["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    let said = said.collect::<Vec<_>>().join("\n");
    let structured = &result["structuredContent"];
    if result["isError"] == true {
        return Err(Trouble::Refused(match structured.get("refusal") {
            Some(refusal) => Refusal::from_wire(refusal),
            None => Refusal::Failed { failure: "failed".into(), message: said },
        }));
    }
    Ok(match structured {
        Value::Null => serde_json::from_str(&said).unwrap_or(Value::String(said)),
        structured => structured.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_refusals_are_read_from_plain_answers_and_from_event_streams() {
        let plain = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"a\":1}"}]}}"#;
        for body in [plain.to_owned(), format!("event: message\ndata: {plain}\n\n")] {
            assert_eq!(read(&body).ok(), Some(json!({"a": 1})));
        }
        let refused =
            r#"{"result":{"isError":true,"content":[],"structuredContent":{"refusal":{"code":"panel_too_old"}}}}"#;
        assert!(matches!(read(refused), Err(Trouble::Refused(Refusal::PanelTooOld))));
        let bare = r#"{"result":{"isError":true,"content":[{"type":"text","text":"no"}]}}"#;
        assert!(matches!(read(bare), Err(Trouble::Refused(Refusal::Failed { message, .. })) if message == "no"));
        for body in ["", "<html>", "{}", r#"{"error":{"code":-32601,"message":"no such method"}}"#] {
            assert!(matches!(read(body), Err(Trouble::Unreachable(_))), "{body}");
        }
    }
}
