//! A panel as a bare socket: sends what a test says, keeps what comes.

use super::{PATIENCE, QUIET};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A connected panel.
pub struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Everything that came, in order.
    pub seen: Vec<Value>,
    /// Where the next search begins.
    from: usize,
    /// Answers commands by itself, if there is one.
    pub canvas: Option<SimpleCanvas>,
}

/// A canvas that answers every command: it keeps the stamp as our panel does and counts what was written where.
#[derive(Clone, Debug)]
pub struct SimpleCanvas {
    /// The instance in front.
    pub uuid: String,
    /// Its title.
    pub title: String,
    /// Writes that were carried out: instance and command.
    pub writes: Vec<(String, String)>,
    opened: u32,
}

impl SimpleCanvas {
    /// A canvas that shows one unsaved workflow.
    pub fn showing(uuid: &str) -> Self {
        Self { uuid: uuid.to_owned(), title: uuid.to_owned(), writes: Vec::new(), opened: 0 }
    }

    /// What the hello and replies say of it.
    pub fn identity(&self) -> Value {
        let uuid = &self.uuid;
        json!({"uuid": uuid, "handle": format!("tmp:{uuid}"), "title": self.title, "canvas": format!("canvas-{uuid}")})
    }

    fn answer(&mut self, command: &Value) -> Value {
        let cmd = command["cmd"].as_str().unwrap_or_default();
        let rid = &command["rid"];
        let stamp = command["workflow_uuid"].as_str().map(Into::into);
        let path = command.get("path").is_some();
        if let Err(refusal) = routing_core::fence::check(cmd, path, stamp.as_ref(), Some(&self.uuid.as_str().into())) {
            return json!({"rid": rid, "ok": false, "error": refusal.message(), "refusal": refusal.to_wire()});
        }
        let result = match cmd {
            "workflow_list" => {
                let mut entry = self.identity();
                entry["active"] = json!(true);
                json!({"workflows": [entry]})
            }
            "workflow_new" => {
                self.opened += 1;
                self.uuid = format!("{}-new{}", self.uuid, self.opened);
                self.title.clone_from(&self.uuid);
                json!({})
            }
            "graph_run" => {
                self.writes.push((self.uuid.clone(), cmd.to_owned()));
                json!({"queued": true, "prompt_id": format!("prompt-{}", self.writes.len())})
            }
            _ => {
                if routing_core::command::by_cmd(cmd).is_some_and(|spec| !spec.read_only()) {
                    self.writes.push((self.uuid.clone(), cmd.to_owned()));
                }
                json!({"node_id": 7, "text": "an outline"})
            }
        };
        json!({"rid": rid, "ok": true, "result": result, "workflow": self.identity()})
    }
}

impl Client {
    /// Opens a socket with a token.
    pub async fn connect(port: u16, token: &str) -> Self {
        Self::connect_from(port, token, None).await
    }

    /// The same as the relay of a ComfyUI does.
    pub async fn connect_from(port: u16, token: &str, comfyui: Option<&str>) -> Self {
        let mut request = format!("ws://127.0.0.1:{port}/ws").into_client_request().unwrap();
        if let Some(comfyui) = comfyui {
            request.headers_mut().insert("X-ComfyUI-Url", comfyui.parse().unwrap());
        }
        request.headers_mut().insert("Authorization", format!("Bearer {token}").parse().unwrap());
        let (socket, _) = timeout(PATIENCE, tokio_tungstenite::connect_async(request)).await.unwrap().unwrap();
        Self { socket, seen: Vec::new(), from: 0, canvas: None }
    }

    /// Says hello in dialect 1 with a canvas that answers by itself, and waits until it is taken.
    pub async fn hello(&mut self, tab: &str, backend: Option<&str>, canvas: SimpleCanvas) {
        self.hello_with(tab, backend, canvas, json!({})).await;
    }

    /// The same with further fields.
    pub async fn hello_with(&mut self, tab: &str, backend: Option<&str>, canvas: SimpleCanvas, more: Value) {
        let mut hello = json!({"type": "hello", "protocol": 1, "tab_id": tab, "workflow": canvas.identity(), "title": canvas.title});
        if let Some(backend) = backend {
            hello["backend"] = json!(backend);
        }
        for (name, value) in more.as_object().unwrap() {
            hello[name] = value.clone();
        }
        self.canvas = Some(canvas);
        self.send(hello).await;
        self.until(&json!({"type": "models"})).await;
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Sends any text.
    pub async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The person says something.
    pub async fn say(&mut self, mid: &str, text: &str) {
        let uuid = self.canvas.as_ref().map(|canvas| canvas.uuid.clone());
        self.send(json!({"type": "user_message", "mid": mid, "text": text, "workflow_uuid": uuid})).await;
    }

    /// The person brings another workflow to the front by hand.
    pub async fn switch_to(&mut self, tab: &str, uuid: &str) {
        let canvas = self.canvas.as_mut().unwrap();
        uuid.clone_into(&mut canvas.uuid);
        uuid.clone_into(&mut canvas.title);
        let identity = canvas.identity();
        self.send(json!({"type": "hello", "protocol": 1, "tab_id": tab, "workflow": identity, "title": uuid})).await;
        self.until(&json!({"type": "models"})).await;
    }

    /// Waits for a frame that holds all of `pattern`, after the last one that was found. Commands are answered meanwhile.
    pub async fn until(&mut self, pattern: &Value) -> Value {
        loop {
            while self.from < self.seen.len() {
                self.from += 1;
                if holds(&self.seen[self.from - 1], pattern) {
                    return self.seen[self.from - 1].clone();
                }
            }
            let frame = timeout(PATIENCE, self.next()).await;
            match frame {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the socket closed before {pattern}; seen: {}", self.tail()),
                Err(_) => panic!("{pattern} did not come; seen: {}", self.tail()),
            }
        }
    }

    /// Reads whatever comes until nothing does.
    pub async fn settle(&mut self) {
        while let Ok(Some(_)) = timeout(QUIET, self.next()).await {}
    }

    /// Reads one frame; `None` when the socket is closed.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    self.seen.push(frame.clone());
                    if frame.get("cmd").is_some()
                        && let Some(canvas) = &mut self.canvas
                    {
                        let reply = canvas.answer(&frame);
                        self.send(reply).await;
                    }
                    return Some(frame);
                }
                Some(Ok(Message::Close(frame))) => {
                    if let Some(frame) = frame {
                        self.seen.push(json!({"closed": u16::from(frame.code), "reason": frame.reason.as_str()}));
                    }
                    return None;
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Frames so far that hold all of a pattern.
    pub fn all(&self, pattern: &Value) -> Vec<&Value> {
        self.seen.iter().filter(|frame| holds(frame, pattern)).collect()
    }

    /// The canvas.
    pub fn canvas(&self) -> &SimpleCanvas {
        self.canvas.as_ref().unwrap()
    }

    /// Closes the socket.
    pub async fn close(mut self) {
        let _ = self.socket.close(None).await;
    }

    fn tail(&self) -> String {
        let lines: Vec<String> = self.seen.iter().rev().take(25).rev().map(Value::to_string).collect();
        lines.join("\n")
    }
}

/// Whether a value holds all fields of a pattern, to any depth.
fn holds(value: &Value, pattern: &Value) -> bool {
    match (value, pattern) {
        (Value::Object(value), Value::Object(pattern)) => within(value, pattern),
        (value, pattern) => value == pattern,
    }
}

fn within(value: &Map<String, Value>, pattern: &Map<String, Value>) -> bool {
    pattern.iter().all(|(name, wanted)| value.get(name).is_some_and(|found| holds(found, wanted)))
}
