//! The machine: what a reader must know to judge a figure.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// What a run was made on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub hostname: String,
    /// `Linux 6.1.0`.
    pub kernel: String,
    /// `x86_64`.
    pub architecture: String,
    /// `Debian GNU/Linux 12 (bookworm)`.
    pub system: String,
    /// The processor, or the board.
    pub processor: String,
    /// Cores in use.
    pub cores: u32,
    /// Memory.
    pub memory: Bytes,
    /// Processes that wanted to run in the minute before.
    pub load: f64,
}

/// Describes this machine.
#[must_use]
pub fn machine() -> Machine {
    let uname = rustix::system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    Machine {
        hostname: text(uname.nodename()),
        kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
        architecture: text(uname.machine()),
        system: value_of("/etc/os-release", "PRETTY_NAME=").unwrap_or_else(|| "unknown".into()),
        processor: board()
            .or_else(|| value_of("/proc/cpuinfo", "model name"))
            .unwrap_or_else(|| "unknown".into()),
        cores: u32::try_from(crate::sensors::read::cores().len()).unwrap_or(0),
        memory: memory().unwrap_or_default(),
        load: load().unwrap_or(0.0),
    }
}

/// The kernel's name of this boot: programs on one machine read the same one. Empty where it cannot be read.
#[must_use]
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Small boards say what they are in the device tree; their processor's name says little.
fn board() -> Option<String> {
    let model = fs::read_to_string("/proc/device-tree/model").ok()?;
    Some(model.trim_end_matches('\0').to_owned())
}

fn value_of(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    let (_, value) = line.split_once(['=', ':'])?;
    Some(value.trim().trim_matches('"').to_owned())
}

fn memory() -> Option<Bytes> {
    let total = value_of("/proc/meminfo", "MemTotal")?;
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    Some(Bytes(kib.saturating_mul(1024)))
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg")
        .ok()?
        .split(' ')
        .next()?
        .parse()
        .ok()
}
