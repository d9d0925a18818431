//! What every driver must do, whatever the agent is. Each function is one test; the driver's file supplies the bench.

use super::bench::{Bench, alive, group, kill};
use orchestrator::agent::StartError;
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::AgentSessionId;
use serde_json::json;
use std::time::{Duration, Instant};

/// Makes a test of each function below. The future gives a bench, and what must live as long as it does.
macro_rules! for_driver {
    ($bench:expr) => {
        suite::for_driver!($bench =>
            streams_an_answer,
            calls_our_tools,
            is_interrupted_and_goes_on,
            resumes_after_a_kill,
            tells_an_unknown_session,
            reports_a_model_error,
            reports_death_in_a_turn,
            close_leaves_no_child,
            dropping_leaves_no_child,
        );
    };
    ($bench:expr => $($name:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let (bench, _beside) = $bench.await;
            let limit = std::time::Duration::from_secs(120);
            tokio::time::timeout(limit, suite::$name(bench)).await.expect("the test is bounded");
        }
    )+};
}
pub(crate) use for_driver;

/// The session is named, text streams, blocks are whole, and the turn ends once.
pub(crate) async fn streams_an_answer(bench: Bench) {
    let mut running = bench.start(None).await;
    let turn = running.turn("@@say a first answer of several words to be streamed@@").await;
    assert_eq!(turn.outcome, TurnOutcome::Completed, "{turn:#?}");
    assert_eq!(turn.texts(), ["a first answer of several words to be streamed"]);
    assert!(turn.events.iter().filter(|event| matches!(event, AgentEvent::Delta { .. })).count() > 1, "{turn:#?}");
    assert!(turn.session().is_some(), "the session has a name");
    turn.check_blocks();
    let second = running.turn("@@say a second@@").await;
    assert_eq!(second.texts(), ["a second"]);
    assert_eq!(second.session(), None, "the name has not changed");
    running.close().await;
}

/// Our tools are called under our bearer, without a question to the person, and named without the agent's prefix.
pub(crate) async fn calls_our_tools(bench: Bench) {
    let mut running = bench.start(None).await;
    let turn = running.turn(r#"@@say before@@ @@tool panel_echo {"text":"hello"}@@ @@say after@@"#).await;
    assert_eq!(turn.outcome, TurnOutcome::Completed, "{turn:#?}");
    assert_eq!(bench.tools.calls(), [("panel_echo".to_owned(), json!({"text": "hello"}))]);
    assert_eq!(turn.tools(), ["panel_echo"]);
    assert_eq!(turn.texts(), ["before", "after"], "{turn:#?}");
    turn.check_blocks();
    running.close().await;
}

/// An interrupt ends the turn soon and leaves the agent usable; without a turn it does nothing.
pub(crate) async fn is_interrupted_and_goes_on(bench: Bench) {
    let mut running = bench.start(None).await;
    running.session.interrupt().await;
    running.prompt("@@slow 30 one two three four five six seven eight nine ten@@").await;
    let events = running.until_text().await;
    let begun = Instant::now();
    running.session.interrupt().await;
    running.session.interrupt().await;
    let turn = running.finish(events).await;
    assert_eq!(turn.outcome, TurnOutcome::Interrupted);
    assert!(begun.elapsed() < Duration::from_secs(8), "it took {:?}", begun.elapsed());
    turn.check_blocks();
    let next = running.turn("@@say still here@@").await;
    assert_eq!((next.outcome.clone(), next.texts()), (TurnOutcome::Completed, vec!["still here"]), "{next:#?}");
    running.close().await;
}

/// A session goes on in a new process after the first was killed, and its past is not reported again.
pub(crate) async fn resumes_after_a_kill(bench: Bench) {
    let mut first = bench.start(None).await;
    let turn = first.turn("@@say of the first process@@").await;
    let session = turn.session().expect("a name");
    kill(first.session.pid().expect("a process"));
    assert!(matches!(first.next().await, AgentEvent::Exited { .. }));
    first.close().await;

    let mut second = bench.start(Some(session.clone())).await;
    let turn = second.turn("@@say of the second process@@").await;
    assert_eq!(turn.outcome, TurnOutcome::Completed, "{turn:#?}");
    assert_eq!(turn.texts(), ["of the second process"]);
    assert_eq!(turn.session(), Some(session));
    turn.check_blocks();
    second.close().await;
}

/// A session that the agent does not know is told by the start, and nothing is left running.
pub(crate) async fn tells_an_unknown_session(bench: Bench) {
    for unknown in ["11111111-2222-4333-8444-555555555555", "no uuid at all"] {
        let id = AgentSessionId::from(unknown);
        match bench.try_start(Some(id.clone())).await {
            Err(StartError::UnknownSession(told)) => assert_eq!(told, id),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it resumed {unknown}"),
        }
    }
}

/// A refusal of the model's service is a failed turn with words for the person, and no text of the agent.
pub(crate) async fn reports_a_model_error(bench: Bench) {
    let mut running = bench.start(None).await;
    let turn = running.turn("@@error 400@@").await;
    let (code, message) = turn.failure().expect("a failure");
    assert_eq!(code, "model_error");
    assert!(message.contains("400") && message.contains("new chat"), "{message}");
    assert!(turn.texts().is_empty(), "{turn:#?}");
    let next = running.turn("@@say recovered@@").await;
    assert_eq!(next.texts(), ["recovered"], "{next:#?}");
    running.close().await;
}

/// A process that dies in a turn fails that turn; text that had come is kept, and later prompts fail at once.
pub(crate) async fn reports_death_in_a_turn(bench: Bench) {
    let mut running = bench.start(None).await;
    let pid = running.session.pid().expect("a process");
    running.prompt("@@slow 30 one two three four five six seven eight nine ten@@").await;
    let events = running.until_text().await;
    kill(pid);
    let turn = running.finish(events).await;
    assert_eq!(turn.failure().expect("a failure").0, "exited");
    turn.check_blocks();
    let next = running.turn("@@say too late@@").await;
    assert_eq!(next.failure().expect("a failure").0, "exited");
    running.close().await;
}

/// Closing in the middle of a turn ends the process and its children within the promised time.
pub(crate) async fn close_leaves_no_child(bench: Bench) {
    let mut running = bench.start(None).await;
    let pid = running.session.pid().expect("a process");
    running.prompt("@@slow 30 one two three four five six seven eight nine ten@@").await;
    running.until_text().await;
    assert!(alive(pid));
    let begun = Instant::now();
    running.close().await;
    assert!(begun.elapsed() < Duration::from_secs(6), "it took {:?}", begun.elapsed());
    assert_eq!(group(pid), Vec::<u32>::new());
}

/// A session that is dropped without a word ends all the same.
pub(crate) async fn dropping_leaves_no_child(bench: Bench) {
    let running = bench.start(None).await;
    let pid = running.session.pid().expect("a process");
    assert!(alive(pid));
    drop(running);
    for _ in 0..300 {
        if group(pid).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("still there: {:?}", group(pid));
}
