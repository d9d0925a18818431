//! The configuration: what wins over what, and how mistakes are told.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use super::*;
use std::fs;
use std::time::Duration;

fn load_with(text: &str, flags: Flags, environment: &Environment) -> Result<Config, ConfigError> {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("config.toml"), text).unwrap();
    Config::load(&flags, home.path(), environment)
}

fn load(text: &str) -> Result<Config, ConfigError> {
    load_with(text, Flags::default(), &Environment::of([]))
}

/// The mistake, without the folder that the file lies in.
fn mistake(text: &str) -> (String, &'static str) {
    let error = load(text).unwrap_err();
    let shown = error.to_string();
    let from = shown.find("config.toml").unwrap();
    (shown[from..].to_owned(), error.code())
}

#[test]
fn without_a_file_the_usual_holds() {
    let home = tempfile::tempdir().unwrap();
    let config = Config::load(&Flags::default(), home.path(), &Environment::of([])).unwrap();
    assert_eq!(config.agents.keys().collect::<Vec<_>>(), ["claude", "demo"]);
    assert_eq!(config.default_agent, "demo");
    assert_eq!((config.server.port, config.server.bind.to_string().as_str()), (9101, "127.0.0.1"));
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.source, None);
}

#[cfg(unix)]
#[test]
fn claude_is_the_default_when_it_is_there() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("claude");
    fs::write(&program, "").unwrap();
    let environment = Environment::of([("PATH", folder.path().to_str().unwrap())]);
    assert_eq!(load_with("", Flags::default(), &environment).unwrap().default_agent, "demo", "no program yet");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(load_with("", Flags::default(), &environment).unwrap().default_agent, "claude");
}

#[test]
fn flags_win_over_environment_and_that_over_the_file() {
    let file =
        "[server]\nport = 1\ncomfyui = 'http://file:1'\n[agents.one]\nkind = 'demo'\n[agents.two]\nkind = 'demo'\n";
    let environment = Environment::of([("COMFYUI_MCP_BRIDGE_PORT", "2"), ("COMFYUI_URL", "http://environment:2/")]);
    let config = load(file).unwrap();
    assert_eq!((config.server.port, config.server.comfyui.unwrap().as_str()), (1, "http://file:1"));
    let config = load_with(file, Flags::default(), &environment).unwrap();
    assert_eq!((config.server.port, config.server.comfyui.unwrap().as_str()), (2, "http://environment:2"));
    let flags = Flags {
        port: Some(0),
        comfyui: Some("http://flag:3".into()),
        agent: Some("two".into()),
        legacy_panels: vec!["http://127.0.0.1:8188".into()],
        config: None,
    };
    let config = load_with(file, flags, &environment).unwrap();
    assert_eq!((config.server.port, config.server.comfyui.unwrap().as_str()), (0, "http://flag:3"));
    assert_eq!(config.default_agent, "two");
    assert_eq!(config.server.legacy_panels, [Origin::parse("http://127.0.0.1:8188").unwrap()]);
}

#[test]
fn the_model_variable_is_for_claude_alone() {
    let file =
        "[agents.a]\nkind = 'claude'\nmodel = 'small'\n[agents.b]\nkind = 'acp'\ncommand = ['x']\nmodel = 'other'\n";
    let environment = Environment::of([("COMFYUI_MCP_PANEL_MODEL", "large")]);
    let config = load_with(file, Flags::default(), &environment).unwrap();
    assert_eq!(config.agents["a"].model.as_deref(), Some("large"));
    assert_eq!(config.agents["b"].model.as_deref(), Some("other"));
    let unset = Environment::of([("COMFYUI_MCP_PANEL_MODEL", "")]);
    assert_eq!(load_with(file, Flags::default(), &unset).unwrap().agents["a"].model.as_deref(), Some("small"));
}

#[test]
fn every_section_is_read() {
    let config = load(
        "default_agent = 'gemini'\n[agents.gemini]\nkind = 'acp'\ncommand = ['gemini', '--acp']\n\
         [server]\nbind = '::1'\nallowed_hosts = ['comfy.lan:9101']\norigins = ['http://127.0.0.1:8188/']\n\
         [limits]\nhello = 50\nsockets = 2\nframe_bytes = 4096\n",
    )
    .unwrap();
    assert_eq!(config.default_agent, "gemini");
    assert_eq!(config.server.bind.to_string(), "::1");
    assert_eq!(config.server.origins[0].as_str(), "http://127.0.0.1:8188");
    assert_eq!(config.limits.hello, Duration::from_millis(50));
    assert_eq!((config.limits.sockets, config.limits.frame_bytes, config.limits.backlog), (2, 4096, 1000));
}

#[test]
fn mistakes_name_file_line_column_key_and_the_right_one() {
    for (text, said, code) in [
        (
            "[server]\nprot = 1",
            "config.toml:2:1: there is no key `prot` in [server]; did you mean `port`?",
            "config_unknown_key",
        ),
        (
            "[limits]\n  stal = 1",
            "config.toml:2:3: there is no key `stal` in [limits]; did you mean `stall`?",
            "config_unknown_key",
        ),
        (
            "port = 1",
            "config.toml:1:1: there is no key `port` in the top level; did you mean `port` in [server]?",
            "config_unknown_key",
        ),
        (
            "[agents.a]\nkind = 'demo'\ncomand = 'x'",
            "config.toml:3:1: there is no key `comand` in [agents.a]; did you mean `command`?",
            "config_unknown_key",
        ),
        ("[limits]\nqqq = 1", "config.toml:2:1: there is no key `qqq` in [limits]", "config_unknown_key"),
        (
            "default_agent = 'dmo'",
            "config.toml:1:17: `default_agent`: there is no agent `dmo`; did you mean `demo`?",
            "config_value",
        ),
    ] {
        assert_eq!(mistake(text), (said.to_owned(), code));
    }
    for (text, start, code) in [
        ("x = [1", "config.toml:1:", "config_syntax"),
        ("[server]\nport = 'x'", "config.toml:2:8: `server.port`: ", "config_value"),
        ("[server]\norigins = ['null']", "config.toml:2:11: `server.origins`: ", "config_value"),
        ("[limits]\nhello = 0", "config.toml:2:9: `limits.hello`: ", "config_value"),
        ("[limits]\nframe_bytes = 7", "config.toml:2:15: `limits.frame_bytes`: it must be from ", "config_value"),
        ("[agents.A]\nkind = 'demo'", "config.toml:1:9: `agents.A`: a name has ", "config_value"),
        ("[agents.a]\nkind = 'other'", "config.toml:2:8: `agents.a.kind`: ", "config_value"),
        (
            "[agents.a]\nkind = 'acp'",
            "config.toml:1:1: `agents.a`: an agent of kind \"acp\" needs command",
            "config_value",
        ),
    ] {
        let (said, found) = mistake(text);
        assert!(said.starts_with(start), "{said} does not start with {start}");
        assert_eq!(found, code, "{said}");
    }
}

#[test]
fn mistakes_outside_the_file_name_their_place() {
    let wrong = Environment::of([("COMFYUI_MCP_BRIDGE_PORT", "nine")]);
    let error = load_with("", Flags::default(), &wrong).unwrap_err();
    assert_eq!(error.code(), "environment_value");
    assert!(error.to_string().contains("COMFYUI_MCP_BRIDGE_PORT"), "{error}");
    let error =
        load_with("", Flags { agent: Some("Claud".into()), ..Flags::default() }, &Environment::of([])).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("flag_value", "--agent: there is no agent `Claud`; did you mean `claude`?")
    );
    let missing = Flags { config: Some("nowhere.toml".into()), ..Flags::default() };
    assert_eq!(load_with("", missing, &Environment::of([])).unwrap_err().code(), "config_missing");
}

#[test]
fn the_lists_of_keys_are_those_that_are_read() {
    // serde lists the keys it knows when it meets one that it does not: the hints must not lag behind.
    fn known<T: serde::de::DeserializeOwned>(required: &str) -> Vec<String> {
        let said = toml::from_str::<T>(&format!("{required}\nno_such_key = 1")).err().unwrap().message().to_owned();
        said.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }
    assert_eq!(known::<AgentConfig>("kind = 'demo'"), file::AGENT_KEYS);
    assert_eq!(known::<limits::Table>(""), limits::Table::KEYS);
    assert_eq!(known::<file::Server>(""), file::SERVER_KEYS);
}
