//! The tools of agents, over the wire as agents use them: the handshake of both protocol generations, the list, calls
//! and refusals, and handles that do not live.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

mod bridge_rig;

use bridge_rig::{PATIENCE, Rig, rig};
use orchestrator::agent::McpEndpoint;
use orchestrator::hub::ToHub;
use routing_core::command::TABLE;
use routing_core::refusal::Refusal;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

struct Agent {
    endpoint: McpEndpoint,
    client: reqwest::Client,
}

impl Agent {
    fn new(rig: &Rig, backend: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { endpoint: rig.handles.issue(backend.into()).unwrap(), client }
    }

    fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        self.client
            .post(&self.endpoint.url)
            .bearer_auth(&self.endpoint.bearer)
            .header("accept", "application/json, text/event-stream")
            .json(body)
    }

    async fn rpc(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answer = self.post(&body).header("mcp-protocol-version", "2025-11-25").send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/json");
        answer.json().await.unwrap()
    }

    fn call(&self, tool: &str, arguments: Value) -> tokio::task::JoinHandle<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let request = self.post(&body).header("mcp-protocol-version", "2025-11-25");
        tokio::spawn(async move { request.send().await.unwrap().json().await.unwrap() })
    }
}

/// What comes to the conversations as a tool call.
async fn call_at(rig: &mut Rig) -> (String, String, Value, tokio::sync::oneshot::Sender<Result<Value, Refusal>>) {
    match rig.next().await {
        ToHub::ToolCall { backend, tool, arguments, answer } => (backend.0, tool, Value::Object(arguments), answer),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_shakes_hands_and_lists_the_table() {
    let rig = rig("").await;
    let agent = Agent::new(&rig, "claude");
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
    let answer = agent.post(&body).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.headers().get("mcp-session-id").is_none(), "no sessions");
    let said: Value = answer.json().await.unwrap();
    assert_eq!(said["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(said["result"]["serverInfo"]["name"], "comfy-orchestrator");
    assert!(said["result"]["capabilities"]["tools"].is_object(), "{said}");
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(agent.post(&done).send().await.unwrap().status(), 202);

    let listed = agent.rpc("tools/list", json!({})).await;
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let table: Vec<&str> = TABLE.iter().filter_map(|spec| spec.tool).collect();
    assert_eq!(names, table);
    assert_eq!(listed["result"]["tools"][0]["annotations"]["readOnlyHint"], true);
    assert_eq!(agent.rpc("ping", json!({})).await["result"], json!({}));
    rig.stop().await;
}

#[tokio::test]
async fn the_newer_generation_discovers_and_calls() {
    let mut rig = rig("").await;
    let agent = Agent::new(&rig, "claude");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let ask = |method: &str, params: Value| {
        let mut params = params;
        params["_meta"] = meta.clone();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = agent.post(&body).header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        if let Some(name) = body["params"]["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        request
    };
    let found: Value = ask("server/discover", json!({})).send().await.unwrap().json().await.unwrap();
    assert!(found["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{found}");
    let request = ask("tools/call", json!({"name": "panel_graph_outline", "arguments": {}}));
    let calling = tokio::spawn(async move { request.send().await.unwrap().json::<Value>().await.unwrap() });
    let (.., answer) = call_at(&mut rig).await;
    answer.send(Ok(json!({"text": "empty graph"}))).unwrap();
    let said = calling.await.unwrap();
    assert_eq!(said["result"]["content"][0]["text"], "empty graph", "{said}");
    // The probe of a client that then falls back must not fail in a way that it takes for a dead server.
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}});
    assert!(agent.post(&bare).send().await.unwrap().status().as_u16() < 500);
    rig.stop().await;
}

#[tokio::test]
async fn a_call_goes_to_the_conversation_of_its_handle() {
    let mut rig = rig("").await;
    let (claude, demo) = (Agent::new(&rig, "claude"), Agent::new(&rig, "demo"));
    let calling = demo.call("panel_add_node", json!({"class_type": "KSampler"}));
    let (backend, tool, arguments, answer) = call_at(&mut rig).await;
    assert_eq!((backend.as_str(), tool.as_str()), ("demo", "panel_add_node"));
    assert_eq!(arguments, json!({"class_type": "KSampler"}));
    answer.send(Ok(json!({"node_id": 5}))).unwrap();
    let said = calling.await.unwrap();
    assert_eq!(said["result"]["content"], json!([{"type": "text", "text": "{\"node_id\":5}"}]));
    assert_eq!(said["result"]["structuredContent"], json!({"node_id": 5}));
    assert_ne!(said["result"]["isError"], json!(true));

    let calling = claude.call("panel_screenshot", json!({}));
    let (backend, .., answer) = call_at(&mut rig).await;
    assert_eq!(backend, "claude");
    answer.send(Ok(json!({"image": "QUJD", "mimeType": "image/png"}))).unwrap();
    assert_eq!(
        calling.await.unwrap()["result"]["content"][0],
        json!({"type": "image", "data": "QUJD", "mimeType": "image/png"})
    );
    assert_eq!(rig.counted("tool_calls_total"), 2);
    rig.stop().await;
}

#[tokio::test]
async fn refusals_are_results_that_an_agent_can_read() {
    let mut rig = rig("").await;
    let agent = Agent::new(&rig, "claude");
    let calling = agent.call("panel_remove_node", json!({"node_id": 1}));
    let (.., answer) = call_at(&mut rig).await;
    let refusal = Refusal::WorkflowMismatch { wanted: "workflows/a.json".into(), active: Some("wf:b.json".into()) };
    answer.send(Err(refusal.clone())).unwrap();
    let said = calling.await.unwrap();
    assert_eq!(said["result"]["isError"], true);
    assert_eq!(said["result"]["content"][0]["text"], refusal.message());
    assert_eq!(said["result"]["structuredContent"]["refusal"], refusal.to_wire());
    assert_eq!(said["result"]["structuredContent"]["refusal"]["remedy"]["tool"], "panel_set_workflow_target");

    let unknown = agent.call("panel_add_nod", json!({})).await.unwrap();
    assert_eq!(unknown["result"]["structuredContent"]["refusal"]["code"], "unknown_command", "{unknown}");
    assert!(unknown["result"]["content"][0]["text"].as_str().unwrap().contains("panel_add_node"), "{unknown}");
    for arguments in [json!("text"), json!([1]), json!(5)] {
        let said = agent.call("panel_add_node", arguments).await.unwrap();
        assert_eq!(said["result"]["structuredContent"]["refusal"]["code"], "bad_arguments", "{said}");
        assert_eq!(said["result"]["isError"], true);
    }
    assert_eq!(agent.rpc("no/such", json!({})).await["error"]["code"], -32601);
    assert!(rig.nothing_came());

    let calling = agent.call("panel_graph_outline", json!({}));
    let (.., answer) = call_at(&mut rig).await;
    drop(answer);
    assert_eq!(calling.await.unwrap()["result"]["structuredContent"]["refusal"]["code"], "conversation_closed");
    rig.stop().await;
}

#[tokio::test]
async fn a_question_stays_open_and_an_agent_that_gives_up_is_noticed() {
    let mut rig = rig("").await;
    let agent = Agent::new(&rig, "claude");
    let calling = agent.call("panel_ask", json!({"question": "?", "options": ["a", "b"]}));
    let (.., answer) = call_at(&mut rig).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!calling.is_finished());
    // Meanwhile other calls pass.
    let other = agent.call("panel_get_errors", json!({}));
    let (.., quick) = call_at(&mut rig).await;
    quick.send(Ok(json!([]))).unwrap();
    assert_eq!(other.await.unwrap()["result"]["structuredContent"], json!({"result": []}));
    answer.send(Ok(json!({"choice": "a"}))).unwrap();
    assert_eq!(calling.await.unwrap()["result"]["structuredContent"]["choice"], "a");

    let calling = agent.call("panel_ask", json!({"question": "?", "options": ["a", "b"]}));
    let (.., mut answer) = call_at(&mut rig).await;
    calling.abort();
    timeout(PATIENCE, answer.closed()).await.unwrap();
    rig.stop().await;
}

#[tokio::test]
async fn only_a_living_handle_with_its_bearer_is_served() {
    let mut rig = rig("").await;
    let (agent, other) = (Agent::new(&rig, "claude"), Agent::new(&rig, "demo"));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let post = |url: &str, bearer: &str| {
        agent
            .client
            .post(url)
            .header("authorization", bearer)
            .header("accept", "application/json, text/event-stream")
            .json(&body)
    };
    let right = format!("Bearer {}", agent.endpoint.bearer);
    let status = |request: reqwest::RequestBuilder| async { request.send().await.unwrap().status().as_u16() };
    let url = agent.endpoint.url.as_str();
    assert_eq!(status(post(url, &right)).await, 200);
    assert_eq!(status(post(url, &format!("Bearer {}", other.endpoint.bearer))).await, 401);
    assert_eq!(status(post(url, &format!("Bearer {}", rig.token))).await, 401, "a panel's token is no agent's");
    assert_eq!(status(agent.client.post(url).json(&body)).await, 401);
    assert_eq!(status(post(&url[..url.len() - 1], &right)).await, 404);
    assert_eq!(status(post(url, &right).header("origin", "https://evil.example")).await, 403);
    assert_eq!(status(post(url, &right).header("origin", "null")).await, 403);
    assert_eq!(status(agent.client.get(url).header("authorization", &right)).await, 405);
    // The bearer of an agent opens no socket.
    assert_eq!(rig.ask_for_socket("/ws", &[("Authorization", &right)]).await.code(), "token_wrong");

    rig.handles.revoke(&agent.endpoint);
    let gone = post(url, &right).send().await.unwrap();
    assert_eq!(gone.status(), 404);
    assert_eq!(gone.json::<Value>().await.unwrap()["code"], "dead_handle");
    assert_eq!(rig.counted("refused_total{reason=\"dead_handle\"}"), 2);
    assert!(rig.nothing_came());
    rig.stop().await;
}
