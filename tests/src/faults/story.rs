//! One story: a daemon, two backends, three tabs, work for them, and misfortune; then calm, and the checks.

use super::agents::Agents;
use super::check::{self, Findings};
use super::dice::Dice;
use super::line::Weather;
use super::records::Book;
use super::tab::{ASK_MS, Tab};
use super::victim::{Victim, read_log};
use crate::harness::{Home, programs};
use routing_core::id::MessageId;
use routing_core::panel::PanelInput;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Tabs and their backends.
const TABS: &[(&str, &str)] = &[("a", "one"), ("b", "one"), ("c", "two")];
/// How long the end may take once all is calm.
const SETTLED: Duration = Duration::from_secs(45);
/// After so many looks, 40 ms apart, at which nothing but events waits, the person says something.
const SAID_AGAIN: usize = 60;
/// How long lines may still be rough once all is calm, in milliseconds.
const RAIN_ENDS_MS: u64 = 500;
/// How long an agent may outlive its daemon: its group is asked to end, and killed a second later.
const AGENTS_GONE: Duration = Duration::from_secs(15);

/// What goes wrong, and how much there is to do.
#[derive(Clone, Debug)]
pub struct Story {
    /// Everything else follows from it.
    pub seed: u64,
    /// The daemon is killed so often, at any moment.
    pub kills: usize,
    /// The daemon dies at this point, `name:n`, once.
    pub point: Option<String>,
    /// How rough the lines are.
    pub weather: Weather,
    /// Messages of each tab.
    pub messages: usize,
}

/// What became of a story.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What was violated; empty when all is well.
    pub violations: Vec<String>,
    /// How often the daemon was killed.
    pub kills: usize,
    /// Messages that were sent.
    pub messages: usize,
    /// Connections that panels made.
    pub connections: usize,
    /// Rows in the log at the end.
    pub rows: usize,
    /// What helps to understand a violation: the log, the daemon's words.
    pub details: String,
}

impl Story {
    /// Lets it happen.
    pub async fn play(&self) -> Outcome {
        let mut stage = match Stage::set(self).await {
            Ok(stage) => stage,
            Err(why) => return Outcome { violations: vec![why], ..Outcome::default() },
        };
        let result = stage.play(self).await;
        stage.end(self, result).await
    }
}

struct Stage {
    home: Home,
    book: Book,
    dice: Dice,
    daemon: Option<Victim>,
    address: watch::Sender<super::line::Address>,
    weather: watch::Sender<Weather>,
    tabs: Vec<Tab>,
    kills: usize,
    findings: Findings,
    said: String,
    _agents: Vec<Agents>,
}

impl Stage {
    async fn set(story: &Story) -> Result<Self, String> {
        let (book, dice) = (Book::default(), Dice::new(story.seed));
        let home = Home::new("");
        let mut agents = Vec::new();
        let mut text = "default_agent = \"one\"\n".to_owned();
        for backend in ["one", "two"] {
            let state = home.scratch().join("acp").join(backend);
            let one = Agents::listen(backend, programs(), &state, &dice, book.clone()).await;
            text.push_str(&one.table);
            agents.push(one);
        }
        text.push_str(&format!("[limits]\nhello = 3000\nreconnect = 4000\ncommand = 4000\nask = {ASK_MS}\n"));
        home.configure(&text);
        let address = super::line::Address { port: home.port, token: String::new() };
        let mut stage = Self {
            home,
            book,
            dice,
            daemon: None,
            address: watch::Sender::new(address),
            weather: watch::Sender::new(story.weather),
            tabs: Vec::new(),
            kills: 0,
            findings: Findings::default(),
            said: String::new(),
            _agents: agents,
        };
        let late = story.point.as_deref().is_some_and(|point| point.starts_with("restor"));
        stage.start(story.point.as_deref().filter(|_| !late)).await?;
        for (name, backend) in TABS {
            let tab = Tab::open(
                name,
                backend,
                stage.address.subscribe(),
                stage.weather.subscribe(),
                stage.dice.fork(name),
                stage.book.clone(),
            );
            stage.tabs.push(tab);
        }
        Ok(stage)
    }

    /// Starts the daemon; when it dies at the point before it is up, starts it again.
    async fn start(&mut self, point: Option<&str>) -> Result<(), String> {
        let daemon = match Victim::start(&self.home, point).await? {
            Some(daemon) => daemon,
            None => {
                self.kills += 1;
                self.look_after_kill()?;
                let again = Victim::start(&self.home, None).await?;
                again.ok_or("the daemon died without being told to")?
            }
        };
        self.address.send_replace(daemon.address.clone());
        self.daemon = Some(daemon);
        Ok(())
    }

    async fn play(&mut self, story: &Story) -> Result<(), String> {
        match &story.point {
            Some(point) => self.tour(point).await?,
            None => self.load(story).await?,
        }
        if story.weather != Weather::CALM {
            self.weather.send_replace(Weather::CALM);
            // A line that was dead before is told to be only now.
            self.pause(RAIN_ENDS_MS).await?;
        }
        self.settle().await?;
        self.stop().await?;
        let log = read_log(&self.home, false)?;
        let found = check::at_end(&log, &self.book.open(), self.kills > 0);
        self.findings.0.extend(found.0);
        Ok(())
    }

    /// Messages come from every tab while the daemon is killed at any moment.
    async fn load(&mut self, story: &Story) -> Result<(), String> {
        let mut plan: Vec<(Duration, String, PanelInput)> = Vec::new();
        for tab in &self.tabs {
            let dice = self.dice.fork(&format!("person {}", tab.name));
            let own = person(tab, story.messages, dice).into_iter();
            plan.extend(own.map(|(time, input)| (time, tab.name.clone(), input)));
        }
        plan.sort_by_key(|(time, ..)| *time);
        let mut kills = self.dice.fork("kills");
        let begun = Instant::now();
        let mut kill_at = begun + kills.time(30, 900);
        let mut left = story.kills;
        for (time, tab, input) in plan {
            while left > 0 && kill_at < begun + time {
                tokio::time::sleep_until(kill_at).await;
                self.kill(kills.happens(500)).await?;
                left -= 1;
                kill_at = Instant::now() + kills.time(30, 900);
            }
            tokio::time::sleep_until(begun + time).await;
            self.order(&tab, input);
        }
        for _ in 0..left {
            tokio::time::sleep_until(kill_at).await;
            self.kill(kills.happens(500)).await?;
            kill_at = Instant::now() + kills.time(30, 400);
        }
        Ok(())
    }

    /// Does a bit of everything in a fixed order, while the daemon is to die at a point; then stops it in order.
    async fn tour(&mut self, point: &str) -> Result<(), String> {
        if point.starts_with("restor") {
            self.send("a", "a-0", "slow");
            sleep(Duration::from_millis(150)).await;
            self.send("b", "b-0", "say");
            sleep(Duration::from_millis(60)).await;
            let agents = self.kill_only().await?;
            self.gone(&agents).await?;
            self.start(Some(point)).await?;
        }
        let tour: &[(&str, &str, &str)] = &[
            ("a", "a-1", "say"),
            ("a", "a-2", "add"),
            ("c", "c-1", "run"),
            ("b", "b-1", "run"),
            ("a", "a-3", "ask"),
            ("a", "a-4", "ask-late"),
            ("b", "b-2", "fail"),
        ];
        for (tab, mid, what) in tour {
            self.send(tab, mid, what);
            self.done(tab, mid).await?;
        }
        for on in [true, false] {
            self.order("a", PanelInput::SetBlind { on });
            self.pause(60).await?;
        }
        self.send("a", "a-5", "slow");
        sleep(Duration::from_millis(60)).await;
        self.send("b", "b-3", "say");
        sleep(Duration::from_millis(40)).await;
        self.order("b", PanelInput::Cancel { mid: MessageId::new("b-3") });
        self.done("a", "a-5").await?;
        self.order("a", PanelInput::NewChat);
        self.pause(250).await?;
        self.send("b", "b-4", "say");
        self.done("b", "b-4").await?;
        self.pause(350).await?;
        if self.kills == usize::from(point.starts_with("restor")) {
            // The daemon has not come to it: it must while it stops.
            if let Some(daemon) = &mut self.daemon {
                daemon.ask_to_stop();
                let killed = tokio::time::timeout(Duration::from_secs(20), daemon.gone()).await;
                let killed = killed.map_err(|_| "the daemon does not stop".to_owned())?;
                if !killed {
                    self.findings.0.push(format!("the daemon never came to {point}"));
                }
                self.after_death()?;
            }
            self.start(None).await?;
        }
        Ok(())
    }

    fn order(&self, tab: &str, input: PanelInput) {
        if let Some(tab) = self.tabs.iter().find(|one| one.name == tab) {
            tab.order(input);
        }
    }

    fn send(&self, tab: &str, mid: &str, what: &str) {
        self.order(tab, message(mid, what, false));
    }

    /// Waits until a message of the tour is over at its panel, whatever became of it.
    async fn done(&mut self, tab: &str, mid: &str) -> Result<(), String> {
        let deadline = Instant::now() + SETTLED;
        while Instant::now() < deadline {
            let over =
                self.book.open().tabs.get(tab).and_then(|tab| tab.messages.get(mid)).is_some_and(|state| {
                    state != "Waiting" && state != "Sent" && state != "Accepted" && state != "Seen"
                });
            if over {
                return Ok(());
            }
            self.pause(10).await?;
        }
        Err(format!("{mid} does not come to its end: {}", self.waits()?.join("; ")))
    }

    /// Waits; a daemon that dies meanwhile is looked after and started again.
    async fn pause(&mut self, ms: u64) -> Result<(), String> {
        let until = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < until {
            let Some(daemon) = &mut self.daemon else { return Ok(()) };
            match tokio::time::timeout_at(until, daemon.gone()).await {
                Err(_) => return Ok(()),
                Ok(true) => {
                    self.after_death()?;
                    self.start(None).await?;
                }
                Ok(false) => return Err("the daemon ended by itself".to_owned()),
            }
        }
        Ok(())
    }

    /// Kills the daemon, looks at what it left, and starts it again: at once, or when its agents are gone.
    async fn kill(&mut self, at_once: bool) -> Result<(), String> {
        let agents = self.kill_only().await?;
        if at_once {
            self.start(None).await?;
            return self.gone(&agents).await;
        }
        self.gone(&agents).await?;
        self.start(None).await
    }

    /// Kills the daemon and looks at what it left. Returns the agents that it had.
    async fn kill_only(&mut self) -> Result<BTreeSet<usize>, String> {
        let running = self.book.open().agents.running.clone();
        if let Some(daemon) = &mut self.daemon {
            daemon.kill().await;
        }
        self.after_death()?;
        Ok(running)
    }

    /// Waits until agents of a daemon that was killed are gone.
    async fn gone(&self, agents: &BTreeSet<usize>) -> Result<(), String> {
        let deadline = Instant::now() + AGENTS_GONE;
        loop {
            let left = self.book.open().agents.running.intersection(agents).count();
            if left == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("{left} agents outlived the daemon"));
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn after_death(&mut self) -> Result<(), String> {
        if let Some(daemon) = self.daemon.take() {
            self.said.push_str(&daemon.log());
        }
        self.kills += 1;
        self.look_after_kill()
    }

    fn look_after_kill(&mut self) -> Result<(), String> {
        // First what was seen, then what is written: what comes between can only be written and not seen.
        let records = self.book.open().clone();
        let log = read_log(&self.home, true)?;
        self.findings.0.extend(check::after_kill(&log, &records).0);
        Ok(())
    }

    fn waits(&self) -> Result<Vec<String>, String> {
        let log = read_log(&self.home, false)?;
        Ok(check::unsettled(&log, &self.book.open()))
    }

    /// Waits until nothing is under way any more.
    async fn settle(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + SETTLED;
        let (mut quiet, mut stuck, mut said) = (0, 0, 0);
        while quiet < 3 {
            self.pause(40).await?;
            let log = read_log(&self.home, false)?;
            let waits = check::unsettled(&log, &self.book.open());
            quiet = if waits.is_empty() { quiet + 1 } else { 0 };
            let events = check::waiting_events(&log);
            stuck = if !events.is_empty() && events.len() == waits.len() { stuck + 1 } else { 0 };
            if stuck == SAID_AGAIN {
                // The last turn failed: nothing but the person's next word takes them along.
                said += 1;
                self.say_again(&events, said);
                stuck = 0;
            }
            if Instant::now() > deadline {
                return Err(format!("not settled: {}", waits.join("; ")));
            }
        }
        Ok(())
    }

    fn say_again(&self, backends: &[&str], time: usize) {
        let of = |backend: &str| TABS.iter().find(|(_, of)| *of == backend).map(|(tab, _)| *tab);
        let tabs: BTreeSet<&str> = backends.iter().filter_map(|backend| of(backend)).collect();
        for tab in tabs {
            self.send(tab, &format!("{tab}-again-{time}"), "say");
        }
    }

    async fn stop(&mut self) -> Result<(), String> {
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        daemon.ask_to_stop();
        let ended = tokio::time::timeout(Duration::from_secs(20), daemon.gone()).await;
        let killed = ended.map_err(|_| "the daemon does not stop".to_owned())?;
        let log = daemon.log();
        self.findings.0.extend(log.lines().filter(|line| line.contains(" ERROR ")).map(str::to_owned));
        self.said.push_str(&log);
        if killed { Err("the daemon was killed while it stopped".to_owned()) } else { Ok(()) }
    }

    async fn end(mut self, story: &Story, result: Result<(), String>) -> Outcome {
        if let Err(why) = result {
            self.findings.0.push(why);
        }
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().await;
            self.said.push_str(&daemon.log());
        }
        let log = read_log(&self.home, true).unwrap_or_default();
        let records = self.book.open().clone();
        let mut violations = std::mem::take(&mut self.findings.0);
        violations.sort();
        violations.dedup();
        let mut details = String::new();
        if !violations.is_empty() {
            details.push_str(&format!("{story:?}\n"));
            for row in &log {
                let (backend, seq, kind, settled) = (&row.backend, row.seq, &row.kind, row.settled_by);
                details.push_str(&format!("{backend} {seq} {kind} settled by {settled:?}: {}\n", row.body));
            }
            for (name, tab) in &records.tabs {
                let rows: Vec<u64> = tab.rows.iter().map(|row| row.seq).collect();
                details.push_str(&format!(
                    "tab {name}: {:?}\n  rows {rows:?}\n  notices {:?}\n",
                    tab.messages, tab.notices
                ));
            }
            for (name, tab) in &records.tabs {
                tab.frames.iter().for_each(|frame| details.push_str(&format!("tab {name} at {frame}\n")));
            }
            for given in &records.agents.given {
                details.push_str(&format!("given to {}: {:?}\n", given.backend, given.text));
            }
            for call in &records.agents.calls {
                details.push_str(&format!("call {call:?}\n"));
            }
            details.push_str(&self.said);
        }
        Outcome {
            violations,
            kills: self.kills,
            messages: records.tabs.values().map(|tab| tab.messages.len()).sum(),
            connections: records.tabs.values().map(|tab| tab.connections).sum(),
            rows: log.len(),
            details,
        }
    }
}

fn message(mid: &str, what: &str, now: bool) -> PanelInput {
    PanelInput::Send { mid: MessageId::new(mid), text: format!("«{mid}» {what}"), context: None, now }
}

/// What the person at a tab does, and when.
fn person(tab: &Tab, messages: usize, mut dice: Dice) -> Vec<(Duration, PanelInput)> {
    let mut plan = Vec::new();
    let mut at = Duration::ZERO;
    for number in 1..=messages {
        at += dice.time(5, 220);
        let what = dice.one_of(&["say", "say", "slow", "slow", "add", "run", "run", "ask", "ask-late", "fail"]);
        let mid = format!("{}-{number}", tab.name);
        plan.push((at, message(&mid, what, dice.happens(60))));
        at += dice.time(0, 60);
        if dice.happens(60) {
            plan.push((at, PanelInput::Cancel { mid: MessageId::new(mid) }));
        } else if dice.happens(40) {
            plan.push((at, PanelInput::Stop));
        } else if dice.happens(40) {
            plan.push((at, PanelInput::SendNow));
        } else if dice.happens(20) {
            plan.push((at, PanelInput::NewChat));
        }
    }
    plan
}
