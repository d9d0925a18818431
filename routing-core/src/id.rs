//! Every identity, as a type of its own.
//!
//! Four of them must never be merged: [`ConversationKey`] (whose memory), [`TabKey`] (where frames go),
//! [`WorkflowUuid`] (what a write may touch) and [`TurnId`] (what a tool call belongs to). Paths, titles, routes and
//! file names are labels and are no identity.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(as = "String"))]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Wraps a text as this id, unchanged.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}({})", stringify!($name), self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(as = "u32"))]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The next id in the sequence.
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}", self.0)
            }
        }
    };
}

text_id! {
    /// The name of a configured agent: `NAME` of `[agents.NAME]`, lower case.
    Backend
}
text_id! {
    /// Whose memory and transcript: `orchestrator::<backend>` (rule S1). Minted by the daemon, lives on disk.
    ConversationKey
}
text_id! {
    /// One browser tab, minted by the daemon. Survives reconnects of the same proven tab and every workflow switch.
    TabKey
}
text_id! {
    /// What a browser tab says of itself (`tab_session_id`, or `tab_id` of dialect 1): proves a reconnect, addresses nothing.
    TabIdentity
}
text_id! {
    /// One live workflow object in a panel. Minted by the panel, forks on copy; the fence's stamp (rule G5).
    WorkflowUuid
}
text_id! {
    /// Which canvas object shows a workflow, as the panel names it (rule G9).
    CanvasToken
}
text_id! {
    /// A panel's id of one message, idempotent (rule D6).
    MessageId
}
text_id! {
    /// One dispatch of one command to one panel.
    Rid
}
text_id! {
    /// One question card.
    AskId
}
text_id! {
    /// One queued prompt of ComfyUI.
    PromptId
}
text_id! {
    /// An agent's own name for its session or thread, opaque to us.
    AgentSessionId
}
number_id! {
    /// One socket's life.
    SocketId
}
number_id! {
    /// Position in a conversation's log: gapless, from 1.
    Seq
}
number_id! {
    /// One turn of one conversation.
    TurnId
}
number_id! {
    /// One tool call of an agent, as the daemon numbers it.
    CallId
}

impl ConversationKey {
    const SCOPE: &'static str = "orchestrator::";

    /// The conversation of a backend (rule S1).
    pub fn of(backend: &Backend) -> Self {
        Self(format!("{}{}", Self::SCOPE, backend.0))
    }

    /// The backend half of the key; the whole text when it has another form.
    pub fn backend(&self) -> Backend {
        Backend(self.0.strip_prefix(Self::SCOPE).unwrap_or(&self.0).to_owned())
    }
}

impl Backend {
    /// The one mapping from a name on the wire to a backend (rule B5): trimmed, lower case.
    pub fn parse(name: &str) -> Self {
        Self(name.trim().to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_the_key_is_made_of_the_backend_alone() {
        let key = ConversationKey::of(&Backend::parse(" Claude "));
        assert_eq!(key.as_str(), "orchestrator::claude");
        assert_eq!(key.backend(), Backend::from("claude"));
    }
}
