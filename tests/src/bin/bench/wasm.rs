//! The rules in WASM, run by node from the panel's built module.

use super::Effort;
use super::table::Table;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = include_str!("panel.mjs");

/// Measures the admission of a command, and the module's size.
pub(crate) fn measure(table: &mut Table, effort: Effort, root: &Path) {
    let what = "admission of a command, WASM";
    let package = root.join("panel-wasm/pkg");
    if !package.join("panel_wasm_bg.wasm").is_file() {
        return table.skipped(what, "build the panel's module first (cargo xtask wasm)");
    }
    match run(&package, effort) {
        Ok(found) => {
            let figure = |name: &str| found[name].as_f64().unwrap_or(f64::NAN);
            table.row(what, &[("p50", figure("p50"), "µs"), ("p99", figure("p99"), "µs")]);
            table.row(
                "WASM module",
                &[("gzip", figure("gzip") / 1000.0, "kB"), ("plain", figure("plain") / 1000.0, "kB")],
            );
        }
        Err(why) => table.skipped(what, why),
    }
}

fn run(package: &Path, effort: Effort) -> Result<Value, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    // The binder's glue is a module whatever its name says; node goes by the name.
    for (from, to) in [("panel_wasm.js", "panel_wasm.mjs"), ("panel_wasm_bg.wasm", "panel_wasm_bg.wasm")] {
        std::fs::copy(package.join(from), folder.path().join(to)).map_err(|error| error.to_string())?;
    }
    let script = folder.path().join("panel.mjs");
    std::fs::write(&script, SCRIPT).map_err(|error| error.to_string())?;
    let times = effort.times(20_000).to_string();
    let output = Command::new("node")
        .arg(&script)
        .arg(times)
        .current_dir(folder.path())
        .output()
        .map_err(|error| format!("node does not run: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}
