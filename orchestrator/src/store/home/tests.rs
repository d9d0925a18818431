//! The home folder and the token: whose they may be (rule D5), and who is let in.
#![allow(clippy::unwrap_used, reason = "a failed step is the failure of the test")]

use super::*;

fn surroundings(user_folder: &Path, under_test: bool) -> Surroundings {
    Surroundings { user_folder: Some(user_folder.to_owned()), under_test }
}

fn prepare(path: &Path) -> Result<Home, HomeError> {
    Home::prepare(&HomeChoice::Given(path.to_owned()), &surroundings(path, true))
}

#[test]
fn d5_under_a_test_the_default_home_is_refused_and_nothing_is_created() {
    let user = tempfile::tempdir().unwrap();
    let refused = Home::prepare(&HomeChoice::Default, &surroundings(user.path(), true)).unwrap_err();
    assert_eq!(refused.code(), "real_home_under_test");
    assert_eq!(fs::read_dir(user.path()).unwrap().count(), 0);
}

#[test]
fn d5_this_very_process_is_recognised_as_a_test() {
    let refused = Home::prepare(&HomeChoice::Default, &Surroundings::of_process()).unwrap_err();
    assert_eq!(refused.code(), "real_home_under_test");
}

#[test]
fn d5_under_a_test_a_given_folder_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = folder.path().join("scratch");
    assert_eq!(prepare(&wanted).unwrap().root(), fs::canonicalize(&wanted).unwrap());
}

#[test]
fn d5_either_variable_means_a_test_unless_it_says_no() {
    let with = |name: &'static str, value: &'static str| {
        Surroundings::from_environment(None, false, move |asked| (asked == name).then(|| value.into())).under_test
    };
    for name in ["NEXTEST", "COMFY_ORCHESTRATOR_TEST"] {
        assert!(with(name, "1"));
        assert!(!with(name, "0"));
        assert!(!with(name, ""));
    }
    assert!(!with("ANYTHING_ELSE", "1"));
    assert!(Surroundings::from_environment(None, true, |_| None).under_test);
}

#[test]
fn outside_of_tests_the_default_home_is_made_in_the_persons_folder() {
    let user = tempfile::tempdir().unwrap();
    let home = Home::prepare(&HomeChoice::Default, &surroundings(user.path(), false)).unwrap();
    assert_eq!(home.root(), fs::canonicalize(user.path()).unwrap().join(".comfyui-mcp"));
    let nowhere = Surroundings { user_folder: None, under_test: false };
    assert_eq!(Home::prepare(&HomeChoice::Default, &nowhere).unwrap_err().code(), "no_user_folder");
}

#[test]
fn paths_are_those_of_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let home = prepare(folder.path()).unwrap();
    assert!(home.conversations(9101).ends_with("conversations-9101.db"));
    assert!(home.sessions(9101).ends_with("sessions/panel-sessions-9101.json"));
    assert_ne!(home.sessions(9101), home.sessions(9102));
}

#[test]
fn a_file_in_the_place_of_the_home_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    fs::write(&path, "").unwrap();
    assert_eq!(prepare(&path).unwrap_err().code(), "not_a_folder");
    assert!(path.is_file());
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_in_which_nothing_can_be_created_is_refused() {
    let path = PathBuf::from(format!("/proc/{}/task", std::process::id()));
    assert_eq!(prepare(&path).unwrap_err().code(), "not_writable");
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A folder of another user: made so when the tests run as root, else one of the system's.
    fn foreign_folder(below: &Path) -> PathBuf {
        if !rustix::process::geteuid().is_root() {
            return PathBuf::from("/usr");
        }
        let path = below.join("foreign");
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        path
    }

    #[test]
    fn a_new_home_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home = prepare(&folder.path().join("deep/home")).unwrap();
        assert_eq!(mode(home.root()), 0o700);
    }

    #[test]
    fn attack_a_symlinked_home_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("home");
        symlink(foreign_folder(folder.path()), &link).unwrap();
        assert_eq!(prepare(&link).unwrap_err().code(), "foreign_owner");
    }

    #[test]
    fn attack_a_link_that_another_user_made_is_refused_whatever_it_points_to() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("mine");
        fs::create_dir(&target).unwrap();
        let link = folder.path().join("home");
        symlink(&target, &link).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
            assert_eq!(prepare(&link).unwrap_err().code(), "foreign_owner");
        } else {
            // Only root can make such a link; for everybody else the same check is met by a foreign folder.
            assert_eq!(prepare(Path::new("/usr")).unwrap_err().code(), "foreign_owner");
        }
    }

    #[test]
    fn attack_a_home_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(prepare(&foreign_folder(folder.path())).unwrap_err().code(), "foreign_owner");
    }

    #[test]
    fn our_own_link_is_followed_once_and_re_aiming_it_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        let link = folder.path().join("home");
        symlink(&first, &link).unwrap();
        let home = prepare(&link).unwrap();
        fs::remove_file(&link).unwrap();
        symlink(&second, &link).unwrap();
        TokenFile::open(&home).unwrap();
        assert!(first.join("token").exists());
        assert!(!second.join("token").exists());
    }

    #[test]
    fn a_link_to_nothing_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("home");
        symlink(folder.path().join("absent"), &link).unwrap();
        assert_eq!(prepare(&link).unwrap_err().code(), "io");
    }

    #[test]
    fn a_wide_open_home_of_our_name_is_closed_and_a_foreign_looking_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let ours = folder.path().join(".comfyui-mcp");
        let other = folder.path().join("shared");
        for path in [&ours, &other] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("something"), "").unwrap();
            set_mode(path, 0o775);
        }
        prepare(&ours).unwrap();
        assert_eq!(mode(&ours), 0o700);
        assert_eq!(prepare(&other).unwrap_err().code(), "writable_by_others");
        assert_eq!(mode(&other), 0o775);
        set_mode(&other, 0o755);
        prepare(&other).unwrap();
        assert_eq!(mode(&other), 0o755);
    }

    #[test]
    fn the_token_file_is_for_its_owner_alone_even_if_it_was_not() {
        let folder = tempfile::tempdir().unwrap();
        let home = prepare(folder.path()).unwrap();
        TokenFile::open(&home).unwrap();
        assert_eq!(mode(&home.token()), 0o600);
        set_mode(&home.token(), 0o644);
        TokenFile::open(&home).unwrap();
        assert_eq!(mode(&home.token()), 0o600);
    }

    #[test]
    fn attack_a_symlinked_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let home = prepare(folder.path()).unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "a".repeat(64)).unwrap();
        symlink(&elsewhere, home.token()).unwrap();
        assert_eq!(TokenFile::open(&home).unwrap_err().code(), "malformed");
    }
}

fn token_file() -> (tempfile::TempDir, TokenFile) {
    let folder = tempfile::tempdir().unwrap();
    let file = TokenFile::open(&prepare(folder.path()).unwrap()).unwrap();
    (folder, file)
}

#[test]
fn a_token_is_256_bits_kept_across_starts_and_differs_between_homes() {
    let (folder, file) = token_file();
    let token = file.current().unwrap();
    assert_eq!(token.expose().len(), 64);
    assert!(token.expose().bytes().all(|byte| byte.is_ascii_hexdigit()));
    let again = TokenFile::open(&prepare(folder.path()).unwrap()).unwrap();
    assert!(again.accepts(token.expose()).unwrap());
    let (_other_folder, other) = token_file();
    assert!(!other.accepts(token.expose()).unwrap());
}

#[test]
fn anything_but_the_token_is_refused() {
    let (_folder, file) = token_file();
    let token = file.current().unwrap().expose().to_owned();
    for wrong in ["", &token[..63], &format!("{token}0"), &token.replace(|_| true, "0"), &format!("{token}\n")] {
        assert!(!file.accepts(wrong).unwrap(), "{} characters", wrong.len());
    }
}

#[test]
fn a_rotation_by_another_process_works_at_once() {
    let (folder, file) = token_file();
    let old = file.current().unwrap();
    let other = TokenFile::open(&prepare(folder.path()).unwrap()).unwrap();
    let new = other.rotate().unwrap();
    assert!(!file.accepts(old.expose()).unwrap());
    assert!(file.accepts(new.expose()).unwrap());
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["token"]);
}

#[test]
fn a_removed_token_lets_nobody_in_and_comes_back_only_by_rotation() {
    let (_folder, file) = token_file();
    let token = file.current().unwrap();
    fs::remove_file(file.path()).unwrap();
    assert_eq!(file.accepts(token.expose()).unwrap_err().code(), "missing");
    assert_eq!(file.accepts(token.expose()).unwrap_err().code(), "missing");
    let new = file.rotate().unwrap();
    assert!(file.accepts(new.expose()).unwrap());
    assert!(!file.accepts(token.expose()).unwrap());
}

#[test]
fn a_file_without_a_token_lets_nobody_in_not_even_with_the_empty_text() {
    let (_folder, file) = token_file();
    for content in [&b""[..], b"\n", b"short", &[b'z'; 64], &[0xff; 64], &[b'a'; 5000]] {
        fs::write(file.path(), content).unwrap();
        assert_eq!(file.accepts("").unwrap_err().code(), "malformed");
    }
    assert_eq!(fs::read(file.path()).unwrap().len(), 5000);
}

#[test]
fn neither_token_nor_file_shows_the_secret_in_debug() {
    let (_folder, file) = token_file();
    let token = file.current().unwrap();
    let shown = format!("{token:?} {file:?} {:?}", file.accepts("guess"));
    assert!(!shown.contains(token.expose()));
    assert!(shown.contains("Token(hidden)"));
}
