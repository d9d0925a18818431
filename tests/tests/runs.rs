//! Renders: the real daemon, a stand-in ComfyUI with queue, history and socket, panels that may say nothing, and agents
//! under the test's hand. Each run is told once, with its outputs, whoever noticed its end.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use serde_json::{Value, json};
use tests_e2e::harness::{Client, Comfy, Daemon, Home, Puppet, PuppetMaster, SimpleCanvas};

struct Scene {
    comfy: Comfy,
    master: PuppetMaster,
    home: Home,
    daemon: Daemon,
    tab: Client,
    agent: Puppet,
}

/// A tab that came from the ComfyUI, and an agent in its first turn.
async fn scene(step_ms: u32) -> Scene {
    let comfy = Comfy::start(step_ms).await;
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let agent = master.agent("one", &home.scratch().join("acp"));
    home.configure(&format!("default_agent = \"one\"\n{agent}\n"));
    let daemon = home.start().await;
    let mut tab = daemon.connect_from(&comfy.url()).await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "render it").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    Scene { comfy, master, home, daemon, tab, agent }
}

impl Scene {
    /// The agent queues runs; the page hands them to ComfyUI under its own client id and says which they are.
    async fn queue(&mut self, colors: &[u32]) -> Vec<String> {
        let mut ids = Vec::new();
        for color in colors {
            ids.push(self.comfy.queue(*color, Some("the-page")).await);
        }
        self.ticket(json!({"queued": true, "prompt_ids": ids})).await;
        ids
    }

    /// The agent calls `panel_run`, and the page answers so.
    async fn ticket(&mut self, result: Value) -> Value {
        let canvas = self.tab.canvas.take().unwrap();
        let call = self.agent.begin("panel_run", json!({})).await;
        let command = self.tab.until(&json!({"cmd": "graph_run"})).await;
        let identity = canvas.identity();
        self.tab.canvas = Some(canvas);
        self.tab.send(json!({"rid": command["rid"], "ok": true, "result": result, "workflow": identity})).await;
        self.agent.result(&call).await
    }

    async fn end(&mut self) {
        self.agent.end().await;
        self.tab.until(&json!({"type": "turn", "state": "done"})).await;
    }

    /// Completions that stand in the log so far.
    async fn told(&mut self) -> Vec<String> {
        self.tab.settle().await;
        let rows = self.tab.all(&json!({"type": "entry", "kind": "event", "event": "run"}));
        rows.iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
    }

    /// Kills the daemon, lets something happen, and starts it again.
    async fn restart_daemon(self, meanwhile: impl AsyncFnOnce(&mut Comfy)) -> Scene {
        let Self { mut comfy, master, home, daemon, tab: _, agent: _ } = self;
        daemon.kill().await;
        meanwhile(&mut comfy).await;
        let daemon = home.start().await;
        let mut tab = daemon.connect_from(&comfy.url()).await;
        tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
        let agent = master.next().await;
        Scene { comfy, master, home, daemon, tab, agent }
    }
}

fn ended(id: &str) -> Value {
    json!({"type": "agent_event", "kind": "executed", "prompt_id": id, "run_status": "success"})
}

#[tokio::test]
async fn report_046_a_render_is_told_with_its_outputs_although_the_panel_says_nothing() {
    let mut scene = scene(30).await;
    let ids = scene.queue(&[1]).await;
    scene.end().await;
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains(&ids[0]) && prompt.contains("ended: success"), "{prompt}");
    assert!(prompt.contains("Outputs: fixture_00000_2_.png (output)."), "{prompt}");
    assert!(prompt.contains("Previews, not kept: fixture_00000_3_.png (temp)."), "{prompt}");
    scene.end().await;
    // The panel's own word comes late, and twice.
    scene.tab.send(ended(&ids[0])).await;
    scene.tab.send(ended(&ids[0])).await;
    scene.tab.until(&json!({"type": "ack", "kind": "completion", "ours": true})).await;
    assert_eq!(scene.told().await.len(), 1);
    assert!(scene.agent.is_quiet().await, "once");
    // Nothing is watched without a ticket.
    scene.comfy.until(|state| state["clients"] == json!([])).await;
    scene.daemon.stop().await;
}

#[tokio::test]
async fn f3_a_render_that_ended_before_its_ticket_was_open_is_told() {
    let mut scene = scene(1).await;
    let id = scene.comfy.queue(1, Some("the-page")).await;
    scene.comfy.until_over(&id).await;
    let queued = scene.ticket(json!({"queued": true, "prompt_id": id})).await;
    assert_eq!(queued["structured"]["prompt_id"], json!(id));
    scene.end().await;
    assert!(scene.agent.prompt().await.contains("fixture_00000_2_.png"));
    scene.daemon.stop().await;
}

#[tokio::test]
async fn report_051_each_run_of_a_batch_is_told_although_the_socket_drops_in_between() {
    let mut scene = scene(150).await;
    let ids = scene.queue(&[1, 2, 3]).await;
    scene.end().await;
    let first = scene.agent.prompt().await;
    assert!(first.contains(&ids[0]), "{first}");
    scene.comfy.post("/fixture", &json!({"drop_sockets_ms": 400})).await;
    scene.comfy.until_over(&ids[2]).await;
    scene.end().await;
    let mut rest = scene.agent.prompt().await;
    if !(rest.contains(&ids[1]) && rest.contains(&ids[2])) {
        scene.end().await;
        rest.push_str(&scene.agent.prompt().await);
    }
    assert!(rest.contains(&ids[1]) && rest.contains(&ids[2]), "{rest}");
    scene.end().await;
    assert_eq!(scene.told().await.len(), 3);
    scene.daemon.stop().await;
}

#[tokio::test]
async fn f3_a_failure_and_a_stop_name_their_node() {
    let mut scene = scene(40).await;
    scene.comfy.post("/fixture", &json!({"failing_class": "EmptyImage"})).await;
    scene.queue(&[1]).await;
    scene.end().await;
    let failed = scene.agent.prompt().await;
    assert!(failed.contains("ended: error at node #1 (EmptyImage): fixture failure."), "{failed}");
    scene.comfy.post("/fixture", &json!({"failing_class": null, "step_ms": 5_000})).await;
    let id = scene.queue(&[2]).await.remove(0);
    scene.comfy.until(|state| state["running"] == json!(id)).await;
    scene.comfy.post("/interrupt", &json!({"prompt_id": id})).await;
    scene.end().await;
    let stopped = scene.agent.prompt().await;
    assert!(stopped.contains("ended: interrupted at node #1 (EmptyImage)."), "{stopped}");
    scene.daemon.stop().await;
}

#[tokio::test]
async fn f3_a_run_whose_nodes_are_all_cached_has_its_outputs() {
    let mut scene = scene(5).await;
    scene.comfy.post("/fixture", &json!({"caches": true})).await;
    scene.queue(&[7]).await;
    scene.end().await;
    assert!(scene.agent.prompt().await.contains("fixture_00000_2_.png"));
    let id = scene.queue(&[7]).await.remove(0);
    scene.end().await;
    let again = scene.agent.prompt().await;
    assert!(again.contains(&id) && again.contains("fixture_00000_2_.png"), "{again}");
    scene.daemon.stop().await;
}

#[tokio::test]
async fn report_052_a_render_that_ends_while_the_daemon_is_down_is_told_by_the_next_one() {
    let mut scene = scene(100).await;
    let id = scene.queue(&[1]).await.remove(0);
    scene.end().await;
    let over = id.clone();
    let mut scene = scene.restart_daemon(async |comfy: &mut Comfy| comfy.until_over(&over).await).await;
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains(&id) && prompt.contains("fixture_00000_2_.png"), "{prompt}");
    scene.end().await;
    assert_eq!(scene.told().await.len(), 1);
    scene.daemon.stop().await;
}

#[tokio::test]
async fn d6_a_completion_whose_turn_a_crash_cut_off_is_told_once_more_and_not_a_third_time() {
    let mut scene = scene(5).await;
    let id = scene.queue(&[1]).await.remove(0);
    scene.end().await;
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains(&id) && !prompt.contains("[Repeated"), "{prompt}");
    let mut scene = scene.restart_daemon(async |_: &mut Comfy| {}).await;
    let again = scene.agent.prompt().await;
    assert!(again.contains(&id) && again.contains("[Repeated"), "{again}");
    let Scene { comfy, master, home, daemon, .. } = scene;
    daemon.kill().await;
    let daemon = home.start().await;
    let mut tab = daemon.connect_from(&comfy.url()).await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.send(ended(&id)).await;
    tab.settle().await;
    assert!(master.nobody_comes().await, "it starts no turn after turn");
    assert_eq!(tab.all(&json!({"type": "entry", "kind": "event"})).len(), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn d6_a_completion_whose_turn_the_stop_of_the_daemon_cut_off_goes_on() {
    let mut scene = scene(5).await;
    let id = scene.queue(&[1]).await.remove(0);
    scene.end().await;
    assert!(scene.agent.prompt().await.contains(&id));
    scene.daemon.stop().await;
    let daemon = scene.home.start().await;
    let mut agent = scene.master.next().await;
    let prompt = agent.prompt().await;
    assert!(prompt.contains(&id) && prompt.contains("[Repeated"), "{prompt}");
    daemon.stop().await;
}

#[tokio::test]
async fn report_050_a_completion_in_a_stopped_turn_goes_along_with_the_next_message() {
    let mut scene = scene(5).await;
    let id = scene.queue(&[1]).await.remove(0);
    scene.end().await;
    assert!(scene.agent.prompt().await.contains(&id));
    scene.tab.send(json!({"type": "interrupt"})).await;
    scene.agent.event("cancelled").await;
    scene.tab.until(&json!({"type": "turn", "state": "done"})).await;
    // Another connection of the same tab, and the panel tells again what its history says.
    let mut tab = scene.daemon.connect_from(&scene.comfy.url()).await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.send(ended(&id)).await;
    tab.settle().await;
    scene.tab = tab;
    assert!(scene.agent.is_quiet().await, "stopped is stopped");
    scene.tab.say("m2", "go on").await;
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains("go on") && prompt.contains("[Repeated") && prompt.contains(&id), "{prompt}");
    scene.end().await;
    assert!(scene.agent.is_quiet().await);
    scene.daemon.stop().await;
}

#[tokio::test]
async fn a_run_that_comfyui_lost_is_told_as_unknown_once() {
    let mut scene = scene(60_000).await;
    let id = scene.queue(&[1]).await.remove(0);
    scene.end().await;
    scene.comfy.until(|state| state["clients"] != json!([])).await;
    let waiting = scene.agent.is_quiet().await;
    assert!(waiting, "it runs");
    scene.comfy.restart(5).await;
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains(&id) && prompt.contains("is not known"), "{prompt}");
    scene.end().await;
    assert_eq!(scene.told().await.len(), 1);
    assert!(scene.agent.is_quiet().await);
    scene.daemon.stop().await;
}

#[tokio::test]
async fn panel_run_status_tells_what_comfyui_says_and_starts_no_turn_for_it() {
    let mut scene = scene(400).await;
    let ids = scene.queue(&[1, 2]).await;
    scene.comfy.until(|state| state["running"] == json!(ids[0])).await;
    let one = |status: &Value, id: &str| {
        let runs = status["structured"]["runs"].as_array().unwrap_or_else(|| panic!("{status}")).clone();
        runs.into_iter().find(|run| run["prompt_id"] == id).unwrap()
    };
    let status = scene.agent.call("panel_run_status", json!({})).await;
    assert_eq!(one(&status, &ids[0])["state"], "running", "{status}");
    assert_eq!((&one(&status, &ids[1])["state"], &one(&status, &ids[1])["ahead"]), (&json!("queued"), &json!(1)));
    scene.comfy.post("/queue", &json!({"delete": [ids[1]]})).await;
    scene.comfy.until_over(&ids[0]).await;
    let status = scene.agent.call("panel_run_status", json!({"prompt_id": ids[0]})).await;
    let done = one(&status, &ids[0]);
    assert_eq!((&done["state"], &done["outputs"][0]["filename"]), (&json!("done"), &json!("fixture_00000_2_.png")));
    let status = scene.agent.call("panel_run_status", json!({"prompt_id": "nobody/../s"})).await;
    assert_eq!(one(&status, "nobody/../s")["state"], "unknown");
    scene.end().await;
    // What was asked for needs no turn; that the other one was taken out of the queue does.
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains(&ids[1]) && prompt.contains("is not known") && !prompt.contains(&ids[0]), "{prompt}");
    scene.end().await;
    assert!(scene.agent.is_quiet().await);
    scene.daemon.stop().await;
}

#[tokio::test]
async fn report_046_a_comfyui_that_does_not_answer_holds_no_panel_up() {
    let mut scene = scene(5).await;
    scene.comfy.stop().await;
    scene.ticket(json!({"queued": true, "prompt_id": "p1"})).await;
    let status = scene.agent.call("panel_run_status", json!({"prompt_id": "p1"})).await;
    let run = &status["structured"]["runs"][0];
    assert_eq!(run["state"], "unknown", "{status}");
    assert!(run["why"].as_str().unwrap().contains("does not answer"), "{status}");
    scene.end().await;
    let mut told = ended("p1");
    told["images"] = json!([{"filename": "a.png", "subfolder": "", "type": "output"}]);
    scene.tab.send(told).await;
    assert!(scene.agent.prompt().await.contains("Outputs: a.png (output)."));
    scene.daemon.stop().await;
}

#[tokio::test]
async fn report_053_a_run_without_a_prompt_id_is_no_success() {
    let mut scene = scene(5).await;
    let answer = scene.ticket(json!({"queued": true})).await;
    assert_eq!(
        (&answer["is_error"], &answer["structured"]["refusal"]["code"]),
        (&json!(true), &json!("unknown_outcome"))
    );
    let answer = scene.ticket(json!({"error": "nothing to run"})).await;
    assert_eq!((&answer["is_error"], &answer["text"]), (&json!(true), &json!("nothing to run")));
    scene.end().await;
    scene.daemon.stop().await;
}

#[tokio::test]
async fn report_054_a_run_that_was_refused_promises_nothing() {
    let mut scene = scene(5).await;
    let mismatch = json!({"code": "workflow_instance_mismatch", "stamped": "w1", "active": {"uuid": "w2", "handle": "tmp:w2", "title": "other"}});
    let answers = [
        json!({"error": "ComfyUI refused to run this: #5 KSampler: model is missing"}),
        json!({"refusal": {"code": "failed", "failure": "rejected", "message": "#5 KSampler: model is missing"}}),
        json!({"refusal": mismatch}),
        json!({"queued": true}),
    ];
    for failed in answers {
        let canvas = scene.tab.canvas.take().unwrap();
        let call = scene.agent.begin("panel_run", json!({})).await;
        let command = scene.tab.until(&json!({"cmd": "graph_run"})).await;
        let mut reply =
            json!({"rid": command["rid"], "ok": failed.get("queued").is_some(), "workflow": canvas.identity()});
        match (failed.get("refusal"), failed.get("error")) {
            (Some(refusal), _) => reply["refusal"] = refusal.clone(),
            (None, Some(error)) => reply["error"] = error.clone(),
            (None, None) => reply["result"] = failed.clone(),
        }
        scene.tab.canvas = Some(canvas);
        scene.tab.send(reply).await;
        let answer = scene.agent.result(&call).await;
        let text = answer["text"].as_str().unwrap().to_lowercase();
        assert_eq!(answer["is_error"], true, "{failed}: {answer}");
        assert!(answer["structured"]["refusal"]["code"].is_string(), "{failed}: {answer}");
        for promise in ["told when", "notified", "has been queued", "was queued", "prompt_id"] {
            assert!(!text.contains(promise), "{failed}: {answer}");
        }
    }
    let status = scene.agent.call("panel_run_status", json!({})).await;
    assert_eq!(status["structured"]["runs"], json!([]), "nothing waits for an end: {status}");
    scene.end().await;
    assert_eq!(scene.told().await, Vec::<String>::new());
    scene.daemon.stop().await;
}
