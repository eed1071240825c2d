//! What the kernel tells of a block device below `/sys/block`.

use std::fs;
use std::path::{Path, PathBuf};

/// Read ahead of buffered readers. The default of 128 KiB leaves a network idle between requests.
const READ_AHEAD_KIB: u32 = 1024;

fn folder(device: &Path) -> Option<PathBuf> {
    Some(Path::new("/sys/block").join(device.file_name()?))
}

fn text(device: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(folder(device)?.join(file)).ok()?;
    Some(text.trim().to_owned())
}

/// The devices that stand on it.
pub(crate) fn holders(device: &Path) -> Vec<String> {
    let entries = folder(device).and_then(|f| fs::read_dir(f.join("holders")).ok());
    let entries = entries.into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Requests the device has under way.
pub(crate) fn in_flight(device: &Path) -> u64 {
    let text = text(device, "inflight").unwrap_or_default();
    text.split_ascii_whitespace()
        .filter_map(|n| n.parse::<u64>().ok())
        .sum()
}

/// The owner's name that an nbd device was given (Linux 5.14).
pub(crate) fn nbd_backend(device: &Path) -> Option<String> {
    text(device, "backend")
}

/// Whether an nbd device is connected.
pub(crate) fn nbd_connected(device: &Path) -> bool {
    folder(device).is_some_and(|f| f.join("pid").exists())
}

/// Sets what makes a remote disk faster; none of it is needed, so a refusal is only logged.
pub(crate) fn tune(device: &Path, request_kib: Option<u32>) {
    let mut settings = vec![("queue/read_ahead_kb", READ_AHEAD_KIB)];
    settings.extend(request_kib.map(|kib| ("queue/max_sectors_kb", kib)));
    for (file, value) in settings {
        let Some(path) = folder(device).map(|f| f.join(file)) else {
            return;
        };
        if let Err(e) = fs::write(&path, value.to_string()) {
            tracing::info!("{}: not set to {value}: {e}", path.display());
        }
    }
}
