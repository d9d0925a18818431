//! The page that a person sees at the daemon's address. It shows that the daemon runs, and nothing that is anybody's.

use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Html;

const PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>comfy-orchestrator</title>\n<style>",
    "body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}",
    "@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}}</style></head>\n",
    "<body><h1>comfy-orchestrator runs</h1>\n<p>Version ",
    env!("CARGO_PKG_VERSION"),
    ".</p>\n<p>Open ComfyUI and its agent panel to talk to the agent. ",
    "<code>comfy-orchestrator doctor</code> tells what is missing if the panel does not connect.</p></body></html>\n"
);

/// The page, closed to scripts, frames and caches.
pub(crate) fn page() -> ([(HeaderName, HeaderValue); 4], Html<&'static str>) {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    let headers = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, Html(PAGE))
}
