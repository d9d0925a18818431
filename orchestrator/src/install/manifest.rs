//! What an installation wrote, so that a later one knows its own files from those of others.

use super::InstallError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// Its name within the node.
pub(super) const FILE: &str = "installed.json";

/// The record of an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version that was installed.
    pub(super) version: String,
    /// The digest of each file, by its name with forward slashes.
    pub(super) files: BTreeMap<String, String>,
}

impl Manifest {
    /// The record in a node's folder; `None`: there is none, or what is there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, InstallError> {
        let manifest: Option<Self> =
            super::read(&folder.join(FILE))?.and_then(|content| serde_json::from_slice(&content).ok());
        // A name that leads out of the folder was not written by us.
        Ok(manifest.filter(|manifest| manifest.files.keys().all(|name| is_inside(name))))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        format!("{:#}\n", serde_json::json!(self)).into_bytes()
    }
}

fn is_inside(name: &str) -> bool {
    let parts = Path::new(name).components();
    !name.is_empty() && parts.into_iter().all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// SHA-256, in hexadecimal digits.
pub(super) fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
