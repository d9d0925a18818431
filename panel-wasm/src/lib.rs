//! The browser face of routing-core: JSON text in, JSON text out. It decides nothing, keeps nothing but the machine, and
//! must not know what a panel does.

use routing_core::panel::{Panel, PanelConfig, PanelInput};
use wasm_bindgen::prelude::wasm_bindgen;

/// The panel's machine, as JavaScript sees it. Types of what goes in and out: `frames.ts`.
#[derive(Debug)]
#[wasm_bindgen]
pub struct PanelCore {
    panel: Panel,
}

/// When to hand in a `tick`, and why.
#[derive(Debug)]
#[wasm_bindgen(getter_with_clone)]
pub struct Timeout {
    /// Milliseconds, on the clock of [`PanelCore::handle`].
    pub when: f64,
    /// A few words, for logs.
    pub why: String,
}

#[wasm_bindgen]
impl PanelCore {
    /// Makes a machine from a `PanelConfig`.
    ///
    /// # Errors
    /// The text is no such configuration; the message names the field.
    #[wasm_bindgen(constructor)]
    pub fn new(config: &str) -> Result<PanelCore, String> {
        let config: PanelConfig = read(config)?;
        Ok(Self { panel: Panel::new(config) })
    }

    /// Takes one `PanelInput` in and returns a list of `PanelOutput`. `now`: milliseconds.
    ///
    /// # Errors
    /// The text is no such input; nothing happened, and the message names the field.
    pub fn handle(&mut self, input: &str, now: f64) -> Result<String, String> {
        let input: PanelInput = read(input)?;
        self.panel.handle(input, milliseconds(now));
        Ok(self.outputs())
    }

    /// Takes a text frame in, without a detour over JSON in JSON. Else like [`PanelCore::handle`].
    pub fn frame(&mut self, socket: u32, text: String, now: f64) -> String {
        self.panel.handle(PanelInput::Frame { socket, text }, milliseconds(now));
        self.outputs()
    }

    /// Whether a command that runs may still change something. `undefined`: it may; else the `Refusal`, to end it with.
    pub fn recheck(&self, rid: &str) -> Option<String> {
        self.panel.recheck(&rid.into()).err().map(|refusal| refusal.to_wire().to_string())
    }

    /// When the next `tick` is wanted; `undefined`: not at all.
    pub fn timeout(&self) -> Option<Timeout> {
        self.panel.poll_timeout().map(|(when, why)| Timeout { when: when as f64, why: why.to_owned() })
    }

    fn outputs(&mut self) -> String {
        let outputs: Vec<_> = std::iter::from_fn(|| self.panel.poll_output()).collect();
        serde_json::to_string(&outputs).unwrap_or_default()
    }
}

/// Runs an event script in memory and returns its `Verdict`.
///
/// # Errors
/// The text is no script; the message names the field.
#[cfg(feature = "script")]
#[wasm_bindgen]
pub fn run_script(script: &str) -> Result<String, String> {
    let verdict = routing_core::script::run_json(script)?;
    serde_json::to_string(&verdict).map_err(|error| error.to_string())
}

/// By way of a value, as frames are read: one reader of every type instead of two halves the module.
fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// JavaScript has no whole numbers; its clock fits one all the same.
fn milliseconds(now: f64) -> u64 {
    now.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;

    #[test]
    fn text_goes_in_and_text_comes_out() {
        let mut core = PanelCore::new(r#"{"tab_id":"t","version":"1"}"#).unwrap();
        assert!(core.timeout().is_none());
        let out = core.handle(r#"{"input":"start"}"#, 5.7).unwrap();
        assert!(out.starts_with(r#"[{"output":"connect","socket":1}"#), "{out}");
        let timeout = core.timeout().unwrap();
        assert!(timeout.when > 5.0 && timeout.why == "connect");
        assert!(core.handle(r#"{"input":"opened","socket":1}"#, 6.0).unwrap().contains("hello"));
        assert_eq!(core.frame(7, "of an old socket".to_owned(), 6.0), "[]");
        assert!(core.recheck("r1").unwrap().contains(r#""code":"conversation_closed""#));
    }

    #[test]
    fn what_does_not_fit_is_named_and_changes_nothing() {
        assert!(PanelCore::new("{}").unwrap_err().contains("tab_id"));
        let mut core = PanelCore::new(r#"{"tab_id":"t","version":"1"}"#).unwrap();
        assert!(core.handle(r#"{"input":"fly"}"#, 0.0).unwrap_err().contains("fly"));
        assert_eq!(core.handle(r#"{"input":"tick"}"#, 0.0).unwrap(), "[]");
    }
}
