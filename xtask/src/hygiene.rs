//! Checks on the tracked files as text: how long a source file may be, and what may not be named in any. It must not
//! look at files that git does not track.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::Program;
use crate::workspace::Workspace;

/// The most lines a source file may have.
const MOST_LINES: usize = 700;
/// Which files count as source.
const SOURCES: [&str; 5] = ["rs", "ts", "tsx", "mts", "py"];
/// A path with this part holds generated files, whose length nobody chose.
const GENERATED: &str = "/generated/";

/// Fails when a source file is too long.
pub(crate) fn check_lengths(workspace: &Workspace) -> Result<()> {
    let mut found = Vec::new();
    for (name, text) in tracked_texts(workspace)? {
        if let Some(lines) = too_long(&name, &text) {
            found.push(format!("- {name}: {lines} lines, at most {MOST_LINES}: split it by subject"));
        }
    }
    report("source files are too long", &found)
}

/// Fails when a file names a package registry's host or a folder that exists on one machine only.
pub(crate) fn check_names(workspace: &Workspace) -> Result<()> {
    let hosts = registry_hosts();
    let folders = machine_folders(&workspace.root);
    let mut found = Vec::new();
    for (name, text) in tracked_texts(workspace)? {
        for (number, line) in text.lines().enumerate() {
            if let Some(what) = unwanted(line, &hosts, &folders) {
                found.push(format!("- {name}:{}: {what}", number + 1));
            }
        }
    }
    report("tracked files name what only one machine or one registry has", &found)
}

fn report(title: &str, found: &[String]) -> Result<()> {
    if found.is_empty() { Ok(()) } else { bail!("{title}:\n{}", found.join("\n")) }
}

fn tracked_texts(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let listed = Program::new("git")
        .args(["ls-files", "-z"])
        .directory(&workspace.root)
        .text()
        .context("git cannot list the tracked files: this check needs a clone")?;
    let texts = listed.split('\0').filter(|name| !name.is_empty()).filter_map(|name| {
        // A file that is no UTF-8 text, or was just deleted, names nothing.
        fs::read_to_string(workspace.root.join(name)).ok().map(|text| (name.to_owned(), text))
    });
    Ok(texts.collect())
}

fn too_long(name: &str, text: &str) -> Option<usize> {
    let is_source = Path::new(name).extension().and_then(|end| end.to_str()).is_some_and(|end| SOURCES.contains(&end));
    let lines = text.lines().count();
    (is_source && !name.contains(GENERATED) && lines > MOST_LINES).then_some(lines)
}

/// Put together from parts, so that this file passes its own check.
fn registry_hosts() -> Vec<String> {
    [
        &["registry", "npmjs", "org"][..],
        &["registry", "yarnpkg", "com"],
        &["files", "pythonhosted", "org"],
        &["pypi", "org"],
        &["index", "crates", "io"],
        &["static", "crates", "io"],
        &["deb", "debian", "org"],
        &["security", "debian", "org"],
    ]
    .iter()
    .map(|parts| parts.join("."))
    .collect()
}

fn machine_folders(root: &Path) -> Vec<String> {
    let mut folders: Vec<String> = ["work", "root", "tmp"].iter().map(|name| format!("/{name}/")).collect();
    let home = env::var_os("HOME").map(PathBuf::from);
    for folder in home.iter().map(PathBuf::as_path).chain([root]) {
        // A home such as "/" would forbid every path.
        if folder.components().count() > 2 {
            folders.push(format!("{}/", folder.display()));
        }
    }
    folders
}

/// The first unwanted name in a line.
fn unwanted<'a>(line: &str, hosts: &'a [String], folders: &'a [String]) -> Option<&'a str> {
    let host = hosts.iter().find(|host| line.contains(host.as_str()));
    let folder = || folders.iter().find(|folder| starts_a_path(line, folder));
    host.or_else(folder).map(String::as_str)
}

/// Whether the folder occurs as the start of a path: not inside a longer one, nor in a URL.
fn starts_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| {
            before.is_alphanumeric() || matches!(before, '.' | '_' | '-' | '/' | '}' | ')' | '~' | '*' | '$')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Option<String> {
        unwanted(line, &registry_hosts(), &machine_folders(Path::new("/srv/check out/here"))).map(str::to_owned)
    }

    #[test]
    fn lengths_count_for_written_sources_only() {
        let long = "x\n".repeat(MOST_LINES + 1);
        assert_eq!(too_long("a/b.rs", &long), Some(MOST_LINES + 1));
        assert_eq!(too_long("a/b.py", &long), Some(MOST_LINES + 1));
        assert_eq!(too_long("a/b.rs", &"x\n".repeat(MOST_LINES)), None);
        assert_eq!(too_long("a/b.json", &long), None);
        assert_eq!(too_long("panel/src/generated/frames.ts", &long), None);
    }

    #[test]
    fn a_machine_folder_is_found_where_a_path_starts() {
        let folder = format!("/{}/", "work");
        assert_eq!(names(&format!("cd {folder}main")), Some(folder.clone()));
        assert_eq!(names(&format!("\"{folder}main\"")), Some(folder.clone()));
        assert_eq!(names(&format!("PATH=a:{folder}b")), Some(folder.clone()));
        assert_eq!(names(&format!("at net{folder}x and ./{folder}y and https://host{folder}z")), None);
        assert_eq!(names(&format!("{{root}}{folder}x")), None);
        assert_eq!(names("/srv/check out/here/file"), Some("/srv/check out/here/".to_owned()));
        assert_eq!(names("/usr/bin/chromium"), None);
    }

    #[test]
    fn a_registry_host_is_found_in_an_address() {
        let host = ["registry", "npmjs", "org"].join(".");
        assert_eq!(names(&format!("\"resolved\": \"https://{host}/a\"")), Some(host));
        assert_eq!(names("source = \"registry+https://github.com/rust-lang/crates.io-index\""), None);
    }
}
