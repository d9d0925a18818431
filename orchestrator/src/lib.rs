//! The daemon: sockets, processes, disk and HTTP around [`routing_core`]. It decides nothing about routing by itself.

pub mod agent;
pub mod config;
pub mod hub;
pub mod store;
