//! Turns a compiled WASM module into the package a browser loads. A program of its own, because what it links
//! takes long to compile. It decides nothing: `bindgen MODULE.wasm OUTPUT-FOLDER`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, output] = arguments.as_slice() else {
        bail!("usage: bindgen MODULE.wasm OUTPUT-FOLDER");
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).typescript(true).remove_name_section(true).remove_producers_section(true).web(true)?;
    bindgen.generate(output).with_context(|| format!("cannot make a browser package from {}", module.display()))
}
