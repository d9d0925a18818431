//! What must not get in: each script is sent as bytes to a running server, which must refuse it before any
//! conversation hears of it, and count it.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

mod bridge_rig;

use bridge_rig::{LEGACY, PAIRED, rig};
use orchestrator::bridge::Refused;

/// A name, the target, the headers, and what they are refused for.
type Script<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>, Refused);

#[tokio::test]
async fn no_socket_without_host_origin_and_capability() {
    let mut rig = rig("").await;
    let port = rig.address.port();
    let (bearer, host) = (rig.bearer(), rig.host());
    let offered = format!("comfy-orchestrator.1, bearer.{}", rig.token);
    let wrong = format!("comfy-orchestrator.1, bearer.{}", "0".repeat(64));
    let on = |name: &str| format!("{name}:{port}");
    let (evil, nip, dot) = (on("localhost.evil.example"), on("127.0.0.1.nip.io"), on("localhost."));
    let in_query = format!("/ws?token={}", rig.token);
    let in_any_query = format!("/?x={}", rig.token);
    let scripts: Vec<Script<'_>> = vec![
        ("no origin, no token", "/ws", vec![], Refused::TokenMissing),
        ("paired origin, no token", "/ws", vec![("Origin", PAIRED)], Refused::TokenMissing),
        ("a wrong token", "/ws", vec![("Authorization", "Bearer 123")], Refused::TokenWrong),
        ("a wrong subprotocol", "/", vec![("Origin", PAIRED), ("Sec-WebSocket-Protocol", &wrong)], Refused::TokenWrong),
        (
            "foreign origin with the right token",
            "/ws",
            vec![("Origin", "https://evil.example"), ("Authorization", &bearer)],
            Refused::OriginNotAllowed,
        ),
        (
            "null origin with the right token",
            "/ws",
            vec![("Origin", "null"), ("Authorization", &bearer)],
            Refused::OriginNotAllowed,
        ),
        (
            "our own address as origin",
            "/ws",
            vec![("Origin", "http://127.0.0.1:9101"), ("Authorization", &bearer)],
            Refused::OriginNotAllowed,
        ),
        (
            "right origin, rebound host",
            "/ws",
            vec![("Host", "evil.example"), ("Origin", PAIRED), ("Sec-WebSocket-Protocol", &offered)],
            Refused::HostNotAllowed,
        ),
        ("a suffix of a name", "/ws", vec![("Host", &evil), ("Authorization", &bearer)], Refused::HostNotAllowed),
        (
            "a name that resolves to us",
            "/ws",
            vec![("Host", &nip), ("Authorization", &bearer)],
            Refused::HostNotAllowed,
        ),
        ("a name with a dot", "/ws", vec![("Host", &dot), ("Authorization", &bearer)], Refused::HostNotAllowed),
        ("another port", "/ws", vec![("Host", "127.0.0.1:1"), ("Authorization", &bearer)], Refused::HostNotAllowed),
        (
            "two hosts",
            "/ws",
            vec![("Host", &host), ("Host", &evil), ("Authorization", &bearer)],
            Refused::RepeatedHeader,
        ),
        ("token in a query", &in_query, vec![("Authorization", &bearer)], Refused::TokenInUrl),
        ("token under another name", &in_any_query, vec![], Refused::TokenInUrl),
        (
            "through a proxy",
            "/ws",
            vec![("X-Forwarded-For", "10.0.0.1"), ("Authorization", &bearer)],
            Refused::Forwarded,
        ),
        (
            "caused by another site",
            "/ws",
            vec![("Sec-Fetch-Site", "cross-site"), ("Authorization", &bearer)],
            Refused::CrossSite,
        ),
        ("a legacy panel of another port", "/ws", vec![("Origin", "http://localhost:8198")], Refused::OriginNotAllowed),
    ];
    for (name, target, headers, refused) in scripts {
        let answer = rig.ask_for_socket(target, &headers).await;
        assert_eq!(
            (answer.status, answer.code()),
            (refused.status().as_u16(), refused.code().to_owned()),
            "{name}: {answer:?}"
        );
        assert!(!answer.body.contains(&rig.token) && !answer.head.contains(&rig.token), "{name}");
    }
    assert_eq!(rig.counted("refused_total{reason=\"host_not_allowed\"}"), 5);
    assert_eq!(rig.counted("refused_total{reason=\"token_in_url\"}"), 2);
    assert_eq!(rig.counted("sockets_total"), 0);
    assert!(rig.nothing_came());
    rig.stop().await;
}

#[tokio::test]
async fn every_route_has_the_checks() {
    let mut rig = rig("").await;
    for target in ["/", "/ws", "/healthz", "/metrics", "/mcp/x", "/nothing"] {
        for method in ["GET", "POST", "OPTIONS"] {
            let foreign = rig.request(method, target, &[("Origin", "https://evil.example")]).await;
            assert_eq!((foreign.status, foreign.code().as_str()), (403, "origin_not_allowed"), "{method} {target}");
            let rebound = rig.request(method, target, &[("Host", "evil.example")]).await;
            assert_eq!((rebound.status, rebound.code().as_str()), (403, "host_not_allowed"), "{method} {target}");
            assert!(!foreign.head.to_ascii_lowercase().contains("access-control"), "{}", foreign.head);
        }
    }
    let absolute = rig.request("GET", "http://evil.example/healthz", &[]).await;
    assert_eq!((absolute.status, absolute.code().as_str()), (403, "host_not_allowed"));
    assert!(rig.nothing_came());
    rig.stop().await;
}

#[tokio::test]
async fn other_protocols_and_methods_reach_nothing() {
    let mut rig = rig("").await;
    let body = r#"{"type":"user_message","text":"do things"}"#;
    let form = format!("Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let post = |origin: &str| format!("POST / HTTP/1.1\r\nHost: {}\r\n{origin}{form}", rig.host());
    let answer = rig.raw(&post("Origin: https://evil.example\r\n")).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "origin_not_allowed"));
    let answer = rig.raw(&post("Origin: null\r\n")).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "origin_not_allowed"));
    let answer = rig.raw(&post("")).await;
    assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"));
    let answer = rig.raw("EHLO localhost\r\nMAIL FROM:<a@b>\r\n\r\n").await;
    assert_eq!(answer.status, 400);
    let bearer = rig.bearer();
    let plain = rig.request("GET", "/ws", &[("Authorization", &bearer)]).await;
    assert_eq!((plain.status, plain.code().as_str()), (426, "upgrade_required"));
    let no_version = [("Authorization", bearer.as_str()), ("Upgrade", "websocket"), ("Connection", "Upgrade")];
    assert_eq!(rig.request("GET", "/ws", &no_version).await.code(), "upgrade_required");
    assert!(rig.nothing_came());
    rig.stop().await;
}

#[tokio::test]
async fn a_rotated_or_removed_token_is_refused_at_once() {
    let mut rig = rig("").await;
    let old = rig.bearer();
    let (mut client, socket, _out) = rig.panel().await;
    rig.token_file.rotate().unwrap();
    let answer = rig.ask_for_socket("/ws", &[("Authorization", &old)]).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "token_wrong"));
    let answer = rig.request("GET", "/metrics", &[("Authorization", &old)]).await;
    assert_eq!(answer.code(), "token_wrong");
    // A socket that the old token opened ends too.
    assert_eq!(bridge_rig::closed(&mut client).await.0, 1001);
    assert!(matches!(rig.next().await, orchestrator::hub::ToHub::SocketClosed { socket: gone } if gone == socket));
    std::fs::remove_file(rig.token_file.path()).unwrap();
    let answer = rig.ask_for_socket("/ws", &[("Authorization", &old)]).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "token_unavailable"));
    rig.stop().await;
}

#[tokio::test]
async fn a_legacy_page_is_let_in_alone_and_sees_nothing_else() {
    let mut rig = rig("").await;
    let (_client, _) = rig.open("/", &[("origin", LEGACY)]).await.unwrap();
    match rig.next().await {
        orchestrator::hub::ToHub::SocketOpened { peer, .. } => assert_eq!(peer.comfyui.as_deref(), Some(LEGACY)),
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.request("GET", "/metrics", &[("Origin", LEGACY)]).await.code(), "token_missing");
    rig.stop().await;
}
