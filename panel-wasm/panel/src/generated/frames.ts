// Generated from routing-core by `cargo xtask types`. Not to be edited.

/** The dialect: `hello.protocol`. */
export const PROTOCOL = 1

/** Every code of a refusal. */
export type RefusalCode = Refusal['code']

/**
 * A request was taken.
 */
export type Ack = {
/**
 * Whether it was.
 */
ok: boolean,
/**
 * Which: `working`, `seen`, `ready`, `degraded`, `interrupt`, `cancel_message`, `reorder`, `new_session`, …
 */
kind: string,
/**
 * The message, where it is about one.
 */
mid?: MessageId,
/**
 * Why not.
 */
message?: string, };

/**
 * A tool call began.
 */
export type Action = {
/**
 * The tool.
 */
name: string,
/**
 * What it is about.
 */
detail?: string, };

/**
 * An agent's own name for its session or thread, opaque to us.
 */
export type AgentSessionId = string;

/**
 * Usage figures.
 */
export type AgentStatus = {
/**
 * Tokens in the context.
 */
used?: number,
/**
 * Size of the context in tokens.
 */
context_window?: number,
/**
 * The model that answered.
 */
model?: string,
/**
 * Cost so far, in millionths of a dollar.
 */
cost_micros?: number, };

/**
 * A question was closed elsewhere.
 */
export type AskClosed = {
/**
 * Which.
 */
ask_id: AskId, };

/**
 * One question card.
 */
export type AskId = string;

/**
 * One agent.
 */
export type BackendInfo = {
/**
 * Its name in the configuration.
 */
backend: string,
/**
 * The program was found.
 */
cli: boolean,
/**
 * Signed in; `null`: cannot be told.
 */
auth: boolean | null,
/**
 * Can be used now.
 */
ready: boolean,
/**
 * Is configured.
 */
available: boolean,
/**
 * Its version.
 */
version?: string,
/**
 * What mends it when it is not ready.
 */
mend?: string, };

/**
 * Agents to choose from.
 */
export type Backends = {
/**
 * In the order of preference.
 */
backends: Array<BackendInfo>,
/**
 * Whether any can be used now.
 */
any_ready: boolean,
/**
 * Whether all were looked at.
 */
discovery_complete: boolean, };

/**
 * A command that a tab is at work on (report 65).
 */
export type Busy = {
/**
 * Its name on the wire.
 */
cmd: string,
/**
 * For how long, in milliseconds.
 */
for_ms: number, };

/**
 * Take back a message that still waits.
 */
export type CancelMessage = {
/**
 * Which.
 */
mid: MessageId, };

/**
 * A tab that a caller could choose instead.
 */
export type Candidate = {
/**
 * What to give as `tab`.
 */
tab: TabKey,
/**
 * What a person sees: the title of the workflow in front.
 */
title: string, };

/**
 * Which canvas object shows a workflow, as the panel names it (rule G9).
 */
export type CanvasToken = string;

/**
 * One choice of a question.
 */
export type Choice = {
/**
 * What is chosen and answered.
 */
label: string,
/**
 * More about it.
 */
description?: string, };

/**
 * Which ComfyUI the tab's tools use (one authority, report 25).
 */
export type ComfyuiTarget = {
/**
 * Its address.
 */
url: string,
/**
 * Whether it is on this machine.
 */
is_local: boolean, };

/**
 * Something to do on the canvas of one tab.
 */
export type CommandFrame = {
/**
 * This dispatch. A retry has another.
 */
rid: Rid,
/**
 * The command, a row of the table.
 */
cmd: string,
/**
 * How long the daemon waits, in milliseconds.
 */
timeout_ms: number,
/**
 * The stamp: the instance that the call was issued for (rule G5).
 */
workflow_uuid?: WorkflowUuid,
/**
 * The pin (rules G3, G4).
 */
workflow_path?: string,
/**
 * An earlier dispatch with unknown outcome: answer from the ledger if it was carried out (rule G11).
 */
retry_of?: Rid, };

/**
 * State of the connection.
 */
export type ConnectionState = "idle" | "connecting" | "connected" | "waiting" | "down";

/**
 * Whose memory and transcript: `orchestrator::<backend>` (rule S1). Minted by the daemon, lives on disk.
 */
export type ConversationKey = string;

/**
 * The frames that are told by `type`.
 */
export type DaemonFrame = { "type": "welcome" } & Welcome | { "type": "session_epoch" } & SessionEpoch | { "type": "models" } & Models | { "type": "backends" } & Backends | { "type": "workflow_target" } & WorkflowTargetFrame | { "type": "comfyui_target" } & ComfyuiTarget | { "type": "ack" } & Ack | { "type": "nack" } & Nack | { "type": "echo" } & Echo | { "type": "say" } & Say | { "type": "stream" } & Stream | { "type": "action" } & Action | { "type": "turn" } & Turn | { "type": "session" } & Session | { "type": "turn_anchor" } & TurnAnchor | { "type": "agent_status" } & AgentStatus | { "type": "entry" } & Entry | { "type": "transcript" } & Transcript | { "type": "history_list" } & HistoryList | { "type": "history_transcript" } & HistoryTranscript | { "type": "history_found" } & HistoryFound | { "type": "history_export" } & HistoryExport | { "type": "ask_closed" } & AskClosed | { "type": "download_progress" } & DownloadProgress | { "type": "overloaded" } & Overloaded;

/**
 * An installation.
 */
export type Download = {
/**
 * Its job.
 */
id: PromptId,
/**
 * What is installed, for people.
 */
name: string,
/**
 * `downloading`, `done`, `error` or `unknown`.
 */
status: string, };

/**
 * The installations of a conversation that go on, and those that ended just now: all of them, each time one changes.
 */
export type DownloadProgress = {
/**
 * In the order in which they were asked for.
 */
downloads: Array<Download>, };

/**
 * Legacy: what the person said.
 */
export type Echo = {
/**
 * The text.
 */
text: string,
/**
 * The message.
 */
mid?: MessageId, };

/**
 * One committed row of the log.
 */
export type Entry = {
/**
 * Its place: gapless in a conversation.
 */
seq: Seq,
/**
 * `user`, `say`, `notice`, `action`, `event`, `run`, `turn_start`, `turn_end`, `boundary`, `cancelled`.
 */
kind: string,
/**
 * The message, for `user`.
 */
mid?: MessageId,
/**
 * The turn that it belongs to.
 */
turn?: TurnId,
/**
 * Where a message came from: `tab`, `title`, `workflow_uuid`, `handle`.
 */
origin?: JsonValue,
/**
 * The text, where the row has one.
 */
text?: string,
/**
 * When it was committed, in milliseconds since 1970.
 */
at_ms?: number, };

/**
 * The form of a document.
 */
export type ExportFormat = "md" | "json";

/**
 * A session as a document.
 */
export type ExportHistory = {
/**
 * Names the request.
 */
cid: string,
/**
 * `md` or `json`.
 */
format: ExportFormat,
/**
 * From `history_list`. Absent: what is shown now.
 */
session_id?: AgentSessionId, };

/**
 * Who is there.
 */
export type Hello = {
/**
 * Dialect 1: the browser tab's own id. Legacy: the route, which changes with the workflow. Required.
 */
tab_id?: string,
/**
 * Absent in the legacy dialect.
 */
protocol?: number,
/**
 * Last `seq` that the panel shows; absent: none.
 */
after?: Seq,
/**
 * The workflow in front.
 */
workflow?: WorkflowIdentity,
/**
 * Legacy form of `workflow.uuid`.
 */
workflow_uuid?: WorkflowUuid,
/**
 * Title of the workflow in front.
 */
title?: string,
/**
 * The panel's version.
 */
panel_version?: string,
/**
 * Which conversation to take part in. Absent: as before, else the default; never an implicit change.
 */
backend?: string,
/**
 * The browser tab's own id in the legacy dialect.
 */
tab_session_id?: string,
/**
 * A client without a canvas.
 */
headless?: boolean,
/**
 * The agent gets no pixels (rule F6). Absent is not off.
 */
blind?: boolean,
/**
 * The agent session that the panel last knew: a last resort (rule S5).
 */
resume?: AgentSessionId,
/**
 * Shown, never called.
 */
comfyui_url?: string,
/**
 * Legacy: the stamp is compared at dispatch.
 */
enforces_workflow_stamp?: boolean,
/**
 * Legacy: the stamp is compared again at the write.
 */
enforces_workflow_stamp_at_write?: boolean, };

/**
 * A part of a document; parts come in order.
 */
export type HistoryExport = {
/**
 * Names the request.
 */
cid: string,
/**
 * A name for the file.
 */
name: string,
/**
 * The next part of its text.
 */
text: string,
/**
 * Nothing follows.
 */
last: boolean,
/**
 * Why there is no document.
 */
error?: string, };

/**
 * Where some words stand, the newest first.
 */
export type HistoryFound = {
/**
 * Names the request.
 */
cid: string,
/**
 * The rows that have every word.
 */
hits: Array<Hit>,
/**
 * There are more.
 */
more: boolean,
/**
 * Why nothing was looked for; then `hits` says nothing.
 */
error?: string, };

/**
 * The sessions of the conversation, the newest first.
 */
export type HistoryList = {
/**
 * Names the request.
 */
cid: string,
/**
 * At most 50.
 */
sessions: Array<PastSession>,
/**
 * Why there is no list; then `sessions` says nothing.
 */
error?: string, };

/**
 * What was said in a session, oldest first.
 */
export type HistoryTranscript = {
/**
 * Names the request.
 */
cid: string,
/**
 * Of which session.
 */
session_id: AgentSessionId,
/**
 * At most the newest 500.
 */
messages: Array<PastMessage>,
/**
 * Why there is none; then `messages` says nothing.
 */
error?: string, };

/**
 * A row that has every word.
 */
export type Hit = {
/**
 * Its place.
 */
seq: Seq,
/**
 * Its kind, as in `entry`.
 */
kind: string,
/**
 * When it was written, in milliseconds since 1970.
 */
at_ms: number,
/**
 * The text around the first word.
 */
text: string,
/**
 * In which session; what `resume_session` takes.
 */
session_id?: AgentSessionId, };

/**
 * Stop the turn.
 */
export type Interrupt = {
/**
 * Send now: what was interrupted goes back to the front of the queue (rule T8).
 */
requeue: boolean, };

export type JsonValue = number | string | boolean | Array<JsonValue> | { [key in string]: JsonValue } | null;

/**
 * Which sessions there are.
 */
export type ListHistory = {
/**
 * Names the request.
 */
cid: string, };

/**
 * What was said in a session.
 */
export type LoadHistory = {
/**
 * Names the request.
 */
cid: string,
/**
 * From `history_list`.
 */
session_id: AgentSessionId, };

/**
 * A panel's id of one message, idempotent (rule D6).
 */
export type MessageId = string;

/**
 * State of a message of this panel.
 */
export type MessageState = "waiting" | "sent" | "accepted" | "seen" | "done" | "cancelled" | "failed";

/**
 * One model.
 */
export type Model = {
/**
 * What `set_options.model` takes.
 */
value: string,
/**
 * What a person reads.
 */
displayName: string, };

/**
 * Models of the conversation's agent.
 */
export type Models = {
/**
 * Which run of the daemon this is, again.
 */
epoch: string,
/**
 * To choose from; may be empty.
 */
models: Array<Model>,
/**
 * The chosen one.
 */
current?: string,
/**
 * Whose models.
 */
backend: string, };

/**
 * A frame was refused: never dropped in silence.
 */
export type Nack = {
/**
 * The message that was refused.
 */
mid?: MessageId,
/**
 * The command whose reply was refused.
 */
rid?: Rid,
/**
 * Stable.
 */
code: string,
/**
 * What happened and what to do.
 */
message: string,
/**
 * When to try again.
 */
retry_after_ms?: number, };

/**
 * New chat.
 */
export type NewSession = {  };

/**
 * Why a turn has no target.
 */
export type NoTarget = "mixed_origins" | "unknown_origin" | "nothing_to_inherit" | "ownership_lost" | "several_tabs" | "never_set";

/**
 * How a command ended.
 */
export type Outcome = { "outcome": "ok",
/**
 * What came of it.
 */
result: JsonValue, } | { "outcome": "refused",
/**
 * The refusal, as it was given.
 */
refusal: JsonValue, } | { "outcome": "failed",
/**
 * Stable, such as `unknown_node`.
 */
code: string,
/**
 * What happened and what would be valid.
 */
message: string, };

/**
 * A bounded queue is full; the socket is closed after it and the panel reads again from `after`.
 */
export type Overloaded = {
/**
 * How many frames were not sent.
 */
dropped: number,
/**
 * When to come back.
 */
retry_after_ms: number, };

/**
 * What a panel is made with. It never changes afterwards.
 */
export type PanelConfig = {
/**
 * The browser tab's own id: proves a reconnect, addresses nothing.
 */
tab_id: string,
/**
 * The panel's version, told in every hello.
 */
version: string,
/**
 * Which conversation to ask for. Absent: as before, else the daemon's default.
 */
backend?: string,
/**
 * Shown by the daemon, never called.
 */
comfyui_url?: string,
/**
 * What the last [`PanelOutput::Remember`] of an earlier page in this browser tab said (rule G11).
 */
begun?: Array<Rid>, };

/**
 * Something happened at ComfyUI.
 */
export type PanelEvent = {
/**
 * `executed` (a run ended) or `run_error`.
 */
kind: string,
/**
 * The run, for `executed`.
 */
prompt_id?: PromptId,
/**
 * `success`, `error` or `interrupted`.
 */
run_status?: string,
/**
 * What went wrong.
 */
error?: string,
/**
 * Outputs: objects with `filename`, `subfolder`, `type`.
 */
images?: Array<JsonValue>, };

/**
 * The frames that are told by `type`.
 */
export type PanelFrame = { "type": "hello" } & Hello | { "type": "title" } & Title | { "type": "user_message" } & UserMessage | { "type": "interrupt" } & Interrupt | { "type": "cancel_message" } & CancelMessage | { "type": "reorder" } & Reorder | { "type": "new_session" } & NewSession | { "type": "resume_session" } & ResumeSession | { "type": "rewind" } & Rewind | { "type": "list_history" } & ListHistory | { "type": "load_history" } & LoadHistory | { "type": "search_history" } & SearchHistory | { "type": "export_history" } & ExportHistory | { "type": "set_backend" } & SetBackend | { "type": "set_options" } & SetOptions | { "type": "set_workflow_target" } & SetWorkflowTarget | { "type": "set_content_mode" } & SetContentMode | { "type": "set_config" } & SetConfig | { "type": "agent_event" } & PanelEvent;

/**
 * Something happened: at the socket, at the canvas, or by the person's hand.
 */
export type PanelInput = { "input": "start" } | { "input": "reconnect" } | { "input": "tick" } | { "input": "opened",
/**
 * Which, from [`PanelOutput::Connect`].
 */
socket: number, } | { "input": "frame",
/**
 * On which socket.
 */
socket: number,
/**
 * As it came.
 */
text: string, } | { "input": "closed",
/**
 * Which.
 */
socket: number,
/**
 * The close code; 1006 when there was none.
 */
code: number,
/**
 * The reason given.
 */
reason: string, } | { "input": "canvas",
/**
 * The workflow in front.
 */
workflow?: WorkflowIdentity, } | { "input": "done",
/**
 * Which.
 */
rid: Rid,
/**
 * How.
 */
outcome: Outcome,
/**
 * The workflow that is now in front (rule G8).
 */
workflow?: WorkflowIdentity, } | { "input": "run_finished",
/**
 * The run.
 */
prompt_id: PromptId,
/**
 * `success`, `error` or `interrupted`.
 */
status: string,
/**
 * Outputs: objects with `filename`, `subfolder`, `type`.
 */
images?: Array<JsonValue>,
/**
 * What went wrong.
 */
error?: string, } | { "input": "send",
/**
 * Fresh: it makes the message idempotent (rule D6).
 */
mid: MessageId,
/**
 * The text.
 */
text: string,
/**
 * For the agent only.
 */
context?: string,
/**
 * Interrupt the running turn for it (rule T8).
 */
now?: boolean, } | { "input": "send_now" } | { "input": "resend",
/**
 * Which.
 */
mid: MessageId, } | { "input": "cancel",
/**
 * Which.
 */
mid: MessageId, } | { "input": "reorder",
/**
 * Those that are not named go last.
 */
order: Array<MessageId>, } | { "input": "stop" } | { "input": "new_chat" } | { "input": "rewind",
/**
 * Which; its text comes back as [`UiChange::Recalled`].
 */
mid: MessageId, } | { "input": "resume",
/**
 * From [`UiChange::Sessions`].
 */
session_id: AgentSessionId, } | { "input": "list_sessions" } | { "input": "search",
/**
 * Words, not an expression.
 */
words: string, } | { "input": "export",
/**
 * Its form.
 */
format: ExportFormat,
/**
 * Absent: what is shown now.
 */
session_id?: AgentSessionId, } | { "input": "set_backend",
/**
 * Its agent's name.
 */
backend: string, } | { "input": "set_target",
/**
 * The wish; what holds is told by [`UiChange::Target`].
 */
target: Target, } | { "input": "set_model",
/**
 * A value from [`UiChange::Models`].
 */
model: string, } | { "input": "set_blind",
/**
 * On or off.
 */
on: boolean, } | { "input": "answer",
/**
 * Which.
 */
ask_id: AskId,
/**
 * The chosen label, or a list of them.
 */
result: JsonValue, };

/**
 * Something to do, in this order.
 */
export type PanelOutput = { "output": "connect",
/**
 * Its number, for the inputs about it.
 */
socket: number, } | { "output": "disconnect",
/**
 * Which.
 */
socket: number, } | { "output": "transmit",
/**
 * On which socket.
 */
socket: number,
/**
 * The frame.
 */
text: string, } | { "output": "remember",
/**
 * The newest commands with an effect, oldest first: at most 64.
 */
begun: Array<Rid>, } | { "output": "execute",
/**
 * This dispatch.
 */
rid: Rid,
/**
 * A row of the table.
 */
cmd: string,
/**
 * Its own arguments.
 */
args: Record<string, unknown>,
/**
 * How long the daemon waits, in milliseconds.
 */
timeout_ms: number, } | { "output": "ui",
/**
 * What changed.
 */
change: UiChange, };

/**
 * One message of a session.
 */
export type PastMessage = {
/**
 * `user` or `assistant`.
 */
role: string,
/**
 * What was said.
 */
text: string, };

/**
 * One session of the conversation.
 */
export type PastSession = {
/**
 * What `resume_session` takes: the agent's name for it, else `log:` and where it begins.
 */
sessionId: AgentSessionId,
/**
 * The first words of the person.
 */
title: string,
/**
 * When its last row was written, in milliseconds since 1970.
 */
updatedAt: number,
/**
 * How many messages it has, of both sides.
 */
messageCount: number,
/**
 * It is the one that is going on.
 */
current: boolean, };

/**
 * One queued prompt of ComfyUI.
 */
export type PromptId = string;

/**
 * A question with choices.
 */
export type Question = {
/**
 * Which.
 */
ask_id: AskId,
/**
 * A short heading.
 */
header?: string,
/**
 * The question.
 */
question: string,
/**
 * Two or more choices.
 */
options: Array<Choice>,
/**
 * Several may be chosen.
 */
multi_select: boolean, };

/**
 * A refusal. Nothing was applied, unless the variant says that this is unknown.
 */
export type Refusal = { "code": "workflow_mismatch",
/**
 * What the command was pinned to.
 */
wanted: string,
/**
 * The handle of the workflow in front; absent when it cannot be read.
 */
active?: string | null, } | { "code": "workflow_instance_mismatch",
/**
 * The stamp; absent when the call has none.
 */
issued?: WorkflowUuid | null,
/**
 * The instance in front; absent when it cannot be read.
 */
active?: WorkflowUuid | null, } | { "code": "target_ambiguous",
/**
 * Why.
 */
reason: NoTarget,
/**
 * Tabs that can be named.
 */
candidates: Array<Candidate>, } | { "code": "target_gone",
/**
 * Tabs that are there.
 */
candidates: Array<Candidate>, } | { "code": "not_owner",
/**
 * The tab.
 */
tab: TabKey,
/**
 * Tabs of this conversation.
 */
candidates: Array<Candidate>, } | { "code": "no_tab",
/**
 * Whether the request was kept for the next tab.
 */
deferred: boolean, } | { "code": "target_not_open",
/**
 * What was asked for.
 */
path: string,
/**
 * Handles of what is open.
 */
open: Array<string>,
/**
 * In which tab.
 */
tab?: TabKey | null, } | { "code": "target_not_active",
/**
 * What was asked for.
 */
path: string,
/**
 * The handle in front.
 */
active: string,
/**
 * In which tab.
 */
tab?: TabKey | null, } | { "code": "target_name_ambiguous",
/**
 * What was asked for.
 */
path: string,
/**
 * Their handles.
 */
matches: Array<string>, } | { "code": "target_undetermined" } | { "code": "superseded" } | { "code": "blind" } | { "code": "unknown_outcome",
/**
 * Give this as `retry_of` to ask again without a second effect.
 */
token: Rid, } | { "code": "no_reply",
/**
 * How long was waited, in milliseconds.
 */
after_ms: number,
/**
 * What the tab is at work on meanwhile, where that is known.
 */
busy?: Busy | null, } | { "code": "bad_reply",
/**
 * What was wrong.
 */
problem: string, } | { "code": "failed",
/**
 * The panel's code, such as `unknown_node`.
 */
failure: string,
/**
 * What happened and what would be valid.
 */
message: string, } | { "code": "bad_arguments",
/**
 * One sentence each.
 */
problems: Array<string>, } | { "code": "unknown_command",
/**
 * What was asked for.
 */
name: string, } | { "code": "panel_too_old" } | { "code": "still_running",
/**
 * The first dispatch.
 */
token: Rid,
/**
 * What it is, and for how long.
 */
busy?: Busy | null, } | { "code": "conversation_closed" } | { "code": "overloaded",
/**
 * When to try again, in milliseconds.
 */
retry_after_ms: number, };

/**
 * Order of the messages that wait; those that are not named go last, in their order.
 */
export type Reorder = {
/**
 * The order.
 */
order: Array<MessageId>, };

/**
 * An answer to a command, or a late one to a question.
 */
export type Reply = {
/**
 * The command. May be absent in a late answer to a question.
 */
rid?: Rid,
/**
 * Whether it was carried out.
 */
ok: boolean,
/**
 * What came of it.
 */
result?: JsonValue,
/**
 * What went wrong, in words. Never read to decide.
 */
error?: string,
/**
 * What went wrong, typed.
 */
refusal?: JsonValue,
/**
 * The workflow that is now in front (rule G8).
 */
workflow?: WorkflowIdentity,
/**
 * The question that this answers.
 */
ask_id?: AskId, };

/**
 * Go on with an earlier session of the agent.
 */
export type ResumeSession = {
/**
 * The agent's id of it.
 */
session_id: AgentSessionId, };

/**
 * Go back to a point.
 */
export type Rewind = {
/**
 * From `turn_anchor`; `null`: to the beginning.
 */
anchor: string | null,
/**
 * Dialect 1: to where this message was asked, instead of an anchor.
 */
mid?: MessageId, };

/**
 * One dispatch of one command to one panel.
 */
export type Rid = string;

/**
 * One row of the transcript.
 */
export type Row = {
/**
 * Its place in the log. Absent: it is in no log.
 */
seq?: Seq,
/**
 * What it is.
 */
kind: RowKind,
/**
 * Its text; may be empty.
 */
text: string,
/**
 * The message, for [`RowKind::User`].
 */
mid?: MessageId,
/**
 * The turn that it belongs to.
 */
turn?: TurnId,
/**
 * When it was committed, in milliseconds since 1970.
 */
at_ms?: number,
/**
 * The workflow that a message came from, for people.
 */
workflow?: string,
/**
 * A message came from another browser tab.
 */
elsewhere: boolean,
/**
 * The block whose place it takes.
 */
block?: string,
/**
 * The tool, for [`RowKind::Action`].
 */
name?: string,
/**
 * What the tool call is about.
 */
detail?: string,
/**
 * How a turn ended: `completed`, `interrupted`, `put_back`, `failed`, or `unknown` after a restart; why a boundary was
 * drawn: `new_session`, `resume_session` or `rewind`.
 */
outcome?: string, };

/**
 * What a row is.
 */
export type RowKind = "user" | "say" | "notice" | "action" | "event" | "ask" | "answer" | "turn_start" | "turn_end" | "boundary" | "cancelled" | "other";

/**
 * Legacy: what the agent or the daemon said.
 */
export type Say = {
/**
 * The text.
 */
text: string,
/**
 * The block, when it was streamed. Absent: the daemon speaks.
 */
id?: string,
/**
 * It was streamed before.
 */
streamed?: boolean, };

/**
 * Where in this conversation's log some words stand.
 */
export type SearchHistory = {
/**
 * Names the request.
 */
cid: string,
/**
 * Each of them is looked for, wherever it stands in a row. They are words and never an expression.
 */
words: string, };

/**
 * Position in a conversation's log: gapless, from 1.
 */
export type Seq = number;

/**
 * The agent's session; `null` after a clear.
 */
export type Session = {
/**
 * The agent's name for it.
 */
session_id: AgentSessionId | null, };

/**
 * Which run of the daemon this is.
 */
export type SessionEpoch = {
/**
 * New with every start.
 */
epoch: string, };

/**
 * Take part in another conversation.
 */
export type SetBackend = {
/**
 * Its agent's name in the configuration.
 */
backend: string, };

/**
 * Settings of the panel. Acknowledged; no field of it is used yet.
 */
export type SetConfig = {  };

/**
 * Blind mode of this tab.
 */
export type SetContentMode = {
/**
 * On or off.
 */
blind: boolean, };

/**
 * Model and effort of the conversation's agent.
 */
export type SetOptions = {
/**
 * The model's value from `models`.
 */
model?: string,
/**
 * Correlates the answer.
 */
cid?: string, };

/**
 * The target picker.
 */
export type SetWorkflowTarget = {
/**
 * `current` or `pinned`.
 */
mode: string,
/**
 * What to pin.
 */
path?: string,
/**
 * A label for it.
 */
filename?: string, };

/**
 * Rows of the log from after one place up to another.
 */
export type Span = {
/**
 * After this row.
 */
after: Seq,
/**
 * Up to and with this one.
 */
upto: Seq, };

/**
 * Text as it is written; `end` closes the block.
 */
export type Stream = {
/**
 * `text`, `think` or `end`.
 */
phase: StreamPhase,
/**
 * The block.
 */
id: string,
/**
 * What was added.
 */
delta?: string, };

/**
 * What a [`Stream`] frame carries.
 */
export type StreamPhase = "text" | "think" | "end";

/**
 * One browser tab, minted by the daemon. Survives reconnects of the same proven tab and every workflow switch.
 */
export type TabKey = string;

/**
 * The target of a conversation (rule G1).
 */
export type Target = { "mode": "current" } | { "mode": "pinned",
/**
 * Its canonical path when saved, else its handle.
 */
path: string,
/**
 * A label for people.
 */
filename?: string, };

/**
 * A new title.
 */
export type Title = {
/**
 * The title.
 */
title: string, };

/**
 * One item of the agent's plan.
 */
export type TodoItem = {
/**
 * What is to be done.
 */
text: string,
/**
 * `pending`, `active` or `done`.
 */
status: string, };

/**
 * What the transcript consists of from now on: what was shown goes, and is read anew.
 */
export type Transcript = {
/**
 * These rows come first, in this order.
 */
kept: Array<Span>,
/**
 * Then those after this.
 */
after: Seq, };

/**
 * Whether the agent works.
 */
export type Turn = {
/**
 * `working` or `done`.
 */
state: TurnState, };

/**
 * A point to rewind to.
 */
export type TurnAnchor = {
/**
 * The agent's name for the point.
 */
uuid: string, };

/**
 * One turn of one conversation.
 */
export type TurnId = number;

/**
 * The state in a [`Turn`] frame.
 */
export type TurnState = "working" | "done";

/**
 * One change of what the person sees.
 */
export type UiChange = { "change": "connection",
/**
 * Its state.
 */
state: ConnectionState,
/**
 * Why it is down, in the other side's words.
 */
reason?: string,
/**
 * The close code of the last socket.
 */
code?: number,
/**
 * When the next attempt is made.
 */
retry_at?: number, } | { "change": "conversation",
/**
 * Whose.
 */
conversation: ConversationKey,
/**
 * Its agent's name.
 */
backend: string,
/**
 * The daemon's name for the tab.
 */
tab: TabKey, } | { "change": "cleared" } | { "change": "recalled",
/**
 * The text.
 */
text: string, } | { "change": "sessions",
/**
 * The list.
 */
sessions: Array<PastSession>,
/**
 * Why there is no list; then `sessions` says nothing.
 */
error?: string, } | { "change": "found",
/**
 * Rows that have every word.
 */
hits: Array<Hit>,
/**
 * There are more.
 */
more: boolean,
/**
 * Why nothing was looked for; then `hits` says nothing.
 */
error?: string, } | { "change": "blind",
/**
 * It is.
 */
on: boolean, } | { "change": "downloads",
/**
 * All of them.
 */
downloads: Array<Download>, } | { "change": "exported",
/**
 * A name for the file.
 */
name: string,
/**
 * All of it.
 */
text: string, } | { "change": "row",
/**
 * The row.
 */
row: Row, } | { "change": "delta",
/**
 * The block.
 */
id: string,
/**
 * Visible reasoning rather than text.
 */
thought: boolean,
/**
 * What was added.
 */
text: string,
/**
 * Text before it was missed: the connection was lost meanwhile.
 */
gap: boolean, } | { "change": "block_end",
/**
 * The block.
 */
id: string, } | { "change": "block_gone",
/**
 * The block.
 */
id: string, } | { "change": "working",
/**
 * It does.
 */
working: boolean, } | { "change": "activity",
/**
 * The tool.
 */
name: string,
/**
 * What it is about.
 */
detail: string, } | { "change": "agent",
/**
 * It can.
 */
ready: boolean,
/**
 * What the daemon says of it.
 */
message?: string, } | { "change": "usage",
/**
 * The figures.
 */
usage: AgentStatus, } | { "change": "session",
/**
 * Absent after a clear.
 */
session_id?: AgentSessionId, } | { "change": "models",
/**
 * May be empty.
 */
models: Array<Model>,
/**
 * The chosen one.
 */
current?: string, } | { "change": "model",
/**
 * A value from [`UiChange::Models`].
 */
current: string, } | { "change": "backends",
/**
 * In the order of preference.
 */
backends: Array<BackendInfo>,
/**
 * Whether any can be used now.
 */
any_ready: boolean, } | { "change": "target",
/**
 * The target.
 */
target: Target, } | { "change": "comfyui",
/**
 * Its address.
 */
url: string,
/**
 * Whether it is on this machine.
 */
is_local: boolean, } | { "change": "acts_on",
/**
 * Its name for people. Absent: not known yet.
 */
label?: string,
/**
 * It is pinned.
 */
pinned: boolean,
/**
 * It is the workflow in front.
 */
in_front: boolean,
/**
 * What a pin of the workflow in front would name. Absent: nothing to pin.
 */
pin?: string, } | { "change": "message",
/**
 * Which.
 */
mid: MessageId,
/**
 * The text.
 */
text: string,
/**
 * Its state.
 */
state: MessageState,
/**
 * What it acts on, for people.
 */
acts_on?: string,
/**
 * Why it failed: stable.
 */
code?: string,
/**
 * Why it failed, and what to do.
 */
message?: string, } | { "change": "queue",
/**
 * All messages that are in it.
 */
order: Array<MessageId>, } | { "change": "question",
/**
 * The card.
 */
question: Question, } | { "change": "question_closed",
/**
 * Which.
 */
ask_id: AskId,
/**
 * This person answered it here.
 */
answered: boolean, } | { "change": "todo",
/**
 * The whole list; may be empty.
 */
items: Array<TodoItem>, } | { "change": "run",
/**
 * The run.
 */
prompt_id: PromptId,
/**
 * `queued`, `success`, `error` or `interrupted`.
 */
status: string,
/**
 * What went wrong.
 */
error?: string, } | { "change": "notice",
/**
 * Stable.
 */
code: string,
/**
 * The daemon's words; may be empty.
 */
text: string, };

/**
 * What the person said.
 */
export type UserMessage = {
/**
 * The text.
 */
text: string,
/**
 * Idempotent. Required in dialect 1; the daemon makes one for a legacy panel that sends none.
 */
mid?: MessageId,
/**
 * The instance that it was composed for. Absent: the one in front.
 */
workflow_uuid?: WorkflowUuid,
/**
 * For the agent only: put before the text.
 */
context?: string, };

/**
 * The answer to a hello of dialect 1.
 */
export type Welcome = {
/**
 * The dialect that is spoken.
 */
protocol: number,
/**
 * Which run of the daemon this is.
 */
epoch: string,
/**
 * The conversation that the tab takes part in.
 */
conversation: ConversationKey,
/**
 * Entries follow from the one after this.
 */
after: Seq,
/**
 * Earlier rows that belong to the transcript and come before those: it is read from its beginning.
 */
kept?: Array<Span>,
/**
 * The daemon's name for the tab: what `tab` means in tools.
 */
tab: TabKey,
/**
 * What the daemon can do beyond the dialect.
 */
capabilities: Array<string>,
/**
 * Bounds, in milliseconds and counts, by the names of `[limits]`.
 */
limits: Record<string, number>, };

/**
 * A workflow instance as its panel proves it: in `hello.workflow` and at the top level of replies.
 */
export type WorkflowIdentity = {
/**
 * The instance: what the fence compares.
 */
uuid: WorkflowUuid,
/**
 * Where it is saved, if it is.
 */
path?: WorkflowPath,
/**
 * `wf:<path>` when saved, `tmp:<id>` when not. A label.
 */
handle: string,
/**
 * What the person sees.
 */
title: string,
/**
 * Which canvas object shows it.
 */
canvas?: CanvasToken, };

/**
 * A saved workflow's path in its one form: `workflows/<folders>/<name>.json`, `/` between the parts, case kept.
 *
 * Accepted on the way in: with or without `workflows/`, with or without `.json`, with `\` as a separator, with a
 * leading `./` or `/`, with a `wf:` prefix. Two paths name the same file if and only if their forms are equal.
 */
export type WorkflowPath = string;

/**
 * What the conversation is pinned to.
 */
export type WorkflowTargetFrame = {
/**
 * The target.
 */
target: Target, };

/**
 * One live workflow object in a panel. Minted by the panel, forks on copy; the fence's stamp (rule G5).
 */
export type WorkflowUuid = string;
