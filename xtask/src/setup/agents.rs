//! The agent programs that the end-to-end tests drive, fetched by name and called by their native binary.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::pins;
use crate::setup::{Done, node};
use crate::workspace::Workspace;

/// Claude Code, below the tools folder.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Done> {
    let what = format!("Claude Code {}", pins::CLAUDE_CODE);
    if claude(workspace).is_some() {
        return Ok(Done::AlreadyThere(what));
    }
    node::install_pinned(workspace, &folder(workspace), &format!("@anthropic-ai/claude-code@{}", pins::CLAUDE_CODE))?;
    claude(workspace).with_context(|| {
        let platform = platform(std::env::consts::OS, std::env::consts::ARCH);
        format!("{what} has no native program for this platform ({platform})")
    })?;
    Ok(Done::Installed(what))
}

/// Claude Code's native program in the pinned version, when it is there.
fn claude(workspace: &Workspace) -> Option<PathBuf> {
    let packages = folder(workspace).join("node_modules/@anthropic-ai");
    native(&packages, &platform(std::env::consts::OS, std::env::consts::ARCH))
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.tools().join("agents")
}

/// The platform in npm's words.
fn platform(system: &str, processor: &str) -> String {
    let system = match system {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let processor = match processor {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{system}-{processor}")
}

fn native(packages: &Path, platform: &str) -> Option<PathBuf> {
    [platform.to_owned(), format!("{platform}-musl")]
        .iter()
        .map(|platform| packages.join(format!("claude-code-{platform}")))
        .filter(|package| node::installed_version(package).as_deref() == Some(pins::CLAUDE_CODE))
        .flat_map(|package| [package.join("claude"), package.join("claude.exe")])
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn platforms_have_npm_names() {
        assert_eq!(platform("linux", "x86_64"), "linux-x64");
        assert_eq!(platform("macos", "aarch64"), "darwin-arm64");
        assert_eq!(platform("windows", "x86_64"), "win32-x64");
    }

    #[test]
    fn only_the_pinned_version_for_the_platform_counts() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let package = scratch.path().join("claude-code-linux-x64");
        fs::create_dir_all(&package)?;
        fs::write(package.join("claude"), "")?;
        fs::write(package.join("package.json"), r#"{"version":"0.0.1"}"#)?;
        assert_eq!(native(scratch.path(), "linux-x64"), None);
        fs::write(package.join("package.json"), format!(r#"{{"version":"{}"}}"#, pins::CLAUDE_CODE))?;
        assert_eq!(native(scratch.path(), "linux-x64"), Some(package.join("claude")));
        assert_eq!(native(scratch.path(), "darwin-arm64"), None);
        Ok(())
    }
}
