//! Builds `panel-wasm` for the browser: compile, bind, optimise, weigh. Nothing is done again whose input did not change.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::pins;
use crate::process::Program;
use crate::progress::say;
use crate::setup::{Done, optimizer, wasm as compiler};
use crate::stamp::{self, Fingerprint};
use crate::workspace::Workspace;

/// The most a browser may have to fetch, compressed, in bytes.
const CEILING: usize = 120_000;

/// The module's name in the package.
const MODULE: &str = "panel_wasm_bg.wasm";

/// Small after gzip: rustc has inlined what pays, and a second inlining repeats code that then compresses worse (8 %).
const OPTIMISATION: [&str; 2] = ["-Oz", "--skip-pass=inlining-optimizing"];

/// What Rust's compiler may emit for the target and every supported browser has.
const FEATURES: [&str; 8] = [
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-call-indirect-overlong",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// One module that is made from `panel-wasm`.
struct Package {
    features: &'static [&'static str],
    folder: PathBuf,
    stamp: &'static str,
    anew: bool,
}

/// Leaves the panel's package in `panel-wasm/pkg`; `anew` ignores an earlier package.
pub(crate) fn build(workspace: &Workspace, anew: bool) -> Result<()> {
    let folder = workspace.wasm_package();
    weigh(&make(workspace, &Package { features: &[], folder, stamp: "package.stamp", anew })?)
}

/// Leaves a package that can also run event scripts in `target/wasm-scripts`: for tests, never shipped, of any size.
pub(crate) fn build_with_scripts(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("wasm-scripts");
    make(workspace, &Package { features: &["script"], folder, stamp: "scripts.stamp", anew: false })?;
    Ok(())
}

/// Makes a package and returns its module.
fn make(workspace: &Workspace, wanted: &Package) -> Result<PathBuf> {
    for outcome in [compiler::ensure(workspace)?, optimizer::ensure(workspace)?] {
        if let Done::Installed(what) = outcome {
            say(&format!("   installed: {what}"));
        }
    }
    let lock = fs::read_to_string(workspace.path("Cargo.lock")).context("cannot read Cargo.lock")?;
    pins::bindgen_in_step(&lock)?;
    compiler::WasmCompiler::find(workspace)?
        .cargo(workspace, "build")
        .args(["--package", "panel-wasm", "--profile", "wasm"])
        .args(["--features", &wanted.features.join(",")])
        .visible()
        .context("panel-wasm does not compile for the browser")?;
    let compiled = compiler::output(workspace).join(compiler::TARGET).join("wasm/panel_wasm.wasm");
    let package = &wanted.folder;
    let stamp = compiler::output(workspace).join(wanted.stamp);
    let fingerprint = Fingerprint::default()
        .file(&compiled)?
        .text(pins::BINARYEN)
        .text(&OPTIMISATION.join(" "))
        .text(&FEATURES.join(" "))
        .text(&pins::locked_versions(&lock, "wasm-bindgen-cli-support").join(" "))
        .finish();
    let module = package.join(MODULE);
    if wanted.anew || !module.is_file() || !stamp::is_fresh(&stamp, &fingerprint) {
        make_package(workspace, &compiled, package)?;
        stamp::write(&stamp, &fingerprint)?;
    }
    Ok(module)
}

fn make_package(workspace: &Workspace, compiled: &Path, package: &Path) -> Result<()> {
    workspace
        .cargo()
        .args(["build", "--package", "xtask", "--features", "bindgen", "--bin", "bindgen"])
        .visible()
        .context("the program that binds the module does not compile")?;
    let scratch = tempfile::Builder::new().prefix("binding-").tempdir_in(compiler::output(workspace))?;
    let bindgen = format!("bindgen{}", std::env::consts::EXE_SUFFIX);
    Program::new(workspace.target.join("debug").join(bindgen))
        .directory(&workspace.root)
        .arg(compiled)
        .arg(scratch.path())
        .visible()?;
    let bound = scratch.path().join(MODULE);
    let optimised = scratch.path().join("optimised.wasm");
    optimizer::wasm_opt(workspace)
        .args(OPTIMISATION)
        .args(FEATURES)
        .arg(&bound)
        .arg("--output")
        .arg(&optimised)
        .visible()?;
    fs::rename(&optimised, &bound)?;
    fs::create_dir_all(package).with_context(|| format!("cannot make {}", package.display()))?;
    for entry in fs::read_dir(scratch.path())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let to = package.join(entry.file_name());
            fs::copy(entry.path(), &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}

fn weigh(module: &Path) -> Result<()> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let compressed = gzip_size(&bytes)?;
    say(&format!(
        "   {MODULE}: {}, {} with gzip (at most {})",
        kilobytes(bytes.len()),
        kilobytes(compressed),
        kilobytes(CEILING)
    ));
    within(compressed, CEILING)
}

fn within(compressed: usize, ceiling: usize) -> Result<()> {
    if compressed > ceiling {
        bail!(
            "{MODULE} has {} with gzip, over the ceiling of {}: see what grew with `twiggy top`, or leave something to the daemon",
            kilobytes(compressed),
            kilobytes(ceiling)
        );
    }
    Ok(())
}

fn gzip_size(bytes: &[u8]) -> Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

fn kilobytes(bytes: usize) -> String {
    format!("{}.{} kB", bytes / 1000, bytes % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_thousands() {
        assert_eq!(kilobytes(0), "0.0 kB");
        assert_eq!(kilobytes(120_000), "120.0 kB");
        assert_eq!(kilobytes(91_987), "91.9 kB");
    }

    #[test]
    fn the_ceiling_itself_is_allowed_and_one_more_is_not() {
        assert!(within(120_000, 120_000).is_ok());
        let told = within(120_001, 120_000).map_err(|error| error.to_string());
        assert!(told.is_err_and(|text| text.contains("over the ceiling of 120.0 kB")));
    }

    #[test]
    fn the_compressed_size_is_that_of_gzip() -> Result<()> {
        let repeated = vec![7_u8; 100_000];
        let size = gzip_size(&repeated)?;
        assert!((100..400).contains(&size), "{size}");
        assert!(gzip_size(&[])? > 0);
        Ok(())
    }
}
