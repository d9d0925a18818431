//! A release carries the panel: it is compiled again when the panel was built, also for the first time. Other builds read it
//! from the checkout.
#![allow(clippy::print_stdout, reason = "this is how a build script speaks to cargo")]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var_os("PROFILE").is_some_and(|profile| profile == "release") {
        println!("cargo:rerun-if-changed=../panel-wasm/comfyui");
    }
}
