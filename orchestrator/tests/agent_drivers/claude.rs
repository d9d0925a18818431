//! The Claude driver against the real Claude CLI on a scripted model.
use crate::bench::{Bench, alive};
use crate::{claude_program, suite};
use orchestrator::agent::{AgentConfig, AgentKind, StartError};
use routing_core::agent::{AgentEvent, TurnOutcome};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use web_fixtures::model::RunningModel;

fn config(model: &str) -> AgentConfig {
    let mut config = AgentConfig::new(AgentKind::Claude);
    config.command = vec![claude_program().to_str().unwrap().into()];
    config.model = Some("claude-sonnet-4-5".into());
    let environment = [
        ("ANTHROPIC_BASE_URL", model),
        ("ANTHROPIC_AUTH_TOKEN", "token-of-the-test"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ("DISABLE_AUTOUPDATER", "1"),
    ];
    config.env = environment.map(|(name, value)| (name.into(), value.into())).into();
    config
}

async fn bench() -> (Bench, RunningModel) {
    let model = RunningModel::start().await.unwrap();
    (Bench::new(config(&model.url())).await, model)
}

suite::for_driver!(bench());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_session_remembers() {
    let (bench, _model) = bench().await;
    let mut first = bench.start(None).await;
    let turn = first.turn(r#"@@tool panel_echo {"text":"the word is heron"}@@ @@say noted@@"#).await;
    let session = turn.session().unwrap();
    first.close().await;
    let mut second = bench.start(Some(session)).await;
    second.turn(r#"@@tool panel_echo {"text":"$last:/text"}@@ @@say done@@"#).await;
    let calls = bench.tools.calls();
    assert!(calls[1].1["text"].as_str().unwrap().contains("heron"), "{calls:?}");
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_a_session_goes_back_to_a_point_and_the_old_one_stays() {
    const RECALL: &str = r#"@@tool panel_echo {"text":"$last:/text"}@@ @@say done@@"#;
    let (bench, _model) = bench().await;
    let mut first = bench.start(None).await;
    let turn = first.turn(r#"@@tool panel_echo {"text":"the word is heron"}@@ @@say noted@@"#).await;
    let (session, anchor) = (turn.session().unwrap(), turn.anchor.clone().unwrap());
    first.turn(r#"@@tool panel_echo {"text":"the word is stork"}@@ @@say noted@@"#).await;
    first.close().await;

    let mut second = bench.start_at(session.clone(), &anchor).await.unwrap();
    let turn = second.turn(RECALL).await;
    let recalled = bench.tools.calls()[2].1["text"].as_str().unwrap().to_owned();
    assert!(recalled.contains("heron") && !recalled.contains("stork"), "{recalled}");
    let forked = turn.session().unwrap();
    assert_ne!(forked, session, "it goes on under another name");
    second.close().await;

    let mut old = bench.start(Some(session)).await;
    old.turn(RECALL).await;
    let recalled = bench.tools.calls()[3].1["text"].as_str().unwrap().to_owned();
    assert!(recalled.contains("stork"), "{recalled}");
    old.close().await;
    match bench.start_at(forked.clone(), "11111111-2222-4333-8444-555555555555").await {
        Err(StartError::UnknownSession(told)) => assert_eq!(told, forked, "a point that is not there"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it went to a point that is not there"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_and_a_point_to_rewind_to_are_told() {
    let (bench, _model) = bench().await;
    let backend = bench.backend();
    let mut running = bench.start_backend(&*backend, None, Duration::from_secs(30)).await.unwrap();
    let turn = running.turn("@@say hello@@").await;
    assert!(turn.anchor.is_some());
    let usage = turn.events.iter().find_map(|event| match event {
        AgentEvent::Usage { used, window, model, .. } => Some((used.is_some(), *window, model.clone())),
        _ => None,
    });
    assert_eq!(usage, Some((true, Some(200_000), Some("claude-sonnet-4-5".into()))));
    assert!(backend.models().contains(&"sonnet".to_owned()), "the CLI tells its models when it starts");
    running.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agents_own_shell_is_off_unless_allowed() {
    const SCRIPT: &str = r#"@@tool Bash {"command":"touch made-by-shell","description":"make a file"}@@ @@say done@@"#;
    let (mut bench, _model) = bench().await;
    let made = bench.scratch.path().join("work/made-by-shell");
    let mut running = bench.start(None).await;
    let turn = running.turn(SCRIPT).await;
    assert_eq!(turn.outcome, TurnOutcome::Completed, "{turn:#?}");
    assert!(!made.exists());
    running.close().await;

    bench.config.allow_tools = vec!["Bash".into()];
    let mut running = bench.start(None).await;
    let turn = running.turn(SCRIPT).await;
    assert_eq!(turn.tools(), ["Bash"]);
    assert!(made.exists(), "{turn:#?}");
    running.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_looks_like_a_command_reaches_the_model() {
    let (bench, _model) = bench().await;
    let mut running = bench.start(None).await;
    let turn = running.turn("/clear @@say not cleared@@").await;
    assert_eq!(turn.texts(), ["not cleared"], "{turn:#?}");
    running.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_signed_in_is_told_by_probe_and_start() {
    let (mut bench, _model) = bench().await;
    bench.config.env.remove("ANTHROPIC_AUTH_TOKEN");
    let readiness = bench.backend().probe().await;
    assert!(readiness.found && readiness.version.is_some(), "{readiness:?}");
    assert_eq!(readiness.signed_in, Some(false));
    assert!(readiness.mend.unwrap().contains("/login"));
    match bench.try_start(None).await {
        Err(StartError::NotSignedIn { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started without a login"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_of_a_ready_cli_says_so_and_a_missing_one_how_to_mend_it() {
    let (mut bench, _model) = bench().await;
    let readiness = bench.backend().probe().await;
    assert_eq!((readiness.found, readiness.signed_in, readiness.mend), (true, Some(true), None));
    bench.config.command = vec!["no-such-program-anywhere".into()];
    let readiness = bench.backend().probe().await;
    assert!(!readiness.found && readiness.mend.unwrap().contains("npm install -g @anthropic-ai/claude-code"));
    assert!(matches!(bench.try_start(None).await, Err(StartError::NotFound { .. })));
}

/// A stand-in for the CLI where the real one cannot be made to misbehave.
async fn stand_in(script: &str) -> Bench {
    let mut bench = Bench::new(AgentConfig::new(AgentKind::Claude)).await;
    let path: PathBuf = bench.scratch.path().join("claude");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    bench.config.command = vec![path.to_str().unwrap().into()];
    bench
}

const ANSWER: &str = r#"read -r _; echo '{"type":"control_response","response":{"subtype":"success","request_id":"initialize","response":{}}}'"#;

#[tokio::test]
async fn garbage_between_messages_is_skipped() {
    let bench = stand_in(&format!(
        r#"echo 'warning: something'; {ANSWER}; echo '{{"type":'; read -r _; echo garbage; printf '\377\376\n'; echo '[]'
        echo '{{"type":"assistant","uuid":"u","message":{{"content":[{{"type":"text","text":"heard"}}]}}}}'
        echo '{{"type":"from_the_future"}}'; echo '{{"type":"result","terminal_reason":"completed"}}'; read -r _"#
    ))
    .await;
    let mut running = bench.start(None).await;
    let turn = running.turn("hello").await;
    assert_eq!((turn.outcome.clone(), turn.texts()), (TurnOutcome::Completed, vec!["heard"]));
    running.close().await;
}

#[tokio::test]
async fn a_cli_that_ends_while_starting_is_told_with_its_last_words() {
    let bench = stand_in("echo 'the disk is full' >&2; exit 3").await;
    match bench.try_start(None).await {
        Err(StartError::Exited { reason, .. }) => assert!(reason.contains('3') && reason.contains("disk"), "{reason}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    }
}

#[tokio::test]
async fn a_cli_that_never_answers_is_given_up_at_the_deadline_and_ended() {
    let bench = stand_in(r#"echo $$ > "$HOME/pid"; trap '' TERM; while :; do sleep 1; done"#).await;
    let begun = std::time::Instant::now();
    match bench.start_within(None, Duration::from_secs(1)).await {
        Err(StartError::Timeout { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    }
    assert!(begun.elapsed() < Duration::from_secs(7));
    let pid = std::fs::read_to_string(bench.scratch.path().join("home/pid")).unwrap();
    assert!(!alive(pid.trim().parse().unwrap()));
}

#[tokio::test]
async fn a_turn_that_ignores_its_interrupt_is_ended_with_its_process() {
    let bench = stand_in(&format!("{ANSWER}; trap '' TERM; while :; do sleep 1; done")).await;
    let mut running = bench.start(None).await;
    let pid = running.session.pid().unwrap();
    running.prompt("hello").await;
    running.session.interrupt().await;
    let turn = running.finish(Vec::new()).await;
    assert_eq!(turn.outcome, TurnOutcome::Interrupted);
    assert!(matches!(running.next().await, AgentEvent::Exited { .. }));
    assert!(!alive(pid));
    running.close().await;
}
