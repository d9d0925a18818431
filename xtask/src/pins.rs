//! The exact versions that are fetched by name, and how versions are read from cargo's and the compiler's own words.

use anyhow::{Result, bail};

/// The npm package with `wasm-opt`.
pub(crate) const BINARYEN: &str = "132.0.0";
/// The Python package that the fixture server needs.
pub(crate) const AIOHTTP: &str = "3.14.5";
/// The ComfyUI frontends that the tests cover, newest first.
pub(crate) const FRONTENDS: [&str; 2] = ["1.58.1", "1.49.6"];
/// Claude Code, the agent that the end-to-end tests drive.
pub(crate) const CLAUDE_CODE: &str = "2.1.332";

/// The versions of a package in the text of a `Cargo.lock`.
pub(crate) fn locked_versions<'a>(lock: &'a str, package: &str) -> Vec<&'a str> {
    lock.split("[[package]]")
        .filter(|entry| field(entry, "name") == Some(package))
        .filter_map(|entry| field(entry, "version"))
        .collect()
}

fn field<'a>(entry: &'a str, name: &str) -> Option<&'a str> {
    entry.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
}

/// Fails unless the module's `wasm-bindgen` and the program that reads the module have one version.
pub(crate) fn bindgen_in_step(lock: &str) -> Result<()> {
    let library = locked_versions(lock, "wasm-bindgen");
    let reader = locked_versions(lock, "wasm-bindgen-cli-support");
    match (library.as_slice(), reader.as_slice()) {
        ([library], [reader]) if library == reader => Ok(()),
        (library, reader) => bail!(
            "Cargo.lock has wasm-bindgen {library:?} and wasm-bindgen-cli-support {reader:?}: they must be one and the same \
             version; set both to it in panel-wasm/Cargo.toml and xtask/Cargo.toml"
        ),
    }
}

/// A compiler, from `rustc --version --verbose`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Compiler {
    /// As in `1.96.0`.
    pub(crate) release: String,
    /// Which build of that release.
    pub(crate) commit: String,
    /// The platform it runs on.
    pub(crate) host: String,
}

impl Compiler {
    /// Reads what the compiler said.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        match (value("release"), value("commit-hash"), value("host")) {
            (Some(release), commit, Some(host)) => Ok(Self {
                release: release.to_owned(),
                commit: commit.unwrap_or("unknown").to_owned(),
                host: host.to_owned(),
            }),
            _ => bail!("this is not what rustc says of itself: {text:?}"),
        }
    }

    /// A short name of this very build, for folders.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.release, self.commit.get(..9).unwrap_or(&self.commit))
    }
}

/// Whether a dotted version is at least another; what follows a `-` or `+` is left out.
pub(crate) fn at_least(version: &str, least: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let text = text.split(['-', '+']).next().unwrap_or_default();
        let mut numbers: Vec<u64> = text.split('.').map_while(|part| part.parse().ok()).collect();
        numbers.resize(3, 0);
        numbers
    };
    numbers(version) >= numbers(least)
}

/// The `rust-version` that the workspace's manifest demands.
pub(crate) fn demanded_rust(manifest: &str) -> Option<&str> {
    field(manifest, "rust-version")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"wasm-bindgen\"\nversion = \"0.2.130\"\nsource = \"s\"\n\n\
        [[package]]\nname = \"wasm-bindgen-cli-support\"\nversion = \"0.2.130\"\ndependencies = [\n \"anyhow\",\n]\n\n\
        [[package]]\nname = \"syn\"\nversion = \"1.0.1\"\n\n[[package]]\nname = \"syn\"\nversion = \"2.0.2\"\n";

    #[test]
    fn lock_versions_are_read_by_whole_name() {
        assert_eq!(locked_versions(LOCK, "wasm-bindgen"), ["0.2.130"]);
        assert_eq!(locked_versions(LOCK, "syn"), ["1.0.1", "2.0.2"]);
        assert!(locked_versions(LOCK, "wasm").is_empty());
    }

    #[test]
    fn bindgen_must_be_one_version_and_be_there() {
        assert!(bindgen_in_step(LOCK).is_ok());
        let apart = LOCK.replacen("0.2.130", "0.2.129", 1);
        let told = bindgen_in_step(&apart).map_err(|error| error.to_string());
        assert!(told.is_err_and(|text| text.contains("0.2.129") && text.contains("0.2.130")));
        assert!(bindgen_in_step("version = 4\n").is_err());
    }

    #[test]
    fn compiler_is_read_and_named() -> Result<()> {
        let said = "rustc 1.96.0 (ac68faa20 2026-05-25)\nbinary: rustc\ncommit-hash: ac68faa20c58cbcc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.96.0\n";
        let compiler = Compiler::parse(said)?;
        assert_eq!(compiler.host, "x86_64-unknown-linux-gnu");
        assert_eq!(compiler.key(), "1.96.0-ac68faa20");
        assert_eq!(Compiler::parse("host: h\nrelease: 1.90.0")?.key(), "1.90.0-unknown");
        assert!(Compiler::parse("command not found").is_err());
        Ok(())
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(at_least("1.96.0", "1.90"));
        assert!(at_least("1.90.0", "1.90"));
        assert!(at_least("1.100.0", "1.90"));
        assert!(!at_least("1.85.0", "1.90"));
        assert!(at_least("1.97.0-nightly", "1.97"));
        assert!(!at_least("", "1.0"));
    }

    #[test]
    fn demanded_rust_is_in_the_workspace_manifest() {
        assert_eq!(demanded_rust("[workspace.package]\nversion = \"0.1.0\"\nrust-version = \"1.90\"\n"), Some("1.90"));
        assert_eq!(demanded_rust("[workspace]\n"), None);
    }
}
