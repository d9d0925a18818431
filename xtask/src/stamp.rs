//! Tells whether something must be made again: a stamp file holds the fingerprint of what it was made from.
//! It must not know what is made.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A fingerprint of files and texts, in the order given. Good for "has it changed", not for security.
#[derive(Debug, Default)]
pub(crate) struct Fingerprint(DefaultHasher);

impl Fingerprint {
    /// Adds a text, such as a version.
    pub(crate) fn text(mut self, text: &str) -> Self {
        text.hash(&mut self.0);
        self
    }

    /// Adds a file's name and content.
    pub(crate) fn file(mut self, path: &Path) -> Result<Self> {
        path.hash(&mut self.0);
        fs::read(path).with_context(|| format!("cannot read {}", path.display()))?.hash(&mut self.0);
        Ok(self)
    }

    /// Adds every file below a folder, less the folders with these names.
    pub(crate) fn folder(mut self, folder: &Path, without: &[&str]) -> Result<Self> {
        for path in files_below(folder, without)? {
            self = self.file(&path)?;
        }
        Ok(self)
    }

    /// The fingerprint as text.
    pub(crate) fn finish(self) -> String {
        format!("{:016x}", self.0.finish())
    }
}

/// Every file below a folder in a fixed order, less the folders with these names.
pub(crate) fn files_below(folder: &Path, without: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot list {}", next.display()))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !without.iter().any(|name| entry.file_name() == *name) {
                    folders.push(entry.path());
                }
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Whether the stamp holds this fingerprint.
pub(crate) fn is_fresh(stamp: &Path, fingerprint: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|kept| kept == fingerprint)
}

/// Keeps the fingerprint of what was just made.
pub(crate) fn write(stamp: &Path, fingerprint: &str) -> Result<()> {
    if let Some(folder) = stamp.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(stamp, fingerprint).with_context(|| format!("cannot write {}", stamp.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_follows_content_and_names_and_leaves_out_what_it_is_told() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let folder = scratch.path().join("src");
        fs::create_dir_all(folder.join("deep"))?;
        fs::create_dir_all(folder.join("node_modules"))?;
        fs::write(folder.join("a.ts"), "one")?;
        fs::write(folder.join("deep/b.ts"), "two")?;
        let take = || -> Result<String> { Ok(Fingerprint::default().folder(&folder, &["node_modules"])?.finish()) };
        let first = take()?;
        assert_eq!(take()?, first);
        fs::write(folder.join("node_modules/c.js"), "not ours")?;
        assert_eq!(take()?, first);
        fs::write(folder.join("deep/b.ts"), "three")?;
        let second = take()?;
        assert_ne!(second, first);
        fs::rename(folder.join("a.ts"), folder.join("z.ts"))?;
        assert_ne!(take()?, second);

        let stamp = scratch.path().join("stamps/src");
        assert!(!is_fresh(&stamp, &second));
        write(&stamp, &second)?;
        assert!(is_fresh(&stamp, &second));
        assert!(!is_fresh(&stamp, &first));
        Ok(())
    }
}
