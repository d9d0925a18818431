//! A line between a panel and the daemon that can misbehave as networks and relays do: frames are lost with the
//! connection's end, come twice, come late, come after the next connection has said hello; or nothing comes and nobody
//! is told. It knows no frame.

use super::dice::Dice;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Where the daemon is.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// Its port.
    pub(super) port: u16,
    /// The token file's content.
    pub(super) token: String,
}

/// What a panel hears of a socket.
#[derive(Debug)]
pub(super) enum News {
    /// It is open.
    Opened,
    /// A text frame came.
    Frame(String),
    /// It is closed, with a code and a reason.
    Closed(u16, String),
}

/// How rough a line is: per thousand frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Frames that are lost; the connection ends soon after.
    pub lost: u64,
    /// Frames that come twice.
    pub twice: u64,
    /// Frames that come late; what follows waits behind them.
    pub late: u64,
    /// Connections that end at a frame.
    pub cut: u64,
    /// Connections that end for the panel, while the daemon still gets the frame and what waits behind it.
    pub straggling: u64,
    /// Connections on which nothing passes any more, before both sides learn of it.
    pub half_open: u64,
}

impl Weather {
    /// Nothing goes wrong.
    pub const CALM: Self = Self { lost: 0, twice: 0, late: 0, cut: 0, straggling: 0, half_open: 0 };
    /// Much goes wrong.
    pub const ROUGH: Self = Self { lost: 12, twice: 40, late: 100, cut: 12, straggling: 12, half_open: 8 };

    fn fate(self, dice: &mut Dice) -> Fate {
        let mut thrown = dice.below(1_000);
        for (share, fate) in [
            (self.lost, Fate::Lost),
            (self.twice, Fate::Twice),
            (self.late, Fate::Late),
            (self.cut, Fate::Cut),
            (self.straggling, Fate::Straggling),
            (self.half_open, Fate::HalfOpen),
        ] {
            if thrown < share {
                return fate;
            }
            thrown -= share;
        }
        Fate::Passes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passes,
    Lost,
    Twice,
    Late,
    Cut,
    Straggling,
    HalfOpen,
}

/// What both directions of a line know.
struct State {
    number: u32,
    panel: UnboundedSender<(u32, News)>,
    /// The panel was told that it is over.
    told: AtomicBool,
    /// Nothing passes.
    dead: AtomicBool,
    /// When the socket is given up for good.
    end: watch::Sender<Option<Instant>>,
}

impl State {
    fn tell(&self, news: News) {
        let _ = self.panel.send((self.number, news));
    }

    fn tell_closed(&self, code: u16, reason: &str) {
        if !self.told.swap(true, Ordering::Relaxed) {
            self.tell(News::Closed(code, reason.to_owned()));
        }
    }

    fn end_within(&self, time: Duration) {
        let at = Instant::now() + time;
        self.end.send_if_modified(|end| {
            let sooner = end.is_none_or(|known| at < known);
            if sooner {
                *end = Some(at);
            }
            sooner
        });
    }
}

/// Opens a line. What is sent into the returned end goes to the daemon; dropping it closes the line.
pub(super) fn open(
    number: u32,
    address: Address,
    weather: watch::Receiver<Weather>,
    dice: Dice,
    panel: UnboundedSender<(u32, News)>,
) -> UnboundedSender<String> {
    let (sender, outgoing) = unbounded_channel();
    tokio::spawn(async move {
        let state = Arc::new(State {
            number,
            panel,
            told: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            end: watch::Sender::new(None),
        });
        match connect(&address).await {
            Some(socket) => carry(socket, outgoing, &state, &weather, &dice).await,
            None => state.tell_closed(1006, ""),
        }
    });
    sender
}

async fn connect(address: &Address) -> Option<Socket> {
    let mut request = format!("ws://127.0.0.1:{}/ws", address.port).into_client_request().ok()?;
    request.headers_mut().insert("Authorization", format!("Bearer {}", address.token).parse().ok()?);
    let connecting = tokio_tungstenite::connect_async(request);
    tokio::time::timeout(Duration::from_secs(5), connecting).await.ok()?.ok().map(|(socket, _)| socket)
}

async fn carry(
    socket: Socket,
    outgoing: UnboundedReceiver<String>,
    state: &Arc<State>,
    weather: &watch::Receiver<Weather>,
    dice: &Dice,
) {
    state.tell(News::Opened);
    let (sink, stream) = socket.split();
    let sink = Mutex::new(sink);
    let mut end = state.end.subscribe();
    let over = async {
        loop {
            let at = *end.borrow_and_update();
            match at {
                None => {
                    if end.changed().await.is_err() {
                        return;
                    }
                }
                Some(at) => tokio::select! {
                    () = sleep_until(at) => return,
                    changed = end.changed() => if changed.is_err() { return },
                },
            }
        }
    };
    tokio::select! {
        () = up(outgoing, &sink, state, weather, dice.fork("up")) => {}
        () = down(stream, state, weather, dice.fork("down")) => {}
        () = over => {}
    }
    state.tell_closed(1006, "");
}

type Sink = SplitSink<Socket, Message>;

async fn up(
    mut outgoing: UnboundedReceiver<String>,
    sink: &Mutex<Sink>,
    state: &State,
    weather: &watch::Receiver<Weather>,
    mut dice: Dice,
) {
    loop {
        let Some(text) = outgoing.recv().await else {
            // The panel hung up. What it had sent is on its way.
            if !state.told.load(Ordering::Relaxed) {
                return;
            }
            return std::future::pending().await;
        };
        let fate = if state.told.load(Ordering::Relaxed) { Fate::Passes } else { weather.borrow().fate(&mut dice) };
        if state.dead.load(Ordering::Relaxed) {
            continue;
        }
        let mut copies = 1;
        match fate {
            Fate::Passes => {}
            Fate::Lost => {
                copies = 0;
                state.end_within(dice.time(5, 120));
            }
            Fate::Twice => copies = 2,
            Fate::Late => sleep(dice.time(1, 40)).await,
            Fate::Cut => return,
            Fate::Straggling => straggle(state, &mut dice).await,
            Fate::HalfOpen => {
                half_open(state, &mut dice).await;
                continue;
            }
        }
        for _ in 0..copies {
            if sink.lock().await.send(Message::text(text.clone())).await.is_err() {
                return;
            }
        }
    }
}

/// The panel is told that the line is gone; what is under way still comes, late.
async fn straggle(state: &State, dice: &mut Dice) {
    state.tell_closed(1006, "");
    state.end_within(Duration::from_millis(900));
    sleep(dice.time(20, 400)).await;
}

/// Nothing passes; after a while the panel is told, and the daemon later still.
async fn half_open(state: &State, dice: &mut Dice) {
    state.dead.store(true, Ordering::Relaxed);
    sleep(dice.time(20, 250)).await;
    state.end_within(dice.time(0, 500));
    state.tell_closed(1006, "");
}

async fn down(mut stream: SplitStream<Socket>, state: &State, weather: &watch::Receiver<Weather>, mut dice: Dice) {
    while let Some(Ok(message)) = stream.next().await {
        let text = match message {
            Message::Text(text) => text.to_string(),
            Message::Close(frame) => {
                if !state.dead.load(Ordering::Relaxed) {
                    let (code, reason) =
                        frame.map_or((1005, String::new()), |frame| (frame.code.into(), frame.reason.to_string()));
                    state.tell_closed(code, &reason);
                }
                return;
            }
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        if state.dead.load(Ordering::Relaxed) {
            continue;
        }
        let fate = if state.told.load(Ordering::Relaxed) { Fate::Late } else { weather.borrow().fate(&mut dice) };
        match fate {
            Fate::Passes => {}
            Fate::Lost => {
                state.end_within(dice.time(5, 120));
                continue;
            }
            Fate::Twice => state.tell(News::Frame(text.clone())),
            Fate::Late => sleep(dice.time(1, 40)).await,
            Fate::Cut => return,
            Fate::Straggling => straggle(state, &mut dice).await,
            Fate::HalfOpen => {
                half_open(state, &mut dice).await;
                continue;
            }
        }
        state.tell(News::Frame(text));
    }
}
