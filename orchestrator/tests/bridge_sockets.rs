//! Sockets that are let in: texts in order both ways, what is no frame, and every way in which a socket ends.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

mod bridge_rig;

use bridge_rig::{PAIRED, PATIENCE, closed, rig, rig_with_pings, send, text};
use futures_util::{SinkExt, StreamExt};
use orchestrator::bridge::{BindError, Holder, SUBPROTOCOL, bind};
use orchestrator::config::{Config, Environment, Flags};
use orchestrator::hub::{Role, ToHub, ToSocket};
use routing_core::id::{ConversationKey, Seq};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

fn replay(after: u64, upto: u64) -> ToSocket {
    ToSocket::Replay {
        conversation: ConversationKey::of(&"demo".into()),
        after: Seq(after),
        upto: Seq(upto),
        legacy: false,
    }
}

#[tokio::test]
async fn a_native_client_and_a_paired_page_are_let_in() {
    let mut rig = rig("").await;
    let bearer = rig.bearer();
    let relay = [("authorization", bearer.as_str()), ("x-comfyui-url", "http://127.0.0.1:8288")];
    for target in ["/", "/ws"] {
        let (mut client, response) = rig.open(target, &relay).await.unwrap();
        assert!(response.headers().get("sec-websocket-protocol").is_none());
        let ToHub::SocketOpened { socket, peer, .. } = rig.next().await else { panic!("opened first") };
        assert_eq!((peer.role, peer.comfyui.as_deref()), (Role::Panel, Some("http://127.0.0.1:8288")));
        send(&mut client, Message::text(r#"{"type":"hello"}"#)).await;
        match rig.next().await {
            ToHub::SocketText { socket: from, text } => {
                assert_eq!((from, text.as_str()), (socket, r#"{"type":"hello"}"#))
            }
            other => panic!("{other:?}"),
        }
        client.close(None).await.unwrap();
        assert!(matches!(rig.next().await, ToHub::SocketClosed { socket: gone } if gone == socket));
    }
    let offered = format!("{SUBPROTOCOL}, bearer.{}", rig.token);
    let page = [("origin", PAIRED), ("sec-websocket-protocol", offered.as_str()), ("sec-fetch-site", "same-site")];
    let (_client, response) = rig.open("/ws", &page).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], SUBPROTOCOL);
    assert!(!format!("{response:?}").contains(&rig.token));
    let ToHub::SocketOpened { peer, .. } = rig.next().await else { panic!("opened first") };
    assert_eq!(peer.comfyui.as_deref(), Some(PAIRED));
    rig.stop().await;
}

#[tokio::test]
async fn frames_and_replays_go_out_in_order_and_few_flushes() {
    let mut rig = rig("").await;
    let (mut client, _, out) = rig.panel().await;
    out.send(ToSocket::Frame("first".into())).unwrap();
    out.send(replay(0, 450)).unwrap();
    for number in 0..50 {
        out.send(ToSocket::Frame(format!("after {number}").into())).unwrap();
    }
    assert_eq!(text(&mut client).await, "first");
    for row in (1..=450).filter(|row| *row != 100) {
        assert_eq!(text(&mut client).await, format!("row {row}"));
    }
    for number in 0..50 {
        assert_eq!(text(&mut client).await, format!("after {number}"));
    }
    assert_eq!(rig.counted("frames_total{way=\"out\"}"), 500);
    assert!(rig.counted("flushes_total") <= 10, "{}", rig.counted("flushes_total"));
    // A replay beyond the end stops; one that cannot be read closes, so that the panel asks again.
    out.send(replay(440, 700)).unwrap();
    for row in 441..=450 {
        assert_eq!(text(&mut client).await, format!("row {row}"));
    }
    out.send(replay(900, 901)).unwrap();
    assert_eq!(closed(&mut client).await.0, 1011);
    rig.stop().await;
}

#[tokio::test]
async fn the_conversations_close_a_socket_with_their_code() {
    let mut rig = rig("").await;
    let (mut client, socket, out) = rig.panel().await;
    out.send(ToSocket::Frame("last".into())).unwrap();
    out.send(ToSocket::Close { code: 4001, reason: "é".repeat(100) }).unwrap();
    assert_eq!(text(&mut client).await, "last");
    let (code, reason) = closed(&mut client).await;
    assert_eq!((code, reason), (4001, "é".repeat(61)));
    assert!(matches!(rig.next().await, ToHub::SocketClosed { socket: gone } if gone == socket));
    let (mut client, _, out) = rig.panel().await;
    drop(out);
    assert_eq!(closed(&mut client).await.0, 1001);
    rig.stop().await;
}

#[tokio::test]
async fn a_large_text_is_named_and_refused_and_a_large_reply_is_not() {
    let mut rig = rig("frame_bytes = 5000").await;
    let (mut client, _, _out) = rig.panel().await;
    let pad = "x".repeat(6_000);
    let reply = format!(r#"{{"rid":"r1","ok":true,"result":"{pad}"}}"#);
    send(&mut client, Message::text(reply.clone())).await;
    assert!(matches!(rig.next().await, ToHub::SocketText { text, .. } if text.as_str() == reply));
    send(&mut client, Message::text(format!(r#"{{"type":"user_message","text":"{pad}","mid":"m7"}}"#))).await;
    let nack: Value = serde_json::from_str(&text(&mut client).await).unwrap();
    assert_eq!(
        (&nack["type"], &nack["code"], &nack["mid"]),
        (&"nack".into(), &"too_large".into(), &"m7".into()),
        "{nack}"
    );
    assert!(nack["message"].as_str().unwrap().contains("5000"), "{nack}");
    assert_eq!(closed(&mut client).await.0, 1009);
    assert!(matches!(rig.next().await, ToHub::SocketClosed { .. }));
    assert_eq!(rig.counted("frames_not_taken_total{reason=\"too_large\"}"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn beyond_sixteen_mebibytes_nothing_passes() {
    let mut rig = rig("").await;
    let (client, _, _out) = rig.panel().await;
    let (mut sending, mut receiving) = client.split();
    let huge = format!(r#"{{"rid":"r1","ok":true,"result":"{}"}}"#, "x".repeat(17 << 20));
    // The server does not read on, so that the sending may end in an error.
    let sender = tokio::spawn(async move { sending.send(Message::text(huge)).await.is_ok() });
    let next = timeout(PATIENCE, receiving.next()).await.unwrap().unwrap().unwrap();
    let nack: Value = serde_json::from_str(next.to_text().unwrap()).unwrap();
    assert_eq!(nack["code"], "too_large");
    match timeout(PATIENCE, receiving.next()).await.unwrap() {
        Some(Ok(Message::Close(Some(frame)))) => assert_eq!(u16::from(frame.code), 1009),
        other => panic!("{other:?}"),
    }
    assert!(matches!(rig.next().await, ToHub::SocketClosed { .. }), "no text came before");
    sender.abort();
    rig.stop().await;
}

#[tokio::test]
async fn binary_and_broken_texts_end_the_socket_and_reach_nobody() {
    let mut rig = rig("").await;
    let (mut client, _, _out) = rig.panel().await;
    send(&mut client, Message::binary(vec![1, 2, 3])).await;
    let nack: Value = serde_json::from_str(&text(&mut client).await).unwrap();
    assert_eq!(nack["code"], "binary");
    assert_eq!(closed(&mut client).await.0, 1003);
    assert!(matches!(rig.next().await, ToHub::SocketClosed { .. }));

    let (mut client, _, _out) = rig.panel().await;
    send(&mut client, Message::Frame(Frame::message(vec![b'"', 0xff, b'"'], OpCode::Data(Data::Text), true))).await;
    assert_eq!(closed(&mut client).await.0, 1007);
    assert!(matches!(rig.next().await, ToHub::SocketClosed { .. }));

    // A deep text is a text: what it means is judged by the conversations.
    let (mut client, _, _out) = rig.panel().await;
    let deep = format!("{{\"type\":\"hello\",\"x\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    send(&mut client, Message::text(deep.clone())).await;
    assert!(matches!(rig.next().await, ToHub::SocketText { text, .. } if text.as_str() == deep));
    rig.stop().await;
}

#[tokio::test]
async fn a_socket_that_says_nothing_is_closed() {
    let mut rig = rig("hello = 100").await;
    let (mut quiet, _, _out) = rig.panel().await;
    let (mut talking, _, _out_too) = rig.panel().await;
    send(&mut talking, Message::text("{}")).await;
    assert!(matches!(rig.next().await, ToHub::SocketText { .. }));
    let since = Instant::now();
    // Pings are no hello.
    send(&mut quiet, Message::Ping(vec![1].into())).await;
    loop {
        match timeout(PATIENCE, quiet.next()).await.unwrap().unwrap().unwrap() {
            Message::Pong(_) => {}
            Message::Close(Some(frame)) => break assert_eq!(u16::from(frame.code), 1002),
            other => panic!("{other:?}"),
        }
    }
    assert!(since.elapsed() > Duration::from_millis(800), "{:?}", since.elapsed());
    let stays = timeout(Duration::from_millis(300), talking.next()).await;
    assert!(stays.is_err(), "{stays:?}");
    rig.stop().await;
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_is_gone_and_one_that_does_stays() {
    let mut rig = rig_with_pings("", Duration::from_millis(150)).await;
    let (mut alive, _, _keep_alive) = rig.panel().await;
    // Nobody reads this one, so nobody answers for it.
    let (dead, socket, _keep_dead) = rig.panel().await;
    let answering = tokio::spawn(async move {
        let mut pings = 0;
        while let Some(Ok(message)) = alive.next().await {
            assert!(message.is_ping(), "{message:?}");
            pings += 1;
            if pings == 6 {
                break;
            }
        }
        pings
    });
    let since = Instant::now();
    // Its close is not answered either, and then it is let go.
    assert!(matches!(rig.next().await, ToHub::SocketClosed { socket: gone } if gone == socket));
    assert!(since.elapsed() > Duration::from_millis(400), "{:?}", since.elapsed());
    assert_eq!(answering.await.unwrap(), 6);
    drop(dead);
    rig.stop().await;
}

#[tokio::test]
async fn sockets_are_counted_and_bounded() {
    let mut rig = rig("sockets = 2").await;
    let (mut one, _, _keep_one) = rig.panel().await;
    let (_two, _, _keep_two) = rig.panel().await;
    let bearer = rig.bearer();
    let answer = rig.ask_for_socket("/ws", &[("Authorization", &bearer)]).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "too_many_sockets"));
    assert_eq!(rig.counted("sockets_open"), 2);
    one.close(None).await.unwrap();
    assert!(matches!(rig.next().await, ToHub::SocketClosed { .. }));
    while rig.counted("sockets_open") == 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (_three, _, _keep_three) = rig.panel().await;
    rig.stop().await;
}

#[tokio::test]
async fn a_stop_tells_every_socket_what_it_had_to_tell_and_ends() {
    let mut rig = rig("").await;
    let (mut one, _, out) = rig.panel().await;
    let (mut two, _, _out_two) = rig.panel().await;
    out.send(ToSocket::Frame("goodbye".into())).unwrap();
    rig.shutdown.cancel();
    assert_eq!(text(&mut one).await, "goodbye");
    assert_eq!(closed(&mut one).await.0, 1001);
    assert_eq!(closed(&mut two).await.0, 1001);
    timeout(PATIENCE, &mut rig.server).await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(rig.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn health_page_and_metrics() {
    let rig = rig("").await;
    let health = rig.request("GET", "/healthz", &[]).await;
    let said: Value = serde_json::from_str(&health.body).unwrap();
    assert_eq!((health.status, &said["ok"], &said["epoch"]), (200, &true.into(), &"epoch-of-this-test".into()));
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"));
    let page = rig.request("GET", "/", &[("Sec-Fetch-Site", "none")]).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("comfy-orchestrator runs") && !page.body.contains(&rig.token));
    assert!(page.head.contains("content-security-policy: default-src 'none'"), "{}", page.head);
    assert_eq!(rig.request("GET", "/metrics", &[]).await.code(), "token_missing");
    let metrics = rig.request("GET", "/metrics", &[("Authorization", &rig.bearer())]).await;
    assert!(
        metrics.body.contains("comfy_orchestrator_refused_total{reason=\"token_missing\"} 1\n"),
        "{}",
        metrics.body
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_told_with_its_holder() {
    let first = rig("").await;
    let folder = tempfile::tempdir().unwrap();
    let mut server = Config::load(&Flags::default(), folder.path(), &Environment::of([])).unwrap().server;
    server.port = first.address.port();
    let error = bind(&server).await.unwrap_err();
    assert_eq!(error.code(), "port_in_use");
    let said = error.to_string();
    assert!(said.contains("another comfy-orchestrator") && said.contains("epoch-of-this-test"), "{said}");
    first.stop().await;

    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    server.port = silent.local_addr().unwrap().port();
    match bind(&server).await.unwrap_err() {
        BindError::InUse { holder, .. } => assert_eq!(holder, Holder::Unknown),
        other => panic!("{other}"),
    }
}
