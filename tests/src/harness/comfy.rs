//! The stand-in ComfyUI as a process, and requests to it.

use super::PATIENCE;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A running stand-in.
pub struct Comfy {
    child: Child,
    /// Kept until it ends.
    _folder: tempfile::TempDir,
    /// Its port.
    pub port: u16,
}

impl Comfy {
    /// Starts one whose nodes take so long, on a free port.
    pub async fn start(step_ms: u32) -> Self {
        Self::start_at(0, step_ms).await
    }

    async fn start_at(port: u16, step_ms: u32) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let tools = std::env::var_os("COMFY_TOOLS").map_or_else(|| root.join("target/tools"), PathBuf::from);
        let folder = tempfile::tempdir().expect("a scratch folder");
        std::fs::write(folder.path().join("index.html"), "").unwrap();
        let mut child = Command::new(std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()))
            .arg(root.join("web-fixtures/comfy_server.py"))
            .args(["--port", &port.to_string(), "--step-ms", &step_ms.to_string(), "--static"])
            .arg(folder.path())
            .arg("--user")
            .arg(folder.path().join("user"))
            .env("PYTHONPATH", tools.join("python"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python runs");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.expect("ready in time").unwrap().expect("it says ready");
        let ready: Value = serde_json::from_str(&line).unwrap();
        let port = ready["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        Self { child, _folder: folder, port }
    }

    /// Its address, as a relay or a page names it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends it and starts another one at the same address: queue and history are gone, as with the real one.
    pub async fn restart(&mut self, step_ms: u32) {
        self.stop().await;
        *self = Self::start_at(self.port, step_ms).await;
    }

    /// Ends it.
    pub async fn stop(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Queues a small workflow, as a page with this client id does; returns the prompt id.
    pub async fn queue(&self, color: u32, client: Option<&str>) -> String {
        let prompt = json!({
            "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": color}},
            "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "x"}},
            "3": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
        });
        let answer = self.post("/prompt", &json!({"prompt": prompt, "client_id": client})).await;
        answer["prompt_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// What the stand-in has seen.
    pub async fn state(&self) -> Value {
        self.request("GET", "/fixture", "").await
    }

    /// Waits until the stand-in's state is as wanted.
    pub async fn until(&self, wanted: impl Fn(&Value) -> bool) {
        let waiting = async {
            while !wanted(&self.state().await) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("ComfyUI gets there");
    }

    /// Waits until a run is over.
    pub async fn until_over(&self, id: &str) {
        self.until(|state| state["history"].as_array().unwrap().iter().any(|known| known == id)).await;
    }

    /// Sends a JSON body; an answer without one is null.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        self.request("POST", path, &body.to_string()).await
    }

    async fn request(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }
}
