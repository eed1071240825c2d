//! `cargo xtask soak lab`: the lab held against fio by hand. In each round the lab measures five blocks of one test, and fio
//! runs five times with the very flags that the lab has in its store, before or after it in turns. The median of the five
//! should be within the lab's interval, which claims to hold the next median of as many blocks.
//!
//! | disk | what is measured |
//! |---|---|
//! | throttled | sequential reads of a filesystem on `throttle(FILE, read-bytes=…)`, attached by FUSE |
//! | plain | random reads of a file on this machine's own disk, with all its noise |
//!
//! # Invariants
//!
//! * Both read files of one size that fio wrote in one way, on one filesystem.
//! * What is attached is detached on every way out.
//!
//! # What it does not do
//!
//! It compares no two disks: how often a run of two equal targets calls them different is simulated
//! (`crates/lab/src/runner/tests/stopping_rule.rs`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::bench::figures::median;
use crate::mounted_attachment::Attached;
use crate::{packages, shell};

/// Rounds on each disk.
const ROUNDS: u32 = 20;
/// With `--quick`.
const ROUNDS_QUICK: u32 = 5;
/// Blocks of the lab, and runs of fio by hand.
const BLOCKS: usize = 5;
/// The least parts of rounds that are inside: what was measured before this command was written.
const THROTTLED_MIN: (u32, u32) = (19, 20);
const PLAIN_MIN: (u32, u32) = (15, 20);

/// Size of the image that is throttled.
const IMAGE_SIZE: u64 = 512 << 20;

/// A test of the lab.
#[derive(Debug, Clone, Copy)]
struct LabTest {
    pattern: &'static str,
    block_size: &'static str,
    depth: u32,
    size_mib: u64,
}

const SEQUENTIAL: LabTest = LabTest {
    pattern: "sequential",
    block_size: "128K",
    depth: 8,
    size_mib: 64,
};
const RANDOM: LabTest = LabTest {
    pattern: "random",
    block_size: "4K",
    depth: 16,
    size_mib: 256,
};

/// What the test is called in the plan, and in the commands of the store.
const TEST: &str = "read";

/// The lab's figure, bytes a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LabInterval {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl LabInterval {
    pub(super) fn contains(&self, rate: f64) -> bool {
        self.low <= rate && rate <= self.high
    }
}

/// Runs all rounds on both disks.
pub(super) fn run(binary: Option<&Path>, is_quick: bool) -> Result<()> {
    packages::ensure(&[packages::DEMO])?;
    let binary = match binary {
        Some(binary) => binary.to_path_buf(),
        None => shell::build_release()?,
    };
    let folder = shell::target().join("soak-lab");
    // What an earlier run left.
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).context("no folder for the rounds")?;
    let rounds = if is_quick { ROUNDS_QUICK } else { ROUNDS };
    let attached = throttled_disk(&binary, &folder)?;
    let mount = attached.mount.clone();
    let throttled = rounds_on(&binary, &folder, &mount, SEQUENTIAL, ("throttled", rounds));
    attached.detach()?;
    let throttled = throttled?;
    let plain = folder.join("plain");
    std::fs::create_dir(&plain).context("no folder for the plain file")?;
    let plain = rounds_on(&binary, &folder, &plain, RANDOM, ("plain", rounds))?;
    std::fs::remove_dir_all(&folder).context("the folder stays")?;
    println!("throttled: {throttled} of {rounds} inside; plain: {plain} of {rounds} inside");
    check("throttled", throttled, rounds, THROTTLED_MIN)?;
    check("plain", plain, rounds, PLAIN_MIN)
}

fn check(disk: &str, inside: u32, rounds: u32, (part, of): (u32, u32)) -> Result<()> {
    let least = rounds * part / of;
    ensure!(
        inside >= least,
        "{disk}: fio by hand was within the lab's interval in {inside} of {rounds} rounds, and {least} is the least"
    );
    Ok(())
}

/// How many of `rounds` on a directory have fio's median within the lab's interval.
fn rounds_on(
    binary: &Path,
    folder: &Path,
    directory: &Path,
    test: LabTest,
    (disk, rounds): (&str, u32),
) -> Result<u32> {
    let plan = folder.join(format!("{disk}.toml"));
    std::fs::write(&plan, plan_of(test)).context("the plan cannot be written")?;
    let store = folder.join(format!("{disk}.sqlite"));
    let data = directory.join("by-hand");
    lay_out(&data, test.size_mib)?;
    let lab = || lab(binary, &plan, directory, &store);
    let output = folder.join("fio.json");
    // Those of the lab's first run, which the first round begins with.
    let mut flags = Vec::new();
    let mut inside = 0;
    for round in 1..=rounds {
        let (interval, by_hand) = match round % 2 {
            1 => {
                let (interval, words) = lab()?;
                if flags.is_empty() {
                    flags = with_files(&words, &data, &output);
                }
                (interval, by_hand(&flags, &output)?)
            }
            _ => {
                let by_hand = by_hand(&flags, &output)?;
                (lab()?.0, by_hand)
            }
        };
        let is_inside = interval.contains(by_hand);
        inside += u32::from(is_inside);
        println!(
            "{disk} {round}: the lab {:.2} MB/s ({:.2} to {:.2}), fio {:.2}: {}",
            interval.median / 1e6,
            interval.low / 1e6,
            interval.high / 1e6,
            by_hand / 1e6,
            if is_inside { "inside" } else { "OUTSIDE" }
        );
    }
    Ok(inside)
}

fn plan_of(test: LabTest) -> String {
    let LabTest {
        pattern,
        block_size,
        depth,
        size_mib,
    } = test;
    format!(
        "name = \"against-fio\"\nsummary = \"One test, to be compared with fio by hand.\"\n\
         [data]\nsize = \"{size_mib}M\"\nlayout_ms = 120000\n\
         [budget]\nblocks_min = {BLOCKS}\nblocks_max = {BLOCKS}\nprecision = 0.03\ntime_ms = 300000\nlimit_ms = 600000\n\
         [[workload]]\nname = \"{TEST}\"\ntitle = \"Read\"\npattern = \"{pattern}\"\ndirection = \"read\"\n\
         block_size = \"{block_size}\"\ndepth = {depth}\njobs = 1\nruntime_ms = 1000\n"
    )
}

/// The file that fio reads by hand, as the lab writes its own.
fn lay_out(data: &Path, size_mib: u64) -> Result<()> {
    let mut fio = Command::new("fio");
    fio.args(["--name=lay-out", "--rw=write", "--bs=1M", "--fsync=64"]);
    fio.args(["--ioengine=psync", "--end_fsync=1", "--thread"]);
    fio.args(["--scramble_buffers=1", "--fallocate=none"]);
    fio.arg(format!("--size={size_mib}M"));
    fio.arg(format!("--filename={}", data.display()));
    shell::output(&mut fio).map(drop)
}

/// Five blocks of the lab: its interval, and the command of its last measurement.
fn lab(
    binary: &Path,
    plan: &Path,
    directory: &Path,
    store: &Path,
) -> Result<(LabInterval, Vec<String>)> {
    let mut command = Command::new(binary);
    command.args(["lab", "run"]).arg(plan).arg(directory);
    command.args(["--json", "--store"]).arg(store);
    let printed = shell::output(&mut command)?;
    let record: Value = serde_json::from_str(&printed).context("the lab prints no JSON")?;
    let row = &record["summary"]["rows"][0];
    let validity = row["validity"].to_string();
    let interval = interval(row).with_context(|| format!("no interval: {validity}"))?;
    let commands = record["run"]["commands"].as_array().into_iter().flatten();
    let mut of_test = commands.filter(|command| command["purpose"] == TEST);
    let line = of_test
        .next_back()
        .and_then(|command| command["line"].as_str());
    Ok((interval, words(line.context("no command of fio")?)))
}

/// The interval of a row; none of fewer blocks than were to be made.
pub(super) fn interval(row: &Value) -> Option<LabInterval> {
    let headline = &row["headline"];
    let value = |name: &str| headline[name].as_f64();
    let n = usize::try_from(headline["n"].as_u64()?).ok()?;
    (n >= BLOCKS).then_some(())?;
    Some(LabInterval {
        median: value("median")?,
        low: value("low")?,
        high: value("high")?,
    })
}

/// The words of a command as the lab prints it: quotes stand around whole words, and no path of ours has one.
pub(super) fn words(line: &str) -> Vec<String> {
    let words = line.split_whitespace();
    words
        .map(|word| word.trim_matches('\'').to_owned())
        .collect()
}

/// The same command with another file and another place for its result.
pub(super) fn with_files(words: &[String], data: &Path, output: &Path) -> Vec<String> {
    let replaced = words.iter().map(|word| match word.split_once('=') {
        Some(("--filename", _)) => format!("--filename={}", data.display()),
        Some(("--output", _)) => format!("--output={}", output.display()),
        _ => word.clone(),
    });
    replaced.collect()
}

/// The median rate of runs of fio by hand, bytes a second.
fn by_hand(words: &[String], output: &Path) -> Result<f64> {
    let [program, flags @ ..] = words else {
        bail!("the lab's command of fio has no words");
    };
    let mut rates = Vec::new();
    for _ in 0..BLOCKS {
        shell::output(Command::new(program).args(flags))?;
        let printed = std::fs::read_to_string(output).context("fio wrote no result")?;
        let found: Value = serde_json::from_str(&printed).context("fio wrote no JSON")?;
        let read = &found["jobs"][0]["read"];
        let value = |name: &str| read[name].as_f64();
        let (bytes, milliseconds) = (value("io_bytes"), value("runtime"));
        let rate = bytes.zip(milliseconds.filter(|time| *time > 0.0));
        let (bytes, milliseconds) = rate.context("fio read nothing")?;
        rates.push(bytes / milliseconds * 1000.0);
    }
    median(rates).context("fio was not run")
}

/// A throttled disk with a filesystem on it.
fn throttled_disk(binary: &Path, folder: &Path) -> Result<Attached> {
    let image = folder.join("throttled.img");
    let made = std::fs::File::create(&image).and_then(|file| file.set_len(IMAGE_SIZE));
    made.context("no image to throttle")?;
    let disk = format!("throttle({}, read-bytes=40M/s)", image.display());
    Attached::new(binary, &disk, &["--mkfs", "ext4"], folder.join("mount"))
}
