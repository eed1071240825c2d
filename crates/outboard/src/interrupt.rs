//! Ctrl-C for commands that work step by step: they ask between the steps, clean up and end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// Tells whether the user wants to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP from here on. A second one of them ends the process at once.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order counts: the first signal finds the flag down and only raises it.
            let second = signal_hook::flag::register_conditional_default(signal, flag.clone());
            let first = second.and_then(|_| signal_hook::flag::register(signal, flag.clone()));
            first
                .map_err(|error: io::Error| Failure::because("cannot watch for signals", &error))?;
        }
        Ok(Self(flag))
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
