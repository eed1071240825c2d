//! Between two tests of bonnie++: it waits for us, and its file leaves the page cache.
//!
//! bonnie++ opens its file without O_DIRECT for all but the first test, with any options, so its block
//! read would find the whole file in memory, where its rewrite left it. The manual has the file be twice as
//! large as memory; that takes hours. With `-y p` it prints the number of each test, as a line, and waits for
//! a line on its standard input.
//!
//! Its block read is timed here, from our answer to its `done`: bonnie++ keeps what took less than half
//! a second to itself.
//!
//! Invariants: it is answered once for each number, after the cache was dropped; what stays in memory then
//! is a finding. bonnie++ waits no longer for us than that takes, and half a second beyond.
//!
//! What it does not do: drop the cache of a server on another machine.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::time::Duration;

use super::MEASURABLE;
use crate::checks::cache::{Dropped, DroppedCaches, Server};
use crate::checks::direct::Residency;
use crate::checks::{self, Finding};
use crate::host::residency;
use crate::tools::Tick;
use crate::units::{Bytes, Nanos};

/// How the names of its files begin.
const FILES: &str = "Bonnie.";
/// The number of the block read among its tests.
const READ: u32 = 4;
/// What it says when that is over. The next number comes three seconds later.
const READ_DONE: &str = "Reading intelligently...done";
/// Between two looks at it.
const READ_POLL: Duration = Duration::from_millis(1);

/// A bonnie++ that waits before each of its tests.
#[derive(Debug)]
pub(super) struct Pauses {
    /// Where its files are.
    directory: PathBuf,
    /// What it prints: the numbers of its tests on its standard output, how far they are on its standard error.
    output: PathBuf,
    errors: PathBuf,
    input: ChildStdin,
    /// How much was in `output` at the last look, bytes.
    seen: u64,
    /// How often it was resumed.
    answered: usize,
    read: Option<Nanos>,
    findings: Vec<Finding>,
}

impl Pauses {
    pub(super) fn new(directory: &Path, printed: &[PathBuf; 2], input: ChildStdin) -> Self {
        let [output, errors] = printed.clone();
        Self {
            directory: directory.to_owned(),
            output,
            errors,
            input,
            seen: 0,
            answered: 0,
            read: None,
            findings: Vec::new(),
        }
    }

    /// Looks whether it waits, and lets it go on. To be called often.
    pub(super) fn look(&mut self, tick: Tick<'_>) {
        let there = std::fs::metadata(&self.output).map_or(0, |found| found.len());
        if there == self.seen {
            return;
        }
        self.seen = there;
        let numbers = asked(&text(&self.output));
        for number in numbers.into_iter().skip(self.answered) {
            self.empty(tick);
            self.answered += 1;
            if let Err(error) = self.input.write_all(b"\n") {
                tracing::debug!(%error, "bonnie++ does not wait any more");
            }
            if number == READ {
                self.read = self.timed();
            }
        }
    }

    /// Times the block read that has begun, for as long as bonnie++ would not report it.
    fn timed(&self) -> Option<Nanos> {
        let began = engine::clock::now();
        loop {
            let elapsed = Nanos::from_duration(engine::clock::now().duration_since(began));
            if text(&self.errors).contains(READ_DONE) {
                return Some(elapsed);
            }
            if elapsed > MEASURABLE {
                return None;
            }
            std::thread::sleep(READ_POLL);
        }
    }

    /// How long its block read took, to some thousandths of a second; none where bonnie++ knows itself.
    pub(super) const fn read(&self) -> Option<Nanos> {
        self.read
    }

    /// Findings on its figures. It has ended.
    pub(super) fn findings(self) -> Vec<Finding> {
        self.findings
    }

    /// Has its files leave the page cache, and looks what is left of each.
    fn empty(&mut self, tick: Tick<'_>) {
        let files = files(&self.directory);
        let Some(((first, size), others)) = files.split_first() else {
            return;
        };
        let dropped = residency::drop_caches(first, *size, true, tick);
        // Where the whole cache may not be dropped, that was the first one's alone.
        for (path, size) in others {
            residency::forget(path, *size);
        }
        for (path, size) in &files {
            self.judge(dropped, residency::look(path, *size));
        }
    }

    fn judge(&mut self, dropped: Dropped, left: Option<Residency>) {
        let found = checks::dropped(&DroppedCaches {
            dropped,
            residency: left,
            server: Server::None,
            there: None,
            // Below its file there may be others that are cached, such as that of a loop device.
            program: Some(super::PROGRAM.name),
        });
        for one in found {
            if !self.findings.contains(&one) {
                self.findings.push(one);
            }
        }
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The tests before which it has waited: each is a number and a colon, as a line.
fn asked(printed: &str) -> Vec<u32> {
    let whole = printed.rfind('\n').map_or("", |end| &printed[..end]);
    let number = |line: &str| line.strip_suffix(':')?.parse().ok();
    whole.lines().filter_map(number).collect()
}

/// Its large files that hold something, of at most 1 GiB each; small ones are in folders of theirs.
fn files(directory: &Path) -> Vec<(PathBuf, Bytes)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(FILES));
    ours.filter_map(|entry| {
        let found = entry.metadata().ok()?;
        (found.is_file() && found.len() > 0).then(|| (entry.path(), Bytes(found.len())))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_that_is_a_whole_line_asks_once() {
        for (printed, expected) in [
            ("", vec![]),
            ("\n1", vec![]),
            ("\n1:", vec![]),
            ("\n1:\n", vec![1]),
            (
                "\n1:\nWriting intelligently...done\n\n2:\n\n4:\n",
                vec![1, 2, 4],
            ),
            ("\n10:\n:\n1.98,2.00a,t,1,16M,,8192:\n", vec![10]),
        ] {
            assert_eq!(asked(printed), expected, "{printed:?}");
        }
    }

    #[test]
    fn its_files_are_the_large_ones_that_hold_something() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, bytes) in [("Bonnie.7.000", 3), ("Bonnie.7.001", 0), ("other", 3)] {
            std::fs::write(at(name), vec![1; bytes]).unwrap();
        }
        std::fs::create_dir(at("Bonnie.7")).unwrap();
        assert_eq!(files(folder.path()), [(at("Bonnie.7.000"), Bytes(3))]);
        assert_eq!(files(Path::new("/nowhere")), []);
    }

    #[test]
    fn what_stays_in_memory_makes_its_figures_none_and_is_said_once() {
        let (input, _program) = sleeping();
        let mut stops = Pauses::new(
            Path::new("/nowhere"),
            &["/o", "/e"].map(PathBuf::from),
            input,
        );
        let seen = |resident| {
            Some(Residency {
                sampled: 100,
                resident,
            })
        };
        stops.judge(Dropped::All, seen(0));
        assert!(stops.findings.is_empty());
        for _ in 0..2 {
            stops.judge(Dropped::FileOnly, seen(0));
        }
        assert_eq!(stops.findings.len(), 1);
        stops.judge(Dropped::All, seen(80));
        let found = stops.findings();
        assert_eq!(found.len(), 2);
        assert!(
            found[1].text.starts_with("80 % of the file was in memory"),
            "{found:?}"
        );
    }

    /// A program that waits for its input until it is gone.
    fn sleeping() -> (ChildStdin, std::process::Child) {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        (child.stdin.take().unwrap(), child)
    }
}
