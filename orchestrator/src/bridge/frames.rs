//! Which texts are handed on, decided from their size and outline before anything is parsed.
//!
//! The limit of a text frame is `limits.frame_bytes`. A reply of a panel (`rid` or `ask_id` and no `type` at the top
//! level) may carry media and has 16 MiB. What is too large is named by its `mid` or `rid`, so that a panel does not
//! send it again for ever.

use crate::config::MOST_FRAME_BYTES;
use crate::hub::Role;
use routing_core::frame::{DaemonFrame, FromDaemon, Nack};
use routing_core::id::{MessageId, Rid};

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    TooLarge,
    Binary,
}

impl Unfit {
    pub(super) const ALL: &[Self] = &[Self::TooLarge, Self::Binary];

    /// The stable code, as in `nack.code`.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Binary => "binary",
        }
    }

    /// The WebSocket close code that follows.
    pub(super) fn close_code(self) -> u16 {
        match self {
            Self::TooLarge => 1009,
            Self::Binary => 1003,
        }
    }

    /// What happened and what to do.
    pub(super) fn message(self, limit: usize) -> String {
        match self {
            Self::TooLarge => format!(
                "A frame may have {limit} bytes, the reply to a command {MOST_FRAME_BYTES}. Nothing of it was read. Send \
                 large files through ComfyUI and name them."
            ),
            Self::Binary => "Frames are JSON texts; binary ones are not taken.".to_owned(),
        }
    }

    /// The answer, naming what was refused as far as it is known.
    pub(super) fn nack(self, limit: usize, outline: &Outline<'_>) -> String {
        FromDaemon::from(DaemonFrame::Nack(Nack {
            mid: outline.mid.map(MessageId::from),
            rid: outline.rid.map(Rid::from),
            code: self.code().to_owned(),
            message: self.message(limit),
            retry_after_ms: None,
        }))
        .encode()
    }
}

/// Whether a text may be handed on; else what it is, as far as its outline tells.
pub(super) fn admit(text: &str, role: Role, limit: usize) -> Result<(), Outline<'_>> {
    if text.len() <= limit {
        return Ok(());
    }
    let outline = Outline::of(text);
    let is_reply = !outline.has_type && (outline.rid.is_some() || outline.has_ask_id);
    match role {
        Role::Panel if is_reply && text.len() <= MOST_FRAME_BYTES => Ok(()),
        Role::Panel | Role::Viewer => Err(outline),
    }
}

/// The top level of a JSON text, as far as it matters here. Read in one pass, with nothing built and nothing checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outline<'a> {
    pub(super) mid: Option<&'a str>,
    pub(super) rid: Option<&'a str>,
    has_type: bool,
    has_ask_id: bool,
}

/// Longest id that an answer repeats.
const MOST_ID_BYTES: usize = 256;

impl<'a> Outline<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut found = Self::default();
        let (mut at, mut depth, mut key, mut key_next) = (0, 0_usize, "", false);
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    let end = end_of_text(bytes, at + 1);
                    let inside = text.get(at + 1..end).unwrap_or("");
                    if depth == 1 && key_next {
                        key = inside;
                        found.has_type |= key == "type";
                        found.has_ask_id |= key == "ask_id";
                    } else if depth == 1 && inside.len() <= MOST_ID_BYTES && !inside.contains('\\') {
                        match key {
                            "mid" => found.mid = Some(inside),
                            "rid" => found.rid = Some(inside),
                            _ => {}
                        }
                    }
                    at = end;
                }
                b'{' | b'[' => {
                    depth += 1;
                    key_next = depth == 1;
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b':' if depth == 1 => key_next = false,
                b',' if depth == 1 => key_next = true,
                _ => {}
            }
            at += 1;
        }
        found
    }
}

/// Where the closing quote stands, or the end.
fn end_of_text(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outline_sees_the_top_level_only() {
        let text = r#"{"type":"user_message","text":"\"rid\":\"x\" {[","mid":"m1","more":{"rid":"inner"}}"#;
        let found = Outline::of(text);
        assert_eq!((found.mid, found.rid, found.has_type), (Some("m1"), None, true));
        let found = Outline::of(r#" { "ok" : true, "result" : {"type":"x"}, "rid" : "r1" }"#);
        assert_eq!((found.rid, found.has_type), (Some("r1"), false));
        let reply_to_question = Outline::of(r#"{"ask_id":"a","ok":true}"#);
        assert!(reply_to_question.has_ask_id);
    }

    #[test]
    fn no_text_breaks_the_outline() {
        for text in ["", "{", "\"", "{\"mid\":\"", "]]]", "{\"mid\":\"\\", "[\"mid\",\"x\"]", "{\"mid\\", "é\"é"] {
            let _ = Outline::of(text);
        }
        assert_eq!(Outline::of("{\"mid\":\"é\"}").mid, Some("é"));
    }

    #[test]
    fn only_a_panel_s_reply_may_be_large() {
        let pad = "x".repeat(100);
        let reply = format!(r#"{{"rid":"r","ok":true,"result":"{pad}"}}"#);
        let message = format!(r#"{{"type":"user_message","mid":"m","text":"{pad}"}}"#);
        let disguised = format!(r#"{{"rid":"r","type":"user_message","mid":"m","text":"{pad}"}}"#);
        assert_eq!(admit(&reply, Role::Panel, 50), Ok(()));
        assert!(admit(&reply, Role::Viewer, 50).is_err());
        assert_eq!(admit(&message, Role::Panel, 50).map_err(|outline| outline.mid), Err(Some("m")));
        assert!(admit(&disguised, Role::Panel, 50).is_err());
        assert_eq!(admit(&message, Role::Viewer, 500), Ok(()));
        let huge = format!(r#"{{"rid":"r","ok":true,"result":"{}"}}"#, "x".repeat(MOST_FRAME_BYTES));
        assert!(admit(&huge, Role::Panel, 50).is_err());
    }
}
