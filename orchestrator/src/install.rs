//! The custom node in a ComfyUI: written from what this program carries, and taken out again. It must not know how the
//! daemon serves; the node finds it by what stands in [`DAEMON_FILE`].
//!
//! Only what was written by an installation is ever replaced or removed, and only while it is as it was written: a file
//! that somebody changed, a link, a folder of another origin are left alone and named.

mod manifest;

use manifest::{Manifest, digest};
use rust_embed::RustEmbed;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The node's folder within `custom_nodes`.
const FOLDER: &str = "comfy-orchestrator";
/// Within the node: which program, home and port its daemon has.
pub const DAEMON_FILE: &str = "daemon.json";
/// What the panel cannot do without.
const BUNDLE: &str = "web/comfy-orchestrator.js";

#[derive(RustEmbed)]
#[folder = "../panel-wasm/comfyui"]
#[exclude = "*.pyc"]
#[exclude = "daemon.json"]
#[exclude = "installed.json"]
struct Node;

/// How the node reaches its daemon, and starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonPlace {
    /// The program, absolute.
    pub program: PathBuf,
    /// The home folder, unless it is the usual one.
    pub home: Option<PathBuf>,
    /// The port, unless it is the usual one.
    pub port: Option<u16>,
}

/// What an installation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The node's folder.
    pub folder: PathBuf,
    /// The version that was there before.
    pub before: Option<String>,
    /// Files that were written because they were missing or other.
    pub written: usize,
}

/// What a removal did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The node's folder.
    pub folder: PathBuf,
    /// What somebody else made or changed there; it stays.
    pub left: Vec<String>,
}

/// Why nothing, or not all, was done.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no ComfyUI there.
    #[error(
        "{} is no ComfyUI folder: it has no custom_nodes. Give the folder that holds ComfyUI's main.py, or its user folder \
         with ComfyUI Desktop", .0.display()
    )]
    NoComfy(PathBuf),
    /// A link, as for working on the node.
    #[error("{} is a link, so nothing is written or removed through it. Remove the link first, if you want that", .0.display())]
    Linked(PathBuf),
    /// Somebody else made it.
    #[error("{} was not written by `comfy-orchestrator install`. Move it away, and try again", .0.display())]
    Foreign(PathBuf),
    /// Nothing to remove.
    #[error("{} does not exist: there is nothing to remove", .0.display())]
    Absent(PathBuf),
    /// Somebody changed files.
    #[error("changed since they were installed: {}. Keep a copy elsewhere and give --force to write over them", files.join(", "))]
    Changed {
        /// Their names within the node.
        files: Vec<String>,
    },
    /// The program was built before the panel.
    #[error("this program was built without the panel: run `cargo xtask panel`, build it again, and try again")]
    NoPanel,
    /// The file system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl InstallError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoComfy(_) => "no_comfyui",
            Self::Linked(_) => "linked",
            Self::Foreign(_) => "foreign",
            Self::Absent(_) => "not_installed",
            Self::Changed { .. } => "changed",
            Self::NoPanel => "no_panel",
            Self::Io { .. } => "io",
        }
    }
}

/// Writes the node, or brings it to this version. What is as it should be is not written again. `force`: also over files
/// that somebody changed.
///
/// # Errors
/// See [`InstallError`]; after an I/O error the next installation goes on where this one ended.
pub fn install(comfyui: &Path, daemon: &DaemonPlace, force: bool) -> Result<Installed, InstallError> {
    put(node_folder(comfyui)?, &files(daemon)?, force)
}

fn put(folder: PathBuf, files: &BTreeMap<String, Vec<u8>>, force: bool) -> Result<Installed, InstallError> {
    let before = match (Manifest::read(&folder)?, folder.exists()) {
        (None, true) if !only_ours(&folder, files)? => return Err(InstallError::Foreign(folder)),
        (manifest, _) => manifest,
    };
    let recorded = before.as_ref().map(|manifest| manifest.files.clone()).unwrap_or_default();
    let (mut stale, mut changed) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let path = folder.join(name);
        refuse_links(&folder, &path)?;
        match read(&path)? {
            Some(there) if there == *content => {}
            Some(there) => {
                if recorded.get(name).is_none_or(|then| *then != digest(&there)) {
                    changed.push(name.clone());
                }
                stale.push(name);
            }
            None => stale.push(name),
        }
    }
    if !changed.is_empty() && !force {
        return Err(InstallError::Changed { files: changed });
    }
    for name in &stale {
        write(&folder.join(name), &files[*name])?;
    }
    for (name, then) in recorded.iter().filter(|(name, _)| !files.contains_key(*name)) {
        remove_if_as_written(&folder, name, then)?;
    }
    let digests = files.iter().map(|(name, content)| (name.clone(), digest(content))).collect();
    let manifest = Manifest { version: env!("CARGO_PKG_VERSION").to_owned(), files: digests };
    write(&folder.join(manifest::FILE), &manifest.encode())?;
    Ok(Installed { folder, before: before.map(|manifest| manifest.version), written: stale.len() })
}

/// Takes out exactly what an installation wrote, and what Python made of it.
///
/// # Errors
/// See [`InstallError`].
pub fn uninstall(comfyui: &Path) -> Result<Removed, InstallError> {
    let folder = node_folder(comfyui)?;
    if !folder.exists() {
        return Err(InstallError::Absent(folder));
    }
    let manifest = Manifest::read(&folder)?.ok_or_else(|| InstallError::Foreign(folder.clone()))?;
    for (name, then) in &manifest.files {
        remove_if_as_written(&folder, name, then)?;
    }
    remove_caches(&folder, &manifest)?;
    let mut left = Vec::new();
    list(&folder, &folder, &mut left)?;
    left.retain(|name| name != manifest::FILE);
    if left.is_empty() {
        // Last of all: a removal that is cut off before can be repeated.
        remove(&folder.join(manifest::FILE))?;
        remove_empty(&folder)?;
    }
    Ok(Removed { folder, left })
}

fn node_folder(comfyui: &Path) -> Result<PathBuf, InstallError> {
    let nodes = if comfyui.file_name().is_some_and(|name| name == "custom_nodes") {
        comfyui.to_owned()
    } else {
        comfyui.join("custom_nodes")
    };
    if !nodes.is_dir() {
        return Err(InstallError::NoComfy(comfyui.to_owned()));
    }
    let folder = nodes.join(FOLDER);
    if folder.is_symlink() {
        return Err(InstallError::Linked(folder));
    }
    Ok(folder)
}

/// Every file of the node by its name with forward slashes.
fn files(daemon: &DaemonPlace) -> Result<BTreeMap<String, Vec<u8>>, InstallError> {
    let carried = |name: &str| Node::get(name).map(|file| file.data.into_owned());
    let mut files: BTreeMap<String, Vec<u8>> =
        Node::iter().filter_map(|name| carried(&name).map(|content| (name.into_owned(), content))).collect();
    if !files.contains_key(BUNDLE) {
        return Err(InstallError::NoPanel);
    }
    let place = json!({"program": daemon.program, "home": daemon.home, "port": daemon.port});
    files.insert(DAEMON_FILE.to_owned(), format!("{place:#}\n").into_bytes());
    Ok(files)
}

/// Whether a folder without a manifest is what a first installation left when it was cut off.
fn only_ours(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<bool, InstallError> {
    let mut there = Vec::new();
    list(folder, folder, &mut there)?;
    for name in there {
        let same =
            files.get(&name).is_some_and(|content| fs::read(folder.join(&name)).is_ok_and(|bytes| bytes == *content));
        if !same && !name.ends_with(PART) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// End of the name of a file that is being written.
const PART: &str = ".part";

fn write(path: &Path, content: &[u8]) -> Result<(), InstallError> {
    let failed = |error| InstallError::Io { path: path.to_owned(), error };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(PART);
    fs::write(&part, content).and_then(|()| fs::rename(&part, path)).map_err(failed)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, InstallError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(InstallError::Io { path: path.to_owned(), error }),
    }
}

/// No file is reached through a link, wherever it points.
fn refuse_links(folder: &Path, path: &Path) -> Result<(), InstallError> {
    match path.ancestors().take_while(|part| *part != folder).find(|part| part.is_symlink()) {
        Some(link) => Err(InstallError::Linked(link.to_owned())),
        None => Ok(()),
    }
}

fn remove_if_as_written(folder: &Path, name: &str, then: &str) -> Result<(), InstallError> {
    let path = folder.join(name);
    if refuse_links(folder, &path).is_err() || read(&path)?.is_none_or(|there| digest(&there) != then) {
        return Ok(());
    }
    remove(&path)?;
    for parent in path.ancestors().skip(1).take_while(|part| *part != folder) {
        remove_empty(parent)?;
    }
    Ok(())
}

/// Python's compiled copies of our own modules.
fn remove_caches(folder: &Path, manifest: &Manifest) -> Result<(), InstallError> {
    let caches = folder.join("__pycache__");
    let Ok(entries) = fs::read_dir(&caches) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let module = name.split('.').next().unwrap_or_default();
        if name.ends_with(".pyc") && manifest.files.contains_key(&format!("{module}.py")) {
            remove(&entry.path())?;
        }
    }
    remove_empty(&caches)
}

fn remove(path: &Path) -> Result<(), InstallError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(InstallError::Io { path: path.to_owned(), error }),
        _ => Ok(()),
    }
}

/// Removes a folder if nothing is in it.
fn remove_empty(path: &Path) -> Result<(), InstallError> {
    match fs::remove_dir(path) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Err(InstallError::Io { path: path.to_owned(), error })
        }
        _ => Ok(()),
    }
}

/// Names of all files below, relative to `root`, with forward slashes. Links are named and not followed.
fn list(root: &Path, folder: &Path, into: &mut Vec<String>) -> Result<(), InstallError> {
    let failed = |error| InstallError::Io { path: folder.to_owned(), error };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && !path.is_symlink() {
            list(root, &path, into)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            into.push(name.to_string_lossy().replace('\\', "/"));
        }
    }
    into.sort();
    Ok(())
}

#[cfg(test)]
mod tests;
