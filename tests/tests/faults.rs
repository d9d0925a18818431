//! Nothing said is lost, nothing is done twice: a slice of what `cargo xtask faults` does in full.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is the failure of a test")]

use std::sync::Arc;
use tests_e2e::faults::{Story, fault_points};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Stories at a time.
const JOBS: usize = 3;

/// Plays stories side by side; fails with everything that was violated.
async fn play(stories: Vec<Story>) {
    let room = Arc::new(Semaphore::new(JOBS));
    let mut playing = JoinSet::new();
    for story in stories {
        let room = room.clone();
        playing.spawn(async move {
            let _place = room.acquire_owned().await;
            (story.play().await, story)
        });
    }
    let mut violated = String::new();
    while let Some(played) = playing.join_next().await {
        let (outcome, story) = played.unwrap();
        assert!(outcome.messages > 0, "nothing was said in {story:?}");
        if !outcome.violations.is_empty() {
            violated.push_str(&format!("{:#?}\n{}\n", outcome.violations, outcome.details));
        }
    }
    assert!(violated.is_empty(), "{violated}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_5_a_daemon_that_dies_at_a_commit_point_loses_and_repeats_nothing() {
    let wanted = [
        "ordered-user:1",
        "inserted-turn_start:1",
        "group-committed:1",
        "report-due:2",
        "frames-due:9",
        "prompt-due:1",
        "prompt-given:2",
        "inserted-turn_end:1",
        "inserted-run:1",
        "ordered-event:1",
        "inserted-ask:1",
        "ordered-answer:1",
        "file-synced:2",
        "forget-stored:1",
        "restoring:2",
        "stop-agents-down:1",
    ];
    let known = fault_points();
    for point in wanted {
        assert!(known.iter().any(|known| known == point), "{point} is no fault point");
    }
    play(wanted.iter().map(|point| Story::at_point(1, point)).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invariant_5_a_daemon_killed_at_any_moment_loses_and_repeats_nothing() {
    play((1..=3).map(|seed| Story::with_kills(seed, 4)).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f2_d6_on_rough_lines_nothing_is_lost_and_nothing_repeated() {
    play((1..=12).map(Story::on_rough_lines).collect()).await;
}
