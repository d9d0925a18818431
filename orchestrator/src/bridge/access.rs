//! Who may come in: peer, Host, Origin and capability, checked in this order before any upgrade or handler. It reads
//! headers only and must not know what a route does.

use super::Refused;
use crate::config::{ComfyUrl, Origin, ServerConfig};
use crate::hub::{Peer, Role};
use crate::store::home::TokenFile;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use reqwest::Url;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The subprotocol that a browser asks for and gets.
pub const SUBPROTOCOL: &str = "comfy-orchestrator.1";
/// What precedes the token in the subprotocol that carries it.
const TOKEN_SUBPROTOCOL: &str = "bearer.";
/// The address of the ComfyUI that a relay serves; believed only from a holder of the token.
const RELAYED_COMFYUI: HeaderName = HeaderName::from_static("x-comfyui-url");
/// Names that keys of a query have when somebody puts a secret there.
const SECRET_KEYS: &[&str] =
    &["token", "access_token", "auth", "authorization", "bearer", "capability", "api_key", "key", "secret"];

/// The rules of one listener.
#[derive(Debug)]
pub struct Access {
    hosts: Vec<String>,
    any_peer: bool,
    origins: Vec<Origin>,
    legacy_panels: Vec<Origin>,
    token: Arc<TokenFile>,
}

/// A request that passed the checks that every route has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The paired or legacy page that it comes from; `None` for native clients.
    origin: Option<Origin>,
    /// The page needs no token.
    legacy: bool,
}

/// A client that may have a socket.
#[derive(Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Who it is.
    pub peer: Peer,
    /// The token that it showed; `None` for a legacy panel.
    token: Option<String>,
}

// By hand: a token never shows.
impl std::fmt::Debug for Admitted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Admitted").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Access {
    /// The rules for a listener that is bound to `address`.
    pub fn new(server: &ServerConfig, address: SocketAddr, token: Arc<TokenFile>) -> Self {
        let port = address.port();
        let mut hosts = Vec::new();
        let mut admit = |name: &str| {
            hosts.push(format!("{name}:{port}"));
            if port == 80 {
                hosts.push(name.to_owned());
            }
        };
        for name in ["localhost", "127.0.0.1", "[::1]"] {
            admit(name);
        }
        // A literal address cannot be rebound: its holder is who was asked.
        match address.ip() {
            ip if ip.is_unspecified() || ip.is_loopback() => {}
            IpAddr::V4(ip) => admit(&ip.to_string()),
            IpAddr::V6(ip) => admit(&format!("[{ip}]")),
        }
        for name in &server.allowed_hosts {
            let name = name.to_ascii_lowercase();
            hosts.push(format!("{name}:{port}"));
            hosts.push(name);
        }
        Self {
            hosts,
            any_peer: !address.ip().to_canonical().is_loopback(),
            origins: server.origins.clone(),
            legacy_panels: server.legacy_panels.clone(),
            token,
        }
    }

    /// The checks that every route has: peer, Host, Origin and what a browser says of the request's cause, forwarding,
    /// and no capability in the address.
    ///
    /// # Errors
    /// The first that fails.
    pub fn arrival(&self, peer: IpAddr, uri: &Uri, headers: &HeaderMap) -> Result<Arrival, Refused> {
        let local = peer.to_canonical().is_loopback();
        if !local && !self.any_peer {
            return Err(Refused::PeerNotLoopback);
        }
        for name in [header::HOST, header::ORIGIN, header::AUTHORIZATION, SEC_FETCH_SITE] {
            if headers.get_all(name).iter().count() > 1 {
                return Err(Refused::RepeatedHeader);
            }
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(|host| self.is_our_host(host))
            || uri.authority().is_some_and(|authority| !self.is_our_host(authority.as_str()))
        {
            return Err(Refused::HostNotAllowed);
        }
        let arrival = self.page(local, headers)?;
        let caused_here = match headers.get(SEC_FETCH_SITE).map(|site| site.as_bytes()) {
            None | Some(b"same-origin" | b"none") => true,
            Some(b"same-site" | b"cross-site") => arrival.origin.is_some(),
            Some(_) => false,
        };
        if !caused_here {
            return Err(Refused::CrossSite);
        }
        if headers.keys().any(is_forwarding) {
            return Err(Refused::Forwarded);
        }
        if uri.query().is_some_and(|query| self.holds_a_secret(query)) {
            return Err(Refused::TokenInUrl);
        }
        Ok(arrival)
    }

    /// The capability of a socket, and who it is then.
    ///
    /// # Errors
    /// [`Refused::TokenMissing`], [`Refused::TokenWrong`], [`Refused::TokenUnavailable`].
    pub fn socket(&self, arrival: &Arrival, uri: &Uri, headers: &HeaderMap) -> Result<Admitted, Refused> {
        let token = match presented(headers) {
            Some(token) => {
                self.accepts(token)?;
                Some(token.to_owned())
            }
            None if arrival.legacy => None,
            None => return Err(Refused::TokenMissing),
        };
        let relayed = || {
            let text = headers.get(RELAYED_COMFYUI)?.to_str().ok()?;
            ComfyUrl::parse(text).ok()
        };
        let comfyui = match &arrival.origin {
            Some(origin) => Some(origin.as_str().to_owned()),
            None if token.is_some() => relayed().map(|url| url.as_str().to_owned()),
            None => None,
        };
        // A client may ask for less than it could have.
        let viewer =
            uri.query().is_some_and(|query| pairs(query).any(|(key, value)| key == "role" && value == "viewer"));
        Ok(Admitted { peer: Peer { role: if viewer { Role::Viewer } else { Role::Panel }, comfyui }, token })
    }

    /// Whether what let a client in still holds.
    ///
    /// # Errors
    /// The token was replaced or removed since.
    pub fn still(&self, admitted: &Admitted) -> Result<(), Refused> {
        admitted.token.as_deref().map_or(Ok(()), |token| self.accepts(token))
    }

    /// The capability of a plain request.
    ///
    /// # Errors
    /// As [`Access::socket`].
    pub fn holder(&self, headers: &HeaderMap) -> Result<(), Refused> {
        self.accepts(bearer(headers).ok_or(Refused::TokenMissing)?)
    }

    fn accepts(&self, presented: &str) -> Result<(), Refused> {
        match self.token.accepts(presented) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refused::TokenWrong),
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "no token to compare with");
                Err(Refused::TokenUnavailable)
            }
        }
    }

    fn is_our_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host))
    }

    fn page(&self, local: bool, headers: &HeaderMap) -> Result<Arrival, Refused> {
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Ok(Arrival { origin: None, legacy: false });
        };
        // Browsers send the canonical form, so that the text itself is compared: `null` is never in a list.
        let said = |known: &&Origin| known.as_str().as_bytes() == origin.as_bytes();
        let legacy = self.legacy_panels.iter().find(said).filter(|_| local);
        match self.origins.iter().find(said).or(legacy) {
            Some(origin) => Ok(Arrival { origin: Some(origin.clone()), legacy: legacy.is_some() }),
            None => Err(Refused::OriginNotAllowed),
        }
    }

    fn holds_a_secret(&self, query: &str) -> bool {
        pairs(query).any(|(key, value)| {
            SECRET_KEYS.iter().any(|secret| key.eq_ignore_ascii_case(secret))
                || self.token.accepts(&value).unwrap_or(false)
                || self.token.accepts(&key).unwrap_or(false)
        })
    }
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

fn is_forwarding(name: &HeaderName) -> bool {
    matches!(name.as_str(), "forwarded" | "via" | "x-real-ip") || name.as_str().starts_with("x-forwarded-")
}

/// The keys and values of a query, decoded.
fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let decoded = Url::parse(&format!("http://localhost/?{query}")).ok();
    let pairs: Vec<_> =
        decoded.iter().flat_map(Url::query_pairs).map(|(key, value)| (key.into(), value.into())).collect();
    pairs.into_iter()
}

/// The credential of `Authorization: Bearer …`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What a client of a socket shows: a header, or, from a browser, a subprotocol beside ours.
fn presented(headers: &HeaderMap) -> Option<&str> {
    if headers.contains_key(header::AUTHORIZATION) {
        return Some(bearer(headers).unwrap_or(""));
    }
    let offered = || {
        let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(',')).map(str::trim)
    };
    if !offered().any(|name| name == SUBPROTOCOL) {
        return None;
    }
    offered().find_map(|name| name.strip_prefix(TOKEN_SUBPROTOCOL))
}

#[cfg(test)]
mod tests;
