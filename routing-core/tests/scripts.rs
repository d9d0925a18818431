//! Every event script against the router in memory, with the panel's own machine on the other side.
#![cfg(feature = "script")]
#![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]

use routing_core::script::{InMemory, Script, run};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../web-fixtures/scripts")
}

fn read(name: &str) -> Script {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn passes(name: &str) {
    let script = read(name);
    let verdict = run(&script, &mut InMemory::new(&script));
    assert!(verdict.passed, "{name}: {}\n{}", script.about, serde_json::to_string_pretty(&verdict.failures).unwrap());
    let again = run(&script, &mut InMemory::new(&script));
    assert_eq!(verdict, again, "{name}: the same script gives the same run");
}

macro_rules! scripts {
    ($($name:ident,)*) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { passes(stringify!($name)); })*
    };
}

scripts! {
    b1_a_new_chat_closes_the_whole_conversation,
    b3_a_switch_there_and_back_resumes,
    b4_a_switch_moves_one_tab,
    f1_what_the_agent_says_goes_to_its_conversation,
    f3_a_late_answer_is_taken_once,
    f3_a_run_is_told_once_to_the_conversation_that_queued_it,
    g10_each_remedy_makes_the_refused_call_pass,
    g11_a_lost_reply_has_no_second_effect,
    g12_one_session_knows_every_open_workflow,
    g1_the_newest_request_for_a_target_wins,
    g2_a_pin_is_resolved_when_it_is_set,
    g9_a_contradicting_identity_is_not_believed,
    report_001_new_workflow_wipes_the_memory,
    report_002_open_cuts_off_the_call_that_opened,
    report_012_a_reload_leaves_the_agent_without_a_tab,
    report_013_a_retarget_without_a_tab_is_deferred,
    report_014_two_tabs_show_the_same_file,
    report_019_reads_pass_and_the_next_write_finds_no_tab,
    report_020_a_message_of_another_tab_reaims_the_running_turn,
    report_021_send_now_merges_two_origins,
    report_022_a_known_workflow_revives_a_pin_of_another_agent,
    report_027_the_remedy_succeeds_and_changes_nothing,
    report_028_the_repair_is_fenced_by_what_it_repairs,
    report_029_the_fence_blocks_what_has_no_canvas,
    report_030_run_is_refused_with_the_old_stamp,
    report_031_save_as_does_not_say_to_what,
    report_037_loading_a_file_leaves_a_stamp_of_another,
    report_038_a_bare_file_name_sets_off_the_mismatch,
    report_039_rename_hits_the_other_workflow,
    report_040_two_unsaved_workflows_of_one_name,
    report_041_the_pin_says_saved_the_edits_go_elsewhere,
    report_050_a_completion_starts_turn_after_turn,
    report_062_a_write_whose_reply_never_came,
    report_063_a_duplicate_of_a_running_command,
    report_064_a_background_tab_is_verified_by_its_ledger,
    report_065_a_busy_tab_is_not_taken_for_dead,
    report_068_the_first_write_after_a_reconnect,
    report_073_one_switch_stops_the_agent_of_others,
    report_080_what_one_tool_lists_the_next_rejects,
    s3_a_hello_again_touches_no_agent,
    s5_a_restart_goes_on,
    s7_a_new_tab_sees_the_conversation_from_its_start,
    t10_between_turns,
    t11_one_line_tells_where_the_agent_is,
    t12_only_the_agents_own_open_moves_pin_and_stamp,
    t2_a_mixed_turn_fails_closed,
    t3_events_ride_along_or_inherit,
    t5_the_pin_follows_its_own_tab_only,
    t6_a_call_waits_for_its_tab_and_is_then_refused,
    t7_ownership_is_asked_at_every_use,
    t8_what_goes_back_keeps_its_origin,
    wire_bad_frames_are_answered_and_change_nothing,
}

/// Every script in the folder is run here, and every one that is run is there.
#[test]
fn no_script_is_left_out() {
    let there: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    let listed: BTreeSet<String> = LISTED.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(there, listed);
}

/// The reports that a script must reproduce.
#[test]
fn every_report_has_its_script() {
    for report in [1, 2, 12, 14, 19, 20, 21, 22, 27, 28, 29, 30, 31, 37, 38, 39, 40, 41, 73, 80] {
        let prefix = format!("report_{report:03}_");
        assert!(LISTED.iter().any(|name| name.starts_with(&prefix)), "report {report} has no script");
    }
}

/// A script whose expectations do not hold fails, with the step and with what was seen.
#[test]
fn a_wrong_expectation_fails() {
    let mut script = read("report_020_a_message_of_another_tab_reaims_the_running_turn");
    let text = serde_json::to_string(&script).unwrap().replace("\"steps\":30", "\"steps\":31");
    script = serde_json::from_str(&text).unwrap();
    let verdict = run(&script, &mut InMemory::new(&script));
    assert!(!verdict.passed);
    assert!(verdict.failures.iter().all(|failure| failure.expected.to_string().contains("31")));
}

/// Scripts notice a rule that is switched off.
#[cfg(feature = "sabotage")]
#[test]
fn a_broken_rule_is_noticed() {
    for (rule, noticed_by) in [
        ("t4", "report_020_a_message_of_another_tab_reaims_the_running_turn"),
        ("t7", "report_022_a_known_workflow_revives_a_pin_of_another_agent"),
        ("t7", "t7_ownership_is_asked_at_every_use"),
    ] {
        let script = read(noticed_by);
        assert!(!run(&script, &mut InMemory::without(&script, rule)).passed, "{rule}: {noticed_by}");
    }
}

/// A key that means nothing is a mistake in the script, not a wish that is ignored.
#[test]
fn an_unknown_key_is_refused() {
    let text = r#"{"about": "x", "panels": {}, "steps": [{"connect": {"panel": "T1", "quickly": true}}]}"#;
    assert!(serde_json::from_str::<Script>(text).unwrap_err().to_string().contains("quickly"));
}
