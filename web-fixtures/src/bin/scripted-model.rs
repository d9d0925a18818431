//! A model on loopback that does what the prompt says. For tests and demos only.

use anyhow::Context;
use clap::Parser;
use std::path::PathBuf;
use tokio::net::TcpListener;
use web_fixtures::model::{Recorder, serve_with};

/// Serves Anthropic's `/v1/messages` and OpenAI's `/v1/chat/completions` on 127.0.0.1; the prompt is the script.
#[derive(Debug, Parser)]
struct Arguments {
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// File to append every request to, one JSON object a line.
    #[arg(long)]
    log: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let recorder = match &arguments.log {
        Some(path) => Recorder::with_log(path).with_context(|| format!("cannot write the log {}", path.display()))?,
        None => Recorder::default(),
    };
    let listener = TcpListener::bind(("127.0.0.1", arguments.port))
        .await
        .with_context(|| format!("cannot listen on port {}", arguments.port))?;
    let port = listener.local_addr()?.port();
    announce(port);
    serve_with(listener, recorder).await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the line is how the starter learns the port")]
fn announce(port: u16) {
    println!("{{\"ready\":true,\"port\":{port}}}");
}
