//! The limits of a block device, and what the kernel reports of one below `/sys/block`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::mount::DeviceNumber;

/// Read ahead of buffered readers. The default of 128 KiB leaves a network idle between requests.
const READ_AHEAD_KIB: u32 = 1024;

/// Largest logical block here: a page, the smallest of them.
const BLOCK_SIZE_MAX: u32 = 4096;
/// Smallest logical block, and unit of a device's size.
pub(crate) const SECTOR: u32 = 512;

/// Size of a device for a disk of `size` bytes: whole sectors.
pub(crate) const fn device_size(size: u64) -> u64 {
    size - size % SECTOR as u64
}

/// A user may miss the bytes behind the last whole sector.
pub(crate) fn warn_of_rest(size: u64) {
    let rest = size - device_size(size);
    if rest > 0 {
        tracing::warn!(
            "the last {rest} of its {size} bytes are not on the device: it has whole sectors"
        );
    }
}

/// The logical block size of a device for a disk of this size and smallest block.
///
/// # Errors
/// Why there can be none.
pub(crate) fn check_shape(size: u64, block_size: u32) -> Result<u32, String> {
    if device_size(size) == 0 {
        return Err(format!(
            "it has {size} bytes; a block device needs {SECTOR} at least"
        ));
    }
    if block_size > BLOCK_SIZE_MAX {
        return Err(format!(
            "its blocks of {block_size} bytes are larger than a page; no block device can have them"
        ));
    }
    Ok(block_size.max(SECTOR))
}

fn folder(device: &Path) -> Option<PathBuf> {
    Some(Path::new("/sys/block").join(device.file_name()?))
}

fn text(device: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(folder(device)?.join(file)).ok()?;
    Some(text.trim().to_owned())
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// The folders of the device and of its partitions.
fn folders(device: &Path) -> Vec<PathBuf> {
    let Some(sources) = folder(device) else {
        return Vec::new();
    };
    let inside = names(&sources).map(|name| sources.join(name));
    let partitions: Vec<PathBuf> = inside.filter(|f| f.join("partition").exists()).collect();
    std::iter::once(sources).chain(partitions).collect()
}

/// A partition of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Its number.
    pub number: u32,
    /// Its block device, where the kernel knows it.
    pub device: Option<PathBuf>,
    /// Where it begins on the disk, bytes.
    pub start: u64,
    /// Size, bytes.
    pub size: u64,
}

/// The partitions that the kernel has found on the device, by their numbers.
pub(crate) fn partitions(device: &Path) -> Vec<Partition> {
    let folders = folders(device).into_iter().skip(1);
    let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut found: Vec<_> = folders
        .filter_map(|folder| {
            let sectors = read(folder.join("size"))?;
            Some(Partition {
                number: u32::try_from(read(folder.join("partition"))?).ok()?,
                device: Some(Path::new("/dev").join(folder.file_name()?)),
                start: read(folder.join("start"))?.saturating_mul(u64::from(SECTOR)),
                size: sectors.saturating_mul(u64::from(SECTOR)),
            })
        })
        .collect();
    found.sort_by_key(|partition| partition.number);
    found
}

/// The device nodes of the device and of its partitions.
pub(crate) fn paths(device: &Path) -> Vec<PathBuf> {
    let names = folders(device);
    let names = names.iter().filter_map(|folder| folder.file_name());
    names.map(|name| Path::new("/dev").join(name)).collect()
}

/// The numbers of the device and of its partitions.
pub(crate) fn numbers(device: &Path) -> Vec<DeviceNumber> {
    let folders = folders(device).into_iter();
    let texts = folders.filter_map(|folder| fs::read_to_string(folder.join("dev")).ok());
    texts
        .filter_map(|text| DeviceNumber::parse(&text))
        .collect()
}

/// The devices that stand on it or on a partition of it.
pub(crate) fn holders(device: &Path) -> Vec<String> {
    let folders = folders(device).into_iter();
    let holders = folders.map(|folder| folder.join("holders"));
    holders
        .flat_map(|folder| names(&folder).collect::<Vec<_>>())
        .collect()
}

/// Loop devices over one of these devices.
pub(crate) fn loops_over(paths: &[PathBuf]) -> Vec<String> {
    let all = Path::new("/sys/block");
    let is_over = |name: &String| {
        let file = fs::read_to_string(all.join(name).join("loop/backing_file"));
        file.is_ok_and(|file| paths.iter().any(|path| path == Path::new(file.trim())))
    };
    names(all).filter(is_over).collect()
}

/// The device's size, bytes; 0 where there is none.
pub(crate) fn size(device: &Path) -> u64 {
    let sectors = text(device, "size").and_then(|text| text.parse::<u64>().ok());
    sectors
        .unwrap_or_default()
        .saturating_mul(u64::from(SECTOR))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_whole_sectors_and_blocks_up_to_a_page() {
        assert_eq!(check_shape(1024, 1), Ok(512));
        assert_eq!(check_shape(8192, 4096), Ok(4096));
        assert_eq!(check_shape(1000, 1), Ok(512));
        assert_eq!(device_size(1000), 512);
        for (size, block_size) in [(0, 1), (511, 1), (1 << 20, 65536)] {
            assert!(check_shape(size, block_size).is_err());
        }
    }
}
