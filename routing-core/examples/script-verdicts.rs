//! Prints the native verdict of every event script in a folder, one JSON line each: what the other back ends are held
//! against.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use serde_json::json;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("give the folder of the scripts")?.into();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    for path in files {
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let verdict = routing_core::script::run_json(&std::fs::read_to_string(&path)?)?;
        println!("{}", json!({"name": name, "verdict": verdict}));
    }
    Ok(())
}
