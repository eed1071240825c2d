//! One file or folder for each command: its arguments, and what it does with the crates below.

pub(crate) mod disk;
pub(crate) mod serve;
