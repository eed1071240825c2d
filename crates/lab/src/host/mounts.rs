//! `/proc/self/mountinfo`: which filesystem a path is on. Pure but for [`of_this_process`]. Source: proc_pid_mountinfo(5).

use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// One mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of its device.
    pub number: (u32, u32),
    /// Where it is mounted.
    pub point: PathBuf,
    /// `ext4`, `nfs4`, `fuse.sshfs`.
    pub filesystem: String,
    /// `/dev/vda`, `host:/export`.
    pub source: String,
    /// Of the mount and of the filesystem, comma separated.
    pub options: String,
}

impl Mount {
    /// Whether a server on a network is behind it, by its type.
    #[must_use]
    pub fn is_network(&self) -> bool {
        const TYPES: [&str; 10] = [
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "9p",
            "ceph",
            "afs",
            "fuse.sshfs",
            "fuse.gvfsd-fuse",
            "glusterfs",
        ];
        TYPES.contains(&self.filesystem.as_str())
    }

    /// Whether it is memory and not storage.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        ["tmpfs", "ramfs"].contains(&self.filesystem.as_str())
    }

    /// The server's address, where the filesystem's options give it (nfs and cifs do).
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.options
            .split(',')
            .find_map(|option| option.strip_prefix("addr=")?.parse().ok())
    }
}

/// The mounts that this process sees; none where they cannot be read.
#[must_use]
pub fn of_this_process() -> Vec<Mount> {
    let table = std::fs::read_to_string("/proc/self/mountinfo");
    table.map_or_else(|_| Vec::new(), |table| parse(&table))
}

/// Every mount, in the kernel's order. Lines that are none are left out.
#[must_use]
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

/// The mount that `path` is on: the longest mount point that begins it, the last one of equals.
#[must_use]
pub fn find<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

fn mount(line: &str) -> Option<Mount> {
    let (first, second) = line.split_once(" - ")?;
    let first: Vec<&str> = first.split(' ').collect();
    let mut second = second.split(' ');
    let (major, minor) = first.get(2)?.split_once(':')?;
    let filesystem = second.next()?.to_owned();
    let source = unescape(second.next()?);
    let options = [*first.get(5)?, second.next().unwrap_or("")].join(",");
    Some(Mount {
        number: (major.parse().ok()?, minor.parse().ok()?),
        point: PathBuf::from(unescape(first.get(4)?)),
        filesystem,
        source,
        options,
    })
}

/// Spaces, tabs, newlines and backslashes are written as three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = (byte == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(value) => {
                bytes.push(value);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
