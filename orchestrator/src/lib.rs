//! The daemon: sockets, processes, disk and HTTP around [`routing_core`]. It decides nothing about routing by itself.

pub mod agent;
pub mod bridge;
pub mod cli;
pub mod comfy;
pub mod config;
mod console;
pub mod conversation;
pub mod fault;
pub mod history;
pub mod hub;
pub mod install;
pub mod serve;
pub mod store;
pub mod tools;
