//! The few file operations that durability rests on: replacing a file whole, setting one aside, private modes.
//! Which file deserves which treatment is the caller's matter.

use crate::fault;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What kind of trouble an I/O error is, as far as the person can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No space or no quota left.
    DiskFull,
    /// The file system or the permissions forbid writing.
    ReadOnly,
    /// Anything else.
    Other,
}

/// Classifies an I/O error by its kind.
pub(super) fn trouble(error: &io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Trouble::DiskFull,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Trouble::ReadOnly,
        _ => Trouble::Other,
    }
}

/// `path` with `suffix` appended to its file name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Options that create a file which only its owner may read.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Creates a folder, and any that are missing above it, for the owner only. An existing one is left as it is.
pub(super) fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Takes every permission of group and others away, if there is any. File systems without modes ignore it.
pub(super) fn tighten(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o700))?;
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Replaces `path` by `bytes` as a whole: written to `temporary` in the same folder, synced, renamed, folder synced.
/// At no moment is there a partial file at `path`. When only the rename fails, the complete temporary file stays.
pub(super) fn replace(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(temporary) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fault::at("file-begun");
    let mut file = private_file().create_new(true).open(temporary)?;
    let written = file.write_all(bytes).and_then(|()| {
        fault::at("file-written");
        file.sync_all()
    });
    if let Err(error) = written {
        drop(file);
        // The write failed already; a partial file that stays is recognised as incomplete by its reader.
        let _ = fs::remove_file(temporary);
        return Err(error);
    }
    drop(file);
    fault::at("file-synced");
    fs::rename(temporary, path)?;
    fault::at("file-renamed");
    sync_folder_of(path)
}

/// Makes a rename or a creation in the folder of `path` durable.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// A name `<path>.unreadable-<ms>` that is free; the number is raised until it is.
pub(super) fn set_aside_name(path: &Path, now_ms: i64) -> PathBuf {
    let mut stamp = now_ms;
    loop {
        let candidate = with_suffix(path, &format!(".unreadable-{stamp}"));
        if fs::symlink_metadata(&candidate).is_err() {
            return candidate;
        }
        stamp = stamp.saturating_add(1);
    }
}

/// Renames `path` to a free set-aside name and returns it.
pub(super) fn set_aside(path: &Path, now_ms: i64) -> io::Result<PathBuf> {
    let target = set_aside_name(path, now_ms);
    fs::rename(path, &target)?;
    sync_folder_of(path)?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is the failure of the test")]
    use super::*;

    #[test]
    fn a_replaced_file_is_whole_and_leaves_no_temporary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let temporary = folder.path().join("file.tmp");
        fs::write(&temporary, "left over").unwrap();
        replace(&path, &temporary, b"one").unwrap();
        replace(&path, &temporary, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert!(!temporary.exists());
    }

    #[test]
    fn a_rename_that_fails_keeps_both_the_old_and_the_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let temporary = folder.path().join("file.tmp");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "old").unwrap();
        assert!(replace(&path, &temporary, b"new").is_err());
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"old");
        assert_eq!(fs::read(&temporary).unwrap(), b"new");
    }

    #[test]
    fn setting_aside_never_overwrites_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in ["first", "second"] {
            fs::write(&path, text).unwrap();
            set_aside(&path, 7).unwrap();
        }
        assert_eq!(fs::read(with_suffix(&path, ".unreadable-7")).unwrap(), b"first");
        assert_eq!(fs::read(with_suffix(&path, ".unreadable-8")).unwrap(), b"second");
    }

    #[cfg(unix)]
    #[test]
    fn files_and_folders_are_private_from_the_start() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        create_private_folder(&inner).unwrap();
        let path = inner.join("file");
        replace(&path, &inner.join("file.tmp"), b"x").unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
