//! Whether a process still lives, by its number and its start time.

use super::format::ProcessId;

/// Field of `/proc/PID/stat` with the start time, counted from 1 (proc_pid_stat(5)).
const START_FIELD: usize = 22;
/// The first field behind the name, which may hold blanks and brackets itself.
const FIRST_AFTER_NAME: usize = 3;

/// The start time in the text of `/proc/PID/stat`. `None` also for a process that has ended and
/// only waits for its parent.
pub(crate) fn start_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.clone().next(), Some("Z" | "X")) {
        return None;
    }
    fields.nth(START_FIELD - FIRST_AFTER_NAME)?.parse().ok()
}

fn read(pid: u32) -> Option<ProcessId> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let start_ticks = start_ticks(&stat)?;
    Some(ProcessId { pid, start_ticks })
}

/// This process.
pub(crate) fn current_process() -> Option<ProcessId> {
    read(std::process::id())
}

/// Whether the process lives.
pub(crate) fn is_alive(process: ProcessId) -> bool {
    read(process.pid) == Some(process)
}

/// Ends the process at once, if it is still the one meant.
pub(crate) fn kill(process: ProcessId) {
    let pid = i32::try_from(process.pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let Some(pid) = pid.filter(|_| is_alive(process)) else {
        return;
    };
    if let Err(e) = rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
        tracing::debug!("it ended by itself ({e})");
    }
}
