//! [`Background`]: steps that run next to others, as one process of this program of a lower priority.
//!
//! What they print goes to a log, which is printed once they have ended. None of them measures anything.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, anyhow};

use super::{Lane, STEPS, Step};
use crate::shell;

/// The steps of a lane.
fn steps(lane: Lane) -> impl Iterator<Item = &'static Step> {
    STEPS.iter().filter(move |step| step.lane == lane)
}

/// The lines of a list at the end of `printed` that are those of the steps of `lane`.
fn lines_of(lane: Lane, printed: &str) -> Vec<String> {
    let lines = steps(lane).filter_map(|step| {
        let name = format!("{:<14}", step.name);
        printed.lines().rfind(|line| line.starts_with(&name))
    });
    lines
        .map(|line| format!("{line} (in the background)"))
        .collect()
}

/// The steps of a lane, in one process of this program.
#[derive(Debug)]
pub(super) struct Background {
    lane: Lane,
    child: Child,
    log: PathBuf,
}

impl Background {
    pub(super) fn start(lane: Lane) -> Result<Self> {
        let log = shell::target().join(match lane {
            Lane::NextToTests => "ci-next-to-tests.log",
            _ => "ci-next-to-guest.log",
        });
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("nice");
        command
            .arg(std::env::current_exe()?)
            .arg("ci")
            .args(steps(lane).map(|step| step.name))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", shell::words(&command)))?;
        Ok(Self { lane, child, log })
    }

    /// Waits for the end and prints what the steps printed; whether all passed, and their lines for the list.
    pub(super) fn finish(mut self) -> (Result<()>, Vec<String>) {
        let status = self.child.wait();
        let printed = std::fs::read(&self.log).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        println!("\n{}", printed.trim_end());
        let outcome = match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(anyhow!("ended with {status}")),
            Err(error) => Err(error.into()),
        };
        (outcome, lines_of(self.lane, &printed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cost, line};
    use super::*;

    #[test]
    fn the_list_has_the_steps_of_the_lane() {
        let fuzz = line("fuzz", Cost::default(), "ok");
        let bucket = line("bucket", Cost::default(), "ok");
        let clippy = line("clippy", Cost::default(), "FAILED: no");
        let printed = format!("fuzz request: 3 inputs\n\n{bucket}\n{fuzz}\n{clippy}\nin all 5 s\n");
        let listed = [fuzz, bucket].map(|line| format!("{line} (in the background)"));
        assert_eq!(lines_of(Lane::NextToGuest, &printed), listed);
    }
}
