//! Finds or makes a compiler for `wasm32-unknown-unknown`. First choice: the compiler in use, with rustup's standard
//! library for the target. Where rustup cannot fetch that: Debian's compiler, with a standard library built once from
//! Debian's sources into the user's cache, and named by `--sysroot`, so that nothing below /usr changes.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::pins::{self, Compiler};
use crate::process::Program;
use crate::progress::say;
use crate::setup::{Done, apt};
use crate::workspace::{Workspace, on_path};

/// The target's name.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Set to `debian` to leave rustup aside, for a test of the other way.
const CHOICE: &str = "COMFY_WASM_COMPILER";

const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CLIPPY: &str = "/usr/bin/cargo-clippy";
const DEBIAN_SOURCES: &str = "/usr/lib/rustlib/src/rust/library/Cargo.toml";
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-clippy"];

/// A compiler for the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WasmCompiler {
    /// The one that builds everything else.
    Active,
    /// Debian's, with our standard library and another's linker.
    Debian {
        /// The folder given as `--sysroot`.
        sysroot: PathBuf,
        /// `rust-lld` or `wasm-ld`.
        linker: PathBuf,
    },
}

impl WasmCompiler {
    /// The compiler that [`ensure`] left; installs nothing.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self> {
        if !debian_wanted() && active_has_target() {
            return Ok(Self::Active);
        }
        if let Ok(compiler) = debian_compiler().and_then(|compiler| debian_tools().map(|()| compiler)) {
            let sysroot = sysroot(&compiler)?;
            if let Some(linker) = linker(workspace).filter(|_| is_complete(&sysroot)) {
                return Ok(Self::Debian { sysroot, linker });
            }
        }
        bail!("there is no compiler for {TARGET}: run `cargo xtask setup --wasm`");
    }

    /// `cargo SUBCOMMAND --target …`, set up for this compiler; its output goes to `target/wasm`.
    pub(crate) fn cargo(&self, workspace: &Workspace, subcommand: &str) -> Program {
        let program = match self {
            Self::Active => workspace.cargo().arg(subcommand),
            Self::Debian { sysroot, linker } => {
                let clippy = subcommand == "clippy";
                let flags = format!("--sysroot\u{1f}{}", sysroot.display());
                Program::new(if clippy { DEBIAN_CLIPPY } else { DEBIAN_CARGO })
                    .directory(&workspace.root)
                    .arg(subcommand)
                    .env("CARGO", DEBIAN_CARGO)
                    .env("RUSTC", DEBIAN_RUSTC)
                    .env("CARGO_ENCODED_RUSTFLAGS", flags)
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
                    .env_remove("RUSTFLAGS")
                    .env_remove("RUSTDOC")
                    .env_remove("RUSTUP_TOOLCHAIN")
            }
        };
        // A folder of its own, so that two compilers never wait for, or replace, each other's output.
        program.args(["--target", TARGET, "--target-dir"]).arg(output(workspace))
    }

    /// What it is, for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Active => format!("the active compiler has {TARGET}"),
            Self::Debian { sysroot, .. } => format!("Debian's compiler with {}", sysroot.display()),
        }
    }
}

/// Cargo's output folder for everything compiled to WASM.
pub(crate) fn output(workspace: &Workspace) -> PathBuf {
    workspace.target.join("wasm")
}

/// Makes sure that [`WasmCompiler::find`] finds one.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Done> {
    if let Ok(found) = WasmCompiler::find(workspace) {
        return Ok(Done::AlreadyThere(found.describe()));
    }
    if !debian_wanted() {
        match add_target(workspace) {
            Ok(()) => return Ok(Done::Installed(WasmCompiler::find(workspace)?.describe())),
            Err(_) if crate::process::interrupted() => bail!("stopped: interrupted"),
            Err(error) => {
                say(&format!("   rustup cannot add {TARGET} here ({}): using Debian's compiler", error.root_cause()))
            }
        }
    }
    install_debian(workspace)?;
    Ok(Done::Installed(WasmCompiler::find(workspace)?.describe()))
}

fn debian_wanted() -> bool {
    env::var_os(CHOICE).is_some_and(|choice| choice == "debian")
}

fn active_has_target() -> bool {
    let folder = Program::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).text();
    folder.is_ok_and(|folder| has_core(Path::new(&folder)))
}

fn has_core(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("libcore-") && name.ends_with(".rlib")
        })
    })
}

fn add_target(workspace: &Workspace) -> Result<()> {
    if on_path(&["rustup"]).is_none() {
        bail!("rustup is not on PATH");
    }
    // Where there is another way, a server that does not answer must not hold us up.
    let limit = Duration::from_secs(if apt::obstacle().is_none() { 20 } else { 600 });
    Program::new("rustup")
        .args(["target", "add", TARGET])
        .limit(limit)
        .quiet(&format!("rustup target add {TARGET}"), &workspace.log("rustup"))?;
    if active_has_target() { Ok(()) } else { bail!("rustup is not what provides the active compiler") }
}

fn install_debian(workspace: &Workspace) -> Result<()> {
    if debian_tools().is_err() || !Path::new(DEBIAN_SOURCES).is_file() {
        apt::install(workspace, &DEBIAN_PACKAGES).with_context(|| {
            format!("cannot get a compiler for {TARGET}: run `rustup target add {TARGET}` where there is a network")
        })?;
    }
    let compiler = debian_compiler()?;
    let manifest = fs::read_to_string(workspace.path("Cargo.toml"))?;
    if let Some(least) = pins::demanded_rust(&manifest).filter(|least| !pins::at_least(&compiler.release, least)) {
        bail!(
            "Debian's compiler is {}, and {least} is needed: run `rustup target add {TARGET}` where there is a network",
            compiler.release
        );
    }
    if linker(workspace).is_none() {
        apt::install(workspace, &["lld"])
            .context("there is no linker for WASM: rust-lld comes with rustup's toolchains")?;
    }
    let sysroot = sysroot(&compiler)?;
    if !is_complete(&sysroot) {
        build_standard_library(workspace, &sysroot)?;
    }
    Ok(())
}

fn debian_tools() -> Result<()> {
    match [DEBIAN_CARGO, DEBIAN_RUSTC, DEBIAN_CLIPPY].iter().find(|path| !Path::new(path).is_file()) {
        Some(missing) => bail!("{missing} is missing"),
        None => Ok(()),
    }
}

fn debian_compiler() -> Result<Compiler> {
    Compiler::parse(&Program::new(DEBIAN_RUSTC).args(["--version", "--verbose"]).text()?)
}

/// One folder for each build of the compiler: a standard library fits no other.
fn sysroot(compiler: &Compiler) -> Result<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("neither HOME nor XDG_CACHE_HOME is set")?;
    Ok(cache.join("comfy-orchestrator").join(format!("wasm-std-{}", compiler.key())))
}

fn libraries(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(TARGET).join("lib")
}

/// The folder gets its name only when all is in it.
fn is_complete(sysroot: &Path) -> bool {
    has_core(&libraries(sysroot))
}

/// `rust-lld` of any of rustup's toolchains, the active first; else LLVM's own.
fn linker(workspace: &Workspace) -> Option<PathBuf> {
    let active =
        Program::new("rustc").directory(&workspace.root).args(["--print", "sysroot"]).text().ok().map(PathBuf::from);
    let others = active.as_deref().and_then(Path::parent).and_then(|folder| fs::read_dir(folder).ok());
    let others = others.into_iter().flatten().flatten().map(|entry| entry.path());
    active
        .clone()
        .into_iter()
        .chain(others)
        .find_map(|toolchain| rust_lld(&toolchain))
        .or_else(|| on_path(&["wasm-ld", "rust-lld"]))
}

fn rust_lld(toolchain: &Path) -> Option<PathBuf> {
    let platforms = fs::read_dir(toolchain.join("lib/rustlib")).ok()?;
    platforms.flatten().map(|platform| platform.path().join("bin/rust-lld")).find(|linker| linker.is_file())
}

fn build_standard_library(workspace: &Workspace, sysroot: &Path) -> Result<()> {
    let parent = sysroot.parent().context("the cache has no folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let scratch = tempfile::Builder::new().prefix("building-").tempdir_in(parent)?;
    let package = scratch.path().join("empty");
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("src/lib.rs"), "")?;
    fs::write(
        package.join("Cargo.toml"),
        "[package]\nname = \"empty\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n",
    )?;
    Program::new(DEBIAN_CARGO)
        .directory(&package)
        .args([
            "build",
            "--release",
            "--target",
            TARGET,
            "-Zbuild-std=std,panic_abort,panic_unwind,test",
            "--target-dir",
        ])
        .arg(package.join("target"))
        .env("RUSTC", DEBIAN_RUSTC)
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTUP_TOOLCHAIN")
        .limit(Duration::from_secs(1200))
        .quiet("building the WASM standard library, once (1 to 2 minutes)", &workspace.log("wasm-std"))?;
    let made = scratch.path().join("sysroot");
    let into = libraries(&made);
    fs::create_dir_all(&into)?;
    let from = package.join("target").join(TARGET).join("release/deps");
    for entry in fs::read_dir(&from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rlib") && !name.starts_with("libempty-") {
            fs::copy(entry.path(), into.join(&name))?;
        }
    }
    if !has_core(&into) {
        bail!("the build left no standard library in {}", from.display());
    }
    if sysroot.exists() {
        fs::remove_dir_all(sysroot).with_context(|| format!("cannot replace {}", sysroot.display()))?;
    }
    fs::rename(&made, sysroot).with_context(|| format!("cannot name {}", sysroot.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_counts_only_with_the_core_library_in_it() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        assert!(!is_complete(scratch.path()));
        let folder = libraries(scratch.path());
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("libstd-1.rlib"), "")?;
        fs::write(folder.join("libcore-1.rmeta"), "")?;
        assert!(!is_complete(scratch.path()));
        fs::write(folder.join("libcore-1.rlib"), "")?;
        assert!(is_complete(scratch.path()));
        Ok(())
    }

    #[test]
    fn the_linker_of_a_toolchain_is_found_for_any_platform() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        assert_eq!(rust_lld(scratch.path()), None);
        let folder = scratch.path().join("lib/rustlib/aarch64-unknown-linux-gnu/bin");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("rust-lld"), "")?;
        assert_eq!(rust_lld(scratch.path()), Some(folder.join("rust-lld")));
        Ok(())
    }
}
