//! What the daemon keeps on disk: the home folder with its capability token, the conversation log and the session
//! file. It decides when something is durable and what happens to a file that cannot be read; it must not know what
//! a row means, and it reads no clock: every time comes in as an argument.

pub(crate) mod files;
pub mod home;
pub mod lock;
pub mod log;
pub mod sessions;
