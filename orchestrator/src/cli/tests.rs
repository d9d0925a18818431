//! The command line: what is read, what is printed, and that no secret is.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use super::*;
use crate::agent::{AgentConfig, AgentSession, Launch, StartError};
use crate::config::Environment;
use crate::store::home::{Home, Surroundings};
use async_trait::async_trait;

fn read(arguments: &[&str]) -> Result<Cli, Ended> {
    Cli::read(std::iter::once("comfy-orchestrator").chain(arguments.iter().copied()).map(OsString::from))
}

#[test]
fn flags_stand_before_and_after_the_command() {
    let cli =
        read(&["--home", "h", "serve", "--port", "0", "--json", "--comfyui", "http://c:1", "--agent", "demo"]).unwrap();
    assert_eq!(cli.home_choice(), HomeChoice::Given("h".into()));
    assert!(cli.json);
    let flags = cli.flags();
    assert_eq!(
        (flags.port, flags.comfyui.as_deref(), flags.agent.as_deref()),
        (Some(0), Some("http://c:1"), Some("demo"))
    );
    let cli =
        read(&["serve", "--config", "c.toml", "--legacy-panel", "http://a:1", "--legacy-panel", "http://b:1"]).unwrap();
    assert_eq!(cli.flags().legacy_panels, ["http://a:1", "http://b:1"]);
    assert_eq!(cli.flags().config, Some("c.toml".into()));
    assert!(matches!(read(&["token", "show-path"]).unwrap().command, Command::Token(TokenCommand::ShowPath)));
}

#[test]
fn a_mistake_is_one_json_line_when_json_is_asked_for() {
    let ended = read(&["serve", "--prot", "1", "--json"]).unwrap_err();
    assert_eq!((ended.code, ended.err.as_str(), ended.out.lines().count()), (2, "", 1));
    let said: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&said["ready"], &said["code"]), (&json!(false), &json!("usage")));
    assert!(said["message"].as_str().unwrap().contains("--port"), "{said}");
    let ended = read(&["serve", "--prot", "1"]).unwrap_err();
    assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    assert!(ended.err.contains("--port"), "{}", ended.err);
}

#[test]
fn help_teaches_with_examples_and_is_no_mistake() {
    let ended = read(&["--help"]).unwrap_err();
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    for wanted in ["Examples:", "serve --port 0 --json", "COMFYUI_MCP_BRIDGE_PORT", "--home <FOLDER>"] {
        assert!(ended.out.contains(wanted), "{wanted} is not in {}", ended.out);
    }
    assert_eq!(read(&["--version"]).unwrap_err().code, 0);
}

fn home_in(folder: &tempfile::TempDir) -> Home {
    let surroundings = Surroundings { user_folder: None, under_test: true };
    Home::prepare(&HomeChoice::Given(folder.path().join("home")), &surroundings).unwrap()
}

#[test]
fn the_token_is_rotated_and_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::open(&home_in(&folder)).unwrap();
    let before = file.current().unwrap().expose().to_owned();
    let shown = token(TokenCommand::ShowPath, &file, false).unwrap();
    assert_eq!(shown.trim(), file.path().display().to_string());
    let rotated = token(TokenCommand::Rotate, &file, true).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&rotated).unwrap()["rotated"], true);
    let after = file.current().unwrap().expose().to_owned();
    assert_ne!(before, after);
    assert!(!rotated.contains(&after) && !rotated.contains(&before));
}

struct Fake(Readiness);

#[async_trait]
impl AgentBackend for Fake {
    async fn probe(&self) -> Readiness {
        self.0.clone()
    }

    fn models(&self) -> Vec<String> {
        Vec::new()
    }

    async fn start(&self, _: Launch) -> Result<Box<dyn AgentSession>, StartError> {
        Err(StartError::Exited { program: "fake".into(), reason: "never starts".into() })
    }
}

fn fake(name: &str, _: &AgentConfig) -> Arc<dyn AgentBackend> {
    let found = name == "demo";
    let mend = (!found).then(|| "install it".to_owned());
    Arc::new(Fake(Readiness { found, signed_in: None, version: None, mend }))
}

#[tokio::test]
async fn agents_are_listed_the_default_first() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::load(&Flags::default(), folder.path(), &Environment::of([])).unwrap();
    assert_eq!(agents(&config, false, fake).await, "demo (default): found\nclaude: install it\n");
    let listed: Value = serde_json::from_str(&agents(&config, true, fake).await).unwrap();
    assert_eq!(listed["agents"][0]["name"], "demo");
    assert_eq!(listed["agents"][0]["default"], true);
    assert_eq!(listed["agents"][1]["readiness"]["mend"], "install it");
}

#[tokio::test]
async fn doctor_names_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let cli = read(&["--home", home.to_str().unwrap(), "doctor", "--port", &port]).unwrap();
    let surroundings = Surroundings { user_folder: None, under_test: true };
    let checks = doctor(&cli, &surroundings, &Environment::of([]), fake).await;
    let states: Vec<(&str, bool)> = checks.iter().map(|check| (check.name.as_str(), check.ok)).collect();
    let expected = [
        ("home", true),
        ("token", true),
        ("configuration", true),
        ("daemon", false),
        ("agent claude", true),
        ("agent demo", true),
    ];
    assert_eq!(states, expected);
    assert!(!home.join("token").exists(), "a look makes no token");
    std::fs::write(
        home.join("config.toml"),
        "default_agent = 'demo'\n[agents.demo]\nkind = 'demo'\n[agents.claude]\nkind = 'claude'\n",
    )
    .unwrap();
    let checks = doctor(&cli, &surroundings, &Environment::of([]), fake).await;
    let claude = checks.iter().find(|check| check.name == "agent claude");
    assert_eq!(claude.map(|check| check.ok), Some(false), "the person wants it");
    std::fs::write(home.join("config.toml"), "port = 1").unwrap();
    let checks = doctor(&cli, &surroundings, &Environment::of([]), fake).await;
    assert_eq!(checks.last().map(|check| (check.name.as_str(), check.ok)), Some(("configuration", false)));
}
