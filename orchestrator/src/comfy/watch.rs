//! The watch over the open runs of one ComfyUI: one socket, and a look at queue and history whenever something may have
//! changed. It tells changes only.

use super::Report;
use super::api::{Api, ApiError};
use super::manager;
use super::read::{self, Frame};
use futures_util::{SinkExt, StreamExt};
use routing_core::id::PromptId;
use routing_core::run::{Ending, File, Sight, files_of};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// How long several changes are gathered into one look.
const GATHER: Duration = Duration::from_millis(40);
/// Between two looks there is so many times what the last one took: a long queue is a long answer.
const REST: u32 = 4;
/// Files of one run that are kept until it ends.
const MOST_FILES: usize = 500;
/// How long a connect may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Between attempts to connect, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// A connection that lasted so long was a good one: the next attempt comes soon.
const STEADY: Duration = Duration::from_secs(10);
/// A socket that says nothing is asked whether it is there, and let go when it does not answer.
const ALIVE: Duration = Duration::from_secs(30);
/// The Manager tells only whoever asked for a job that it goes on, and after a restart that was somebody else: while jobs are
/// open they are looked at as often.
const LOOK_AT_JOBS: Duration = Duration::from_secs(5);
/// Longest frame that is read; pictures are sent to the page that queued, not to us.
const MOST_BYTES: usize = 16 << 20;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A running watch. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    open: BTreeSet<PromptId>,
    orders: mpsc::UnboundedSender<Change>,
}

#[derive(Debug)]
enum Change {
    Add(PromptId, bool),
    Remove(PromptId),
}

impl Watch {
    /// `client`: the name under which its socket is opened.
    pub(super) fn begin(comfyui: String, client: String, reporter: mpsc::UnboundedSender<Report>) -> Self {
        let (orders, changes) = mpsc::unbounded_channel();
        let watcher = Watcher { comfyui, client, reporter, changes, runs: BTreeMap::new(), down: false };
        tokio::spawn(watcher.run());
        Self { open: BTreeSet::new(), orders }
    }

    pub(super) fn add(&mut self, id: PromptId, job: bool) {
        self.open.insert(id.clone());
        let _ = self.orders.send(Change::Add(id, job));
    }

    /// Returns whether nothing is left to watch.
    pub(super) fn remove(&mut self, id: &PromptId) -> bool {
        self.open.remove(id);
        let _ = self.orders.send(Change::Remove(id.clone()));
        self.open.is_empty()
    }
}

/// What is known of one run.
#[derive(Debug, Default)]
struct Known {
    /// The last that was told.
    told: Option<Sight>,
    /// Its end as the socket told it, until the history does.
    heard: Option<Ending>,
    /// Outputs that the socket told.
    made: Vec<File>,
    /// It is a job of the Manager.
    job: bool,
}

struct Watcher {
    comfyui: String,
    client: String,
    reporter: mpsc::UnboundedSender<Report>,
    changes: mpsc::UnboundedReceiver<Change>,
    runs: BTreeMap<PromptId, Known>,
    down: bool,
}

/// There is nothing left to watch.
struct Over;

impl Watcher {
    async fn run(mut self) {
        let api = match Api::new(&self.comfyui) {
            Ok(api) => api,
            Err(error) => return self.useless(&error).await,
        };
        let address = api.socket(&self.client);
        let config = WebSocketConfig::default().max_message_size(Some(MOST_BYTES)).max_frame_size(Some(MOST_BYTES));
        let mut pause = RETRY.0;
        loop {
            let begun = Instant::now();
            let connecting = timeout(CONNECT, connect_async_with_config(&address, Some(config), false));
            let ended = match connecting.await {
                Ok(Ok((socket, _))) => self.listen(&api, socket).await,
                // Its socket may be barred where its answers are not.
                Ok(Err(_)) | Err(_) => self.look(&api).await,
            };
            if begun.elapsed() > STEADY {
                pause = RETRY.0;
            }
            if ended.is_err() || self.wait(pause).await.is_err() {
                return;
            }
            pause = (pause * 2).min(RETRY.1);
        }
    }

    /// Nothing can be asked there: told once, and again for whoever is added.
    async fn useless(&mut self, error: &ApiError) {
        tracing::warn!(comfyui = %self.comfyui, %error, "runs there are followed by their panels only");
        self.tell_down(error);
        while self.changes.recv().await.is_some() {}
    }

    /// While the socket is up.
    async fn listen(&mut self, api: &Api, mut socket: Socket) -> Result<(), Over> {
        let mut look_at = Some(Instant::now());
        let mut rested_at = Instant::now();
        let mut heard_at = Instant::now();
        let mut asked = false;
        loop {
            let look = async {
                match look_at {
                    Some(at) => sleep_until(at.max(rested_at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                change = self.changes.recv() => {
                    if self.change(change)? {
                        look_at.get_or_insert_with(Instant::now);
                    }
                }
                message = socket.next() => {
                    heard_at = Instant::now();
                    asked = false;
                    match message {
                        Some(Ok(Message::Text(text))) => {
                            if self.hear(&read::frame(text.as_str())) {
                                look_at.get_or_insert_with(|| Instant::now() + GATHER);
                            }
                        }
                        Some(Ok(Message::Close(_)) | Err(_)) | None => {
                            // It may only have been this socket.
                            return Ok(());
                        }
                        Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                    }
                }
                () = look => {
                    look_at = None;
                    let begun = Instant::now();
                    self.look(api).await?;
                    rested_at = Instant::now() + begun.elapsed() * REST;
                }
                () = sleep_until(rested_at + LOOK_AT_JOBS), if look_at.is_none() && self.runs.values().any(|one| one.job) => {
                    look_at = Some(Instant::now());
                }
                () = sleep_until(heard_at + ALIVE) => {
                    if asked || socket.send(Message::Ping(Vec::new().into())).await.is_err() {
                        return Ok(());
                    }
                    asked = true;
                    heard_at = Instant::now();
                }
            }
        }
    }

    /// Between attempts. Whoever is added is looked for at once.
    async fn wait(&mut self, pause: Duration) -> Result<(), Over> {
        let until = Instant::now() + pause;
        loop {
            tokio::select! {
                biased;
                change = self.changes.recv() => {
                    if self.change(change)? {
                        return Ok(());
                    }
                }
                () = sleep_until(until) => return Ok(()),
            }
        }
    }

    /// Returns whether there is something new to look for.
    fn change(&mut self, change: Option<Change>) -> Result<bool, Over> {
        match change {
            Some(Change::Add(id, job)) => {
                self.runs.entry(id).or_default().job = job;
                Ok(true)
            }
            Some(Change::Remove(id)) => {
                self.runs.remove(&id);
                Ok(false)
            }
            None => Err(Over),
        }
    }

    /// Returns whether a look may tell more.
    fn hear(&mut self, frame: &Frame) -> bool {
        match frame {
            Frame::QueueChanged => true,
            Frame::Ended(id, ending) => match self.runs.get_mut(id) {
                Some(known) => {
                    let mut ending = ending.clone();
                    ending.add(known.made.iter().cloned());
                    known.heard = Some(ending);
                    true
                }
                None => false,
            },
            Frame::NodeDone(id, output) => {
                if let Some(known) = self.runs.get_mut(id) {
                    known.made.extend(files_of(output));
                    known.made.truncate(MOST_FILES);
                }
                false
            }
            Frame::Running(id, progress) => {
                if self.runs.contains_key(id) {
                    self.tell(vec![(id.clone(), Sight::Running { progress: progress.clone() })]);
                }
                false
            }
            Frame::Other => false,
        }
    }

    async fn look(&mut self, api: &Api) -> Result<(), Over> {
        while let Ok(change) = self.changes.try_recv() {
            self.change(Some(change))?;
        }
        let of_kind = |job: bool| {
            let those = self.runs.iter().filter(|(_, known)| known.job == job);
            those.map(|(id, _)| id.clone()).collect::<Vec<_>>()
        };
        let (prompts, jobs) = (of_kind(false), of_kind(true));
        match look_at_all(api, &prompts, &jobs).await {
            Ok(seen) => {
                let seen = seen.into_iter().map(|(id, sight)| {
                    let heard = self.runs.get(&id).and_then(|known| known.heard.clone());
                    match (sight, heard) {
                        // The history was emptied; the socket told how it ended.
                        (Sight::Absent, Some(ending)) => (id, Sight::Ended(ending)),
                        (sight, _) => (id, sight),
                    }
                });
                let seen = seen.collect();
                self.tell(seen);
            }
            Err(error) => self.tell_down(&error),
        }
        Ok(())
    }

    fn tell(&mut self, seen: Vec<(PromptId, Sight)>) {
        let mut changed = Vec::new();
        for (id, sight) in seen {
            let Some(known) = self.runs.get_mut(&id) else { continue };
            // A look says less of a run at work than the socket does.
            let less =
                matches!(sight, Sight::Running { progress: None }) && matches!(known.told, Some(Sight::Running { .. }));
            if !less && known.told.as_ref() != Some(&sight) {
                known.told = Some(sight.clone());
                changed.push((id, sight));
            }
        }
        if self.down || !changed.is_empty() {
            self.down = false;
            let _ = self.reporter.send(Report::Seen { comfyui: self.comfyui.clone(), call: None, seen: Ok(changed) });
        }
    }

    fn tell_down(&mut self, error: &ApiError) {
        if !std::mem::replace(&mut self.down, true) {
            tracing::info!(comfyui = %self.comfyui, %error, "ComfyUI does not say how runs stand");
            let report = Report::Seen { comfyui: self.comfyui.clone(), call: None, seen: Err(error.to_string()) };
            let _ = self.reporter.send(report);
        }
    }
}

async fn look_at_all(api: &Api, prompts: &[PromptId], jobs: &[PromptId]) -> Result<Vec<(PromptId, Sight)>, ApiError> {
    let mut seen = if prompts.is_empty() { Vec::new() } else { api.look(prompts).await? };
    if !jobs.is_empty() {
        seen.extend(manager::look(api, jobs).await?);
    }
    Ok(seen)
}
