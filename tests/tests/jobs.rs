//! Installations through ComfyUI-Manager: the real daemon, a stand-in ComfyUI whose Manager has a queue and a history, and
//! agents under the test's hand. A job belongs to the conversation that asked for it, and its end is told there once.
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

/// A tab of the ComfyUI and an agent in its first turn. The Manager takes so long for a task.
async fn scene(ms: u32) -> Scene {
    let comfy = Comfy::start(5).await;
    manage(&comfy, &json!({"ms": ms, "fails": ["bad-pack"]})).await;
    let master = PuppetMaster::new().await;
    let home = Home::new("");
    let state = home.scratch().join("acp");
    let (one, two) = (master.agent("one", &state), master.agent("two", &state));
    home.configure(&format!("default_agent = \"one\"\n{one}\n{two}\n"));
    let daemon = home.start().await;
    let mut tab = daemon.connect_from(&comfy.url()).await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    tab.say("m1", "install it").await;
    let mut agent = master.next().await;
    agent.prompt().await;
    Scene { comfy, master, home, daemon, tab, agent }
}

async fn manage(comfy: &Comfy, options: &Value) {
    comfy.post("/fixture", &json!({"manager": options})).await;
}

impl Scene {
    async fn install(&mut self, pack: &str) -> String {
        let answer = self.agent.call("panel_install_node", json!({"id": pack})).await;
        assert_eq!(answer["structured"]["state"], "queued", "{answer}");
        answer["structured"]["job_id"].as_str().unwrap().to_owned()
    }

    async fn status(&mut self) -> Value {
        let answer = self.agent.call("panel_job_status", json!({})).await;
        assert_eq!(answer["is_error"], false, "{answer}");
        answer["structured"]["jobs"].clone()
    }

    async fn end(&mut self) {
        self.agent.end().await;
        self.tab.until(&json!({"type": "turn", "state": "done"})).await;
    }

    async fn told(&mut self) -> Vec<String> {
        self.tab.settle().await;
        let rows = self.tab.all(&json!({"type": "entry", "kind": "event", "event": "job"}));
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

async fn until_done(comfy: &Comfy, id: &str) {
    comfy.until(|state| state["jobs"].as_array().unwrap().iter().any(|known| known == id)).await;
}

#[tokio::test]
async fn f4_the_end_of_an_installation_starts_one_turn_and_says_what_to_do() {
    let mut scene = scene(100).await;
    let (good, bad) = (scene.install("good-pack").await, scene.install("bad-pack").await);
    scene.end().await;
    let first = scene.agent.prompt().await;
    assert!(first.contains(&good) && first.contains("is done") && first.contains("restarted"), "{first}");
    scene.end().await;
    let second = scene.agent.prompt().await;
    assert!(second.contains(&bad) && second.contains("failed: failed. Installation of bad-pack failed"), "{second}");
    scene.end().await;
    assert!(scene.agent.is_quiet().await);
    assert_eq!(scene.told().await.len(), 2);
    scene.daemon.stop().await;
}

#[tokio::test]
async fn report_009_what_goes_on_is_told_as_it_is_or_as_unknown_and_never_as_nothing() {
    let mut scene = scene(60_000).await;
    let ids = [scene.install("one-pack").await, scene.install("two-pack").await];
    // The daemon, the agent's process, and with it its connection to the tools, are others than those that asked.
    scene.daemon.kill().await;
    scene.daemon = scene.home.start().await;
    scene.tab = scene.daemon.connect_from(&scene.comfy.url()).await;
    scene.tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    scene.tab.say("m2", "how far is it?").await;
    scene.agent = scene.master.next().await;
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains("how far is it?") && !prompt.contains("[event] Job"), "{prompt}");
    let jobs = scene.status().await;
    let states: Vec<(&Value, &Value)> =
        jobs.as_array().unwrap().iter().map(|job| (&job["job_id"], &job["state"])).collect();
    let running = json!("running");
    assert_eq!(states, [(&json!(ids[0]), &running), (&json!(ids[1]), &running)]);
    // Nobody can be asked: that is said.
    scene.comfy.stop().await;
    let jobs = scene.status().await;
    assert_eq!(jobs.as_array().unwrap().len(), 2, "{jobs}");
    for job in jobs.as_array().unwrap() {
        assert_eq!(job["state"], "unknown", "{jobs}");
        assert!(job["why"].as_str().unwrap().contains("does not answer"), "{jobs}");
    }
    scene.daemon.stop().await;
}

#[tokio::test]
async fn report_057_the_end_reaches_the_conversation_that_asked_though_its_tab_went_over_to_another() {
    let mut scene = scene(600).await;
    let id = scene.install("good-pack").await;
    scene.end().await;
    scene.tab.send(json!({"type": "set_backend", "backend": "two"})).await;
    scene.tab.say("m2", "hello, two").await;
    let mut two = scene.master.next().await;
    assert_eq!(two.started["name"], "two");
    assert!(two.prompt().await.contains("hello, two"));
    two.end().await;
    until_done(&scene.comfy, &id).await;
    // The first one's agent was retired with its last tab; it is started again for this.
    let mut one = scene.master.next().await;
    assert_eq!(one.started["name"], "one");
    let prompt = one.prompt().await;
    assert!(prompt.contains(&id) && prompt.contains("is done"), "{prompt}");
    one.end().await;
    assert!(two.is_quiet().await, "the other one hears nothing of it");
    scene.daemon.stop().await;
}

#[tokio::test]
async fn d6_an_end_while_the_daemon_is_down_is_told_by_the_next_one_and_once() {
    let mut scene = scene(200).await;
    let id = scene.install("good-pack").await;
    scene.end().await;
    let mut scene = scene.restart_daemon(async |comfy| until_done(comfy, &id).await).await;
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains(&id) && prompt.contains("is done"), "{prompt}");
    scene.end().await;
    // Told and over: another restart tells it to nobody.
    let Scene { master, home, daemon, comfy, .. } = scene;
    daemon.kill().await;
    let daemon = home.start().await;
    let mut tab = daemon.connect_from(&comfy.url()).await;
    tab.hello("tab-1", None, SimpleCanvas::showing("w1")).await;
    assert!(master.nobody_comes().await);
    daemon.stop().await;
}

#[tokio::test]
async fn f4_a_job_that_a_restart_of_comfyui_forgot_ends_as_unknown_once() {
    let mut scene = scene(60_000).await;
    let id = scene.install("good-pack").await;
    let running = scene.status().await;
    assert_eq!(running[0]["state"], "running", "{running}");
    scene.end().await;
    scene.comfy.restart(5).await;
    manage(&scene.comfy, &json!({"ms": 5})).await;
    let prompt = scene.agent.prompt().await;
    assert!(prompt.contains(&id) && prompt.contains("is not known"), "{prompt}");
    scene.end().await;
    assert!(scene.agent.is_quiet().await);
    scene.daemon.stop().await;
}

#[tokio::test]
async fn b1_a_new_chat_does_not_lose_what_is_being_installed() {
    let mut scene = scene(700).await;
    let id = scene.install("good-pack").await;
    scene.end().await;
    scene.tab.send(json!({"type": "new_session"})).await;
    scene.tab.until(&json!({"type": "ack", "kind": "new_session", "ok": true})).await;
    let mut agent = scene.master.next().await;
    let prompt = agent.prompt().await;
    assert!(prompt.contains(&id) && prompt.contains("is done"), "{prompt}");
    agent.end().await;
    scene.daemon.stop().await;
}

#[tokio::test]
async fn what_the_manager_does_not_take_is_refused_with_what_mends_it_and_leaves_nothing_open() {
    let mut scene = scene(100).await;
    let model = json!({"url": "https://models.example/x.safetensors", "filename": "x.safetensors", "type": "lora"});
    let cases = [
        (json!({"ms": 5, "level": "weak"}), "not_allowed", "security_level"),
        (Value::Null, "no_manager", "--enable-manager"),
    ];
    for (options, code, mend) in cases {
        manage(&scene.comfy, &options).await;
        let answer = scene.agent.call("panel_install_model", model.clone()).await;
        assert_eq!(answer["structured"]["refusal"]["failure"], code, "{answer}");
        assert!(answer["text"].as_str().unwrap().contains(mend), "{answer}");
    }
    scene.comfy.stop().await;
    let answer = scene.agent.call("panel_install_model", model.clone()).await;
    assert_eq!(answer["structured"]["refusal"]["failure"], "comfyui_down", "{answer}");
    assert_eq!(scene.status().await, json!([]), "nothing was begun");
    scene.end().await;
    assert_eq!(scene.told().await, Vec::<String>::new());
    scene.daemon.stop().await;
}
