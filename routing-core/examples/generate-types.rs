//! Writes the wire's types for other languages into a folder: `frames.ts`, `commands.ts`, `frames.schema.json`.
//! Deterministic: the same crate gives the same bytes, so that a check can tell whether committed files are current.

use routing_core::command::{Effect, Kind, Param, Site, Spec, TABLE};
use routing_core::frame::{CommandFrame, DaemonFrame, PROTOCOL, PanelFrame, Reply};
use routing_core::panel::{PanelConfig, PanelInput, PanelOutput};
use routing_core::refusal::Refusal;
use schemars::generate::SchemaSettings;
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use ts_rs::{Config, TS, TypeVisitor};

const HEAD: &str = "// Generated from routing-core by `cargo xtask types`. Not to be edited.\n";

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return complain("which folder? usage: generate-types FOLDER");
    };
    for (name, text) in [("frames.ts", frames()), ("commands.ts", commands()), ("frames.schema.json", schema())] {
        if let Err(error) = std::fs::write(folder.join(name), text) {
            return complain(&format!("cannot write {name}: {error}"));
        }
    }
    ExitCode::SUCCESS
}

#[allow(clippy::print_stderr, reason = "a program for the command line")]
fn complain(problem: &str) -> ExitCode {
    eprintln!("generate-types: {problem}");
    ExitCode::FAILURE
}

/// Declarations by name, with everything that they name.
struct Declarations {
    config: Config,
    found: BTreeMap<String, String>,
    seen: BTreeSet<TypeId>,
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        // Lists, options and the like have no file of their own, and no name.
        if T::output_path().is_some() {
            let text = format!("{}export {}\n", T::docs().unwrap_or_default(), T::decl(&self.config));
            self.found.insert(T::ident(&self.config), text);
        }
        T::visit_dependencies(self);
    }
}

fn frames() -> String {
    let config = Config::new().with_large_int("number");
    let mut declarations = Declarations { config, found: BTreeMap::new(), seen: BTreeSet::new() };
    declarations.visit::<PanelFrame>();
    declarations.visit::<Reply>();
    declarations.visit::<DaemonFrame>();
    declarations.visit::<CommandFrame>();
    declarations.visit::<Refusal>();
    declarations.visit::<PanelConfig>();
    declarations.visit::<PanelInput>();
    declarations.visit::<PanelOutput>();
    let mut text = HEAD.to_owned();
    let _ = write!(text, "\n/** The dialect: `hello.protocol`. */\nexport const PROTOCOL = {PROTOCOL}\n");
    let _ = write!(text, "\n/** Every code of a refusal. */\nexport type RefusalCode = Refusal['code']\n");
    for declaration in declarations.found.values() {
        let _ = write!(text, "\n{declaration}");
    }
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn commands() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n/** What a command does. */\nexport type Effect = 'query' | 'view' | 'write' | 'navigate' | 'server' | 'ask'\n");
    text.push_str("\n/** A node id: a number, or a text such as `4:7` inside a subgraph. */\nexport type NodeId = number | string\n");
    text.push_str("\n/** Arguments of each command that a panel carries out, beside the stamp and the pin. */\nexport interface CommandArgs {\n");
    for spec in in_panels() {
        let _ = writeln!(text, "  /** {} */\n  {}: {{", spec.doc, spec.cmd);
        for param in spec.params.iter().filter(|param| !is_the_daemons(param)) {
            let mark = if param.required { "" } else { "?" };
            let _ = writeln!(text, "    /** {} */\n    {}{mark}: {}", param.doc, param.name, type_of(param.kind));
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n\n/** A command that a panel carries out. */\nexport type CommandName = keyof CommandArgs\n");
    text.push_str("\n/** What each command does. */\nexport const EFFECTS: Record<CommandName, Effect> = {\n");
    for spec in in_panels() {
        let _ = writeln!(text, "  {}: '{}',", spec.cmd, effect(spec.effect));
    }
    text.push_str("}\n");
    text
}

fn in_panels() -> impl Iterator<Item = &'static Spec> {
    TABLE.iter().filter(|spec| spec.site != Site::Daemon)
}

/// What the daemon takes out before it sends the command.
fn is_the_daemons(param: &Param) -> bool {
    matches!(param.name, "tab" | "retry_of")
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Query => "query",
        Effect::View => "view",
        Effect::Write => "write",
        Effect::Navigate => "navigate",
        Effect::Server => "server",
        Effect::Ask => "ask",
    }
}

fn type_of(kind: Kind) -> String {
    match kind {
        Kind::Text => "string".to_owned(),
        Kind::NodeId => "NodeId".to_owned(),
        Kind::Slot => "number | string".to_owned(),
        Kind::Any => "unknown".to_owned(),
        Kind::Flag => "boolean".to_owned(),
        Kind::Count(..) => "number".to_owned(),
        Kind::Pair => "[number, number]".to_owned(),
        Kind::Texts => "string[]".to_owned(),
        Kind::NodeIds => "NodeId[]".to_owned(),
        Kind::OneOf(words) => words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" | "),
        Kind::Choices => "(string | { label: string; description?: string })[]".to_owned(),
        Kind::Items => "{ text: string; status: 'pending' | 'active' | 'done' }[]".to_owned(),
    }
}

fn schema() -> String {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let panel = [generator.subschema_for::<PanelFrame>(), generator.subschema_for::<Reply>()];
    let daemon = [generator.subschema_for::<DaemonFrame>(), generator.subschema_for::<CommandFrame>()];
    let refusal = generator.subschema_for::<Refusal>();
    let mut definitions = generator.take_definitions(true);
    definitions.insert("FromPanel".to_owned(), serde_json::json!({"anyOf": panel}));
    definitions.insert("FromDaemon".to_owned(), serde_json::json!({"anyOf": daemon}));
    let whole = serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Frames of comfy-orchestrator",
        "description": "One JSON object in one text frame. Unknown types and fields are ignored.",
        "anyOf": [{"$ref": "#/$defs/FromPanel"}, {"$ref": "#/$defs/FromDaemon"}],
        "refusal": refusal,
        "$defs": definitions,
    });
    let mut text = serde_json::to_string_pretty(&whole).unwrap_or_default();
    text.push('\n');
    text
}
