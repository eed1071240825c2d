//! Ctrl-C for commands that work step by step: they ask between the steps, clean up and end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// Reports whether the user has interrupted the command.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP from here on. A second one of them ends the process at once.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal == SIGHUP && hangup_is_ignored() {
                continue;
            }
            // The order counts: the first signal finds the flag down and only raises it.
            let second = signal_hook::flag::register_conditional_default(signal, flag.clone());
            let first = second.and_then(|_| signal_hook::flag::register(signal, flag.clone()));
            first
                .map_err(|error: io::Error| Failure::because("cannot watch for signals", &error))?;
        }
        Ok(Self(flag))
    }

    /// Takes `signal` for one of them too, however often it comes.
    pub(crate) fn also_by(&self, signal: Signal) -> io::Result<()> {
        signal_hook::flag::register(signal.as_raw(), self.flag()).map(|_| ())
    }

    /// Whether a signal came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for crates that look at it on their own.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

/// Whether this process was started with SIGHUP ignored (`nohup`), to outlive its terminal.
pub(crate) fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores_hangup(&status)
}

/// `SigIgn:` and a mask, in which the lowest bit is signal 1 (proc(5)).
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::ignores_hangup;

    #[test]
    fn the_lowest_bit_of_the_mask_is_the_hangup() {
        assert!(ignores_hangup("Name:\tx\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\nSigCgt:\t01\n"));
        assert!(!ignores_hangup(""));
    }
}
