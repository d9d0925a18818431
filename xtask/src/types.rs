//! The TypeScript types that are generated from routing-core: writes them, or tells whether the written ones are current.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::stamp::files_below;
use crate::workspace::Workspace;

/// Where the panel keeps them.
const FOLDER: &str = "panel-wasm/panel/src/generated";

/// Writes the types, or with `check` only compares.
pub(crate) fn types(workspace: &Workspace, check: bool) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    workspace
        .cargo()
        .args([
            "run",
            "--quiet",
            "--package",
            "routing-core",
            "--features",
            "schema",
            "--example",
            "generate-types",
            "--",
        ])
        .arg(scratch.path())
        .visible()
        .context("the types cannot be generated")?;
    let made = texts(scratch.path())?;
    if made.is_empty() {
        bail!("generate-types wrote no file");
    }
    let folder = workspace.path(FOLDER);
    let kept = if folder.is_dir() { texts(&folder)? } else { BTreeMap::new() };
    let differences = compare(&kept, &made);
    if differences.is_empty() {
        return Ok(());
    }
    if check {
        bail!("{FOLDER} is not current: run `cargo xtask types` and commit\n{}", differences.join("\n"));
    }
    for stray in kept.keys().filter(|name| !made.contains_key(*name)) {
        fs::remove_file(folder.join(stray))?;
    }
    for (name, text) in made.iter().filter(|(name, text)| kept.get(*name) != Some(*text)) {
        let file = folder.join(name);
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    crate::progress::say(&format!("   {FOLDER}:\n{}", differences.join("\n")));
    Ok(())
}

fn texts(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    files_below(folder, &[])?
        .into_iter()
        .map(|file| {
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            Ok((file.strip_prefix(folder)?.to_owned(), text))
        })
        .collect()
}

/// One line for each file that is missing, left over or different, with the first line that differs.
fn compare(kept: &BTreeMap<PathBuf, String>, made: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, text) in made {
        match kept.get(name) {
            None => differences.push(format!("- {} is missing", name.display())),
            Some(old) if old != text => {
                differences.push(format!("- {} differs {}", name.display(), first_difference(old, text)))
            }
            Some(_) => {}
        }
    }
    let strays = kept.keys().filter(|name| !made.contains_key(*name));
    differences.extend(strays.map(|name| format!("- {} is not generated any more", name.display())));
    differences
}

fn first_difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let shared = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let line =
        |lines: &[&str]| lines.get(shared).map_or_else(|| "(end of file)".to_owned(), |line| line.trim().to_owned());
    format!("in line {}: is {:?}, should be {:?}", shared + 1, line(&old), line(&new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        files.iter().map(|(name, text)| (PathBuf::from(name), (*text).to_owned())).collect()
    }

    #[test]
    fn equal_folders_have_no_difference() {
        let one = folder(&[("a.ts", "x\n"), ("deep/b.ts", "y\n")]);
        assert!(compare(&one, &one).is_empty());
    }

    #[test]
    fn missing_changed_and_left_over_files_are_named() {
        let kept = folder(&[("changed.ts", "same\nold\n"), ("stray.ts", "z\n")]);
        let made = folder(&[("changed.ts", "same\nnew\n"), ("fresh.ts", "f\n")]);
        assert_eq!(
            compare(&kept, &made),
            [
                "- changed.ts differs in line 2: is \"old\", should be \"new\"",
                "- fresh.ts is missing",
                "- stray.ts is not generated any more"
            ]
        );
    }

    #[test]
    fn a_file_that_only_grew_differs_at_its_end() {
        assert_eq!(first_difference("a\n", "a\nb\n"), "in line 2: is \"(end of file)\", should be \"b\"");
    }
}
