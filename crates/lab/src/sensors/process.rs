//! `/proc/PID/stat`: the CPU time of a process and of what it started. Pure. Source: proc_pid_stat(5).

use serde::{Deserialize, Serialize};

/// CPU time of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProcessCpu {
    /// Ticks of it and of children it has waited for.
    pub ticks: u64,
    /// Ticks of it alone.
    pub own: u64,
    /// When it started, in ticks after boot: two processes of one id differ in it.
    pub started: u64,
}

/// Reads one process's line; none when it is no such line.
#[must_use]
pub fn parse(text: &str) -> Option<ProcessCpu> {
    // The name is in brackets and may hold anything, brackets included.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first field after the name is number 3, the state.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (user, system) = (field(14)?, field(15)?);
    // The kernel prints these two as signed.
    let (child_user, child_system) = (field(16).unwrap_or(0), field(17).unwrap_or(0));
    Some(ProcessCpu {
        own: user.saturating_add(system),
        ticks: [user, system, child_user, child_system]
            .into_iter()
            .fold(0, u64::saturating_add),
        started: field(22)?,
    })
}
