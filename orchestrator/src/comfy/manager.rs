//! ComfyUI-Manager's queue (version 4: `/v2/manager/queue`): a job is put into it, and looked for in it and in its history. It
//! tells what the Manager says and decides nothing.

use super::api::{Api, ApiError};
use reqwest::StatusCode;
use routing_core::id::PromptId;
use routing_core::job::Job;
use routing_core::router::JobBegun;
use routing_core::run::{Ending, Fault, Sight, Status};
use serde_json::{Value, json};

const TASK: &str = "/v2/manager/queue/task";
const START: &str = "/v2/manager/queue/start";
const STATUS: &str = "/v2/manager/queue/status";
const HISTORY: &str = "/v2/manager/queue/history";

/// Puts a job into the queue and sees that the queue is worked off.
pub(super) async fn begin(comfyui: &str, client: &str, id: &PromptId, job: &Job) -> JobBegun {
    let api = match Api::new(comfyui) {
        Ok(api) => api,
        Err(error) => return down(comfyui, &error),
    };
    let task = json!({"ui_id": id, "client_id": client, "kind": kind(job), "params": parameters(id, job)});
    match api.post(TASK, &task).await {
        Ok(_) => {}
        Err(error @ ApiError::Unreached(_)) => return down(comfyui, &error),
        Err(ApiError::Status { status, said, .. }) => return refused(status, &said),
        Err(error) => return JobBegun::Unknown { why: error.to_string() },
    }
    match api.post(START, &json!({})).await {
        Ok(_) => JobBegun::Yes,
        Err(error) => {
            JobBegun::Unknown { why: format!("it waits, and whether its queue was started is not known: {error}") }
        }
    }
}

fn kind(job: &Job) -> &'static str {
    match job {
        Job::NodePack { .. } => "install",
        Job::Model { .. } => "install-model",
    }
}

fn parameters(id: &PromptId, job: &Job) -> Value {
    match job {
        Job::NodePack { id: pack, version, repository } => json!({
            "id": pack, "version": version, "selected_version": version, "repository": repository, "mode": "cache",
            "channel": "default", "ui_id": id,
        }),
        Job::Model { name, kind, url, filename, folder, base } => json!({
            "name": name, "type": kind, "base": base, "save_path": folder, "url": url, "filename": filename, "ui_id": id,
        }),
    }
}

fn down(comfyui: &str, error: &ApiError) -> JobBegun {
    JobBegun::No {
        code: "comfyui_down",
        message: format!(
            "ComfyUI at {comfyui} does not answer ({error}), so nothing was begun. Start it and try again."
        ),
    }
}

fn refused(status: StatusCode, said: &str) -> JobBegun {
    let said = if said.is_empty() { String::new() } else { format!(" It says: {said}") };
    let (code, message) = match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => (
            "no_manager",
            "ComfyUI-Manager 4 is not there: start ComfyUI with --enable-manager, or let the person install it by hand.".to_owned(),
        ),
        StatusCode::FORBIDDEN => (
            "not_allowed",
            format!(
                "ComfyUI-Manager's security level does not allow this. The person can change `security_level` in its \
                 config.ini, or install it by hand.{said}"
            ),
        ),
        status => ("rejected", format!("ComfyUI-Manager refused it ({status}).{said}")),
    };
    JobBegun::No { code, message }
}

/// How jobs stand. The queue is read first: what left it before is in the history, or nowhere.
pub(super) async fn look(api: &Api, ids: &[PromptId]) -> Result<Vec<(PromptId, Sight)>, ApiError> {
    let is_busy = match api.get(STATUS, &[]).await {
        Ok(status) => is_busy(&status).ok_or(ApiError::Strange { path: STATUS })?,
        // No Manager has none of them.
        Err(ApiError::Status { status: StatusCode::NOT_FOUND, .. }) => {
            return Ok(ids.iter().map(|id| (id.clone(), Sight::Absent)).collect());
        }
        Err(error) => return Err(error),
    };
    let mut seen = Vec::new();
    for id in ids {
        let answer = api.get(HISTORY, &[("ui_id", id.as_str())]).await?;
        let sight = match ending(&answer) {
            Some(ending) => Sight::Ended(ending),
            None if is_busy => Sight::Running { progress: None },
            None => Sight::Absent,
        };
        seen.push((id.clone(), sight));
    }
    Ok(seen)
}

fn is_busy(status: &Value) -> Option<bool> {
    let count = |name: &str| status.get(name).and_then(Value::as_u64);
    Some(count("total_count")? > 0 || count("in_progress_count").unwrap_or(0) > 0)
}

/// An entry of the history. `None`: there is none.
fn ending(answer: &Value) -> Option<Ending> {
    let entry = answer.get("history").filter(|entry| entry.get("ui_id").is_some_and(Value::is_string))?;
    let result = entry.get("result").and_then(Value::as_str).unwrap_or_default();
    let word = entry.pointer("/status/status_str").and_then(Value::as_str).unwrap_or(result);
    let status = match word {
        "success" | "skip" | "skipped" => Status::Success,
        _ => Status::Error,
    };
    let messages = entry.pointer("/status/messages").and_then(Value::as_array);
    let messages = messages.into_iter().flatten().filter_map(Value::as_str);
    let mut words: Vec<&str> = Some(result).into_iter().chain(messages).filter(|words| !is_plain(words)).collect();
    words.dedup();
    Some(Ending::new(status, [], Fault::new(Some(&words.join(". ")), None, None)))
}

/// It says no more than the status.
fn is_plain(words: &str) -> bool {
    words.is_empty() || words.eq_ignore_ascii_case("success")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;

    #[test]
    fn an_entry_of_the_history_is_an_end_and_an_empty_one_is_none() {
        assert_eq!(ending(&json!({"history": {}})), None);
        let entry = |result: &str, word: &str, messages: Value| {
            let status = json!({"status_str": word, "completed": true, "messages": messages});
            ending(&json!({"history": {"ui_id": "j", "result": result, "status": status}})).unwrap()
        };
        let done = entry("success", "success", json!(["success"]));
        assert_eq!((done.status, done.fault), (Status::Success, None));
        let failed = entry("failed", "error", json!(["Model installation error: x"]));
        assert_eq!(failed.status, Status::Error);
        assert_eq!(failed.fault.unwrap().message.unwrap(), "failed. Model installation error: x");
        let skipped = entry("skip", "skipped", json!(["already there"]));
        assert_eq!(skipped.status, Status::Success);
    }
}
