//! A bridge on a free port whose conversations are the test itself, and clients that say exactly what a test wants.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a panic is the failure of a test, and not every test uses every part"
)]

use async_trait::async_trait;
use futures_util::{SinkExt, StreamExt};
use orchestrator::bridge::{self, Bridge, Parts, ReplayFailed, ReplayPage, ReplaySource};
use orchestrator::config::{Config, Environment, Flags};
use orchestrator::hub::{Hub, SocketSender, ToHub};
use orchestrator::store::home::{Home, HomeChoice, Surroundings, TokenFile};
use orchestrator::tools::Handles;
use routing_core::id::{ConversationKey, Seq, SocketId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tokio_util::sync::CancellationToken;

/// The page that is paired in every test.
pub(crate) const PAIRED: &str = "http://127.0.0.1:8188";
/// The page that needs no token in every test.
pub(crate) const LEGACY: &str = "http://localhost:8199";
/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Rig {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) token_file: Arc<TokenFile>,
    pub(crate) handles: Arc<Handles>,
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) to_hub: mpsc::Receiver<ToHub>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) server: JoinHandle<()>,
    folder: tempfile::TempDir,
}

/// Rows 1 to 450 as texts; reading from 900 on fails.
struct Rows;

#[async_trait]
impl ReplaySource for Rows {
    async fn page(
        &self,
        _: &ConversationKey,
        after: Seq,
        upto: Seq,
        _: bool,
        limit: usize,
    ) -> Result<ReplayPage, ReplayFailed> {
        if after.0 >= 900 {
            return Err(ReplayFailed { reason: "the disk is gone".into() });
        }
        let rows: Vec<u64> = (after.0 + 1..=upto.0.min(450)).take(limit).collect();
        // Row 100 is one that no panel sees.
        let frames = rows.iter().filter(|row| **row != 100).map(|row| format!("row {row}").into()).collect();
        Ok(ReplayPage { frames, last: rows.last().map(|row| Seq(*row)) })
    }
}

pub(crate) async fn rig(limits: &str) -> Rig {
    rig_with_pings(limits, bridge::PING_EVERY).await
}

pub(crate) async fn rig_with_pings(limits: &str, ping_every: Duration) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let surroundings = Surroundings { user_folder: None, under_test: true };
    let home = Home::prepare(&HomeChoice::Given(folder.path().join("home")), &surroundings).unwrap();
    let token_file = Arc::new(TokenFile::open(&home).unwrap());
    let text =
        format!("[server]\nport = 0\norigins = ['{PAIRED}']\nlegacy_panels = ['{LEGACY}']\n[limits]\n{limits}\n");
    std::fs::write(home.root().join("config.toml"), text).unwrap();
    let config = Config::load(&Flags::default(), home.root(), &Environment::of([])).unwrap();
    let listener = bridge::bind(&config.server).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (hub, to_hub) = Hub::new(64);
    let handles = Arc::new(Handles::new(address));
    let parts = Parts {
        server: &config.server,
        limits: config.limits,
        address,
        token: token_file.clone(),
        epoch: "epoch-of-this-test".into(),
        hub,
        handles: handles.clone(),
        replay: Arc::new(Rows),
    };
    let bridge = Bridge::with_pings(parts, ping_every);
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(bridge::serve(listener, bridge.clone(), shutdown.clone()));
    let token = token_file.current().unwrap().expose().to_owned();
    Rig { address, token, token_file, handles, bridge, to_hub, shutdown, server, folder }
}

/// The answer to a raw request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// `code` of a JSON body; empty without one.
    pub(crate) fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["code"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

impl Rig {
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.address.port())
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// Sends these bytes and reads what comes back until the head and body are there.
    pub(crate) async fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        timeout(PATIENCE, async {
            let mut piece = [0; 4096];
            loop {
                let read = stream.read(&mut piece).await.unwrap_or(0);
                all.extend_from_slice(&piece[..read]);
                if read == 0 || is_whole(&String::from_utf8_lossy(&all)) {
                    return;
                }
            }
        })
        .await
        .unwrap();
        let text = String::from_utf8_lossy(&all).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A plain request; a line `Host:` among the headers takes the place of the right one.
    pub(crate) async fn request(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> Answer {
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("Host: {}\r\n", self.host());
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        self.raw(&format!("{text}\r\n")).await
    }

    /// A request for a socket, as raw as [`Rig::request`].
    pub(crate) async fn ask_for_socket(&self, target: &str, headers: &[(&str, &str)]) -> Answer {
        let mut all = vec![
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        all.extend_from_slice(headers);
        self.request("GET", target, &all).await
    }

    /// Opens a socket with these headers.
    pub(crate) async fn open(&self, target: &str, headers: &[(&str, &str)]) -> Result<(Client, Response), Error> {
        let mut request = format!("ws://{}{target}", self.host()).into_client_request().unwrap();
        for (name, value) in headers {
            let name: tokio_tungstenite::tungstenite::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        tokio_tungstenite::connect_async(request).await
    }

    /// Opens a socket as a native client, and gives the way to it that the conversations got.
    pub(crate) async fn panel(&mut self) -> (Client, SocketId, SocketSender) {
        let bearer = self.bearer();
        let (client, _) = self.open("/ws", &[("authorization", &bearer)]).await.unwrap();
        match self.next().await {
            ToHub::SocketOpened { socket, out, .. } => (client, socket, out),
            other => panic!("{other:?}"),
        }
    }

    /// What comes to the conversations next.
    pub(crate) async fn next(&mut self) -> ToHub {
        timeout(PATIENCE, self.to_hub.recv()).await.unwrap().unwrap()
    }

    /// Nothing has come to the conversations.
    pub(crate) fn nothing_came(&mut self) -> bool {
        self.to_hub.try_recv().is_err()
    }

    /// The value of a line of the metrics.
    pub(crate) fn counted(&self, line: &str) -> u64 {
        let text = self.bridge.metrics().text();
        let found = text.lines().find_map(|shown| shown.strip_prefix(&format!("comfy_orchestrator_{line} ")));
        found.unwrap_or_else(|| panic!("{line} is not in {text}")).parse().unwrap()
    }

    /// Stops the server.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        timeout(PATIENCE, self.server).await.unwrap().unwrap();
    }
}

fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// The next text; panics at anything else.
pub(crate) async fn text(client: &mut Client) -> String {
    match timeout(PATIENCE, client.next()).await.unwrap().unwrap().unwrap() {
        Message::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The code and reason of the close that comes next.
pub(crate) async fn closed(client: &mut Client) -> (u16, String) {
    match timeout(PATIENCE, client.next()).await.unwrap().unwrap().unwrap() {
        Message::Close(Some(frame)) => (frame.code.into(), frame.reason.to_string()),
        other => panic!("{other:?}"),
    }
}

/// Sends a message.
pub(crate) async fn send(client: &mut Client, message: Message) {
    timeout(PATIENCE, client.send(message)).await.unwrap().unwrap();
}
