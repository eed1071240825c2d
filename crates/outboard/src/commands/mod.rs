//! One file or folder for each command: its arguments, and what it does with the crates below.

pub(crate) mod agent;
pub(crate) mod array;
pub(crate) mod attach;
#[cfg(feature = "bucket")]
pub(crate) mod bucket;
pub(crate) mod client;
pub(crate) mod completions;
pub(crate) mod copy;
pub(crate) mod detach;
pub(crate) mod disk;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod lab;
pub(crate) mod ls;
pub(crate) mod manual;
pub(crate) mod netboot;
pub(crate) mod overlay;
pub(crate) mod refresh;
pub(crate) mod reload;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod tls;
pub(crate) mod volume;
