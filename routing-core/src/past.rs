//! What is past in a conversation: its sessions, the points that it can go back to, and which rows a transcript keeps
//! after that (rules B1, B2). It is given the rows of a log once, in their order; it must not know where they are kept.

use crate::frame::{PastSession, Span};
use crate::id::{AgentSessionId, MessageId, Seq, TurnId};
use serde_json::Value;
use std::collections::BTreeSet;

/// Most characters of a session's first words.
const TITLE: usize = 120;
/// How a session that no agent named is called: this, and where it begins.
const UNNAMED: &str = "log:";

/// Where to go back to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// Just after the turn that ended with this anchor; `None`: before everything.
    Anchor(Option<String>),
    /// Just before the turn that took this message.
    Before(MessageId),
    /// The end of a session.
    Session(AgentSessionId),
}

/// What is kept when a conversation goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Found {
    /// The rows that the transcript keeps, in order; none: it begins anew.
    pub kept: Vec<Span>,
    /// The agent's session that was at work there.
    pub session: Option<AgentSessionId>,
    /// The agent's own name for the point. Absent at the end of a session, and where the agent names none.
    pub anchor: Option<String>,
    /// The row of the message that is asked again.
    pub message: Option<Seq>,
    /// Its text, for whoever wants to change it.
    pub text: Option<String>,
}

/// Why there is no such point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotFound {
    /// No turn of this transcript ended with the anchor.
    Anchor,
    /// This transcript has no such message, or no turn took it.
    Message,
    /// No session of this name.
    Session,
    /// The log could not be read.
    Unreadable,
}

impl NotFound {
    /// What happened and what to do, for people.
    pub fn message(self) -> &'static str {
        match self {
            Self::Anchor => "There is no such point in this conversation any more. Choose another one.",
            Self::Message => "That message is not in this conversation, or was not answered yet. Take it back instead.",
            Self::Session => "There is no such session. Ask for the list again.",
            Self::Unreadable => "The conversation log cannot be read now. Try again; the daemon's own log says why.",
        }
    }

    /// Stable.
    pub fn code(self) -> &'static str {
        match self {
            Self::Anchor => "no_such_anchor",
            Self::Message => "no_such_message",
            Self::Session => "no_such_session",
            Self::Unreadable => "log_unreadable",
        }
    }
}

/// What panels are told as the point after a turn for which the agent named none.
pub fn anchor_of(turn: TurnId) -> String {
    format!("turn:{turn}")
}

/// The rows that a boundary keeps, as its row says.
pub fn kept_by(boundary: &Value) -> Vec<Span> {
    boundary.get("kept").and_then(|kept| serde_json::from_value(kept.clone()).ok()).unwrap_or_default()
}

/// The rows that a row names in a field, such as `takes` of a turn's start.
pub fn seqs(body: &Value, field: &str) -> Vec<Seq> {
    let list = body.get(field).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_u64).map(Seq).collect()
}

/// From one boundary to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Chapter {
    begins: Seq,
    kept: Vec<Span>,
    upto: Seq,
    session: Option<AgentSessionId>,
    at_ms: i64,
}

impl Chapter {
    /// All that its transcript shows.
    fn spans(&self) -> Vec<Span> {
        let mut spans = self.kept.clone();
        let own = Span { after: first_shown(self.begins, &self.kept), upto: self.upto };
        spans.extend(Some(own).filter(|own| own.after < own.upto));
        spans
    }

    fn name(&self) -> AgentSessionId {
        self.session.clone().unwrap_or_else(|| AgentSessionId(format!("{UNNAMED}{}", self.begins)))
    }
}

/// After which row a transcript goes on behind what it keeps: the boundary itself is shown when something stands before it.
pub fn first_shown(boundary: Seq, kept: &[Span]) -> Seq {
    if kept.is_empty() { boundary } else { Seq(boundary.0.saturating_sub(1)) }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Turn {
    id: TurnId,
    start: Seq,
    end: Option<Seq>,
    takes: Vec<Seq>,
    anchor: Option<String>,
    session: Option<AgentSessionId>,
}

/// Something that was said to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Said {
    seq: Seq,
    /// Of a message of the person.
    mid: Option<MessageId>,
    by_person: bool,
    words: String,
}

/// The past of one conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    chapters: Vec<Chapter>,
    turns: Vec<Turn>,
    said: Vec<Said>,
    /// Rows that count as messages.
    messages: Vec<Seq>,
}

impl Past {
    /// Takes the next row.
    pub fn take(&mut self, seq: Seq, kind: &str, at_ms: i64, body: &Value) {
        if self.chapters.is_empty() {
            self.chapters.push(Chapter::default());
        }
        let text = |field: &str| body.get(field).and_then(Value::as_str);
        match kind {
            "boundary" => {
                let left = text("left").map(AgentSessionId::from);
                if let Some(before) = self.chapters.last_mut() {
                    before.session = before.session.take().or(left);
                }
                let resumed = text("reason") == Some("resume_session");
                let session = text("session_id").filter(|_| resumed).map(AgentSessionId::from);
                self.chapters.push(Chapter { begins: seq, kept: kept_by(body), session, ..Chapter::default() });
            }
            "user" | "event" | "answer" => {
                let words = text("text").unwrap_or_default().chars().take(TITLE).collect();
                let (mid, by_person) = (text("mid").map(MessageId::from), kind == "user");
                self.said.push(Said { seq, mid, by_person, words });
                self.messages.extend(by_person.then_some(seq));
            }
            "say" => self.messages.push(seq),
            "turn_start" => self.turn_started(seq, body),
            "turn_end" => self.turn_ended(seq, body),
            _ => {}
        }
        if let Some(chapter) = self.chapters.last_mut() {
            chapter.upto = seq;
            chapter.at_ms = at_ms;
        }
    }

    fn turn_started(&mut self, seq: Seq, body: &Value) {
        let id = turn_of(body);
        let takes = seqs(body, "takes");
        match self.turns.iter_mut().rev().find(|turn| turn.id == id && turn.end.is_none()) {
            // It took more on its way.
            Some(turn) => turn.takes.extend(takes),
            None => self.turns.push(Turn { id, start: seq, end: None, takes, anchor: None, session: None }),
        }
    }

    fn turn_ended(&mut self, seq: Seq, body: &Value) {
        let text = |field: &str| body.get(field).and_then(Value::as_str);
        let (anchor, session) = (text("anchor").map(str::to_owned), text("session").map(AgentSessionId::from));
        if let (Some(session), Some(chapter)) = (&session, self.chapters.last_mut()) {
            chapter.session = Some(session.clone());
        }
        let id = turn_of(body);
        if let Some(turn) = self.turns.iter_mut().rev().find(|turn| turn.id == id && turn.end.is_none()) {
            (turn.end, turn.anchor, turn.session) = (Some(seq), anchor, session);
        }
    }

    /// Sessions with something to read, the newest first, each once. What goes on with one stands for it.
    pub fn sessions(&self) -> Vec<PastSession> {
        let current = self.chapters.last().map(Chapter::name);
        let mut known = BTreeSet::new();
        let mut sessions = Vec::new();
        for chapter in self.chapters.iter().rev().filter(|chapter| self.is_spoken_in(chapter)) {
            let name = chapter.name();
            if !known.insert(name.clone()) {
                continue;
            }
            let spans = chapter.spans();
            let first = self.said.iter().find(|said| said.by_person && holds(&spans, said.seq));
            sessions.push(PastSession {
                current: Some(&name) == current.as_ref(),
                session_id: name,
                title: first.map(|said| said.words.clone()).unwrap_or_default(),
                updated_at: chapter.at_ms,
                message_count: self.messages.iter().filter(|seq| holds(&spans, **seq)).count() as u64,
            });
        }
        sessions
    }

    /// The rows of a session; `None` stands for the one that is shown now.
    pub fn rows_of(&self, session: Option<&AgentSessionId>) -> Option<Vec<Span>> {
        let chapter = match session {
            Some(name) => self.chapter(name)?,
            None => return Some(self.shown()),
        };
        Some(chapter.spans())
    }

    /// The session in which a row was written, and its first words.
    pub fn session_at(&self, seq: Seq) -> Option<AgentSessionId> {
        let chapter = self.chapters.iter().rev().find(|chapter| chapter.begins < seq)?;
        Some(chapter.name())
    }

    /// The newest chapter of a session in which something was said, else the newest at all.
    fn chapter(&self, name: &AgentSessionId) -> Option<&Chapter> {
        let of = || self.chapters.iter().rev().filter(|chapter| chapter.name() == *name);
        of().find(|chapter| self.is_spoken_in(chapter)).or_else(|| of().next())
    }

    /// Whether the person said something in it.
    fn is_spoken_in(&self, chapter: &Chapter) -> bool {
        self.said.iter().any(|said| said.by_person && said.seq > chapter.begins && said.seq <= chapter.upto)
    }

    fn shown(&self) -> Vec<Span> {
        self.chapters.last().map(Chapter::spans).unwrap_or_default()
    }

    /// What is kept when the conversation goes back to a point.
    ///
    /// # Errors
    /// See [`NotFound`].
    pub fn find(&self, point: &Point) -> Result<Found, NotFound> {
        let shown = self.shown();
        match point {
            Point::Anchor(None) => Ok(Found::default()),
            Point::Anchor(Some(anchor)) => {
                let is_it = |turn: &&Turn| turn.anchor.as_ref() == Some(anchor) || anchor_of(turn.id) == *anchor;
                let turn = self.ended(&shown).rev().find(is_it).ok_or(NotFound::Anchor)?;
                Ok(self.after(turn, &shown))
            }
            Point::Before(mid) => {
                let is_it = |said: &&Said| said.mid.as_ref() == Some(mid) && holds(&shown, said.seq);
                let said = self.said.iter().find(is_it).ok_or(NotFound::Message)?;
                let took = self.turns.iter().find(|turn| turn.takes.contains(&said.seq)).ok_or(NotFound::Message)?;
                let before = self.ended(&shown).rev().find(|turn| turn.end < Some(took.start));
                let found = before.map(|turn| self.after(turn, &shown)).unwrap_or_default();
                Ok(Found { message: Some(said.seq), ..found })
            }
            Point::Session(name) => match self.chapter(name) {
                Some(chapter) => {
                    Ok(Found { kept: chapter.spans(), session: chapter.session.clone(), ..Found::default() })
                }
                None if is_unnamed(name) => Err(NotFound::Session),
                // The agent's own, from before this log, or from elsewhere.
                None => Ok(Found { session: Some(name.clone()), ..Found::default() }),
            },
        }
    }

    /// Turns whose end is shown, oldest first.
    fn ended<'a>(&'a self, shown: &'a [Span]) -> impl DoubleEndedIterator<Item = &'a Turn> {
        self.turns.iter().filter(|turn| turn.end.is_some_and(|end| holds(shown, end)))
    }

    /// What is shown up to the end of a turn. What waited meanwhile was said to a later one.
    fn after(&self, turn: &Turn, shown: &[Span]) -> Found {
        let end = turn.end.unwrap_or_default();
        let taken: BTreeSet<Seq> =
            self.ended(shown).filter(|one| one.start <= end).flat_map(|one| &one.takes).copied().collect();
        let waited = |said: &&Said| said.seq <= end && !taken.contains(&said.seq);
        let mut kept = Vec::new();
        let mut waiting = self.said.iter().filter(waited).map(|said| said.seq).peekable();
        for span in shown {
            let (mut after, upto) = (span.after, span.upto.min(end));
            while let Some(seq) = waiting.next_if(|seq| *seq <= upto) {
                if seq > after {
                    kept.push(Span { after, upto: Seq(seq.0 - 1) });
                    after = seq;
                }
            }
            kept.push(Span { after, upto });
        }
        kept.retain(|span| span.after < span.upto);
        Found { kept, session: turn.session.clone(), anchor: turn.anchor.clone(), message: None, text: None }
    }
}

fn turn_of(body: &Value) -> TurnId {
    TurnId(body.get("turn").and_then(Value::as_u64).unwrap_or_default())
}

fn holds(spans: &[Span], seq: Seq) -> bool {
    spans.iter().any(|span| span.after < seq && seq <= span.upto)
}

fn is_unnamed(name: &AgentSessionId) -> bool {
    name.as_str().strip_prefix(UNNAMED).is_some_and(|rest| rest.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use serde_json::json;

    fn past(rows: &[(&str, Value)]) -> Past {
        let mut past = Past::default();
        for (at, (kind, body)) in rows.iter().enumerate() {
            past.take(Seq(at as u64 + 1), kind, at as i64, body);
        }
        past
    }

    fn turn(id: u64, takes: &[u64]) -> (&'static str, Value) {
        ("turn_start", json!({"turn": id, "takes": takes}))
    }

    fn end(id: u64, anchor: Option<&str>, session: &str) -> (&'static str, Value) {
        ("turn_end", json!({"turn": id, "outcome": "completed", "anchor": anchor, "session": session}))
    }

    fn user(mid: &str) -> (&'static str, Value) {
        ("user", json!({"mid": mid, "text": format!("text of {mid}")}))
    }

    fn say() -> (&'static str, Value) {
        ("say", json!({"text": "done"}))
    }

    fn spans(list: &[(u64, u64)]) -> Vec<Span> {
        list.iter().map(|(after, upto)| Span { after: Seq(*after), upto: Seq(*upto) }).collect()
    }

    /// 1 m1, 2 start, 3 m2 (waits), 4 say, 5 end; 6 start of m2, 7 say, 8 end; 9 m3, 10 start, 11 end.
    fn two_turns() -> Vec<(&'static str, Value)> {
        vec![
            user("m1"),
            turn(1, &[1]),
            user("m2"),
            say(),
            end(1, Some("a1"), "s1"),
            turn(2, &[3]),
            say(),
            end(2, None, "s1"),
            user("m3"),
            turn(3, &[9]),
            end(3, Some("a3"), "s1"),
        ]
    }

    #[test]
    fn b1_a_message_that_waited_at_the_point_is_not_kept() {
        let found = past(&two_turns()).find(&Point::Before("m2".into())).unwrap();
        assert_eq!(found.kept, spans(&[(0, 2), (3, 5)]));
        assert_eq!((found.anchor.as_deref(), found.message), (Some("a1"), Some(Seq(3))));
        assert_eq!(found.session, Some("s1".into()));
    }

    #[test]
    fn b1_points_are_told_by_the_agents_anchor_or_by_ours() {
        let past = past(&two_turns());
        let kept = |anchor: &str| past.find(&Point::Anchor(Some(anchor.into()))).map(|found| found.kept);
        assert_eq!(kept("a3"), Ok(spans(&[(0, 11)])));
        assert_eq!(kept("turn:2"), Ok(spans(&[(0, 8)])));
        assert_eq!(past.find(&Point::Anchor(Some("turn:2".into()))).unwrap().anchor, None, "the agent named none");
        assert_eq!(kept("turn:4"), Err(NotFound::Anchor));
        assert_eq!(past.find(&Point::Anchor(None)), Ok(Found::default()));
        assert_eq!(past.find(&Point::Before("m1".into())).unwrap().kept, []);
        assert_eq!(past.find(&Point::Before("m9".into())), Err(NotFound::Message));
    }

    #[test]
    fn b1_a_message_that_no_turn_took_is_no_point() {
        let mut rows = two_turns();
        rows.push(user("m4"));
        assert_eq!(past(&rows).find(&Point::Before("m4".into())), Err(NotFound::Message));
    }

    #[test]
    fn b2_what_was_gone_back_from_is_no_point_any_more_but_a_session() {
        let mut rows = two_turns();
        // As it is written: without the message that waited at the point.
        rows.push(("boundary", json!({"reason": "rewind", "kept": spans(&[(0, 2), (3, 5)])})));
        rows.extend([user("m5"), turn(4, &[13]), say(), end(4, Some("a4"), "s2")]);
        let past = past(&rows);
        assert_eq!(past.find(&Point::Anchor(Some("a3".into()))), Err(NotFound::Anchor));
        assert_eq!(past.find(&Point::Before("m3".into())), Err(NotFound::Message));
        assert_eq!(past.find(&Point::Before("m5".into())).unwrap().kept, spans(&[(0, 2), (3, 5)]));
        let session = past.find(&Point::Session("s1".into())).unwrap();
        assert_eq!(session.kept, spans(&[(0, 11)]));
        let again = past.find(&Point::Anchor(Some("a4".into()))).unwrap();
        assert_eq!(again.kept, spans(&[(0, 2), (3, 5), (11, 16)]), "the boundary stands between");
        let names: Vec<_> = past.sessions().into_iter().map(|one| (one.session_id.0, one.message_count)).collect();
        assert_eq!(names, [("s2".to_owned(), 4), ("s1".to_owned(), 5)]);
    }

    #[test]
    fn b1_a_resumed_session_is_listed_once_with_all_of_it() {
        let mut rows = two_turns();
        rows.push(("boundary", json!({"reason": "new_session"})));
        rows.extend([user("m5"), turn(4, &[13]), end(4, None, "s2")]);
        rows.push(("boundary", json!({"reason": "resume_session", "session_id": "s1", "kept": spans(&[(0, 11)])})));
        let listed = |rows: &[(&str, Value)]| {
            let list = past(rows).sessions();
            list.into_iter().map(|one| (one.session_id.0, one.title, one.current)).collect::<Vec<_>>()
        };
        let name = |id: &str, words: &str, current| (id.to_owned(), words.to_owned(), current);
        assert_eq!(listed(&rows), [name("s2", "text of m5", false), name("s1", "text of m1", true)]);
        rows.extend([user("m6"), turn(5, &[17]), end(5, None, "s1")]);
        assert_eq!(listed(&rows), [name("s1", "text of m1", true), name("s2", "text of m5", false)]);
        assert_eq!(past(&rows).find(&Point::Session("s1".into())).unwrap().kept, spans(&[(0, 11), (15, 19)]));
    }

    #[test]
    fn b1_a_session_that_no_agent_named_is_found_by_its_place() {
        let rows = [user("m1"), say(), ("boundary", json!({"reason": "new_session"})), user("m2")];
        let named = [user("m1"), ("boundary", json!({"reason": "new_session", "left": "s1"}))];
        assert_eq!(past(&named).sessions()[0].session_id, "s1".into(), "it ended before its first turn did");
        let past = past(&rows);
        let names: Vec<_> = past.sessions().into_iter().map(|one| one.session_id.0).collect();
        assert_eq!(names, ["log:3", "log:0"]);
        let found = past.find(&Point::Session("log:0".into())).unwrap();
        assert_eq!((found.kept, found.session), (spans(&[(0, 2)]), None));
        assert_eq!(past.find(&Point::Session("log:7".into())), Err(NotFound::Session));
        assert_eq!(past.find(&Point::Session("elsewhere".into())).unwrap().session, Some("elsewhere".into()));
        assert_eq!(past.session_at(Seq(4)), Some("log:3".into()));
    }
}
