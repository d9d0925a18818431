//! Who comes in: every refusal of the doors, and what passes them.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use super::*;
use crate::config::{Config, Environment, Flags};
use crate::store::home::{Home, HomeChoice, Surroundings};
use std::net::Ipv4Addr;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PAIRED: &str = "http://127.0.0.1:8188";
const LEGACY: &str = "http://localhost:8188";

struct Rig {
    access: Access,
    token: String,
    _folder: tempfile::TempDir,
}

fn rig(bound: &str) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let surroundings = Surroundings { user_folder: None, under_test: true };
    let home = Home::prepare(&HomeChoice::Given(folder.path().join("home")), &surroundings).unwrap();
    let token = Arc::new(TokenFile::open(&home).unwrap());
    let mut server = Config::load(&Flags::default(), folder.path(), &Environment::of([])).unwrap().server;
    server.origins = vec![Origin::parse(PAIRED).unwrap()];
    server.legacy_panels = vec![Origin::parse(LEGACY).unwrap()];
    server.allowed_hosts = vec!["Comfy.lan".into()];
    let secret = token.current().unwrap().expose().to_owned();
    Rig { access: Access::new(&server, bound.parse().unwrap(), token), token: secret, _folder: folder }
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    headers
}

impl Rig {
    fn arrive(&self, peer: IpAddr, uri: &str, lines: &[(&str, &str)]) -> Result<Arrival, Refused> {
        let mut all = vec![("host", "127.0.0.1:9101")];
        all.extend(lines.iter().copied().filter(|(name, _)| *name != "host"));
        if let Some(host) = lines.iter().find(|(name, _)| *name == "host") {
            all[0] = *host;
        }
        self.access.arrival(peer, &uri.parse().unwrap(), &headers(&all))
    }

    fn join(&self, uri: &str, lines: &[(&str, &str)]) -> Result<Peer, Refused> {
        let arrival = self.arrive(LOCAL, uri, lines)?;
        self.access.socket(&arrival, &uri.parse().unwrap(), &headers(lines)).map(|admitted| admitted.peer)
    }
}

#[test]
fn a_host_is_one_of_ours_to_the_letter() {
    let rig = rig("127.0.0.1:9101");
    for ours in ["localhost:9101", "LOCALHOST:9101", "127.0.0.1:9101", "[::1]:9101", "comfy.lan", "comfy.lan:9101"] {
        assert!(rig.arrive(LOCAL, "/", &[("host", ours)]).is_ok(), "{ours}");
    }
    for other in [
        "localhost",
        "localhost.:9101",
        "localhost:9102",
        "localhost.evil.example:9101",
        "127.0.0.1.nip.io:9101",
        "127.1:9101",
        "evil.example:9101",
        "a@localhost:9101",
        "comfy.lan:80",
        "",
        "[::ffff:127.0.0.1]:9101",
    ] {
        assert_eq!(rig.arrive(LOCAL, "/", &[("host", other)]), Err(Refused::HostNotAllowed), "{other}");
    }
    assert_eq!(rig.arrive(LOCAL, "http://evil.example/", &[]), Err(Refused::HostNotAllowed));
    let none = rig.access.arrival(LOCAL, &"/".parse().unwrap(), &HeaderMap::new());
    assert_eq!(none, Err(Refused::HostNotAllowed));
}

#[test]
fn other_machines_reach_only_an_open_listener() {
    let lan: IpAddr = "192.168.7.8".parse().unwrap();
    assert_eq!(rig("127.0.0.1:9101").arrive(lan, "/", &[]), Err(Refused::PeerNotLoopback));
    assert!(rig("127.0.0.1:9101").arrive("::ffff:127.0.0.1".parse().unwrap(), "/", &[]).is_ok());
    let open = rig("0.0.0.0:9101");
    assert!(open.arrive(lan, "/", &[]).is_ok());
    assert_eq!(
        open.arrive(lan, "/", &[("origin", LEGACY)]),
        Err(Refused::OriginNotAllowed),
        "legacy is for this machine"
    );
    assert!(rig("192.168.7.1:9101").arrive(lan, "/", &[("host", "192.168.7.1:9101")]).is_ok());
}

#[test]
fn an_origin_is_paired_to_the_letter_and_the_browser_agrees() {
    let rig = rig("127.0.0.1:9101");
    for other in
        ["null", "", "http://127.0.0.1:8189", "https://127.0.0.1:8188", "http://127.0.0.1:8188.evil.example", "*"]
    {
        assert_eq!(rig.arrive(LOCAL, "/", &[("origin", other)]), Err(Refused::OriginNotAllowed), "{other}");
    }
    for site in ["same-origin", "none", "same-site", "cross-site"] {
        assert!(rig.arrive(LOCAL, "/", &[("origin", PAIRED), ("sec-fetch-site", site)]).is_ok(), "{site}");
    }
    for site in ["same-site", "cross-site", "nonsense"] {
        assert_eq!(rig.arrive(LOCAL, "/", &[("sec-fetch-site", site)]), Err(Refused::CrossSite), "{site}");
    }
    assert!(rig.arrive(LOCAL, "/", &[("sec-fetch-site", "none")]).is_ok());
}

#[test]
fn proxies_doubled_headers_and_secrets_in_addresses_are_refused() {
    let rig = rig("127.0.0.1:9101");
    for name in ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"] {
        assert_eq!(rig.arrive(LOCAL, "/", &[(name, "x")]), Err(Refused::Forwarded), "{name}");
    }
    for name in ["origin", "authorization", "sec-fetch-site"] {
        assert_eq!(rig.arrive(LOCAL, "/", &[(name, PAIRED), (name, PAIRED)]), Err(Refused::RepeatedHeader), "{name}");
    }
    for query in [
        "token=x".to_owned(),
        "TOKEN=".to_owned(),
        "t%6Fken=x".to_owned(),
        format!("a={}", rig.token),
        rig.token.clone(),
    ] {
        assert_eq!(rig.arrive(LOCAL, &format!("/ws?{query}"), &[]), Err(Refused::TokenInUrl), "{query}");
    }
    assert!(rig.arrive(LOCAL, "/ws?role=viewer", &[]).is_ok());
}

#[test]
fn a_socket_needs_the_token_with_and_without_an_origin() {
    let rig = rig("127.0.0.1:9101");
    let bearer = format!("Bearer {}", rig.token);
    let offered = format!("comfy-orchestrator.1, bearer.{}", rig.token);
    let alone = format!("bearer.{}", rig.token);
    assert_eq!(rig.join("/ws", &[]), Err(Refused::TokenMissing));
    assert_eq!(rig.join("/ws", &[("origin", PAIRED)]), Err(Refused::TokenMissing));
    assert_eq!(rig.join("/ws", &[("sec-websocket-protocol", &alone)]), Err(Refused::TokenMissing));
    for wrong in ["Bearer x", "Bearer ", "Basic x"] {
        let both = [("authorization", wrong), ("sec-websocket-protocol", offered.as_str())];
        assert_eq!(rig.join("/ws", &both), Err(Refused::TokenWrong), "{wrong}");
    }
    let native = Peer { role: Role::Panel, comfyui: None };
    assert_eq!(rig.join("/ws", &[("authorization", &bearer)]), Ok(native.clone()));
    let page = Peer { role: Role::Panel, comfyui: Some(PAIRED.into()) };
    assert_eq!(rig.join("/ws", &[("origin", PAIRED), ("sec-websocket-protocol", &offered)]), Ok(page));
    let viewer = Peer { role: Role::Viewer, comfyui: None };
    assert_eq!(rig.join("/ws?role=viewer", &[("authorization", &bearer)]), Ok(viewer));
    assert_eq!(rig.join("/ws?role=admin", &[("authorization", &bearer)]), Ok(native));
}

#[test]
fn a_relay_s_comfyui_is_believed_from_a_holder_of_the_token_only() {
    let rig = rig("127.0.0.1:9101");
    let bearer = format!("Bearer {}", rig.token);
    let comfyui = |lines: &[(&str, &str)]| rig.join("/ws", lines).map(|peer| peer.comfyui);
    let relay = ("x-comfyui-url", "http://127.0.0.1:8288/");
    assert_eq!(comfyui(&[("authorization", &bearer), relay]), Ok(Some("http://127.0.0.1:8288".into())));
    assert_eq!(comfyui(&[("authorization", &bearer), ("x-comfyui-url", "file:///etc/passwd")]), Ok(None));
    assert_eq!(comfyui(&[("authorization", &bearer), ("origin", PAIRED), relay]), Ok(Some(PAIRED.into())));
    assert_eq!(comfyui(&[("origin", LEGACY), relay]), Ok(Some(LEGACY.into())));
    assert_eq!(comfyui(&[relay]), Err(Refused::TokenMissing));
}

#[test]
fn a_legacy_panel_needs_no_token_but_shows_no_wrong_one() {
    let rig = rig("127.0.0.1:9101");
    assert_eq!(rig.join("/", &[("origin", LEGACY)]), Ok(Peer { role: Role::Panel, comfyui: Some(LEGACY.into()) }));
    assert_eq!(rig.join("/", &[("origin", LEGACY), ("authorization", "Bearer x")]), Err(Refused::TokenWrong));
    assert_eq!(rig.access.holder(&headers(&[("origin", LEGACY)])), Err(Refused::TokenMissing));
}
