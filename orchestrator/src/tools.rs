//! The tools of agents: an MCP server (streamable HTTP, no sessions, JSON answers) at `/mcp/{handle}`, generated from
//! the command table. It decides whose conversation a call belongs to, by the handle alone; which canvas it may touch
//! is the conversation's matter.

mod answer;
mod handles;
mod list;

pub use handles::Handles;

use crate::bridge::{Metrics, bearer, with_reason};
use crate::hub::Hub;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::response::Response;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use routing_core::command::by_tool;
use routing_core::id::Backend;
use routing_core::refusal::Refusal;
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Most bytes of a request: as many as a frame with media.
const MOST_BODY_BYTES: usize = crate::config::MOST_FRAME_BYTES;

/// Told to every agent that connects.
const INSTRUCTIONS: &str = "Tools for the ComfyUI workflow that the person has open in the browser. Calls act on the \
    workflow that the message came from. A refused call says which tool mends it.";

/// The MCP server, shared by all handles.
#[derive(Clone)]
pub(crate) struct Server {
    handles: Arc<Handles>,
    service: StreamableHttpService<Tools, NeverSessionManager>,
}

/// Who is behind a request.
#[derive(Clone, Debug)]
struct Caller {
    /// The conversation, as the handle decided.
    backend: Backend,
    /// The agent gave up: its connection is gone. The protocol's own task would outlive it.
    gave_up: CancellationToken,
}

impl Server {
    pub(crate) fn new(hub: Hub, handles: Arc<Handles>, metrics: Arc<Metrics>) -> Self {
        let tools = Tools { hub, metrics };
        // Host and Origin are checked in front of every route, with the configured names: no second list here.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_sse_retry(None)
            .with_max_request_body_bytes(MOST_BODY_BYTES)
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let service = StreamableHttpService::new(move || Ok(tools.clone()), Arc::default(), config);
        Self { handles, service }
    }
}

/// The route of agents.
pub(crate) async fn serve(
    Extension(server): Extension<Server>,
    Path(handle): Path<String>,
    mut request: Request,
) -> Response {
    let backend = match server.handles.caller(&handle, bearer(request.headers())) {
        Ok(backend) => backend,
        Err(refused) => return with_reason(refused),
    };
    let gave_up = CancellationToken::new();
    let _with_the_connection = gave_up.clone().drop_guard();
    request.extensions_mut().insert(Caller { backend, gave_up });
    server.service.handle(request).await.map(Body::new)
}

#[derive(Clone)]
struct Tools {
    hub: Hub,
    metrics: Arc<Metrics>,
}

impl Tools {
    async fn call(&self, name: &str, arguments: JsonObject, context: &RequestContext<RoleServer>) -> CallToolResult {
        let caller = context.extensions.get::<axum::http::request::Parts>().and_then(|parts| parts.extensions.get());
        let Some(Caller { backend, gave_up }) = caller else {
            // Only `serve` leads here, and it always sets the caller.
            tracing::error!(tool = name, "a call without a caller");
            return answer::refused(&Refusal::ConversationClosed);
        };
        let spec = by_tool(name);
        if spec.is_none() {
            return answer::refused(&Refusal::UnknownCommand { name: name.to_owned() });
        }
        self.metrics.tool_call();
        tokio::select! {
            outcome = self.hub.call_tool(backend.clone(), name.to_owned(), arguments) => answer::answer(spec, outcome),
            // Nobody reads this answer; the conversations see that theirs is not awaited any more.
            () = gave_up.cancelled() => answer::refused(&Refusal::ConversationClosed),
        }
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(crate::bridge::SERVICE, env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(list::tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(self.call(&request.name, request.arguments.unwrap_or_default(), &context).await.into())
    }

    /// Requests that fit no type of the protocol. A call whose arguments are no object is one: the agent gets a refusal
    /// that it can read and mend, not a protocol error.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let name = request.params.as_ref().and_then(|params| params.get("name")).and_then(Value::as_str);
        match (request.method.as_str(), name) {
            ("tools/call", Some(name)) => {
                let problem = format!("The arguments of {name} must be one JSON object with the fields of its schema.");
                let refused = answer::refused(&Refusal::BadArguments { problems: vec![problem] });
                let result = serde_json::to_value(refused)
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                Ok(CustomResult::new(result))
            }
            (method, _) => Err(ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None)),
        }
    }
}
