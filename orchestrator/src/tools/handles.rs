//! The handles that live: an address that cannot be guessed, and a bearer beside it, for each agent session. Knows no
//! tool and no conversation.

use crate::agent::McpEndpoint;
use crate::bridge::{Refused, reachable};
use routing_core::id::Backend;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{PoisonError, RwLock};
use subtle::ConstantTimeEq;

/// Bytes of randomness in a handle and in a bearer.
const BYTES: usize = 32;

/// The registry of handles.
pub struct Handles {
    address: SocketAddr,
    living: RwLock<Vec<Living>>,
}

struct Living {
    handle: String,
    bearer: String,
    backend: Backend,
}

impl fmt::Debug for Handles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let living = self.living.read().unwrap_or_else(PoisonError::into_inner);
        formatter.debug_struct("Handles").field("living", &living.len()).finish_non_exhaustive()
    }
}

impl Handles {
    /// An empty registry for the listener that is bound to `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self { address: reachable(address), living: RwLock::default() }
    }

    /// Makes a handle for an agent session of a conversation. Several may live at a time.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn issue(&self, backend: Backend) -> Result<McpEndpoint, io::Error> {
        let (handle, bearer) = (random()?, random()?);
        let endpoint = McpEndpoint { url: format!("http://{}/mcp/{handle}", self.address), bearer: bearer.clone() };
        self.living.write().unwrap_or_else(PoisonError::into_inner).push(Living { handle, bearer, backend });
        Ok(endpoint)
    }

    /// Ends a handle; calls through it are refused from now on. `endpoint` is what [`Handles::issue`] gave.
    pub fn revoke(&self, endpoint: &McpEndpoint) {
        let handle = endpoint.url.rsplit('/').next().unwrap_or("");
        self.living.write().unwrap_or_else(PoisonError::into_inner).retain(|living| !equal(&living.handle, handle));
    }

    /// The conversation behind a handle.
    ///
    /// # Errors
    /// [`Refused::DeadHandle`] for one that does not live; [`Refused::TokenMissing`] and [`Refused::TokenWrong`] for a
    /// bearer that does not go with it.
    pub fn caller(&self, handle: &str, bearer: Option<&str>) -> Result<Backend, Refused> {
        let living = self.living.read().unwrap_or_else(PoisonError::into_inner);
        let known = living.iter().find(|living| equal(&living.handle, handle)).ok_or(Refused::DeadHandle)?;
        match bearer {
            None => Err(Refused::TokenMissing),
            Some(bearer) if equal(&known.bearer, bearer) => Ok(known.backend.clone()),
            Some(_) => Err(Refused::TokenWrong),
        }
    }
}

fn equal(known: &str, presented: &str) -> bool {
    known.as_bytes().ct_eq(presented.as_bytes()).into()
}

fn random() -> Result<String, io::Error> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;

    #[test]
    fn a_handle_lives_from_issue_to_revoke() {
        let handles = Handles::new("0.0.0.0:9".parse().unwrap());
        let one = handles.issue("claude".into()).unwrap();
        let two = handles.issue("demo".into()).unwrap();
        assert!(one.url.starts_with("http://127.0.0.1:9/mcp/"), "{}", one.url);
        let handle = |endpoint: &McpEndpoint| endpoint.url.rsplit('/').next().unwrap().to_owned();
        assert_eq!(handle(&one).len(), 64);
        assert_eq!(handles.caller(&handle(&one), Some(&one.bearer)), Ok("claude".into()));
        assert_eq!(handles.caller(&handle(&one), Some(&two.bearer)), Err(Refused::TokenWrong));
        assert_eq!(handles.caller(&handle(&one), None), Err(Refused::TokenMissing));
        handles.revoke(&one);
        assert_eq!(handles.caller(&handle(&one), Some(&one.bearer)), Err(Refused::DeadHandle));
        assert_eq!(handles.caller(&handle(&two), Some(&two.bearer)), Ok("demo".into()));
        handles.revoke(&two);
        assert_eq!(handles.caller(&handle(&two), Some(&two.bearer)), Err(Refused::DeadHandle));
        assert!(!format!("{handles:?}").contains(&two.bearer));
    }
}
