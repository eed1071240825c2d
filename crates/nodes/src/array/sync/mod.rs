//! `sync`: what keeps the copies of an array alike: resync after a crash, recovery of members, scrub,
//! and the driver that does all of it in the background.

mod plan;
mod progress;
mod rate;
#[cfg(test)]
mod tests;
