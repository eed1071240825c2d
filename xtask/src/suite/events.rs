//! What a test binary reports, line by line: libtest's JSON.
//!
//! libtest gives it on a stable toolchain only where `RUSTC_BOOTSTRAP` is set; the toolchain is pinned, so the
//! format is, too. Lines of other text are what tests or their children print past the capture.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

/// A test that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ended {
    pub(super) test: String,
    pub(super) took: Duration,
    pub(super) is_ok: bool,
    pub(super) output: String,
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    exec_time: f64,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    test_count: usize,
}

/// The state of one binary's run.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) count: usize,
    pub(super) ended: usize,
    pub(super) failed: usize,
    running: BTreeSet<String>,
    has_summary: bool,
}

impl Events {
    /// Takes one line; the test that ended with it.
    pub(super) fn read(&mut self, line: &str) -> Option<Ended> {
        let event: Event = serde_json::from_str(line).ok()?;
        match (event.kind.as_str(), event.event.as_str()) {
            ("suite", "started") => self.count = event.test_count,
            ("suite", "ok" | "failed") => self.has_summary = true,
            ("test", "started") => drop(self.running.insert(event.name)),
            ("test", "ok" | "failed") => {
                self.running.remove(&event.name);
                self.ended += 1;
                self.failed += usize::from(event.event != "ok");
                return Some(Ended {
                    test: event.name,
                    took: Duration::from_secs_f64(event.exec_time.max(0.0)),
                    is_ok: event.event == "ok",
                    output: event.stdout,
                });
            }
            _ => {}
        }
        None
    }

    /// Tests that began and did not end.
    pub(super) fn running(&self) -> impl Iterator<Item = &str> {
        self.running.iter().map(String::as_str)
    }

    /// Whether the binary ran to its end and every test was accounted for.
    pub(super) fn is_complete(&self) -> bool {
        self.has_summary && self.ended == self.count && self.running.is_empty()
    }
}
