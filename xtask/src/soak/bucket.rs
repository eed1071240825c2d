//! `cargo xtask soak bucket`: many more kills of the server of a volume on an object store than `cargo xtask ci` plays, with collections next
//! to them; each 20 rounds the volume is closed and collected, and no orphan is left in the store.

use anyhow::{Result, ensure};

use super::worlds;
use crate::suite::REQUIRE_ALL;
use crate::{s3_servers, shell};

/// Runs the test of kills, with its output.
pub(super) fn run(rounds: u32, seed: u64) -> Result<()> {
    ensure!(s3_servers::install()?, "it needs an S3 server");
    let mut test = shell::cargo(["test", "--test=cli"]);
    test.args(s3_servers::WITH_BUCKET);
    test.args(["--", "bucket::kills::", "--nocapture"]);
    test.envs(worlds::variables(u64::from(rounds), seed));
    shell::run(test.env(REQUIRE_ALL, "1"))
}
