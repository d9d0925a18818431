//! What is past: going back, going on with an earlier session, and reading in the log. Each request has a number; an
//! answer to an older one of its kind is dropped. It keeps nothing of what is told but the parts of a document.

use super::{Panel, UiChange};
use crate::frame::{
    ExportFormat, ExportHistory, HistoryExport, HistoryFound, HistoryList, ListHistory, PanelFrame, ResumeSession,
    Rewind, SearchHistory,
};
use crate::id::{AgentSessionId, MessageId};

/// The requests that are under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct History {
    asked: u64,
    list: Option<String>,
    search: Option<String>,
    /// And what has come of the document.
    export: Option<(String, String)>,
}

impl History {
    fn fresh(&mut self) -> String {
        self.asked += 1;
        format!("h{}", self.asked)
    }
}

impl Panel {
    pub(super) fn rewind(&mut self, mid: MessageId) {
        self.request(PanelFrame::Rewind(Rewind { anchor: None, mid: Some(mid), extra: Default::default() }));
    }

    pub(super) fn resume(&mut self, session_id: AgentSessionId) {
        self.request(PanelFrame::ResumeSession(ResumeSession { session_id, extra: Default::default() }));
    }

    pub(super) fn list_sessions(&mut self) {
        let cid = self.history.fresh();
        self.history.list = Some(cid.clone());
        self.request(PanelFrame::ListHistory(ListHistory { cid, extra: Default::default() }));
    }

    pub(super) fn search(&mut self, words: String) {
        let cid = self.history.fresh();
        self.history.search = Some(cid.clone());
        self.request(PanelFrame::SearchHistory(SearchHistory { cid, words, extra: Default::default() }));
    }

    pub(super) fn export(&mut self, format: ExportFormat, session_id: Option<AgentSessionId>) {
        let cid = self.history.fresh();
        self.history.export = Some((cid.clone(), String::new()));
        let extra = Default::default();
        self.request(PanelFrame::ExportHistory(ExportHistory { cid, format, session_id, extra }));
    }

    pub(super) fn listed(&mut self, frame: HistoryList) {
        if self.history.list.take_if(|cid| *cid == frame.cid).is_some() {
            self.show(UiChange::Sessions { sessions: frame.sessions, error: frame.error });
        }
    }

    pub(super) fn found(&mut self, frame: HistoryFound) {
        if self.history.search.take_if(|cid| *cid == frame.cid).is_some() {
            self.show(UiChange::Found { hits: frame.hits, more: frame.more, error: frame.error });
        }
    }

    pub(super) fn exported(&mut self, frame: HistoryExport) {
        let Some((_, text)) = self.history.export.as_mut().filter(|(cid, _)| *cid == frame.cid) else { return };
        text.push_str(&frame.text);
        if let Some(error) = frame.error {
            self.history.export = None;
            self.notice("export_failed", &error);
        } else if frame.last {
            let text = std::mem::take(text);
            self.history.export = None;
            self.show(UiChange::Exported { name: frame.name, text });
        }
    }
}
