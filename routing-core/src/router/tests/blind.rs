//! Rule F6: blind mode.

use super::*;
use crate::router::Restored;

/// A call whose answer is a picture.
fn look(bench: &mut Bench, socket: u64, uuid: &str) -> CallId {
    let call = bench.call("screenshot", json!({}));
    bench.reply(socket, json!({"image": "iVBOR", "mimeType": "image/png", "width": 1, "height": 1}), Some(uuid));
    call
}

fn sees(bench: &mut Bench, socket: u64, uuid: &str) -> bool {
    let call = look(bench, socket, uuid);
    match bench.answer(call).expect("an answer") {
        Ok(result) => result["image"] == "iVBOR",
        Err(refusal) => {
            assert_eq!(*refusal, Refusal::Blind);
            false
        }
    }
}

fn switch(bench: &mut Bench, socket: u64, on: bool) -> bool {
    bench.frame(socket, &json!({"type": "set_content_mode", "blind": on}));
    let mut acks = bench.of_type(socket, "ack").into_iter().filter(|ack| ack["kind"] == "set_content_mode");
    acks.next_back().expect("an acknowledgement")["blind"] == true
}

#[test]
fn f6_any_blind_tab_makes_the_conversation_blind_and_no_other() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    bench.open(3);
    bench.hello(3, "tab-3", "w3", &json!({"backend": "codex"}));
    bench.begin(1, "m1");
    assert!(sees(&mut bench, 1, "w1"));
    assert!(switch(&mut bench, 2, true));
    assert!(!sees(&mut bench, 1, "w1"), "another tab of the conversation has it on");
    let told = |socket: u64, bench: &Bench| bench.of_type(socket, "entry").iter().any(|entry| entry["kind"] == "blind");
    assert!(told(1, &bench) && !told(3, &bench));
    assert!(switch(&mut bench, 1, false), "that is for the other tab to say");
    assert!(!sees(&mut bench, 1, "w1"));
    assert!(!switch(&mut bench, 2, false));
    assert!(sees(&mut bench, 1, "w1"));
}

#[test]
fn f6_absent_is_not_off() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.hello(1, "tab-1", "w1", &json!({"blind": true}));
    bench.begin(1, "m1");
    bench.hello(1, "tab-1", "w2", &json!({}));
    bench.hello(1, "tab-1", "w1", &json!({}));
    assert!(!sees(&mut bench, 1, "w1"));
    bench.hello(1, "tab-1", "w1", &json!({"blind": false}));
    assert!(sees(&mut bench, 1, "w1"));
    assert!(bench.prompts()[0].contains("Blind mode is on"));
}

#[test]
fn f6_who_went_counts_for_a_while_and_counts_again_when_back() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    bench.join(2, "tab-2", "w2");
    switch(&mut bench, 2, true);
    bench.begin(1, "m1");
    bench.close(2);
    bench.wait(59_999);
    assert!(!sees(&mut bench, 1, "w1"));
    bench.wait(1);
    assert!(sees(&mut bench, 1, "w1"));
    assert_eq!(bench.router.poll_timeout(), None);
    bench.join(3, "tab-2", "w2");
    assert!(!sees(&mut bench, 1, "w1"), "it never said off");
}

#[test]
fn f6_a_restart_does_not_lift_it_at_once() {
    let mut bench = Bench::new();
    let restored = Restored { newest: Seq(1), blind: true, ..Restored::default() };
    bench.tell(Input::Restore { backend: "claude".into(), restored });
    bench.join(1, "tab-1", "w1");
    bench.begin(1, "m1");
    assert!(!sees(&mut bench, 1, "w1"), "the tab that had it on may be on its way");
    bench.wait(60_000);
    assert!(sees(&mut bench, 1, "w1"));
}

#[test]
fn report_075_whatever_may_be_pixels_is_withheld_by_its_type() {
    let mut bench = Bench::new();
    bench.join(1, "tab-1", "w1");
    switch(&mut bench, 1, true);
    bench.begin(1, "m1");
    for (result, passes) in [
        (json!({"outline": "1 KSampler"}), true),
        (json!({"note": {"mimeType": "text/plain", "text": "data"}}), true),
        (json!({"preview": {"url": "data:image/png;base64,iVBOR"}}), false),
        (json!({"list": [{"media_type": "video/mp4"}]}), false),
        (json!({"file": {"mimeType": "application/octet-stream"}}), false),
        (json!({"file": {"content_type": 7}}), false),
    ] {
        let call = bench.outline();
        bench.reply(1, result.clone(), Some("w1"));
        assert_eq!(bench.answer(call).expect("an answer").is_ok(), passes, "{result}");
    }
}
