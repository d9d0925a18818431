//! The ACP driver against the scripted agent.
use crate::bench::Bench;
use crate::{scripted_acp, suite};
use orchestrator::agent::{AgentConfig, AgentKind, StartError};
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::AgentSessionId;
use std::time::Duration;

async fn bench_with(flags: &[&str]) -> Bench {
    let mut bench = Bench::new(AgentConfig::new(AgentKind::Acp)).await;
    let state = bench.scratch.path().join("state");
    let mut command = vec![scripted_acp().to_str().unwrap(), "--state", state.to_str().unwrap()];
    command.extend(flags);
    bench.config.command = command.into_iter().map(str::to_owned).collect();
    bench
}

suite::for_driver!(async { (bench_with(&[]).await, ()) });

#[tokio::test]
async fn an_agent_that_cannot_load_begins_afresh_and_says_its_new_name() {
    let bench = bench_with(&["--no-load"]).await;
    let old = AgentSessionId::from("11111111-2222-4333-8444-555555555555");
    let mut running = bench.start(Some(old.clone())).await;
    let turn = running.turn("@@say hello@@").await;
    assert_ne!(turn.session().expect("a name"), old);
    running.close().await;
}

#[tokio::test]
async fn permission_is_refused_once_unless_the_kind_of_tool_is_allowed() {
    let mut bench = bench_with(&[]).await;
    let mut running = bench.start(None).await;
    // A title alone is the agent's or the model's word for something to execute, whatever it says.
    for name in ["Bash", "mcp__panel__panel_run"] {
        let turn = running.turn(&format!("@@permission {name}@@")).await;
        assert_eq!(turn.texts(), [format!("permission {name}: reject_once")]);
        let told = turn.events.iter().any(|event| matches!(event, AgentEvent::Notice { text } if text.contains(name)));
        assert!(told, "a refusal is told to the person");
    }
    running.close().await;

    bench.config.allow_tools = vec!["execute".into()];
    let mut running = bench.start(None).await;
    let turn = running.turn("@@permission Bash@@").await;
    assert_eq!(turn.texts(), ["permission Bash: allow_once"]);
    running.close().await;
}

#[tokio::test]
async fn garbage_between_messages_is_skipped() {
    let bench = bench_with(&[]).await;
    let mut running = bench.start(None).await;
    let turn = running.turn("@@garbage@@ @@say heard@@").await;
    assert_eq!((turn.outcome.clone(), turn.texts()), (TurnOutcome::Completed, vec!["heard"]));
    running.close().await;
}

#[tokio::test]
async fn an_exit_in_a_turn_fails_it() {
    let bench = bench_with(&["--exit-in-turn"]).await;
    let mut running = bench.start(None).await;
    let turn = running.turn("hello").await;
    assert_eq!(turn.failure().expect("a failure").0, "exited");
    turn.check_blocks();
    running.close().await;
}

#[tokio::test]
async fn a_turn_that_ignores_its_interrupt_is_ended_with_its_process() {
    let bench = bench_with(&[]).await;
    let mut running = bench.start(None).await;
    running.prompt("@@say listening@@ @@silence@@").await;
    let events = running.until_text().await;
    running.session.interrupt().await;
    let turn = running.finish(events).await;
    assert_eq!(turn.outcome, TurnOutcome::Interrupted);
    assert_eq!(turn.texts(), ["listening"]);
    assert!(matches!(running.next().await, AgentEvent::Exited { .. }));
    running.close().await;
}

#[tokio::test]
async fn starts_that_fail_are_told_apart() {
    let bench = bench_with(&["--fail-start"]).await;
    match bench.try_start(None).await {
        Err(StartError::Exited { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    }
    for (method, at) in [("initialize", "answering the handshake"), ("session/new", "opening a session")] {
        let bench = bench_with(&["--hang", method]).await;
        match bench.start_within(None, Duration::from_secs(1)).await {
            Err(StartError::Timeout { stage, .. }) => assert!(stage.starts_with(at), "{stage}"),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it started"),
        }
    }
    let mut bench = bench_with(&[]).await;
    bench.config.command = vec!["no-such-program-anywhere".into()];
    let readiness = bench.backend().probe().await;
    assert!(!readiness.found && readiness.mend.unwrap().contains("[agents.tested]"));
    assert!(matches!(bench.try_start(None).await, Err(StartError::NotFound { .. })));
}

/// An agent that answers the handshake with these abilities and nothing else.
async fn stand_in(answers: &[&str]) -> Bench {
    let mut bench = Bench::new(AgentConfig::new(AgentKind::Acp)).await;
    let script: String = answers.iter().map(|answer| format!("read -r _; echo '{answer}'; ")).collect();
    bench.config.command = vec!["/bin/sh".into(), "-c".into(), format!("{script} read -r _")];
    bench
}

const INTRODUCTION: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}},"authMethods":[{"id":"x","name":"X","description":"Run `x login`"}]}}"#;

#[tokio::test]
async fn an_agent_without_tools_over_http_or_a_login_cannot_start() {
    let bench = stand_in(&[r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#]).await;
    match bench.try_start(None).await {
        Err(StartError::Protocol { reason, .. }) => assert!(reason.contains("mcpCapabilities.http"), "{reason}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    }
    let refusal = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Authentication required"}}"#;
    let bench = stand_in(&[INTRODUCTION, refusal]).await;
    match bench.try_start(None).await {
        Err(StartError::NotSignedIn { mend, .. }) => assert!(mend.contains("x login"), "{mend}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started"),
    }
}

#[tokio::test]
async fn a_mode_that_asks_is_chosen_where_offered() {
    let session = r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","modes":{"currentModeId":"auto","availableModes":[{"id":"auto"},{"id":"default"}]},"configOptions":[{"id":"m","category":"model","currentValue":"big","options":[{"value":"big"},{"value":"small"}]}]}}"#;
    let refusal = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no such mode"}}"#;
    let bench = stand_in(&[INTRODUCTION, session, refusal]).await;
    match bench.try_start(None).await {
        Err(StartError::Protocol { reason, .. }) => assert!(reason.contains("mode default"), "{reason}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it started in a mode that asks nobody"),
    }
    let accepted = r#"{"jsonrpc":"2.0","id":3,"result":{}}"#;
    let bench = stand_in(&[INTRODUCTION, session, accepted]).await;
    let backend = bench.backend();
    let running = bench.start_backend(&*backend, None, Duration::from_secs(10)).await.unwrap();
    assert_eq!(backend.models(), ["big", "small"]);
    running.close().await;
}
