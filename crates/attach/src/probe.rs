//! What is on a device (blkid) and making a filesystem where nothing is (mkfs).

use std::io;
use std::path::Path;
use std::process::Command;

use crate::mount::tool_message;
use crate::sysfs::{self, Partition};

/// blkid's exit status for "nothing found".
const BLKID_NOTHING: i32 = 2;

/// What blkid found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    /// `ext4`, `LVM2_member`, `dos`…
    pub(crate) kind: String,
    /// Its label, if it has one.
    pub(crate) label: Option<String>,
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.kind)?;
        match &self.label {
            Some(label) => write!(f, " \"{label}\""),
            None => Ok(()),
        }
    }
}

/// Why no filesystem was made.
#[derive(Debug, thiserror::Error)]
pub enum MkfsError {
    /// There is something.
    #[error(
        "the disk is not empty, it holds {found}; nothing was changed. Leave --mkfs away to use it"
    )]
    NotEmpty {
        /// What.
        found: String,
    },
    /// The name is none of a filesystem.
    #[error("--mkfs {0}: not a filesystem's name; try ext4 or xfs")]
    Name(String),
    /// blkid is not there.
    #[error(
        "blkid cannot be run: {0}; install util-linux: without it the content of the disk is unknown"
    )]
    NoBlkid(#[source] io::Error),
    /// blkid failed.
    #[error("blkid failed: {0}")]
    Blkid(String),
    /// The program that makes this filesystem is not there.
    #[error("mkfs.{fs} cannot be run: {source}; install {package}")]
    NoMkfs {
        /// Which filesystem.
        fs: String,
        /// Why.
        source: io::Error,
        /// Debian's package.
        package: String,
    },
    /// It failed.
    #[error("mkfs.{fs} failed: {why}")]
    Failed {
        /// Which filesystem.
        fs: String,
        /// Its message.
        why: String,
    },
}

/// Reads the answer of `blkid -p -o export`.
fn parse_export(text: &str) -> Signature {
    let value = |key: &str| {
        text.lines()
            .filter_map(|line| line.split_once('='))
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value.to_owned())
    };
    let kind = value("TYPE")
        .or_else(|| value("PTTYPE").map(|table| format!("a partition table ({table})")))
        .unwrap_or_else(|| "something blkid knows without a name".to_owned());
    Signature {
        kind,
        label: value("LABEL"),
    }
}

/// What is on `device`; `None` where nothing is known.
///
/// # Errors
/// [`MkfsError::NoBlkid`], [`MkfsError::Blkid`]: then nothing may be assumed.
pub(crate) fn signature(device: &Path) -> Result<Option<Signature>, MkfsError> {
    let output = Command::new("blkid")
        .args(["-p", "-o", "export"])
        .arg(device)
        .env("LC_ALL", "C")
        .output()
        .map_err(MkfsError::NoBlkid)?;
    match output.status.code() {
        Some(0) => Ok(Some(parse_export(&String::from_utf8_lossy(&output.stdout)))),
        Some(BLKID_NOTHING) if output.stderr.is_empty() => Ok(None),
        Some(8) => Ok(Some(Signature {
            kind: "signatures of several kinds".to_owned(),
            label: None,
        })),
        _ => Err(MkfsError::Blkid(tool_message(&String::from_utf8_lossy(
            &output.stderr,
        )))),
    }
}

/// The partitions of `device`: those that the kernel shows, or else what partx(8) reads. Some kernels read no
/// partition tables.
pub(crate) fn partitions(device: &Path) -> Vec<Partition> {
    let shown = sysfs::partitions(device);
    if !shown.is_empty() {
        return shown;
    }
    let output = Command::new("partx")
        .args([
            "--raw",
            "--noheadings",
            "--bytes",
            "--output",
            "NR,START,SIZE",
        ])
        .arg(device)
        .env("LC_ALL", "C")
        .output();
    match output {
        Ok(output) => parse_partx(&String::from_utf8_lossy(&output.stdout)),
        Err(e) => {
            tracing::info!("partx cannot be run: {e}");
            Vec::new()
        }
    }
}

/// Lines of a number, a start in sectors and a size in bytes.
fn parse_partx(text: &str) -> Vec<Partition> {
    let partitions = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut word = || words.next()?.parse::<u64>().ok();
        Some(Partition {
            number,
            device: None,
            start: word()?.saturating_mul(u64::from(sysfs::SECTOR)),
            size: word()?,
        })
    });
    partitions.collect()
}

/// Debian's package with the program.
fn package_of(fs: &str) -> String {
    match fs {
        "ext2" | "ext3" | "ext4" => "e2fsprogs".to_owned(),
        "xfs" => "xfsprogs".to_owned(),
        "btrfs" => "btrfs-progs".to_owned(),
        "vfat" | "fat" => "dosfstools".to_owned(),
        other => format!("the package that has mkfs.{other}"),
    }
}

/// The name becomes part of a program's name.
fn check_name(fs: &str) -> Result<(), MkfsError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if fs.is_empty() || fs.len() > 16 || !fs.chars().all(plain) {
        return Err(MkfsError::Name(fs.to_owned()));
    }
    Ok(())
}

/// Makes the filesystem `fs` on `device`, which must hold nothing known.
///
/// # Errors
/// [`MkfsError`].
pub(crate) fn mkfs(device: &Path, fs: &str) -> Result<(), MkfsError> {
    check_name(fs)?;
    if let Some(found) = signature(device)? {
        let found = found.to_string();
        return Err(MkfsError::NotEmpty { found });
    }
    let mut command = Command::new(format!("mkfs.{fs}"));
    if matches!(fs, "ext2" | "ext3" | "ext4" | "xfs" | "btrfs") {
        command.arg("-q");
    }
    let output = command
        .arg(device)
        .env("LC_ALL", "C")
        .output()
        .map_err(|source| MkfsError::NoMkfs {
            fs: fs.to_owned(),
            source,
            package: package_of(fs),
        })?;
    if output.status.success() {
        return Ok(());
    }
    Err(MkfsError::Failed {
        fs: fs.to_owned(),
        why: tool_message(&String::from_utf8_lossy(&output.stderr)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_is_named_with_its_label() {
        let found =
            parse_export("DEVNAME=/dev/loop0\nLABEL=my disk\nTYPE=ext4\nUSAGE=filesystem\n");
        assert_eq!(found.to_string(), "ext4 \"my disk\"");
    }

    #[test]
    fn a_partition_table_counts_as_something() {
        let found = parse_export("DEVNAME=/dev/loop0\nPTUUID=1\nPTTYPE=gpt\n");
        assert_eq!(found.to_string(), "a partition table (gpt)");
    }

    #[test]
    fn partitions_are_read_by_number_and_size() {
        let found = parse_partx("1 63 16777216\n 2 34816 67108864\nrubbish\n3\n");
        let found = found.iter().map(|one| (one.number, one.start, one.size));
        let found: Vec<_> = found.collect();
        assert_eq!(found, [(1, 32_256, 16 << 20), (2, 17 << 20, 64 << 20)]);
    }

    #[test]
    fn a_name_that_could_leave_the_program_is_refused() {
        for name in ["", "../sh", "ext4 -F", "EXT4", "ext4;reboot"] {
            assert!(
                matches!(check_name(name), Err(MkfsError::Name(_))),
                "{name}"
            );
        }
        assert!(check_name("ext4").is_ok());
    }
}
